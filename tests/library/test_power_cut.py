"""A power cut, imitated: bytes that were never synced are gone, wherever it happens."""

import os
import shutil
import sqlite3
from contextlib import suppress

import pytest

from napari_maskinversion.batch.project_index import FOLDER, ProjectIndex
from napari_maskinversion.library import store
from napari_maskinversion.library.library import Library
from tests.batch.test_project_index import compute, contents, decide, make_project, truth_of

from .made import bundle


class Cut(BaseException):
    """The power is gone."""


@pytest.fixture
def disk(tmp_path, monkeypatch):
    """What is synced, by file; and the step of a write before which the power goes."""
    synced, steps = {}, {"left": None}
    real = os.fsync

    def fsync(handle):
        step()
        real(handle)
        synced[os.fstat(handle).st_ino] = os.fstat(handle).st_size

    def step():
        if steps["left"] is not None:
            steps["left"] -= 1
            if steps["left"] < 0:
                raise Cut

    class Connection(sqlite3.Connection):
        def execute(self, query, *values):
            if query == "COMMIT":
                step()
            return super().execute(query, *values)

    monkeypatch.setattr(os, "fsync", fsync)
    connect = sqlite3.connect
    monkeypatch.setattr(
        store.sqlite3, "connect", lambda *a, **k: connect(*a, **{**k, "factory": Connection})
    )

    def cut(folder):
        steps["left"] = None
        for file in folder.glob("vectors-*"):
            os.truncate(file, min(file.stat().st_size, synced.get(file.stat().st_ino, 0)))

    return steps, cut


@pytest.mark.parametrize("step", range(5))
@pytest.mark.parametrize("work", ["add", "replace", "compact"])
def test_what_was_committed_is_there_and_whole(tmp_path, disk, work, step):
    steps, cut = disk
    library = Library.new(tmp_path / "cells")
    library.add(bundle(5, seed=0))
    library.add(bundle(5, seed=1))
    library.remove(ids=[2, 3])
    before, answers = library.rows(), library.search(like=[1])
    steps["left"] = step
    done = True
    try:
        if work == "add":
            library.add(bundle(4, seed=2))
        elif work == "replace":
            library.add(bundle(5, seed=0, rows=bundle(5, seed=3).results.embeddings))
        else:
            library.compact()
    except Cut:
        done = False
    cut(library.folder)
    again = Library.open(library.folder)
    assert [line for line in again.verify() if "not known where" not in line] == []
    if work == "compact" or not done:
        assert again.rows().equals(before)
        assert again.search(like=[1]).equals(answers)
    else:
        assert len(again.rows()) == {"add": 12, "replace": 10}[work]
    again.add(bundle(3, seed=4))
    again.compact()
    assert again.info()["holes"] == 0
    names = [file.name for file in library.folder.glob("vectors-*")]
    assert len(names) == 1


@pytest.mark.parametrize("step", range(8))
@pytest.mark.parametrize("work", ["build", "decide", "read again"])
def test_the_index_of_a_project_is_mended(tmp_path, disk, work, step):
    steps, cut = disk
    project = make_project(tmp_path / "project")
    if work != "build":
        ProjectIndex.fresh(project)
    if work == "read again":
        compute(project, "image-3.png", bundle(3, seed=3))
    if work == "decide":
        decide(project, 2, 4)
    truth = {file: file.read_bytes() for file in truth_of(project)}
    steps["left"] = step
    with suppress(Cut):
        ProjectIndex.fresh(project)
    cut(project.out / FOLDER)
    assert {file: file.read_bytes() for file in truth_of(project)} == truth
    index = ProjectIndex.fresh(project)
    assert index.notes == []  # what was committed is whole, and nothing else is seen
    mended = contents(index)
    shutil.rmtree(project.out / FOLDER)
    assert mended == contents(ProjectIndex.fresh(project))
