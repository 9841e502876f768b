"""A project is killed while its index is written: its files stay, the next refresh mends it."""

import shutil

import pytest

from napari_maskinversion.batch.opened import OpenProject
from napari_maskinversion.batch.project_index import FOLDER, ProjectIndex
from tests.batch.test_project_index import COUNT, contents, make_project

# How long work without end goes on, and how much it does.
ENDLESS = {"operations": 200, "seconds": 0.6}


@pytest.fixture
def project(tmp_path):
    return make_project(tmp_path / "project")


def mended(project):
    """Return the index after a refresh, which has to be the one that is built anew."""
    index = ProjectIndex.fresh(OpenProject.read(project.folder))
    assert len(index.images()) == COUNT
    assert list(index.library.store.problems()) == []
    kept = contents(index)
    shutil.rmtree(project.out / FOLDER)
    assert kept == contents(ProjectIndex.fresh(project))
    return index


def test_no_decision_is_lost_and_the_next_refresh_mends_the_index(
    killed, project, tmp_path, number
):
    told = tmp_path / "told"
    killed("project_index", project.folder, told, folder=tmp_path, number=number, whole=ENDLESS)
    rows = mended(project).library.rows()
    last = max(map(int, told.read_text().split()), default=-1) if told.exists() else -1
    shown = zip(rows["image"], rows["region"], rows["label"], strict=True)
    labels = {(image.rpartition("/")[2], region): label for image, region, label in shown}
    for turn in range(max(0, last - 4), last + 1):  # the last decision about each of these
        label = labels[f"image-{turn % COUNT}.png", turn % 5 + 1]
        assert label in (f"word {turn}", f"word {last + 1}")


def test_an_index_that_was_half_built_is_finished(killed, project, tmp_path, number):
    killed("build_index", project.folder, folder=tmp_path, number=number, whole=ENDLESS)
    mended(project)
