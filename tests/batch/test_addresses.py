"""Images and regions at addresses that fsspec reads, here in memory."""

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import fsspec
import numpy as np
import pandas as pd
import pytest

from napari_maskinversion.batch.finished import FileFingerprint
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
    away, images, call, fine, monkeypatch, tmp_path_factory
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("copies")))
    code, _, err = new(call, f"{AWAY}/images/*.png", f"{AWAY}/masks/{{name}}_mask.png")
    assert code == 0, err
    assert read_project(images).images[0].image == f"{AWAY}/images/cell-1.png"
    assert call("project", "check", ".")[1] == "2 images can be run.\n"
    fine("batch", ".", "--out", "out")
    fine("batch", "--images", "images", "--regions", "masks", *FAST, "--out", "own")
    own = archives(images / "own")
    for name, embeddings in archives(images / "out").items():
        np.testing.assert_array_equal(embeddings, own.pop(name))
    assert not own
    assert not list(Path(tempfile.gettempdir()).rglob("cell-?.png"))  # copies of images
    assert "2 images of out are kept." in call("batch", ".", "--out", "out")[2]
    away.pipe("/many/images/cell-2.png", away.cat("/many/images/cell-1.png"))
    assert "computed from other image: cell-2.png" in call("batch", ".", "--out", "out")[2]


def test_one_file_about_all_images_and_a_folder_of_images(away, images, call, fine):
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
    fine("batch", ".", "--out", "out")
    assert pd.read_parquet("out/regions.parquet")["image"].tolist() == ["cell-1.png", "cell-2.png"]


def test_one_image_at_an_address(away, images, call):
    code, _, err = new(call, f"{AWAY}/images/cell-1.png", "masks/cell-1_mask.png")
    assert code == 0, err
    (image,) = read_project(images).images
    assert (image.name, image.image) == ("cell-1.png", f"{AWAY}/images/cell-1.png")


def test_a_zarr_folder_is_one_image(away, images, fine):
    image_store(images / "a.zarr")
    away.put(str(images / "a.zarr"), "/many/a.zarr", recursive=True)
    (images / "t.csv").write_text(f"image,regions\n{AWAY}/a.zarr,masks/cell-1_mask.png\n")
    fine("batch", "--table", "t.csv", *FAST, "--out", "out")
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


def test_a_file_that_is_gone_is_named_before_the_work(away, images, call, refused):
    assert new(call, f"{AWAY}/images/*.png", f"{AWAY}/masks/*.png")[0] == 0
    away.rm("/many/images/cell-1.png")
    err = refused("batch", ".", "--out", "out")
    assert f"cell-1.png: There is no file at {AWAY}/images/cell-1.png." in err


def test_a_worker_elsewhere_gets_the_address(away, images, call):
    assert new(call, f"{AWAY}/images/*.png", "masks")[0] == 0
    task = replace(OpenProject.read(images).task("cell-1.png"), regions=Path("file:/masks.png"))
    assert task.anywhere().image == Path(f"{AWAY}/images/cell-1.png")
    assert task.anywhere().regions == Path("file:///masks.png")


class Server(SimpleHTTPRequestHandler):
    """Serves a folder of this machine, with or without the times of its files."""

    times = True

    def send_header(self, keyword: str, value: str) -> None:
        if self.times or keyword != "Last-Modified":
            super().send_header(keyword, value)

    def log_message(self, *_: object) -> None:
        pass


class ServerWithoutTimes(Server):
    times = False


@pytest.fixture(params=["memory", "file", Server, ServerWithoutTimes])
def storage(request, tmp_path) -> Iterator[tuple[str, Callable[[str, bytes], None]]]:
    """An address, and a function that writes a file there."""

    def write(name: str, content: bytes) -> None:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        seconds = (tmp_path / name).stat().st_mtime + 10 if (tmp_path / name).exists() else 1e9
        (tmp_path / name).write_bytes(content)
        os.utime(tmp_path / name, (seconds, seconds))

    if request.param == "memory":
        files = fsspec.filesystem("memory")
        yield "memory://stored", lambda name, content: files.pipe(f"/stored/{name}", content)
        files.store.clear()
        files.pseudo_dirs[:] = [""]
    elif request.param == "file":
        yield tmp_path.as_uri(), write
    else:
        handler = partial(request.param, directory=str(tmp_path))
        with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
            Thread(target=server.serve_forever, daemon=True).start()
            yield f"http://127.0.0.1:{server.server_port}", write
            server.shutdown()


def test_a_file_of_other_content_is_another_one_at_the_same_size(storage):
    address, write = storage
    write("a.png", b"one")
    before = FileFingerprint.of(Path(f"{address}/a.png"))
    assert before.bytes == 3
    assert before.fits(Path(f"{address}/a.png"))
    write("a.png", b"two")
    assert not before.fits(Path(f"{address}/a.png"))


def test_a_zarr_folder_is_another_one_when_a_file_in_it_is(storage):
    address, write = storage
    for name in ("0/c/0", "0/c/1", "zarr.json"):
        write(f"a.zarr/{name}", b"one")
    before = FileFingerprint.of(Path(f"{address}/a.zarr"))
    assert before.bytes == 9
    assert before.fits(Path(f"{address}/a.zarr"))
    write("a.zarr/0/c/1", b"two")
    assert not before.fits(Path(f"{address}/a.zarr"))
