"""Images of a batch whose windows are encoded and inverted together, as on a GPU."""

import shutil
from concurrent.futures import Future
from dataclasses import replace

import numpy as np
import pytest

from napari_maskinversion.base.errors import Cancelled
from napari_maskinversion.base.progress import listening
from napari_maskinversion.batch import batch_model_sharing
from napari_maskinversion.batch.batch_model_sharing import Here, RunTasks
from napari_maskinversion.batch.batch_running import Underway, plan, run_batch
from napari_maskinversion.batch.executors import BEGUN
from napari_maskinversion.batch.image_task import Report
from napari_maskinversion.batch.opened import OpenProject
from napari_maskinversion.engine.invert.several import ImageBatch
from napari_maskinversion.pipeline.run import RegionChunk, runs_together
from tests.scenes import demo_model, label_image, picture

from .conftest import save

COUNT = 4


@pytest.fixture
def tasks(images, fine, monkeypatch):
    """Tasks of four images with one to four regions each, which are run together."""
    for number in range(3, COUNT + 1):
        save(images / "images" / f"cell-{number}.png", picture(64, 64, number))
        save(images / "masks" / f"cell-{number}_mask.png", label_image(number, 64, 64))
    fast = ("--labels", "car,dog", "--steps", 1, "--resolution", 64)
    fine("project", "new", ".", "--images", "images", "--regions", "masks", *fast)
    monkeypatch.setattr(batch_model_sharing, "runs_together", lambda *_: True)
    return list(plan(OpenProject.read(images).with_results(images / "out")).tasks)


def embeddings(task):
    return np.load(task.archive / "results.npz")["embeddings"]


def done(tasks):
    return {one.name: one for one in RunTasks(demo_model()).together(tasks)}


def test_each_image_has_the_rows_that_it_has_alone(tasks, batches):
    reports = done(tasks)
    assert batches == [COUNT]
    assert [reports[task.name].regions for task in tasks] == [1, 2, 3, 4]
    own = [embeddings(task) for task in tasks]
    shutil.rmtree(tasks[0].out)
    for task in tasks:
        assert RunTasks(demo_model())(task).regions
    for task, rows in zip(tasks, own, strict=True):
        np.testing.assert_allclose(rows, embeddings(task), atol=1e-4)


def test_an_image_that_cannot_be_run_stops_no_other(tasks):
    tasks[1].image.write_bytes(b"no image")
    reports = done(tasks)
    assert [bool(reports[task.name].problem) for task in tasks] == [False, True, False, False]
    assert "cell-2.png" in reports[tasks[1].name].problem


def test_what_fails_together_is_done_again_alone(tasks, monkeypatch):
    monkeypatch.setattr(ImageBatch, "invert", lambda *_: 1 / 0)
    reports = done(tasks)
    assert [reports[task.name].regions for task in tasks] == [1, 2, 3, 4]


def test_images_that_are_done_are_kept(tasks):
    done(tasks[:2])
    reports = done(tasks)
    assert [reports[task.name].kept for task in tasks] == [True, True, False, False]


def test_cancel_leaves_whole_results_or_none(tasks):
    def stop(news):
        if isinstance(news, RegionChunk) and len(news.results) == 2:  # of the second image
            raise Cancelled("stopped")

    with listening(stop):
        reports = done(tasks)
    assert len(reports) == COUNT
    assert [reports[task.name].stopped for task in tasks] == [False, True, True, True]
    for task in tasks:
        assert reports[task.name].stopped != task.part.exists()


def test_only_images_with_the_same_settings_go_together(tasks):
    work = RunTasks(demo_model())
    other = tasks[2].settings.changed({"resolution": 96})
    mixed = [*tasks[:2], replace(tasks[2], settings=other), tasks[3]]
    assert [work.count(mixed), work.count(mixed[2:])] == [2, 1]


def test_a_batch_in_this_process_tells_how_far_its_images_are(tasks):
    with Here() as here:
        news = list(run_batch(tasks, here, RunTasks(demo_model())))
    shares = [one.shares for one in news if isinstance(one, Underway)]
    names = {one.name for one in news if not isinstance(one, Underway)}
    assert names == {task.name for task in tasks}
    assert all(BEGUN <= share <= 1 for one in shares for share in one.values())


def test_on_a_cpu_each_image_is_run_alone(tasks, monkeypatch):
    """Its bits do not hang on the images that a batch has left."""
    monkeypatch.setattr(batch_model_sharing, "runs_together", runs_together)
    assert RunTasks(demo_model()).count(tasks) == 1


def test_what_is_done_is_told_before_an_error_that_ends_the_batch(tasks):
    """Also if the waiting thread hears of both at the same time."""

    class AtOnce(Here):
        def submit(self, work, task):
            future = Future()
            future.set_running_or_notify_cancel()
            if task is tasks[0]:
                future.set_exception(KeyboardInterrupt())
            else:
                future.set_result(Report(name=task.name))
            return future

    told = []
    news = run_batch(tasks, AtOnce(), RunTasks(demo_model()))
    with pytest.raises(KeyboardInterrupt):
        told.extend(one.name for one in news if isinstance(one, Report))
    assert sorted(told) == sorted(task.name for task in tasks[1:])
