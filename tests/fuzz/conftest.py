"""A folder with a whole file of every kind, to be damaged."""

import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

from . import ROUNDS
from .kinds import write_all

HERE = Path(__file__).parent
# Examples of a property: the same ones each time in the short form, others each time in full.
settings.register_profile(
    "fuzz",
    deadline=None,
    max_examples=8 * ROUNDS,
    derandomize=ROUNDS == 1,
    phases=[Phase.explicit, Phase.generate],  # an example is small, and shrinking runs it often
    suppress_health_check=list(HealthCheck),
)


# Cases take up to three seconds; on a busy machine many times as long.
LIMIT = 180  # seconds


def pytest_collection_modifyitems(items):
    """Let a case that hangs fail under its own name."""
    for item in items:
        if HERE in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(LIMIT, func_only=True))


@pytest.fixture(scope="session")
def whole(tmp_path_factory):
    """All files, made once."""
    return tmp_path_factory.mktemp("whole")


@pytest.fixture
def place(whole, tmp_path, monkeypatch, call):
    """A copy of all files in the working directory, which also has the preferences."""
    if not (whole / "batched").exists():  # the last of all; a failure is not taken for a file
        monkeypatch.chdir(whole)
        write_all(whole, call)
    folder = tmp_path / "place"
    shutil.copytree(whole, folder, copy_function=_copy)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("NAPARI_MASKINVERSION_CONFIG", str(folder / "config"))
    return folder


def _copy(source, target):
    """Copy a file; link it if it is large: nothing may write to it, which the attacks check."""
    if Path(source).stat().st_size > 100_000:
        Path(target).hardlink_to(source)
    else:
        shutil.copy(source, target)
