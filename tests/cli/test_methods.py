"""Other ways to embed a region than MaskInversion, through pipeline, command line and files."""

import json
import math

import numpy as np
import pandas as pd
import pytest

from napari_maskinversion import InversionConfig, list_methods, region_embedder
from napari_maskinversion.base.errors import InputError
from napari_maskinversion.base.regions import Regions
from napari_maskinversion.engine.methods import edits
from napari_maskinversion.engine.methods.registry import Method
from napari_maskinversion.images.plane_source import ArrayPlane
from napari_maskinversion.images.windows import WindowConfig
from napari_maskinversion.language.labels.vocabulary import Vocabulary
from napari_maskinversion.pipeline.estimate import estimate
from napari_maskinversion.pipeline.explaining import in_words
from napari_maskinversion.pipeline.live import LiveRun
from napari_maskinversion.pipeline.run import PlaneTask
from napari_maskinversion.pipeline.run_progress import Progress, RegionChunk
from napari_maskinversion.pipeline.timings import Speed
from napari_maskinversion.results.export.archive import open_archive
from napari_maskinversion.results.export.catalogue import write_results
from tests.listeners import collect
from tests.scenes import demo_model, picture, regions, run, settings_of

from .conftest import refusal

WORDS = Vocabulary(("apple", "car", "house", "fish", "key", "bus"))
QUICK = InversionConfig(steps=2)
# The demo model has fewer blocks than ResCLIP looks at.
WITHOUT_WEIGHTS = [
    spec.name for spec in list_methods() if not spec.weights and spec.name != "resclip"
]


def results_of(method, **more):
    return collect(
        lambda: run(demo_model(), picture(), regions(5), WORDS, QUICK, method=method, **more)
    )


def embedded(name, image, masks, **options):
    """Unit embeddings of regions by a method."""
    embedder = region_embedder(name, demo_model(), **options)
    embedder.set_image(image)
    return embedder.embed(masks)


@pytest.mark.parametrize("name", [*WITHOUT_WEIGHTS, "maskinversion+crop"])
def test_a_run_embeds_by_the_method_asked_for(name):
    _, results = results_of(name, chunk_size=2)
    stack = np.stack([regions(5).full_mask(i) for i in range(5)])
    expected = embedded(name, picture(), stack, inversion=QUICK)
    np.testing.assert_allclose(results.embeddings, expected, atol=1e-5)
    assert results.info.method.name == name
    assert all(region.suggestion in WORDS.labels for region in results.regions)


def test_what_a_method_cannot_give_is_empty_and_said():
    news, results = results_of("crop")
    for region in results.regions:
        assert not region.has_heatmap
        assert region.losses.shape == (0,)
        assert math.isnan(region.iou)
        assert "overlap" not in region.status
        assert in_words(region)
    assert results.to_frame()["iou"].isna().all()
    for ask in (results.heatmap, results.window_heatmap):
        with pytest.raises(InputError, match="Crop has no heatmaps"):
            ask(0)
    steps = [item.text for item in news if isinstance(item, Progress)]
    assert "Regions 1-5 of 5, step 4 of 5" in steps
    assert any(isinstance(item, RegionChunk) for item in news)


def test_regions_that_are_cut_out_are_not_small():
    small = Regions.from_masks(np.pad(np.ones((1, 3, 3), bool), ((0, 0), (10, 47), (10, 67))))
    status = {}
    for name in ("crop", "maskclip"):
        status[name] = run(demo_model(), picture(), small, WORDS, QUICK, method=name).regions[0]
    assert not status["crop"].low_resolution
    assert not any("small" in reason for reason in status["crop"].uncertainty.reasons)
    assert status["maskclip"].low_resolution


def test_a_method_sees_the_windows_that_a_run_plans():
    """A small region of a large plane: MaskCLIP on its window is not MaskCLIP on the plane."""
    plane = picture(400, 500)
    mask = np.zeros((1, 400, 500), bool)
    mask[0, 100:130, 200:220] = True
    arguments = (demo_model(), plane, Regions.from_masks(mask), None, QUICK)
    windowed = run(*arguments, method="sclip", window=WindowConfig(mode="auto"))
    y0, x0, y1, x1 = (int(edge) for edge in windowed.regions[0].window.box)
    assert y1 - y0 < 200
    inside = mask[:, y0:y1, x0:x1]
    expected = embedded("sclip", plane[y0:y1, x0:x1], inside)
    np.testing.assert_allclose(windowed.embeddings, expected, atol=1e-5)


def test_files_say_the_method_and_leave_out_what_there_is_not(tmp_path):
    written = write_results(results_of("masked-crop+sclip")[1], tmp_path)
    assert sorted(file.name for file in written) == [
        "embeddings.json",
        "embeddings.npy",
        "regions.csv",
        "result.json",
    ]
    record = json.loads((tmp_path / "result.json").read_text("utf-8"))
    assert record["method"]["name"] == "masked-crop+sclip"
    assert record["method"]["title"] == "Masked Crop (full image) + SCLIP"
    assert "no heatmaps" in record["method"]["lacks"]
    assert record["config"] is None
    assert record["regions"][0]["heatmap_iou"] is None
    assert record["regions"][0]["losses"] == []
    assert json.loads((tmp_path / "embeddings.json").read_text("utf-8"))["method"]
    write_results(results_of(None)[1], tmp_path / "usual")
    record = json.loads((tmp_path / "usual" / "result.json").read_text("utf-8"))
    assert record["method"] == {
        "name": "maskinversion",
        "title": "MaskInversion",
        "weights": None,
        "lacks": "",
    }
    assert record["config"]["steps"] == 2


def test_saved_results_know_their_method(tmp_path):
    results = results_of("crop")[1]
    write_results(results, tmp_path, ["npz"])
    again = open_archive(tmp_path / "results.npz").results
    assert again.info.method == results.info.method
    assert again.info.space == results.info.space
    assert math.isnan(again.regions[0].iou)
    assert again.regions[0].cut_out
    assert again.to_frame().equals(results.to_frame())


def test_live_results_keep_their_method():
    live = LiveRun(demo_model(), settings_of(QUICK, method="crop"))
    tasks = [PlaneTask(source=ArrayPlane(picture()), regions=regions(5))]
    first = live.update(tasks, WORDS)
    assert first.info.method.name == "crop"
    again = live.update(tasks, WORDS)
    assert live.inverted == 5
    np.testing.assert_array_equal(first.raw_embeddings, again.raw_embeddings)


def test_a_run_that_memory_is_short_for_takes_fewer_pictures_and_a_smaller_input(monkeypatch):
    """The first two rungs fail; the embedding is then that of the smaller input."""
    honest, tried = edits.Crop.embed_regions, []

    def full(self, seen, regions):
        tried.append((len(regions), seen[2]))
        if seen[2] > 64:
            raise RuntimeError("CUDA out of memory")
        return honest(self, seen, regions)

    monkeypatch.setattr(edits.Crop, "embed_regions", full)
    arguments = (demo_model(), picture(), regions(2), None, QUICK)
    news, results = collect(lambda: run(*arguments, method="crop"))
    assert tried == [(2, 128), (1, 128), (2, 64)]
    assert "input of 64 px instead of 128" in news[-2].note
    monkeypatch.undo()
    expected = embedded("crop", picture(), regions(2), resolution=64)
    np.testing.assert_allclose(results.embeddings, expected, atol=1e-5)


def test_time_is_estimated_in_passes_of_the_model(monkeypatch):
    monkeypatch.setattr(
        "napari_maskinversion.pipeline.estimate.known_speed", lambda *_: Speed(2.0, 0.1)
    )
    tasks = [PlaneTask(source=ArrayPlane(picture()), regions=regions(5))]
    said = {
        name: estimate(
            tasks,
            model="m",
            device="cpu",
            resolution=128,
            patch=8,
            config=QUICK,
            method=Method(name),
        ).seconds
        for name in ("maskinversion", "cls", "crop", "cls+crop")
    }
    assert said == {
        "maskinversion": pytest.approx(2 + 5 * 3 * 0.1),
        "cls": 2,
        "crop": 10,
        "cls+crop": 12,
    }


@pytest.fixture
def run_by(call, files):
    """Run the command ``run`` with a method."""
    start = ("run", files / "image.png", files / "masks.png", "--labels", "car,apple")
    return lambda method: call(*start, "--method", method, "--out", files / "out")


def test_the_command_line_takes_a_method(run_by, files):
    code, out, err = run_by("crop")
    assert code == 0, err
    assert "model demo, Crop" in out
    assert "nan" not in out
    assert "Crop has no heatmaps" in err
    assert "heatmaps.tif" not in err
    table = pd.read_csv(files / "out" / "regions.csv")
    assert table["iou"].isna().all()
    expected = embedded("crop", picture(), regions(5))
    np.testing.assert_allclose(np.load(files / "out" / "embeddings.npy"), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("method", "says"),
    [
        ("crops", "Did you mean crop"),
        ("alphaclip", "needs weights"),
        ("cls+cls", "two different"),
        ("resclip", "has 4 blocks"),
    ],
)
def test_a_method_that_cannot_be_used_is_one_clear_line(run_by, method, says):
    err = refusal(run_by(method))
    assert says in err
    assert len(err.strip().splitlines()) == 1


def test_the_methods_are_listed_with_what_they_cost(call):
    code, out, err = call("methods")
    assert code == 0, err
    for spec in list_methods():
        assert f" {spec.name} " in out
    assert "10 regions cost, passes" in out
