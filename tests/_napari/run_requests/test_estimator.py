"""What the panel says of a run before it starts, without a window."""

import pytest

from napari_maskinversion._napari.run_requests.estimator import comparison
from napari_maskinversion._napari.workers.model_store import ModelStore
from napari_maskinversion.pipeline.timings import forget, remember
from napari_maskinversion.results.settings import RunSettings


@pytest.fixture(autouse=True)
def nothing_known():
    forget()
    yield
    forget()


def said(**settings):
    return comparison([RunSettings(device="cpu", **settings)] * 2, ModelStore())()


def test_times_are_those_of_the_same_resolution():
    measured = {"steps": 10, "encoding": 3.0, "region": 2.0, "last": False}
    remember("demo", "cpu", resolution=96, **measured)
    assert "about 10 s" in said(resolution=96)
    assert "about" not in said()
