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
from torch import Tensor

from napari_maskinversion.demo_model.domains import Picture
from napari_maskinversion.demo_model.scene_words import REAL, VOCABULARY_FILE, find
from napari_maskinversion.demo_model.scenes import compose, generator
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
