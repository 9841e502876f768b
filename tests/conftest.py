"""Shared by all tests."""

import atexit
import faulthandler
import importlib
import os
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from .device import DEVICE, check_device
from .forks import Forks
from .hub import Hub

# How long an example takes says how busy the machine is.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

# No test may reach the network; loading the bundled model must not try either.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
# Nor write into the user's configuration: not what starts before the fixture below either.
_CONFIG = tempfile.mkdtemp(prefix="maskinversion-config-")
atexit.register(shutil.rmtree, _CONFIG, ignore_errors=True)
os.environ["NAPARI_MASKINVERSION_CONFIG"] = _CONFIG
os.environ["NAPARI_CONFIG"] = str(Path(_CONFIG) / "napari" / "settings.yaml")
# Small tensors gain nothing from threads, and lose much on a busy machine.
os.environ.setdefault("OMP_NUM_THREADS", "1")


ENDING = 60.0  # seconds in which a process has to end after its tests


def pytest_configure():
    if problem := check_device():
        raise pytest.UsageError(problem)


def pytest_sessionfinish(session, exitstatus):
    """Say what a process waits for that does not end after its tests, and end it.

    Of some thirty runs one met it (``tests/batch tests/docs``); what it waited for is not known.
    """

    def end():
        time.sleep(ENDING)
        print(f"The tests have ended, but not their process in {ENDING:g} s:", file=sys.__stderr__)
        faulthandler.dump_traceback(file=sys.__stderr__, all_threads=True)
        os._exit(exitstatus)

    threading.Thread(target=end, daemon=True).start()


@pytest.fixture
def scripts(monkeypatch):
    """Import a module of ``scripts/``."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "scripts"))
    return importlib.import_module


@pytest.fixture(autouse=True)
def own_cache_folder(tmp_path_factory, monkeypatch):
    """Keep every test out of the user's cache."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("NAPARI_MASKINVERSION_CACHE", str(folder))
    return folder


@pytest.fixture(autouse=True)
def own_config_folder(tmp_path_factory, monkeypatch):
    """Keep every test out of the user's preferences, and out of those of other tests."""
    folder = tmp_path_factory.mktemp("config")
    monkeypatch.setenv("NAPARI_MASKINVERSION_CONFIG", str(folder))
    return folder


@pytest.fixture
def call(capsys, monkeypatch):
    """Run the command line; return its exit code, standard output and standard error.

    The bundled model is loaded once for all calls.
    """
    from napari_maskinversion.cli import app
    from napari_maskinversion.engine.models import loading

    from . import scenes

    load_model = loading.load_model

    def load_once(name, *, device="auto", **options):
        if name == "demo" and str(device) == DEVICE and options.get("architecture") is None:
            return scenes.demo_model()
        return load_model(name, device=device, **options)

    monkeypatch.setattr(loading, "load_model", load_once)

    def command(*arguments):
        monkeypatch.setattr(sys, "argv", ["napari-maskinversion", *map(str, arguments)])
        code = 0
        try:
            app.main()
        except SystemExit as stop:
            code = stop.code or 0
        said = capsys.readouterr()
        return code, said.out, said.err

    return command


@pytest.fixture
def fine(call):
    """Run a command that has to work; return its standard error."""

    def command(*arguments):
        code, _, err = call(*arguments)
        assert code == 0, err
        return err

    return command


@pytest.fixture
def refused(call):
    """Run a command that has to refuse something that the user can change; do the same."""

    def command(*arguments):
        code, _, err = call(*arguments)
        assert code == 2, err
        return err

    return command


@pytest.fixture(scope="session")
def _forks():
    process = Forks()
    yield process
    process.close()


@pytest.fixture
def forks(_forks, own_cache_folder, own_config_folder):
    """A process that has imported everything and divides for each piece of work."""
    return _forks


@pytest.fixture(scope="session")
def real_images():
    """The folder of real images, where the machine has one."""
    folder = os.environ.get("NAPARI_MASKINVERSION_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("set NAPARI_MASKINVERSION_DATA to the folder of real test images")
    return Path(folder)


@pytest.fixture
def hub(monkeypatch):
    """A model hub on this machine; the client is pointed at it."""
    stand_in = Hub()
    monkeypatch.setenv("HF_ENDPOINT", stand_in.url)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    # The client reads the variable once, when it is imported.
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    yield stand_in
    stand_in.close()


@pytest.fixture
def no_network(monkeypatch):
    """Every attempt to open a connection fails the test."""
    import socket

    def refuse(*args, **kwargs):
        raise AssertionError(f"a connection was opened: {args[1:]}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "connect_ex", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.fixture
def all_known(monkeypatch):
    """Let the demo model know every image and word, so that only the limits flag answers."""
    from napari_maskinversion.pipeline import run, window_runner

    monkeypatch.setattr(window_runner, "is_unknown", lambda *_: False)
    monkeypatch.setattr(run, "unknown_to", lambda *_: frozenset())


@pytest.fixture
def batches(monkeypatch):
    """Numbers of windows that are encoded together, of each `ImageBatch` that is made."""
    from napari_maskinversion.engine.invert.several import ImageBatch

    made, original = [], ImageBatch.__init__

    def init(self, model, tensors, *arguments):
        made.append(len(tensors))
        original(self, model, tensors, *arguments)

    monkeypatch.setattr(ImageBatch, "__init__", init)
    return made
