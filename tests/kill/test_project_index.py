"""A project is killed while its index is written: its files stay, the next refresh mends it."""

import shutil

from napari_maskinversion.batch.opened import OpenProject
from napari_maskinversion.batch.project_index import FOLDER, ProjectIndex
from tests.batch.test_project_index import COUNT, contents, make_project

# How long work without end goes on, and how much it does.
ENDLESS = {"operations": 200, "seconds": 0.6}


def test_the_next_refresh_mends_it(killed, tmp_path, number):
    make_project(tmp_path / "project")
    killed("project_index", tmp_path / "project", folder=tmp_path, number=number, whole=ENDLESS)
    project = OpenProject.read(tmp_path / "project")
    index = ProjectIndex.fresh(project)
    assert len(index.images()) == COUNT
    assert list(index.library.store.problems()) == []
    mended = contents(index)
    shutil.rmtree(project.out / FOLDER)
    assert mended == contents(ProjectIndex.fresh(project))
