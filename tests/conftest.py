"""Shared by all tests."""

import os
from pathlib import Path

import pytest

# No test may reach the network; loading the bundled model must not try either.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
# Small tensors gain nothing from threads, and lose much on a busy machine.
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(autouse=True)
def own_cache_folder(tmp_path_factory, monkeypatch):
    """Keep every test out of the user's cache."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("NAPARI_MASKINVERSION_CACHE", str(folder))
    return folder


@pytest.fixture(scope="session")
def real_images():
    """The folder of real images, where the machine has one."""
    folder = os.environ.get("NAPARI_MASKINVERSION_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("set NAPARI_MASKINVERSION_DATA to the folder of real test images")
    return Path(folder)
