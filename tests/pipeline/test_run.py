"""Image and regions to a stream of results, on the bundled model."""

import json
import math
from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest
import torch

from napari_maskinversion import InversionConfig, MaskInverter
from napari_maskinversion.base.errors import Cancelled, ConfigError, InputError, MaskShapeError
from napari_maskinversion.base.progress import listening
from napari_maskinversion.base.regions import Region, Regions
from napari_maskinversion.engine.compute.matmul import cpu_library
from napari_maskinversion.images.plane_source import ArrayPlane
from napari_maskinversion.language.labels.vocabulary import NONE_OF_THESE, Vocabulary
from napari_maskinversion.language.ranking.uncertainty import UncertaintyConfig
from napari_maskinversion.pipeline.estimate import estimate
from napari_maskinversion.pipeline.run import PlaneTask, run_planes
from napari_maskinversion.pipeline.run_progress import Progress, RegionChunk
from napari_maskinversion.results.settings import RunSettings
from tests.device import DEVICE
from tests.listeners import collect
from tests.scenes import demo_model, label_image, picture, regions, run, settings_of

WORDS = Vocabulary(("apple", "car", "house", "fish", "key", "bus"))
QUICK = InversionConfig(steps=2)


def test_results_are_those_of_the_engine():
    results = run(demo_model(), picture(), regions(5), WORDS, QUICK, chunk_size=2)
    inverter = MaskInverter(demo_model())
    inverter.set_image(picture())
    expected = inverter.invert(regions(5), QUICK)
    np.testing.assert_allclose(results.embeddings, expected.embeddings, atol=1e-5)
    np.testing.assert_allclose(results.heatmap(3), expected.heatmap(3), atol=1e-4)
    assert results.heatmap(0).shape == (60, 80)
    assert results.ids == [1, 2, 3, 4, 5]
    similarity = expected.embeddings @ demo_model().encode_text(["a photo of a car."]).T
    for region, value in zip(results.regions, similarity[:, 0], strict=True):
        place = region.ranking.labels.index("car")
        assert region.ranking.similarities[place] == pytest.approx(value, abs=1e-5)


@pytest.mark.parametrize("route", ["direct", "decomposed"])
def test_results_tell_what_computed_them(route):
    config = InversionConfig(steps=2, route=route)
    results = run(demo_model(), picture(), regions(2), WORDS, config)
    machine = results.info.machine
    assert machine.threads == torch.get_num_threads()
    assert machine.library == (cpu_library() if DEVICE == "cpu" else machine.library)
    assert machine.processor
    assert machine.instructions == torch.backends.cpu.get_cpu_capability()
    assert machine.memory_mb > 0
    assert {window.route.removesuffix(", fused") for window in results.windows} == {route}
    record = json.loads(json.dumps(results.info.provenance()))
    assert record["machine"] == asdict(machine)
    assert record["settings"]["inversion"]["route"] == route


def test_progress_says_region_and_step_and_never_goes_back():
    news, _ = collect(lambda: run(demo_model(), picture(), regions(5), WORDS, QUICK, chunk_size=2))
    said = [item for item in news if isinstance(item, Progress)]
    texts = [item.text for item in said]
    assert texts[0] == "Looking at the image, 0 %"
    assert "Regions 3-4 of 5, step 1 of 2" in texts
    assert texts[-1] == "Region 5 of 5, step 2 of 2"
    fractions = [item.fraction for item in said]
    assert fractions == sorted(fractions)
    assert 0 <= fractions[0] <= fractions[-1] <= 1
    running = [item for item in said if item.maps is not None]
    assert running[-1].maps().shape[0] == 1


def test_fifty_regions_run_in_chunks_not_one_by_one():
    news, results = collect(lambda: run(demo_model(), picture(), regions(50), WORDS, QUICK))
    chunks = [item for item in news if isinstance(item, RegionChunk)]
    assert [len(chunk.results) for chunk in chunks] == [16, 16, 16, 2]
    assert [len(chunk.so_far) for chunk in chunks] == [16, 32, 48, 50]
    assert len(results) == 50


@pytest.mark.parametrize("stop_at", ["encoding", "inverting"])
def test_a_run_can_be_stopped_and_the_chunks_that_are_finished_are_kept(stop_at):
    kept = None

    def stop(news):
        nonlocal kept
        if isinstance(news, RegionChunk):
            kept = news.so_far
        elif stop_at == "encoding" or (news.done == 20 and news.step == 1):
            raise Cancelled

    with pytest.raises(Cancelled), listening(stop):
        run(demo_model(), picture(), regions(50), WORDS, QUICK, chunk_size=10)
    if stop_at == "encoding":
        assert kept is None
    else:
        assert len(kept) == 20
        assert len(kept.to_frame()) == 20


def test_the_table_holds_the_ranked_labels():
    frame = run(demo_model(), picture(), regions(3), WORDS, QUICK).to_frame()
    assert list(frame["region"]) == [1, 2, 3]
    assert list(frame.columns[:8]) == [
        "region",
        "suggestion",
        "similarity",
        "probability",
        "margin",
        "iou",
        "area_px",
        "status",
    ]
    assert "label_5" in frame
    assert "label_6" not in frame
    assert (frame["similarity"] - frame["similarity_2"] - frame["margin"]).abs().max() < 1e-6
    assert (frame["area_px"] == [(label_image(3) == i).sum() for i in (1, 2, 3)]).all()


def test_one_label_or_none_work_too():
    frame = run(demo_model(), picture(), regions(2), Vocabulary(("car",)), QUICK).to_frame()
    assert list(frame["suggestion"]) == ["car", "car"]
    assert math.isnan(frame["margin"][0])
    assert frame["probability"][0] == 1
    bare = run(demo_model(), picture(), regions(2), None, QUICK)
    assert bare.raw_embeddings.shape == (2, demo_model().embed_dim)
    assert list(bare.to_frame()["suggestion"]) == ["", ""]


def test_a_region_smaller_than_a_token_is_marked(all_known):
    labels = np.zeros((60, 80), np.uint8)
    labels[10, 10] = 1
    labels[20:50, 20:60] = 2
    lax = UncertaintyConfig(overlap=0, margin=0)
    results = run(demo_model(), picture(), Regions.from_labels(labels), WORDS, QUICK, unsure=lax)
    assert list(results.to_frame()["status"]) == ["low resolution", "ok"]


@pytest.mark.parametrize(
    ("image", "chosen", "chunk_size", "error", "says"),
    [
        (np.full((60, 80), 7, np.uint8), regions(2), None, InputError, r"same value \(7\)"),
        (picture(30, 40), regions(2), None, MaskShapeError, "60 x 80 px but the image is 30 x 40"),
        (picture(), Regions((60, 80), []), None, InputError, "no regions"),
        (np.zeros((3, 60, 80, 2)), regions(2), None, InputError, r"got \(3, 60, 80, 2\)"),
        (picture(), regions(2), 0, ConfigError, "^chunk_size must be .* 1; got 0.$"),
    ],
)
def test_bad_input_is_refused_before_any_work(image, chosen, chunk_size, error, says):
    # Nothing of the model is touched: None would fail with another error.
    with pytest.raises(error, match=says):
        run(None, image, chosen, WORDS, QUICK, chunk_size=chunk_size)


def test_a_finished_plane_forgets_the_tiles_it_kept(all_known):
    """A hundred planes would otherwise keep a hundred times what one may keep."""
    said = []

    class Plane(ArrayPlane):
        def __init__(self, name):
            super().__init__(picture())
            self.name = name

        def read(self, level, box):
            said.append(f"read {self.name}")
            return super().read(level, box)

        def forget(self):
            said.append(f"forget {self.name}")

    tasks = [
        PlaneTask(source=Plane(name), regions=regions(1), position=(("z", z),))
        for z, name in enumerate("ab")
    ]
    run_planes(demo_model(), tasks, None, settings_of(steps=1))
    assert said == ["read a", "forget a", "read b"]


def test_synonyms_are_looked_at_and_the_label_is_told():
    # Words of one vocabulary as synonyms of each other: the best of them decides.
    plain = run(demo_model(), picture(), regions(3), WORDS, QUICK)
    pairs = Vocabulary.parse("apple | car, house | fish, key | bus")
    results = run(demo_model(), picture(), regions(3), pairs, QUICK)
    label = {"car": "apple", "fish": "house", "bus": "key"}
    for one, other in zip(plain.regions, results.regions, strict=True):
        best = one.ranking.labels[0]
        assert other.suggestion == label.get(best, best)
        assert other.ranking.similarities[0] == one.ranking.similarities[0]
        assert len(other.ranking.labels) == 3


def test_below_the_threshold_a_region_is_none_of_these_and_the_nearest_is_told():
    sure = run(demo_model(), picture(), regions(3), WORDS, QUICK)
    best = sorted(float(region.ranking.similarities[0]) for region in sure.regions)
    limit = (best[0] + best[1]) / 2
    results = run(demo_model(), picture(), regions(3), WORDS, QUICK, threshold=limit)
    assert results.info.vocabulary.threshold == limit
    frame, plain = results.to_frame(), sure.to_frame()
    below = frame["suggestion"] == NONE_OF_THESE
    assert below.sum() == 1
    assert (below == (plain["similarity"] < limit)).all()
    assert list(frame["label_1"]) == list(plain["suggestion"])
    assert frame["status"][below.idxmax()].startswith("doubtful")
    assert "below threshold" in frame["status"][below.idxmax()]
    # The same by another way, without a second run.
    pd.testing.assert_frame_equal(sure.with_threshold(limit).to_frame(), frame)
    assert NONE_OF_THESE not in set(results.with_threshold(None).to_frame()["suggestion"])


def test_what_is_flagged_is_said_with_its_reason_and_the_limits_are_the_callers(all_known):
    strict = UncertaintyConfig(overlap=1.0, margin=0, tokens=0)
    results = run(demo_model(), picture(), regions(2), WORDS, QUICK, unsure=strict)
    for region, status in zip(results.regions, results.to_frame()["status"], strict=True):
        assert status == f"does not fit: low overlap {region.iou:.2f}"
    assert results.info.settings.unsure == strict
    lax = results.with_limits(UncertaintyConfig(overlap=0, margin=0, tokens=0))
    assert set(lax.to_frame()["status"]) == {"ok"}
    assert lax.to_frame()["entropy"].between(0, math.log(6)).all()


def test_tokens_are_counted_in_what_the_model_saw():
    results = run(demo_model(), picture(), regions(2), WORDS, QUICK)
    rows, columns = results.info.grid
    assert results.regions[0].tokens == pytest.approx(
        results.regions[0].area / 4800 * rows * columns
    )


@pytest.fixture
def model_seen_at_twice_its_side(monkeypatch):
    """The demo model as if it worked at twice the side that it was trained at, as CLIP does."""
    model = demo_model()
    monkeypatch.setattr(model, "working_resolution", 2 * model.native_resolution)
    return model


@pytest.mark.parametrize(
    ("changes", "sides"),
    [
        ({}, {1: 128, 2: 256}),
        ({"resolution": 256}, {1: 256, 2: 256}),
        ({"window": "400"}, {1: 256, 2: 256}),
    ],
)
def test_a_region_with_enough_tokens_is_seen_at_the_models_own_resolution(
    model_seen_at_twice_its_side, changes, sides
):
    plane = np.tile(picture(200, 200), (5, 6, 1))
    boxes = {1: (100, 100, 180, 180), 2: (700, 900, 718, 918)}  # of 64 px: 4.5 tokens
    masks = [np.ones((c - a, d - b), bool) for a, b, c, d in boxes.values()]
    drawn = [Region(i, box, mask) for (i, box), mask in zip(boxes.items(), masks, strict=True)]
    tasks = [PlaneTask(source=ArrayPlane(plane), regions=Regions(plane.shape[:2], drawn))]
    settings = RunSettings.of(InversionConfig(steps=1), **changes)
    results = run_planes(model_seen_at_twice_its_side, tasks, None, settings)
    seen = {row.id: row.window for row in results.regions}
    assert not any(window.whole for window in seen.values())
    assert {i: window.resolution for i, window in seen.items()} == sides
    assert all(max(window.input_size) == window.resolution for window in seen.values())


def test_a_larger_and_a_smaller_input_are_one_speed_for_estimates(model_seen_at_twice_its_side):
    """A quarter of the tokens counts as a quarter of a window."""
    model, plane = model_seen_at_twice_its_side, np.tile(picture(200, 200), (5, 6, 1))
    box = Region(1, (100, 100, 180, 180), np.ones((80, 80), bool))
    tasks = [PlaneTask(source=ArrayPlane(plane), regions=Regions(plane.shape[:2], [box]))]
    settings = RunSettings.of(InversionConfig(steps=1))
    run_planes(model, tasks, None, settings)
    asked = {
        "model": model.name,
        "device": str(model.device),
        "resolution": 256,
        "patch": model.patch_size,
    }
    asked |= {"config": settings.inversion, "window": settings.window}
    coarse, fine = (estimate(tasks, **asked, native=native).seconds for native in (128, None))
    assert fine == pytest.approx(4 * coarse)
