"""Locks: one program at a time, and who it is."""

import subprocess
import sys

import pytest

from napari_maskinversion.base.errors import InUseError
from napari_maskinversion.base.locks import Lock, hold
from napari_maskinversion.base.progress import listening
from napari_maskinversion.base.record_store import RecordStore
from tests.listeners import at

HOLDER = """
import sys
from pathlib import Path
from napari_maskinversion.base.locks import hold
lock = hold(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def other_program(tmp_path):
    """Another program that writes to ``tmp_path / "out"`` until its input ends."""
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "out")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout.readline() == "held\n"
        yield program
        program.kill()


def test_another_program_at_one_place_is_refused_and_named(tmp_path, other_program):
    with pytest.raises(InUseError, match=f"out is being written by process {other_program.pid} "):
        hold(tmp_path / "out")
    with pytest.raises(InUseError, match=f"process {other_program.pid} "):
        RecordStore(tmp_path / "out", "methods", ("image",), {})
    assert list(tmp_path.iterdir()) == []


def test_the_lock_of_a_killed_program_is_free(tmp_path, other_program):
    other_program.kill()
    other_program.wait()
    lock = hold(tmp_path / "out")
    lock.release()


def test_within_a_program_a_place_is_held_several_times(tmp_path):
    first, second = hold(tmp_path), hold(tmp_path)
    first.release()
    second.release()


def test_who_waits_is_told_once_and_goes_on(tmp_path):
    first, second = Lock(tmp_path / "a.lock"), Lock(tmp_path / "a.lock")
    assert first.acquire()
    notes = []
    with listening(at(2, lambda _: first.release())):
        second.wait("The bank", notes.append)
    assert len(notes) == 1
    assert notes[0].startswith("The bank is in use by process ")
    assert not first.acquire()
    second.release()


def test_without_a_cache_folder_nothing_is_held(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("NAPARI_MASKINVERSION_CACHE", str(tmp_path / "file"))
    assert hold(tmp_path / "out") is None
