"""Shared by the tests of the commands."""

import pytest

from napari_maskinversion.base.progress import telling
from napari_maskinversion.cli import running
from tests.scenes import write_scene


@pytest.fixture
def files(tmp_path):
    """A folder with ``image.png`` and ``masks.png``."""
    return write_scene(tmp_path)


@pytest.fixture
def stopped_run(monkeypatch):
    """The user presses Ctrl-C after the first chunk of regions."""
    run_planes = running.run_planes

    def stopped(*arguments, **keywords):
        def interrupt(news):
            if interrupted:
                raise KeyboardInterrupt
            interrupted.extend([news] * isinstance(news, running.RegionChunk))
            return news

        interrupted = []
        with telling(interrupt):
            return run_planes(*arguments, **keywords)

    monkeypatch.setattr(running, "run_planes", stopped)
