"""A viewer, a widget in it, and runs whose pace a test decides."""

import gc
import threading
from contextlib import ExitStack, contextmanager
from itertools import count
from types import MethodType, SimpleNamespace
from unittest.mock import patch

import napari
import numpy as np
import pytest
from napari._app_model._app import NapariApplication, _napari_names
from napari._qt._qapp_model.qactions import init_qactions
from napari._qt.threads.status_checker import StatusChecker
from napari.components import ViewerModel
from napari.plugins import _initialize_plugins
from napari.utils.events import EventEmitter
from npe2 import PluginManager
from pytestqt.qtbot import QtBot
from qtpy.compat import isalive
from qtpy.QtCore import QEvent, QThreadPool
from qtpy.QtWidgets import QApplication, QDockWidget, QMainWindow
from skimage.io import imsave

from napari_maskinversion._napari.panel.widget import MaskInversionWidget
from napari_maskinversion._napari.workers import notify
from napari_maskinversion.app.session import Session, session
from napari_maskinversion.app.work.model_store import ModelStore
from napari_maskinversion.app.work.preload import preload_torch
from napari_maskinversion.base.progress import tell
from napari_maskinversion.engine.invert.inverter import MaskInverter
from napari_maskinversion.language.ranking.ranking import Ranking
from napari_maskinversion.language.ranking.uncertainty import Calibration
from napari_maskinversion.pipeline import run as pipeline
from napari_maskinversion.pipeline import run_progress
from napari_maskinversion.results.export.catalogue import FORMATS
from napari_maskinversion.results.results import Results

from ..scenes import demo_model, picture
from .made import made_info, made_region
from .review.reviewing import switch_on
from .running import running_jobs

# Some tests import torch on the main thread with the viewer up, which the plugin never does.
preload_torch()


def pytest_sessionfinish():
    """Let threads of closed panels end: Python's end takes their signals away, which aborts it."""
    QThreadPool.globalInstance().waitForDone()


class PatientBot(QtBot):
    def waitUntil(self, callback, *, timeout=60_000):
        """Wait a minute at least, since others may keep the processors busy."""
        super().waitUntil(callback, timeout=max(timeout, 60_000))


@pytest.fixture
def qtbot(qapp, request):
    return PatientBot(request)


@pytest.fixture(scope="session", autouse=True)
def signatures_read_once():
    """Remember what napari reads of each function that it connects: a panel connects hundreds."""
    read, known = EventEmitter._check_signature, {}

    def check(listener):
        code = getattr(listener, "__code__", None)
        if code is None:
            return read(listener)
        place = code, isinstance(listener, MethodType)
        if place not in known:
            known[place] = read(listener)
        return known[place]

    with patch.object(EventEmitter, "_check_signature", staticmethod(check)):
        yield


_STARTED = count()
_COLLECTED = 50  # tests


@pytest.fixture(autouse=True)
def quick_collection(request):
    """Let the collector pass over what imports and earlier tests left.

    With torch and napari, searching all objects takes half a second. napari's fixture does so
    several times a test, and each of its applications leaves thousands of menu entries behind.
    """
    if "make_napari_viewer" in request.fixturenames or next(_STARTED) % _COLLECTED == 0:
        gc.collect()
    gc.freeze()


@contextmanager
def uncollected():
    """Let the collector pass over all that is there now."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@pytest.fixture(autouse=True)
def plugins_discovered_once(monkeypatch):
    """Look for installed plugins once: napari does so for each page of preferences."""
    discover = PluginManager.discover

    def once(self, *arguments, clear=False, **options):
        known = "napari-maskinversion" in self and not (arguments or clear)
        return 0 if known else discover(self, *arguments, clear=clear, **options)

    monkeypatch.setattr(PluginManager, "discover", once)


@pytest.fixture(autouse=True)
def own_napari_page(own_config_folder, monkeypatch):
    """Set up a separate page for each test in napari's preferences."""
    from napari import settings

    clear = settings._clear_plugin_settings_cache
    monkeypatch.setattr(
        settings, "_CFG_PATH", str(own_config_folder / "napari" / "settings.yaml"), raising=False
    )
    clear()
    yield
    clear()


@pytest.fixture
def scene():
    """An image (160, 200, 3) with 50 regions: squares of 10 pixels, labels 1 to 50."""
    image = np.random.default_rng(0).integers(0, 255, (160, 200, 3), dtype=np.uint8)
    labels = np.zeros((160, 200), dtype=np.int32)
    for k in range(50):
        y, x = 15 * (k // 10) + 3, 18 * (k % 10) + 3
        labels[y : y + 10, x : x + 10] = k + 1
    return image, labels


class SharedWindow:
    """The window of all tests of a process: making one takes seconds.

    It has an application of its own, as those of ``make_napari_viewer`` have: that fixture lets
    napari register plugins again, which an application takes once. It also wants to be alone.
    """

    def __init__(self):
        self._viewer, self._patches = None, ExitStack()

    def viewer(self):
        if self._viewer is None:
            for registered in (_initialize_plugins, init_qactions):
                registered.cache_clear()
            app = NapariApplication("shared")
            app.injection_store.namespace = _napari_names
            self._patches.callback(NapariApplication.destroy, "shared")
            for patched in (
                patch.object(NapariApplication, "get_app_model", return_value=app),
                patch.object(StatusChecker, "start", lambda *_: None),
            ):
                self._patches.enter_context(patched)
            self._viewer = napari.Viewer(show=False)
            self._own_docks = set(self._docks)
        return self._viewer

    @property
    def _docks(self):
        return self._viewer.window._qt_window.findChildren(QDockWidget)

    def empty(self):
        """Leave nothing of a test in it."""
        viewer = self._viewer
        if viewer is not None:
            delete_later()
            for dock in set(self._docks) - self._own_docks:
                inner = dock.widget()
                viewer.window.remove_dock_widget(dock)  # shuts down a panel
                if inner is not None:
                    inner.deleteLater()
            with uncollected():
                viewer.layers.clear()
            viewer.dims.reset()
            viewer.theme = "dark"
            viewer.window._qt_window.hide()
            session._SESSIONS.pop(id(viewer), None)
            delete_later()

    def close(self):
        if self._viewer is not None:
            self._viewer.close()
            self._viewer = None
            self._patches.close()
            delete_later()
            gc.unfreeze()
            gc.collect()


def delete_later():
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)


@pytest.fixture(scope="session")
def shared_window(qapp):
    made = SharedWindow()
    yield made
    made.close()


@pytest.fixture
def window(shared_window):
    """A viewer without layers and docks, in the window that tests share."""
    yield shared_window.viewer()
    shared_window.empty()


@pytest.fixture
def no_shared_window(shared_window):
    shared_window.close()


@pytest.fixture
def make_napari_viewer(no_shared_window, make_napari_viewer):
    """Make windows whose leaks are looked for."""
    return make_napari_viewer


@pytest.fixture
def viewer(request):
    """The shared window where a test asks for it, else napari's model of a viewer."""
    if "window" in request.fixturenames:
        return request.getfixturevalue("window")
    if "napari" not in (plugins := PluginManager.instance()):  # its readers; a window brings them
        plugins.discover()
    return ViewerModel()


@pytest.fixture
def dock(qapp, viewer):
    """Make a panel and dock it, with two words typed in or with those of its last state (None)."""
    made = []

    def make(viewer=viewer, words="cat\ndog"):
        panel = MaskInversionWidget(viewer)
        if hasattr(viewer, "window"):
            viewer.window.add_dock_widget(panel, name="test")
        if words is not None:
            panel.vocabulary.text.setPlainText(words)
        made.append(panel)
        return panel

    yield make
    with uncollected():
        for panel in made:
            if isalive(panel):  # its window may be closed
                panel.shut_down()
                panel.deleteLater()
    delete_later()


@pytest.fixture
def sessions(qapp):
    """Make sessions whose jobs run without a panel."""
    with ExitStack() as running:

        def make():
            session = Session()
            running.enter_context(running_jobs(session))
            return session

        yield make


@pytest.fixture
def close_window(qtbot):
    """Close a window, which does not tell its panel."""

    def close(panel):
        window = QMainWindow()
        window.setCentralWidget(panel)
        window.show()
        qtbot.wait(1)  # it finds its window
        window.deleteLater()
        QApplication.sendPostedEvents(window, QEvent.Type.DeferredDelete)
        assert not isalive(panel)

    return close


@pytest.fixture
def widget(viewer, dock, scene):
    """The panel on a viewer that holds the scene, with two words typed in."""
    viewer.add_image(scene[0], name="photo")
    viewer.add_labels(scene[1], name="cells")
    return dock()


class SlowRun:
    """Stands in for ``pipeline.run_planes``: steps when told to, fails when told to."""

    def __init__(self):
        self.go = threading.Semaphore(0)
        self.free = False
        self.error = None
        self.fail_after_chunks = 0
        self.closed = threading.Event()
        self.steps = 3
        self.calibration = Calibration(
            margin=None, overlap=0.0, right=20, wrong=0, right_kept=1.0, wrong_flagged=None
        )
        self.reached = []

    def __call__(self, model, tasks, vocabulary, settings, **options):
        self.tasks, self.settings = tasks, settings
        chunk_size = settings.chunk_size or 16
        shape = tasks[0].regions.shape
        regions = [(task, region) for task in tasks for region in task.regions]
        info = made_info(
            vocabulary,
            settings.changed({"model": "fake"}),
            shape=shape,
            units=options.get("units"),
            axes=tuple(name for name, _ in tasks[0].position),
            calibration=self.calibration,
        )
        results, total = Results(info), len(regions)
        try:
            for layer in range(4):
                self._pause("encoding")
                encoding = {"done": 0, "total": total, "step": layer, "steps": 4}
                tell(run_progress.Progress(stage="encoding", **encoding))
            for start in range(0, total, chunk_size):
                if self.error is not None and len(results) >= self.fail_after_chunks * chunk_size:
                    raise self.error
                chunk = regions[start : start + chunk_size]
                for step in range(self.steps):
                    self._pause("inverting")
                    tell(
                        run_progress.Progress(
                            stage="inverting",
                            done=start,
                            total=total,
                            first=start + 1,
                            last=start + len(chunk),
                            step=step,
                            steps=self.steps,
                            maps=self._maps,
                            input_size=(64, 80),
                            box=(0.0, 0.0, float(shape[0]), float(shape[1])),
                            position=tasks[0].position,
                        )
                    )
                made = tuple(
                    _result(region, vocabulary, shape, start + place, task.position)
                    for place, (task, region) in enumerate(chunk)
                )
                results = results.extended(made)
                tell(run_progress.RegionChunk(made, results))
            return results
        finally:
            self.closed.set()

    def _maps(self):
        """Maps that no finished region has: strongest in the last corner."""
        grid = np.zeros((16, 4, 5), dtype=np.float32)
        grid[:, 3, 4] = 1
        return grid

    def _pause(self, stage):
        self.reached.append(stage)
        if not self.free:
            self.go.acquire(timeout=100)


def _result(region, vocabulary, shape, index, position):
    grid = np.zeros((4, 5), dtype=np.float32)
    grid[region.id % 4, region.id % 5] = 1 + region.id
    ranking = None
    if vocabulary is not None:
        order = np.roll(np.arange(len(vocabulary.labels)), region.id)
        ranking = Ranking(
            tuple(vocabulary.labels[i] for i in order),
            np.linspace(0.5, 0.1, len(order), dtype=np.float32),
            np.full(len(order), 1 / len(order), np.float32),
        )
    return made_region(
        region.id,
        shape=shape,
        bbox=region.bbox,
        area=region.area,
        grid_map=grid,
        ranking=ranking,
        low_resolution=region.id == 2,
        index=index,
        position=position,
        centroid=region.centroid,
        members=region.members,
        source_label=region.name,
        source_id=region.source_id,
        source_values=region.values,
    )


@pytest.fixture
def inverted(monkeypatch):
    """Ids of the regions that were inverted, in order."""
    seen = []
    invert = MaskInverter.invert

    def count(self, masks, *given, **options):
        seen.extend(masks.ids)
        return invert(self, masks, *given, **options)

    monkeypatch.setattr(MaskInverter, "invert", count)
    return seen


@pytest.fixture
def slow(monkeypatch):
    """Runs that wait for ``slow.go.release()`` at each step, or do not with ``slow.free``."""
    run = SlowRun()
    monkeypatch.setattr(pipeline, "run_planes", run)
    monkeypatch.setattr(ModelStore, "get", lambda self, name, device: SimpleNamespace(spec=None))
    yield run
    run.free = True
    run.go.release(1000)


@pytest.fixture
def messages(monkeypatch):
    """What the user was told, as text."""
    from napari.utils.notifications import notification_manager

    said = []

    def listen(event):
        said.append(event.message)

    def tell(message, severity, action):
        said.append(message)
        if listener := notify._listener():
            listener(message, severity, action)

    monkeypatch.setattr(notify, "_tell", tell)  # whether or not there is a window
    monkeypatch.setattr(notification_manager, "catch_error", True)  # as in napari itself
    notification_manager.notification_ready.connect(listen)
    yield said
    notification_manager.notification_ready.disconnect(listen)


@pytest.fixture
def run_to_end(qtbot):
    """Run as the one button does and wait until the run is over."""

    def run(made, seconds=60):
        made.start()
        qtbot.waitUntil(lambda: not made.runner.busy, timeout=seconds * 1000)

    return run


@pytest.fixture
def ran(widget, slow, run_to_end):
    """The panel after a run of all 50 regions, which waited for nothing."""
    slow.free = True
    run_to_end(widget)
    return widget


@pytest.fixture
def answered(viewer, dock, monkeypatch, run_to_end):
    """Four regions of a picture, answered by the bundled model."""
    monkeypatch.setattr(ModelStore, "get", lambda self, name, device: demo_model())
    monkeypatch.setattr(ModelStore, "has", lambda self, name, device: True)
    viewer.add_image(picture(90, 120), name="photo")
    labels = np.zeros((90, 120), np.uint8)
    for number in range(4):
        y, x = 8 + 44 * (number // 2), 10 + 56 * (number % 2)
        labels[y : y + 30, x : x + 36] = number + 1
    viewer.add_labels(labels, name="cells")
    made = dock(words="apple\ncar\nhouse | building\nfish")
    made.model.form.set_values({"inversion.steps": 4})
    run_to_end(made)
    assert made.results.model.rowCount() == 4
    return made


@pytest.fixture
def export(qtbot):
    """Save results in formats of the catalogue, each under its usual name, and wait."""

    def save(panel, folder, *names):
        panel.exports.save(*((FORMATS[name], folder / FORMATS[name].file) for name in names))
        qtbot.waitUntil(lambda: not panel.exports.saving.busy)

    return save


@pytest.fixture
def photo(tmp_path, scene):
    """An image file in a folder of its own."""
    path = tmp_path / "cells.png"
    imsave(path, scene[0])
    return path


@pytest.fixture
def opened(viewer, dock, scene, photo, slow, run_to_end):
    """Open the panel on the image file, with 50 regions that have been run."""
    slow.free = True

    def open_one(labels=scene[1], viewer=viewer):
        viewer.open(str(photo), plugin="napari")
        viewer.add_labels(labels, name="marks")
        widget = dock(viewer)
        run_to_end(widget)
        return widget

    return open_one


@pytest.fixture
def reviewing(opened, qtbot):
    """The panel with the review switched on."""
    widget = opened()
    switch_on(qtbot, widget)
    return widget
