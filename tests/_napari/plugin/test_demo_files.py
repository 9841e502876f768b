"""``demo --check`` names what was made, and refuses what is missing, blank or does not fit."""

import json

import numpy as np
import pytest
import tifffile
from PIL import Image

from napari_maskinversion._napari.plugin import demo
from napari_maskinversion._napari.plugin.demo_files import describe
from napari_maskinversion.base.errors import InputError

REGIONS = 3


@pytest.fixture
def made(tmp_path):
    """A folder as the demonstration leaves it."""
    noise = np.random.default_rng(0).integers(0, 255, (90, 160, 3), np.uint8)
    Image.fromarray(noise).save(tmp_path / "screenshot.png")
    np.save(tmp_path / "embeddings.npy", np.eye(REGIONS, 8, dtype=np.float32))
    (tmp_path / "embeddings.json").write_text(json.dumps({"model": "demo"}))
    (tmp_path / "result.json").write_text(json.dumps({"model": "demo", "regions": []}))
    rows = ["region,suggestion", *(f"{n},cat" for n in range(REGIONS))]
    (tmp_path / "regions.csv").write_text("\n".join(rows) + "\n")
    pages = np.zeros((REGIONS, 12, 16), np.float32)
    tifffile.imwrite(tmp_path / "heatmaps.tif", pages, photometric="minisblack")
    return tmp_path


def test_each_file_is_named_with_what_it_holds(made):
    lines = describe(made)
    assert len(lines) == 6
    text = "\n".join(lines)
    for words in ("160 x 90 px", "3 x 8, float32", "3 regions", "3 pages of 16 x 12 px"):
        assert words in text


@pytest.mark.parametrize(
    "name",
    [
        "screenshot.png",
        "embeddings.npy",
        "embeddings.json",
        "regions.csv",
        "result.json",
        "heatmaps.tif",
    ],
)
def test_a_file_that_is_missing_or_empty_is_named(made, name):
    (made / name).write_bytes(b"")
    with pytest.raises(InputError, match=name):
        describe(made)
    (made / name).unlink()
    with pytest.raises(InputError, match=name):
        describe(made)


def test_a_blank_window_is_refused(made):
    Image.new("RGB", (160, 90), "black").save(made / "screenshot.png")
    with pytest.raises(InputError, match="the window is blank"):
        describe(made)


def test_embeddings_that_are_not_of_unit_length_or_too_few_are_refused(made):
    np.save(made / "embeddings.npy", np.ones((REGIONS, 8), np.float32))
    with pytest.raises(InputError, match="unit length"):
        describe(made)
    np.save(made / "embeddings.npy", np.eye(2, 8, dtype=np.float32))
    with pytest.raises(InputError, match="has 2 regions and regions.csv has 3"):
        describe(made)


def test_check_fails_where_the_demonstration_left_something_out(made, call, monkeypatch):
    monkeypatch.setattr(demo, "run_demo", lambda out, screenshot: 0 if screenshot else 9)
    status, out, _ = call("demo", "--check", "--out", made)
    assert status == 0
    assert "heatmaps.tif" in out
    (made / "heatmaps.tif").unlink()
    status, _, err = call("demo", "--check", "--out", made)
    assert status == 2
    assert "heatmaps.tif" in err


@pytest.mark.parametrize(
    ("source", "refused"),
    [({"image": {"file": "image.png"}}, "already has "), ({"sample": "everyday-1"}, "")],
)
def test_a_demonstration_replaces_results_of_another_one_only(made, monkeypatch, source, refused):
    """It ends where a virtual display would start."""
    monkeypatch.setattr(demo, "_has_display", lambda: False)
    monkeypatch.setenv("NAPARI_MASKINVERSION_VIRTUAL_DISPLAY", "1")
    record = {"software": {"napari-maskinversion": "0.2.0"}, "source": source}
    (made / "result.json").write_text(json.dumps(record))
    with pytest.raises(InputError, match=refused or "The virtual display did not start"):
        demo.run_demo(made)
