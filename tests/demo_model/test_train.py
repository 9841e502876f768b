from __future__ import annotations

import json
import math
import signal
from collections import Counter
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from napari_maskinversion.demo_model import losses
from napari_maskinversion.demo_model.maps import Encoded, encode, legrad_maps
from napari_maskinversion.demo_model.model import (
    CONFIG_FILE,
    VOCABULARY_FILE,
    WEIGHTS_FILE,
    build_model,
    encode_text,
    load_model_file,
    tokenize,
)
from napari_maskinversion.demo_model.recipe import Recipe
from napari_maskinversion.demo_model.scenes import (
    DISTRACTOR,
    SceneBatch,
    SceneStyle,
    compose,
    generator,
    pyramid,
)
from napari_maskinversion.demo_model.sprites import DRAWN_IN, PICTOGRAMS, SEEN_STYLES
from napari_maskinversion.demo_model.texts import caption, phrase_table, train_text
from napari_maskinversion.demo_model.train import (
    BEST,
    Trainer,
    begin,
    joined,
    train,
    worth,
)
from napari_maskinversion.demo_model.vocabulary import find

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


@pytest.fixture(scope="module")
def trained(four: list[Tensor], tmp_path_factory: pytest.TempPathFactory) -> tuple[Trainer, Path]:
    """A finished run; every step takes a second of its clock."""
    out = tmp_path_factory.mktemp("run")
    trainer = Trainer(FAST, four, NAMES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("napari_maskinversion.demo_model.train.time", clock())
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


def test_resuming_takes_the_very_step_that_was_next(four: list[Tensor], tmp_path: Path) -> None:
    trainer = Trainer(FAST, four, NAMES)
    trainer.read_names()
    for _ in range(2):
        trainer.advance()
    trainer.save(tmp_path / "checkpoint.pt")
    resumed = Trainer(FAST, four, NAMES)
    resumed.restore(tmp_path / "checkpoint.pt")
    assert (resumed.step, resumed.seconds) == (trainer.step, trainer.seconds)
    wanted, again = trainer.advance(), resumed.advance()
    assert again == pytest.approx(wanted, rel=1e-5)
    for a, b in zip(trainer.model.parameters(), resumed.model.parameters(), strict=True):
        torch.testing.assert_close(a, b)


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

    def stopped() -> dict[str, float]:
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
    figures = iter((0.5, 0.9, 0.7, 0.8, 0.85, 0.88, 0.95))

    def measured(*_: object) -> dict[str, float]:
        return dict.fromkeys(("seen", "unseen", "maskinversion", "iou"), next(figures))

    monkeypatch.setattr("napari_maskinversion.demo_model.train._measured", measured)
    monkeypatch.setattr("napari_maskinversion.demo_model.train.time", clock())
    trainer = Trainer(replace(FAST, minutes=0.05, text_steps=5), four, NAMES)
    train(trainer, tmp_path, every=1)
    assert trainer.step == 3
    best = tmp_path / BEST
    assert json.loads((best / "scores.json").read_text())["step"] == 2
    assert (best / WEIGHTS_FILE).read_bytes() == (tmp_path / WEIGHTS_FILE).read_bytes()
    # the next stage has to beat them, however often it is interrupted
    second = tmp_path / "second"
    for minutes, beaten in ((0.02, False), (0.04, False), (0.06, True)):
        recipe = replace(FAST, minutes=minutes, warm=True)
        train(Trainer(recipe, four, NAMES), second, warm=best, every=1)
        assert (second / BEST).is_dir() == beaten


def test_a_run_notes_photographs_by_name_and_continues_after_they_were_moved(
    four: list[Tensor], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = dict.fromkeys(("seen", "unseen", "maskinversion", "iou"), 0.5)
    monkeypatch.setattr("napari_maskinversion.demo_model.train._measured", lambda *_: scores)
    monkeypatch.setattr("napari_maskinversion.demo_model.train.time", clock())
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


def test_weights_are_judged_by_drawings_maps_and_every_real_domain() -> None:
    scores = dict.fromkeys(
        ("seen", "unseen", "maskinversion", "iou", "aerial", "blood", "nuclei"), 0.8
    )
    for part in ("seen", "maskinversion", "iou", "aerial", "blood", "nuclei"):
        assert worth(scores | {part: 0.6}) < worth(scores) == pytest.approx(0.8)
    assert worth(scores | {"unseen": 0.1}) == worth(scores)  # or it would not stay unseen


def test_the_rate_rises_stays_and_falls() -> None:
    recipe = Recipe(learning_rate=0.001, warmup=10, steady=0.5)
    assert recipe.rate(0.0, 0) == pytest.approx(0.0001)
    assert recipe.rate(0.1, 10) == recipe.rate(0.5, 900) == 0.001
    assert 0.0004 < recipe.rate(0.75, 1000) < 0.0006
    assert recipe.rate(1.0, 2000) == pytest.approx(0.00001)


def test_a_quarter_of_the_images_is_real_from_the_first_step_to_the_last(
    four: list[Tensor],
) -> None:
    asked = []

    class Real:
        def draw(
            self, rng: torch.Generator, count: int, size: tuple[int, int], _: object
        ) -> SceneBatch:
            asked.append(count)
            return SceneBatch(
                torch.zeros(count, 3, *size),
                torch.zeros(count, 1, *size),
                torch.zeros(count, 1).long(),
            )

    trainer = Trainer(Recipe(objects=4), four, NAMES, cast("Any", Real()))
    for seconds in (0.0, 2700.0, 5400.0):
        trainer.seconds = seconds
        for large in (False, True):
            batch = trainer.scenes(generator("train", 1), large=large)
            assert len(batch.images) == (32 if large else 120)
    assert asked == [30, 8] * 3


def test_small_images_come_in_every_size_with_as_many_pixels(four: list[Tensor]) -> None:
    trainer = Trainer(replace(FAST, small=16), four, NAMES)
    shapes = {
        tuple(trainer.scenes(generator("train", seed), large=False).images.shape)
        for seed in range(12)
    }
    assert shapes == {(16, 3, 64, 64), (7, 3, 96, 96), (4, 3, 128, 128)}


def test_the_schedule_follows_the_clock_and_a_warm_start_leaves_out_the_calm_beginning() -> None:
    cold, warm = Recipe(minutes=10), Recipe(minutes=10, warm=True)
    assert cold.share(0) == 0 < warm.share(0) == warm.singles_until
    assert cold.share(6000) == warm.share(6000) == 1
    assert cold.look(0, large=False).turn < cold.look(1, large=False).turn
    assert not cold.look(0, large=False).photographs
    assert cold.look(1, large=True).distractors > 0


def test_the_end_of_the_schedule_is_milder() -> None:
    recipe = Recipe(milder_from=0.7)
    hard, mild = (recipe.look(share, large=True) for share in (0.69, 0.7))
    assert mild.odd < hard.odd
    assert mild.strangers < hard.strangers
    assert mild.restyling is not None
    assert hard.restyling is not None
    assert mild.restyling.bend < hard.restyling.bend
    assert mild.restyling.borrowed == hard.restyling.borrowed
    assert replace(mild, odd=0, blurred=0, strangers=0, restyling=None) == replace(
        hard, odd=0, blurred=0, strangers=0, restyling=None
    )


def test_backgrounds_are_varied_but_for_the_calm_beginning_and_measurements() -> None:
    recipe = Recipe()
    assert recipe.look(0.0, large=False).varied == 0
    assert recipe.look(0.5, large=False).varied == recipe.look(0.9, large=True).varied > 0
    assert SceneStyle().varied == 0


def test_pictograms_are_drawn_half_as_often_as_emoji_and_the_unseen_style_never() -> None:
    styles = torch.zeros(len(DRAWN_IN), 4, 8, 8, 4, dtype=torch.uint8)
    trainer = Trainer(FAST, pyramid(styles.numpy(), levels=2), NAMES)
    shown = Counter(DRAWN_IN[place] for place in trainer.styles)
    assert shown == Counter(
        {**dict.fromkeys(SEEN_STYLES, 2), **dict.fromkeys((s.style for s in PICTOGRAMS), 1)}
    )


def test_scenes_of_different_numbers_of_objects_are_joined() -> None:
    one, two = (
        SceneBatch(torch.rand(2, 3, 8, 8), torch.rand(2, m, 8, 8), torch.zeros(2, m).long())
        for m in (1, 3)
    )
    both = joined([one, two])
    assert both.visible.shape == (4, 3, 8, 8)
    assert both.labels.tolist() == [[0, -1, -1], [0, -1, -1], [0, 0, 0], [0, 0, 0]]
    assert torch.equal(both.images, torch.cat([one.images, two.images]))


def test_neither_templates_nor_synonyms_change_what_a_name_means() -> None:
    model = build_model(1)
    names = (*NAMES, find("car"))
    train_text(model, names, 60, report=False)
    table = phrase_table(model, names)  # (ways, names, e)
    same = torch.einsum("tne,sne->tsn", table, table)
    others = torch.einsum("tne,sme->tsnm", table, table)[..., ~torch.eye(5, dtype=torch.bool)]
    assert same.min() > others.max() + 0.1
    car, automobile, cactus = F.normalize(
        model.encode_text(tokenize(["a photo of a car", "an automobile", "a cactus"])), dim=-1
    )
    assert car @ automobile > car @ cactus + 0.3


def test_a_distractor_asks_for_embeddings_that_favour_no_name() -> None:
    torch.manual_seed(0)
    visual = build_model(3).visual
    names = F.normalize(torch.randn(4, 128), dim=-1)
    image = encode(visual, torch.rand(2, 3, 64, 64))
    cover = losses.coverage(torch.rand(2, 2, 64, 64), image.grid)
    queries, scale = torch.arange(8), torch.tensor(50.0)

    def loss(second: int) -> float:
        labels = torch.tensor([[0, second], [1, second]])
        told = losses.descent_loss(visual, image, names, labels, cover, queries, scale)
        return told.item()

    unsure = loss(DISTRACTOR) - loss(-1)
    assert unsure > 0.05  # random embeddings do favour some name


def test_short_text_encoding_is_open_clips() -> None:
    model = build_model(2).eval()
    tokens = tokenize(["a photo of a soccer ball.", "bus", "a key, a car and a palm tree"])
    torch.testing.assert_close(encode_text(model, tokens), model.encode_text(tokens))


def test_captions_name_everything_once() -> None:
    rng = generator("train", 1)
    seen = {caption([find("key"), find("bus"), find("penguin")], rng) for _ in range(50)}
    assert len(seen) > 10
    assert all(text.count("a key") == text.count("a bus") == 1 for text in seen)
    assert caption([find("key")], rng).endswith("a key")
    assert len({caption([find("car")], rng) for _ in range(50)}) > 4  # its synonym as well


def test_map_supervision_prefers_the_right_map() -> None:
    cover = torch.zeros(1, 2, 4, 4)
    cover[0, 0, :2], cover[0, 1, 2:] = 1, 1
    assert losses.soft_dice(cover, cover).max() < 1e-6
    assert losses.soft_dice(1 - cover, cover).min() > 0.9
    scaled = losses.min_max(3 * cover + 2)
    torch.testing.assert_close(scaled, cover)
    assert torch.isfinite(losses.min_max(torch.ones(1, 4, 4))).all()


def test_a_map_that_has_gone_behind_its_relu_is_brought_back() -> None:
    visual = build_model(3).visual
    image = encode(visual, torch.rand(2, 3, 64, 64, generator=generator("train", 3))).detached()
    queries = torch.arange(8)

    def steps(image: Encoded, least: float, count: int) -> Encoded:
        values = image.values.detach()
        for _ in range(count):
            leaf = values.clone().requires_grad_(True)
            loss = losses.fading(visual, replace(image, values=leaf), queries, least=least).sum()
            (slope,) = torch.autograd.grad(loss, leaf)
            values = values - 0.2 * slope / slope.abs().amax().clamp(min=1e-12)
        return replace(image, values=values)

    alive = steps(image, 1.0, 30)
    assert torch.equal(losses.fading(visual, alive, queries), torch.zeros(2))
    gone = replace(alive, values=-alive.values)
    assert (losses.fading(visual, gone, queries) > 0.5).all()
    start = gone.embedding[:, None]
    faint = legrad_maps(visual, gone, start, queries).amax((1, 2, 3))
    back = steps(gone, 0.3, 60)
    assert (losses.fading(visual, back, queries) < 0.1).all()
    assert (legrad_maps(visual, back, start, queries).amax((1, 2, 3)) > 2 * faint).all()


def test_a_descent_loss_contains_what_keeps_maps_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    visual = build_model(3).visual
    image = encode(visual, torch.rand(1, 3, 64, 64, generator=generator("train", 3)))
    names = F.normalize(torch.randn(4, 128, generator=generator("train", 4)), dim=-1)
    cover = losses.coverage(torch.ones(1, 1, 64, 64), image.grid)

    def loss() -> float:
        label, scale = torch.tensor([[0]]), torch.tensor(50.0)
        return losses.descent_loss(
            visual, image, names, label, cover, torch.arange(8), scale
        ).item()

    without = loss()
    monkeypatch.setattr(losses, "fading", lambda *_: torch.full((1,), 7.0))
    assert 6 <= loss() - without <= 7


def test_the_name_loss_shares_the_target_among_those_present() -> None:
    names = torch.eye(4)
    labels = torch.tensor([[0, 2, -1]])
    torch.testing.assert_close(losses.presence(labels, 4), torch.tensor([[1.0, 0, 1, 0]]))
    both = torch.tensor([[1.0, 0, 1, 0]])
    scale = torch.tensor(50.0)
    assert losses.name_loss(both, names, labels, scale) == pytest.approx(math.log(2), abs=1e-3)
    assert losses.name_loss(names[:1], names, labels, scale) > 10
