"""Suggesting for all images of a project does what the command ``batch`` does."""

import json
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest

from napari_maskinversion.app.project.images_work import suggest_work
from napari_maskinversion.app.work.model_store import ModelStore
from napari_maskinversion.batch.image_task import ARCHIVES, DATA_SET
from napari_maskinversion.batch.opened import OpenProject
from napari_maskinversion.batch.project import read_project, write_project
from napari_maskinversion.batch.project_index import ProjectIndex
from napari_maskinversion.library.library import Library
from tests._napari.images.conftest import make_project
from tests._napari.tasks import do


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Two equal projects with a library each; one image of each is broken."""
    first = make_project(tmp_path_factory.mktemp("first"))
    project = read_project(first / "project.yaml").changed(library="library")
    write_project(project, first / "project.yaml")
    (first / "images" / "cell-4.png").write_bytes(b"no picture")
    shutil.copy(first / "masks" / "cell-2.png", first / "masks" / "cell-4.png")
    broken = project.images[1].changed(
        name="cell-4.png", image="images/cell-4.png", regions="masks/cell-4.png"
    )
    write_project(project.changed(images=(*project.images, broken)), first / "project.yaml")
    second = tmp_path_factory.mktemp("second") / "copy"
    return first, shutil.copytree(first, second)


@pytest.fixture
def outcomes(places, call):
    """What the panel and the command line computed, with what they told."""
    shown, typed = map(OpenProject.read, places)
    suggested, _ = do(lambda: suggest_work(shown, "cpu", ModelStore()))
    code, _, told = call("batch", typed.file, "--out", typed.out, "--skip-bad")
    assert code == 1, told
    return shown, suggested, typed, told


def archive(project, name):
    """Return what an archive holds, without what tells one run from another."""
    with np.load(project.out / ARCHIVES / name / "results.npz") as arrays:
        values = {key: arrays[key].tolist() for key in arrays.files if key != "record"}
        info = json.loads(bytes(arrays["record"]))["info"]
    del info["created"], info["run_id"], info["machine"]
    return values, info


def part(project, name):
    """Return an image's part of the table of all images."""
    table = pq.read_table(project.out / DATA_SET / f"{name}.parquet")
    columns = ["region", "suggestion", "similarity", "margin", "flagged", "decision"]
    return table.select([column for column in columns if column in table.schema.names]).to_pylist()


def rows(library):
    """Return the regions of a library, without what depends on its folder."""
    table = library.rows().drop(columns=["image", "date"])
    return table.astype(str).values.tolist()


def test_both_compute_the_same_and_name_the_same_images(outcomes):
    shown, suggested, typed, told = outcomes
    assert (suggested.computed, suggested.planned, suggested.not_added) == (2, 3, {})
    assert "Wrote 2 images" in told
    assert list(suggested.problems) == ["cell-4.png"]
    assert suggested.problems["cell-4.png"].removeprefix(str(shown.folder)) in told
    for name in ("cell-1.png", "cell-2.png"):
        assert archive(shown, name) == archive(typed, name)
        assert part(shown, name) == part(typed, name)
        assert rows(ProjectIndex.open(shown).library) == rows(ProjectIndex.open(typed).library)
    libraries = [Library.open(place.library) for place in (shown, typed)]
    assert rows(libraries[0]) == rows(libraries[1])
    assert len(rows(libraries[0])) == suggested.added > 0
