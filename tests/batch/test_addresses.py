"""Images and regions at addresses that fsspec reads, here in memory."""

import json
import tempfile
from dataclasses import replace
from pathlib import Path

import fsspec
import numpy as np
import pandas as pd
import pytest

from napari_maskinversion.batch.opened import OpenProject
from napari_maskinversion.batch.project import read_project
from tests.stores import image_store

from .conftest import FAST
from .test_batch import archives

AWAY = "memory://many"


@pytest.fixture
def away(images):
    """The two images and their masks at an address."""
    files = fsspec.filesystem("memory")
    files.put(str(images / "images"), "/many/images", recursive=True)
    files.put(str(images / "masks"), "/many/masks", recursive=True)
    yield files
    files.store.clear()
    files.pseudo_dirs[:] = [""]


def new(call, images, regions):
    return call("project", "new", ".", "--images", images, "--regions", regions, *FAST)


def test_a_batch_computes_the_same_as_from_files_and_sees_what_changed(
    away, images, call, monkeypatch, tmp_path_factory
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("copies")))
    code, _, err = new(call, f"{AWAY}/images/*.png", f"{AWAY}/masks/{{name}}_mask.png")
    assert code == 0, err
    assert read_project(images).images[0].image == f"{AWAY}/images/cell-1.png"
    assert call("project", "check", ".")[1] == "2 images can be run.\n"
    code, _, err = call("batch", ".", "--out", "out")
    assert code == 0, err
    code, _, err = call("batch", "--images", "images", "--regions", "masks", *FAST, "--out", "own")
    assert code == 0, err
    own = archives(images / "own")
    for name, embeddings in archives(images / "out").items():
        np.testing.assert_array_equal(embeddings, own.pop(name))
    assert not own
    assert not list(Path(tempfile.gettempdir()).rglob("cell-?.png"))  # copies of images
    assert "2 images of out are kept." in call("batch", ".", "--out", "out")[2]
    away.pipe("/many/images/cell-2.png", away.cat("/many/images/cell-1.png"))
    assert "computed from other image: cell-2.png" in call("batch", ".", "--out", "out")[2]


def test_one_file_about_all_images_and_a_folder_of_images(away, images, call):
    entry = {"width": 64, "height": 64}
    page = {
        "images": [{"id": n, "file_name": f"cell-{n}.png", **entry} for n in (1, 2)],
        "categories": [{"id": 1, "name": "car"}],
        "annotations": [
            {"id": n, "image_id": n, "category_id": 1, "bbox": [8, 8, 20, 20]} for n in (1, 2)
        ],
    }
    away.pipe("/many/all.json", json.dumps(page).encode())
    code, _, err = new(call, f"{AWAY}/images", f"{AWAY}/all.json")
    assert code == 0, err
    assert call("batch", ".", "--out", "out")[0] == 0
    assert pd.read_parquet("out/regions.parquet")["image"].tolist() == ["cell-1.png", "cell-2.png"]


def test_a_zarr_folder_is_one_image(away, images, call):
    image_store(images / "a.zarr")
    away.put(str(images / "a.zarr"), "/many/a.zarr", recursive=True)
    (images / "t.csv").write_text(f"image,regions\n{AWAY}/a.zarr,masks/cell-1_mask.png\n")
    code, _, err = call("batch", "--table", "t.csv", *FAST, "--out", "out")
    assert code == 0, err
    assert pd.read_parquet("out/regions.parquet")["image"].unique().tolist() == ["a.zarr"]


@pytest.mark.parametrize(
    ("place", "line"),
    [
        (f"{AWAY}/nothing/*.png", f"There is no file at {AWAY}/nothing/*.png; check --images."),
        ("nowhere://a.png", "nowhere://a.png cannot be read (ValueError: Protocol not known"),
    ],
)
def test_an_address_without_files_is_one_line(away, call, place, line):
    code, _, err = new(call, place, "masks")
    assert code == 2
    assert line in " ".join(err.split())
    assert "Traceback" not in err


def test_a_file_that_is_gone_is_named_before_the_work(away, images, call):
    assert new(call, f"{AWAY}/images/*.png", f"{AWAY}/masks/*.png")[0] == 0
    away.rm("/many/images/cell-1.png")
    code, _, err = call("batch", ".", "--out", "out")
    assert code == 2
    assert f"cell-1.png: There is no file at {AWAY}/images/cell-1.png." in err


def test_a_worker_elsewhere_gets_the_address(away, images, call):
    assert new(call, f"{AWAY}/images/*.png", "masks")[0] == 0
    task = replace(OpenProject.read(images).task("cell-1.png"), regions=Path("file:/masks.png"))
    assert task.anywhere().image == Path(f"{AWAY}/images/cell-1.png")
    assert task.anywhere().regions == Path("file:///masks.png")
