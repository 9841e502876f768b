"""Shared by the tests of the commands."""

import pytest

from napari_maskinversion.base.progress import telling
from napari_maskinversion.pipeline import run as pipeline
from napari_maskinversion.pipeline.run import RegionChunk
from tests.scenes import write_scene


@pytest.fixture
def files(tmp_path):
    """A folder with ``image.png`` and ``masks.png``."""
    return write_scene(tmp_path)


@pytest.fixture
def stopped_run(monkeypatch):
    """The user presses Ctrl-C after the first chunk of regions."""
    run_planes = pipeline.run_planes

    def stopped(*arguments, **keywords):
        def interrupt(news):
            if interrupted:
                raise KeyboardInterrupt
            interrupted.extend([news] * isinstance(news, RegionChunk))
            return news

        interrupted = []
        with telling(interrupt):
            return run_planes(*arguments, **keywords)

    monkeypatch.setattr(pipeline, "run_planes", stopped)


def ok(outcome):
    """Return the standard error of a command that has to have worked."""
    code, _, err = outcome
    assert code == 0, err
    return err


def refusal(outcome):
    """Return the standard error of a command that has to have refused what the user can change."""
    code, _, err = outcome
    assert code == 2, err
    return err
