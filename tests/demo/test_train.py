from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from napari_maskinversion.demo import losses
from napari_maskinversion.demo.maps import encode
from napari_maskinversion.demo.model import (
    CONFIG_FILE,
    VOCABULARY_FILE,
    WEIGHTS_FILE,
    build_model,
    encode_text,
    load_model_file,
    tokenize,
)
from napari_maskinversion.demo.scenes import compose, generator
from napari_maskinversion.demo.train import Recipe, Trainer, caption, train, train_text

NAMES = ("apple", "cactus", "key", "soccer ball")
# every loss is on from the first step; 48 px only
FAST = Recipe(
    minutes=0.15,
    batch=16,
    warmup=10,
    text_steps=30,
    singles_until=1.0,
    small_until=1.0,
    descent_from=0.0,
    descent_images=4,
    names=NAMES,
)


@pytest.fixture(scope="module")
def four(shapes: list[Tensor]) -> list[Tensor]:
    return [level[:, :4] for level in shapes]


@pytest.fixture(scope="module")
def trained(four: list[Tensor], tmp_path_factory: pytest.TempPathFactory) -> tuple[Trainer, Path]:
    out = tmp_path_factory.mktemp("run")
    return train(FAST, out, four, every=1e9, report=False), out


def test_the_loss_falls_well_under_guessing(
    trained: tuple[Trainer, Path], four: list[Tensor]
) -> None:
    trainer, _ = trained
    assert trainer.step > 5
    scene = compose(four, generator("validation", 1), torch.ones(64, dtype=torch.long), (48, 48))
    with torch.no_grad():
        image = encode(trainer.model.visual, scene.images * 2 - 1).embedding
        found = losses.name_loss(image, trainer.table[0], scene.labels, torch.tensor(14.0))
    assert found < 0.8 * math.log(len(NAMES))


def test_a_run_leaves_a_loadable_model(trained: tuple[Trainer, Path]) -> None:
    trainer, out = trained
    assert (out / VOCABULARY_FILE).read_text().split("\n")[:-1] == list(NAMES)
    assert json.loads((out / CONFIG_FILE).read_text())["preprocess_cfg"]["mean"] == [0.5] * 3
    assert not list(out.glob("*.part"))
    images = torch.rand(2, 3, 96, 96)
    loaded = load_model_file(out)
    with torch.no_grad():
        kept = trainer.finished().encode_image(images, normalize=True)
        again = loaded.encode_image(images, normalize=True)
    assert F.cosine_similarity(kept, again).min() > 0.9999  # float16 on disk
    assert (out / WEIGHTS_FILE).stat().st_size < 25e6


def test_resuming_takes_the_very_step_that_was_next(four: list[Tensor], tmp_path: Path) -> None:
    trainer = Trainer(FAST, four)
    trainer.read_names()
    for _ in range(2):
        trainer.advance()
    trainer.save(tmp_path / "checkpoint.pt")
    resumed = Trainer(FAST, four)
    resumed.restore(tmp_path / "checkpoint.pt")
    assert (resumed.step, resumed.seconds) == (trainer.step, trainer.seconds)
    wanted, found = trainer.advance(), resumed.advance()
    assert found == pytest.approx(wanted, rel=1e-5)
    for a, b in zip(trainer.model.parameters(), resumed.model.parameters(), strict=True):
        torch.testing.assert_close(a, b)


def test_a_finished_run_is_not_trained_further(
    trained: tuple[Trainer, Path], four: list[Tensor]
) -> None:
    trainer, out = trained
    again = train(FAST, out, four, report=False)
    assert again.step == trainer.step


def test_templates_do_not_change_what_a_name_means() -> None:
    recipe = Recipe(names=NAMES, text_steps=40)
    model = build_model(1)
    train_text(model, recipe, report=False)
    trainer = Trainer(recipe, [torch.zeros(1, 4, 4, 8, 8)])
    trainer.model = model
    trainer.read_names()
    table = trainer.table  # (templates, names, e)
    same = torch.einsum("tne,sne->tsn", table, table)
    others = torch.einsum("tne,sme->tsnm", table, table)[..., ~torch.eye(4, dtype=torch.bool)]
    assert same.min() > others.max() + 0.15


def test_short_text_encoding_is_open_clips() -> None:
    model = build_model(2).eval()
    tokens = tokenize(["a photo of a soccer ball.", "bus", "a key, a car and a palm tree"])
    torch.testing.assert_close(encode_text(model, tokens), model.encode_text(tokens))


def test_captions_name_everything_once() -> None:
    rng = generator("train", 1)
    seen = {caption(["key", "bus", "fish"], rng) for _ in range(50)}
    assert len(seen) > 10
    assert all(text.count("a key") == text.count("a bus") == 1 for text in seen)
    assert caption(["key"], rng).endswith("a key")


def test_map_supervision_prefers_the_right_map() -> None:
    cover = torch.zeros(1, 2, 4, 4)
    cover[0, 0, :2], cover[0, 1, 2:] = 1, 1
    assert losses.soft_dice(cover, cover).max() < 1e-6
    assert losses.soft_dice(1 - cover, cover).min() > 0.9
    scaled = losses.min_max(3 * cover + 2)
    torch.testing.assert_close(scaled, cover)
    assert torch.isfinite(losses.min_max(torch.ones(1, 4, 4))).all()


def test_the_name_loss_shares_the_target_among_those_present() -> None:
    names = torch.eye(4)
    labels = torch.tensor([[0, 2, -1]])
    torch.testing.assert_close(losses.presence(labels, 4), torch.tensor([[1.0, 0, 1, 0]]))
    both = torch.tensor([[1.0, 0, 1, 0]])
    scale = torch.tensor(50.0)
    assert losses.name_loss(both, names, labels, scale) == pytest.approx(math.log(2), abs=1e-3)
    assert losses.name_loss(names[:1], names, labels, scale) > 10
