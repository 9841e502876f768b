from __future__ import annotations

import json
import math
import signal
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import ANY

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from napari_maskinversion.demo_model.domains import Picture
from napari_maskinversion.demo_model.scenes import compose, generator
from napari_maskinversion.demo_model.vocabulary import REAL, VOCABULARY_FILE, find
from research.demo_model import losses
from research.demo_model.losses import Descent
from research.demo_model.maps import encode
from research.demo_model.model import CONFIG_FILE, WEIGHTS_FILE, load_model_file
from research.demo_model.recipe import Recipe
from research.demo_model.texts import phrase_table
from research.demo_model.train import BEST, Trainer, begin, train
from research.demo_model.views import Views

NAMES = tuple(find(n) for n in ("apple", "cactus", "key", "soccer ball"))
# every loss is on from the first step
FAST = Recipe(
    minutes=0.2, small=16, large=4, warmup=10, text_steps=30, singles_until=0.0, objects=4
)


@pytest.fixture(scope="module")
def four(shapes: list[Tensor]) -> list[Tensor]:
    return [level[:, :4] for level in shapes]


def clock() -> SimpleNamespace:
    """A clock by which every step takes a second of its own time."""
    threads = torch.get_num_threads()
    return SimpleNamespace(process_time=count(0, threads).__next__, monotonic=count(0, 10).__next__)


def measured_by(monkeypatch: pytest.MonkeyPatch, *worths: float) -> None:
    """Let measurements have these results, one after the other."""
    figures = iter(worths)

    def measure(*_: object) -> dict[str, float]:
        return dict.fromkeys(("seen", "unseen", "maskinversion", "iou", "auc"), next(figures))

    judge = SimpleNamespace(measure=measure)
    monkeypatch.setattr("research.demo_model.train.Trainer.judge", lambda _: judge)


@pytest.fixture(scope="module")
def trained(four: list[Tensor], tmp_path_factory: pytest.TempPathFactory) -> tuple[Trainer, Path]:
    """A finished run; every step takes a second of its clock."""
    out = tmp_path_factory.mktemp("run")
    trainer = Trainer(FAST, four, NAMES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("research.demo_model.train.time", clock())
        train(trainer, out, every=1e9, report=False)
    return trainer, out


def test_the_loss_falls_well_under_guessing(
    trained: tuple[Trainer, Path], four: list[Tensor]
) -> None:
    trainer, _ = trained
    assert trainer.step == 60 * FAST.minutes
    scene = compose(four, generator("validation", 1), torch.ones(64, dtype=torch.long), (64, 64))
    with torch.no_grad():
        image = encode(trainer.model.visual, scene.images * 2 - 1).embedding
        loss = losses.name_loss(image, trainer.table[0], scene.labels, torch.tensor(14.0))
    assert loss < 0.8 * math.log(len(NAMES))


def test_a_run_leaves_a_loadable_model(trained: tuple[Trainer, Path]) -> None:
    trainer, out = trained
    assert (out / VOCABULARY_FILE).read_text().split("\n")[:-1] == [n.name for n in NAMES]
    assert json.loads((out / CONFIG_FILE).read_text())["preprocess_cfg"]["mean"] == [0.5] * 3
    assert not list(out.glob("*.part"))
    images = torch.rand(2, 3, 128, 128)
    loaded = load_model_file(out)
    with torch.no_grad():
        kept = trainer.published().encode_image(images, normalize=True)
        again = loaded.encode_image(images, normalize=True)
    assert F.cosine_similarity(kept, again).min() > 0.9999  # float16 on disk
    assert (out / WEIGHTS_FILE).stat().st_size < 16e6


def test_a_finished_run_is_not_trained_further(
    trained: tuple[Trainer, Path], four: list[Tensor]
) -> None:
    trainer, out = trained
    again = Trainer(FAST, four, NAMES)
    train(again, out, report=False)
    assert again.step == trainer.step


def test_a_warm_start_with_the_same_names_is_that_model(
    trained: tuple[Trainer, Path], four: list[Tensor], tmp_path: Path
) -> None:
    _, out = trained
    fresh = Trainer(replace(FAST, warm=True), four, NAMES)
    begin(fresh, out, report=False)
    earlier = load_model_file(out)
    images = torch.rand(2, 3, 64, 64)
    with torch.no_grad():
        wanted = F.normalize(encode(earlier.visual, images).embedding, dim=-1)
        again = F.normalize(encode(fresh.published().visual, images).embedding, dim=-1)
        torch.testing.assert_close(again, wanted, atol=1e-4, rtol=1e-3)
        table = phrase_table(earlier, NAMES)
    torch.testing.assert_close(fresh.table, table)


def test_what_is_kept_is_the_average_of_the_last_weights(four: list[Tensor]) -> None:
    trainer = Trainer(replace(FAST, average=0.9), four, NAMES)
    trainer.read_names()
    expected = trainer.averaged.proj.clone()
    for step in range(3):
        trainer.advance()
        decay = min(0.9, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * trainer.model.visual.proj.detach()
    torch.testing.assert_close(trainer.averaged.proj, expected)
    kept = F.normalize(trainer.published().visual.proj.flatten(), dim=0)
    torch.testing.assert_close(kept, F.normalize(expected.flatten(), dim=0))


def test_a_stop_signal_leaves_a_checkpoint_to_continue_from(
    four: list[Tensor], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = Trainer(replace(FAST, text_steps=5), four, NAMES)
    advance = trainer.advance

    def stopped() -> dict[str, Tensor]:
        if trainer.step == 1:
            signal.raise_signal(signal.SIGTERM)
        return advance()

    monkeypatch.setattr(trainer, "advance", stopped)
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit):
        train(trainer, tmp_path, report=False)
    assert signal.getsignal(signal.SIGTERM) == before
    resumed = Trainer(replace(FAST, text_steps=5), four, NAMES)
    resumed.restore(tmp_path / "checkpoint.pt")
    assert resumed.step == 2
    torch.testing.assert_close(resumed.averaged.proj, trainer.averaged.proj)


def test_the_best_measurement_decides_which_weights_are_kept(
    four: list[Tensor], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured_by(monkeypatch, 0.5, 0.9, 0.7, 0.8, 0.85, 0.88, 0.95)
    monkeypatch.setattr("research.demo_model.train.time", clock())
    trainer = Trainer(replace(FAST, minutes=0.05, text_steps=5), four, NAMES)
    train(trainer, tmp_path, every=1)
    assert trainer.step == 3
    best = tmp_path / BEST
    assert json.loads((best / "scores.json").read_text())["step"] == 2
    assert (best / WEIGHTS_FILE).read_bytes() == (tmp_path / WEIGHTS_FILE).read_bytes()
    rows = [json.loads(line) for line in (tmp_path / "history.jsonl").read_text().splitlines()]
    assert rows[0]["settings"]["photographs"] == []
    assert [row["worth14"] for row in rows[1:]] == [0.5, 0.9, 0.7]
    # the next stage has to beat them, however often it is interrupted
    second = tmp_path / "second"
    for minutes, beaten in ((0.02, False), (0.04, False), (0.06, True)):
        recipe = replace(FAST, minutes=minutes, warm=True)
        train(Trainer(recipe, four, NAMES), second, warm=best, every=1)
        assert (second / BEST).is_dir() == beaten


def test_a_run_notes_photographs_by_name_and_continues_after_they_were_moved(
    four: list[Tensor], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured_by(monkeypatch, *[0.5] * 20)
    monkeypatch.setattr("research.demo_model.train.time", clock())
    out, file = tmp_path / "model", tmp_path / "photographs" / "hill.png"
    file.parent.mkdir()
    Image.new("RGB", (200, 200), "green").save(file)
    recipe = replace(FAST, minutes=0.02, text_steps=5, photographs=(str(file),))
    train(Trainer(recipe, four, NAMES), out)
    moved = file.rename(tmp_path / "hill.png")
    again = Trainer(replace(recipe, minutes=0.04, photographs=(str(moved),)), four, NAMES)
    train(again, out)
    assert again.step == 3
    written = [*out.rglob("*.json"), out / "history.jsonl"]
    assert len(written) > 3
    for one in written:
        assert str(tmp_path) not in one.read_text("utf-8")
    assert json.loads((out / "recipe.json").read_text("utf-8"))["photographs"] == ["hill.png"]


def views() -> Views:
    """Views of a red and a blue square."""
    pixels, regions = np.full((120, 120, 3), 120, np.uint8), np.zeros((120, 120), np.int32)
    pixels[20:50, 20:50], regions[20:50, 20:50] = (255, 0, 0), 1
    pixels[70:110, 60:110], regions[70:110, 60:110] = (0, 0, 255), 2
    boxes = np.array([[20, 20, 50, 50], [70, 60, 110, 110]])
    picture = Picture("nuclei", "p", pixels, boxes, np.array([8, 9]), regions, regions > 0)
    return Views([picture], 4)


MIXED = replace(FAST, together=2, rows=8, fresh=2)
MORE = (*NAMES, *REAL)


def test_resuming_takes_the_very_steps_that_were_next(four: list[Tensor], tmp_path: Path) -> None:
    trainer = Trainer(MIXED, four, MORE, views())
    trainer.read_names()
    trainer.advance()
    trainer.save(tmp_path / "checkpoint.pt")
    resumed = Trainer(MIXED, four, MORE, views())
    resumed.restore(tmp_path / "checkpoint.pt")
    assert (resumed.step, resumed.seconds) == (trainer.step, trainer.seconds) == (2, ANY)
    wanted, again = trainer.render(), resumed.render()
    for a, b in zip(
        wanted.to_name + wanted.to_invert, again.to_name + again.to_invert, strict=True
    ):
        assert torch.equal(a, b)
    before, after = trainer.advance(), resumed.advance()
    for name, loss in before.items():
        torch.testing.assert_close(after[name], loss, rtol=1e-4, atol=1e-6)
    for a, b in zip(trainer.model.parameters(), resumed.model.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_the_seed_and_the_step_decide_the_scenes(four: list[Tensor]) -> None:
    def shown(seed: int, step: int) -> tuple[Tensor, ...]:
        trainer = Trainer(replace(MIXED, seed=seed), four, MORE, views())
        trainer.read_names()
        trainer.step = step
        return trainer.render().to_name

    first, again = shown(1, 2), shown(1, 2)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    for other in (shown(2, 2), shown(1, 4)):
        assert first[0].shape != other[0].shape or not torch.equal(first[0], other[0])


def test_steps_that_are_rendered_together_show_different_scenes(four: list[Tensor]) -> None:
    trainer = Trainer(replace(MIXED, together=3), four, MORE, views())
    trainer.read_names()
    shown = trainer.render()
    images, labels, names, cover, queries, weight = shown.to_invert
    count = MIXED.images(shown.large, large=True)
    grid = shown.large[0] // 8, shown.large[1] // 8
    assert images.shape == (3, count, 3, *shown.large)
    assert labels.shape == (3, count, 6)
    assert cover.shape == (3, count, 6, *grid)
    assert names.shape == (3, 14, 128)
    assert queries.shape == (3, 32)
    assert weight.tolist() == pytest.approx([MIXED.weight(0.0)] * 3)
    for part in (images, cover, queries):
        assert not torch.equal(part[0], part[1])
    assert ((cover.sum((3, 4)) > 0) | (labels < 0)).all()


def test_a_step_with_gradients_in_parts_is_one_step_of_adamw(four: list[Tensor]) -> None:
    trainer = Trainer(FAST, four, NAMES)
    trainer.read_names()
    shown = trainer.render()
    other = Trainer(FAST, four, NAMES)
    other.read_names()
    images, labels, names = (part[0] for part in shown.to_name)
    image = encode(other.model.visual, images * 2 - 1)
    loss = losses.name_loss(image.embedding, names, labels, other.scale)
    images, labels, names, cover, queries, weight = (part[0] for part in shown.to_invert)
    image = encode(other.model.visual, images * 2 - 1)
    surrogate, _ = losses.bounded(
        lambda leaf: losses.descent_loss(
            *(other.model.visual, leaf, names, labels, cover, queries, other.scale), Descent()
        ),
        image,
    )
    loss = loss + 0.5 * losses.name_loss(image.embedding, names, labels, other.scale)
    visual = list(other.model.visual.parameters())
    slopes = torch.autograd.grad(loss + weight * surrogate, visual)
    norm = torch.stack([slope.norm() for slope in slopes]).norm()
    losses_of_it = trainer.advance()
    torch.testing.assert_close(losses_of_it["gradient"], norm, rtol=1e-3, atol=0)
    moments = [trainer.optimiser.state[p]["exp_avg"] for p in trainer.parameters]
    for moment, slope in zip(moments, slopes, strict=True):
        wanted = 0.1 * slope / max(1.0, float(norm))
        assert (moment - wanted).norm() <= 1e-2 * wanted.norm() + 1e-7
