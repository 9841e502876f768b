"""What the panel knows of a run before it starts, without a window."""

import pytest

from napari_maskinversion.app.requests.estimating import _options
from napari_maskinversion.app.work.model_store import ModelStore
from napari_maskinversion.pipeline.estimate import seconds_of
from napari_maskinversion.pipeline.timings import forget, remember
from napari_maskinversion.results.settings import RunSettings


@pytest.fixture(autouse=True)
def nothing_known():
    forget()
    yield
    forget()


def seconds(**settings):
    return seconds_of(1, 1, **_options(RunSettings(device="cpu", **settings), ModelStore()))


def test_times_are_those_of_the_same_resolution():
    measured = {"steps": 10, "encoding": 3.0, "region": 2.0, "last": False}
    remember("demo", "cpu", resolution=96, **measured)
    assert seconds(resolution=96) == pytest.approx(5)
    assert seconds() is None
