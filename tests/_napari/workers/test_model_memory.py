"""The memory of a model goes back to its device when nobody uses it any more."""

import threading
import weakref

import pytest
import torch
from qtpy.QtCore import Qt

from napari_maskinversion._napari.workers.job_runner import when_idle
from napari_maskinversion.app.session import job_kinds
from napari_maskinversion.app.work.model_store import ModelStore, give_back_memory
from napari_maskinversion.engine.compute import devices

LEFT = Qt.MouseButton.LeftButton


class Model:
    """In a circle, as modules with hooks are."""

    def __init__(self):
        self.own = self


class Gpu:
    """Stands in for ``torch.cuda``: notes when its cache is emptied after the model is gone.

    Panels of earlier tests may empty it too, while the model is still there.
    """

    def __init__(self, monkeypatch):
        self.free, self.model = False, None
        monkeypatch.setattr(devices, "devices", lambda: ["cpu", "cuda:0"])
        monkeypatch.setattr(torch.cuda, "empty_cache", self.empty)

    def empty(self):
        self.free = self.free or (self.model is not None and self.model() is None)

    def load(self, store):
        self.model = weakref.ref(store.kept.get(("own", "cuda:0"), Model))


@pytest.fixture
def gpu(monkeypatch):
    return Gpu(monkeypatch)


class Work:
    """A task that uses the store's model until it is told to end."""

    def __init__(self):
        self.begun, self.go = threading.Event(), threading.Event()

    def on(self, store):
        model = store.kept.loaded

        def task():
            self.begun.set()
            self.go.wait(20)
            return type(model).__name__

        return task


@pytest.fixture
def work():
    made = Work()
    yield made
    made.go.set()


def test_blocks_go_back_once_the_job_that_uses_the_model_has_ended(qtbot, gpu, work, sessions):
    store, worker = ModelStore(), sessions().jobs.of(job_kinds.RUN)
    gpu.load(store)
    worker.start(work.on(store))
    store.clear()
    when_idle(give_back_memory)
    qtbot.wait(300)
    assert not gpu.free
    work.go.set()
    qtbot.waitUntil(lambda: gpu.free)


def test_without_work_they_go_back_at_once(gpu):
    store = ModelStore()
    gpu.load(store)
    store.clear()
    when_idle(give_back_memory)
    assert gpu.free


def test_closing_the_dock_gives_them_back(widget, gpu, qtbot):
    gpu.load(widget.store)
    widget.shut_down()
    qtbot.waitUntil(lambda: gpu.free)
