"""A batch that is cancelled ends within a second, whatever it waits for or reads.

Clocks are simulated: what is measured is how long the work would go on, not how busy the machine
is.
"""

import hashlib
import multiprocessing
import os
import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from typing import ClassVar

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from napari_maskinversion.base import locks, progress, reading
from napari_maskinversion.base.errors import Cancelled, InUseError
from napari_maskinversion.base.locks import Lock, hold, hold_alone
from napari_maskinversion.base.progress import WAITING, Tick, listening, wait
from napari_maskinversion.batch import batch_model_sharing, image_run
from napari_maskinversion.batch.addresses import here
from napari_maskinversion.batch.batch_model_sharing import RunTasks
from napari_maskinversion.batch.batch_running import plan, run_batch
from napari_maskinversion.batch.cluster import DaskCluster
from napari_maskinversion.batch.executors import Workers
from napari_maskinversion.batch.finished import FileFingerprint
from napari_maskinversion.batch.image_run import run_task
from napari_maskinversion.batch.image_task import Report
from napari_maskinversion.batch.opened import OpenProject
from napari_maskinversion.library import store
from napari_maskinversion.library.store import ROWS, Store
from tests.scenes import demo_model

from .work import task, wait_silently

MOST = 1.0  # second


class Clock:
    """A clock that goes on when somebody sleeps, or does a step of `slow` work."""

    def __init__(self):
        self.now = self.due = 0.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds

    def cancel_after(self, seconds):
        """Return a listener that cancels the work at the first news after some seconds."""
        due = self.due = self.now + seconds

        def hear(_):
            if self.now >= due:
                raise Cancelled("Stopped.")

        return hear

    @property
    def late(self):
        """How long the work went on after it was cancelled."""
        return self.now - self.due


@pytest.fixture
def clock(monkeypatch):
    """The clock of everything that waits, and of everything that reads in pieces."""
    clock = Clock()
    for module in (progress, reading, locks, store):
        monkeypatch.setattr(module, "monotonic", clock.monotonic)
    monkeypatch.setattr(progress, "sleep", clock.sleep)
    return clock


@pytest.fixture
def slow_disk(clock, monkeypatch):
    """Each piece of a file takes 0.1 seconds of the clock."""

    class SlowHash:
        def update(self, _):
            clock.now += 0.1

        def hexdigest(self):
            return "0" * 64

    monkeypatch.setattr(reading, "sha256", SlowHash)
    return clock


def large_file(path, pieces=100):
    """Make a file of so many pieces; it takes no room on the disk."""
    with path.open("wb") as file:
        file.truncate(pieces * reading.PIECE)
    return path


def test_waiting_ends_within_a_second_of_a_cancel(clock):
    with listening(clock.cancel_after(3.5)), pytest.raises(Cancelled):
        wait(60, "The disk is busy.")
    assert 0 <= clock.late < MOST


def test_waiting_takes_as_long_as_it_says_and_tells_why(clock):
    news = []
    with listening(news.append):
        wait(3.1, "The disk is busy.")
    assert clock.now == pytest.approx(3.1)
    assert {one.text for one in news} == {"The disk is busy."}


@pytest.fixture
def first(project):
    """The first image of a project as a task."""
    return plan(OpenProject.read(project).with_results(project / "out")).tasks[0]


@pytest.mark.parametrize("after", [0.2, 0.8, 3.9])
def test_a_batch_that_pauses_before_it_tries_again_can_be_cancelled(
    first, clock, monkeypatch, after
):
    def busy(*_, **__):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(image_run, "write_parquet", busy)
    with listening(clock.cancel_after(after)):
        report = run_task(first, model=demo_model())
    assert report.stopped
    assert 0 <= clock.late < MOST


def test_a_pause_of_a_batch_tells_what_it_waits_for(first, clock, monkeypatch):
    def busy(*_, **__):
        raise OSError(5, "Input/output error", "results.npz")

    monkeypatch.setattr(image_run, "write_parquet", busy)
    news = []
    with listening(news.append):
        run_task(first, model=demo_model())
    texts = [one.text for one in news if isinstance(one, Tick) and one.stage == WAITING]
    assert set(texts) == {"results.npz: Input/output error; trying again."}


# -- bytes -----------------------------------------------------------------------------------------


def test_hashing_a_large_file_can_be_cancelled(slow_disk, tmp_path):
    file = large_file(tmp_path / "image.tif")
    with listening(slow_disk.cancel_after(2)), pytest.raises(Cancelled):
        FileFingerprint.of(file)
    assert 0 <= slow_disk.late < MOST


def test_hashing_a_store_of_many_files_can_be_cancelled(slow_disk, tmp_path):
    for number in range(100):
        (tmp_path / f"chunk {number}").write_bytes(b"pixels")
    with listening(slow_disk.cancel_after(2)), pytest.raises(Cancelled):
        FileFingerprint.of(tmp_path)
    assert 0 <= slow_disk.late < MOST


def test_hashing_tells_how_far_it_is_and_of_small_files_nothing(slow_disk, tmp_path):
    texts = []
    with listening(lambda news: texts.append(news.text)):
        FileFingerprint.of(large_file(tmp_path / "small", 1))
        assert texts == []
        FileFingerprint.of(large_file(tmp_path / "large", 10))
    assert texts[0] == "Checking a file: 2 of 10 MB"


def test_a_file_hashed_in_pieces_has_the_usual_hash(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(bytes(range(256)) * (reading.PIECE // 100))
    assert reading.sha256_of(file) == hashlib.sha256(file.read_bytes()).hexdigest()


@pytest.fixture
def large_images(project):
    """A project whose images are files of 100 MB: zeros follow what readers read."""
    for file in (project / "images").iterdir():
        with file.open("r+b") as opened:
            opened.truncate(100 * reading.PIECE)
    return OpenProject.read(project).with_results(project / "out")


def test_a_cancel_while_an_image_is_hashed_is_no_problem_of_the_image(large_images, slow_disk):
    image = plan(large_images).tasks[0]
    with listening(slow_disk.cancel_after(2)):
        report = run_task(image, model=demo_model())
    assert (report.stopped, report.problem) == (True, "")
    assert 0 <= slow_disk.late < MOST


def test_looking_for_what_is_to_be_done_can_be_cancelled(large_images, fine, request):
    fine("batch", ".", "--out", "out")
    for image in (large_images.folder / "images").iterdir():
        os.utime(image, (1e9, 1e9))  # another time: their bytes are compared
    slow_disk = request.getfixturevalue("slow_disk")
    with listening(slow_disk.cancel_after(2)), pytest.raises(Cancelled):
        plan(large_images)
    assert 0 <= slow_disk.late < MOST


class Stuck(MemoryFileSystem):
    """A storage that keeps copies waiting."""

    protocol = "stuck"
    store: ClassVar = {}
    pseudo_dirs: ClassVar = [""]
    errors: ClassVar = []
    go, ended = Event(), Event()

    def get_file(self, rpath, lpath, callback=None, **_):
        self.go.wait(60)
        try:
            callback.relative_update(1)
        except BaseException as error:
            self.errors.append(error)
            raise
        finally:
            self.ended.set()


def test_copying_from_an_address_can_be_cancelled_while_the_network_waits(tmp_path):
    fsspec.register_implementation("stuck", Stuck, clobber=True)
    fsspec.filesystem("stuck").pipe("/many/image.png", b"pixels")
    waiting = replace(task(0, tmp_path), image=Path("stuck:/many/image.png"))

    def stop(news):
        assert news.text == "Copying stuck://many/image.png"
        raise Cancelled("Stopped.")

    try:
        with listening(stop), pytest.raises(Cancelled), here(waiting):
            pass
        assert not Stuck.go.is_set()
    finally:
        Stuck.go.set()
    # What goes on in the background ends at its next piece.
    assert Stuck.ended.wait(60)
    assert [type(error) for error in Stuck.errors] == [InterruptedError]


# -- locks -----------------------------------------------------------------------------------------


def test_waiting_for_a_small_file_that_others_change_can_be_cancelled(clock, tmp_path):
    held = hold(tmp_path / "project.yaml", shared=False)
    cancel = listening(clock.cancel_after(3))
    with cancel, pytest.raises(Cancelled), hold_alone(tmp_path / "project.yaml"):
        pass
    assert 0 <= clock.late < MOST
    held.release()


def test_nobody_waits_for_ever_for_a_small_file(clock, tmp_path):
    held = hold(tmp_path / "project.yaml", shared=False)
    refused = pytest.raises(InUseError, match="is being written by process")
    with refused, hold_alone(tmp_path / "project.yaml"):
        pass
    assert clock.now == pytest.approx(10, abs=1)
    held.release()


def test_waiting_for_another_program_can_be_cancelled(clock, tmp_path):
    first, second = Lock(tmp_path / "a.lock"), Lock(tmp_path / "a.lock")
    first.acquire()
    with listening(clock.cancel_after(100)), pytest.raises(Cancelled):
        second.wait("The library")
    assert 0 <= clock.late < MOST
    first.release()


@pytest.mark.parametrize("of_others", ["BEGIN EXCLUSIVE", "BEGIN; SELECT * FROM changes"])
def test_waiting_for_a_library_that_others_read_or_write_can_be_cancelled(
    clock, tmp_path, of_others
):
    library = Store.create(tmp_path / "library")
    begin = time.monotonic()
    with closing(sqlite3.connect(library.folder / ROWS, isolation_level=None)) as other:
        for statement in of_others.split(";"):
            other.execute(statement).fetchall()
        with listening(clock.cancel_after(3)), pytest.raises(Cancelled), library.writing() as rows:
            rows.execute("INSERT INTO images VALUES (1, '', 0, 'image', '')")
        assert 0 <= clock.late < MOST
        assert time.monotonic() - begin < 30  # SQLite itself would wait for a minute
        other.execute("ROLLBACK")
    with library.reading() as rows:
        assert rows.execute("SELECT * FROM images").fetchall() == []


# -- executors -------------------------------------------------------------------------------------


@pytest.fixture
def rescued(tmp_path):
    """A folder in which silent work ends after a minute, so that a test fails but does not hang."""
    stop = Event()

    def rescue():
        if not stop.wait(60):
            (tmp_path / "go").touch()

    thread = Thread(target=rescue)
    thread.start()
    yield tmp_path
    stop.set()
    thread.join()


def begun(executor, folder):
    """Begin a task that tells nothing, and interrupt the batch as Ctrl-C does."""
    for news in run_batch([task(0, folder)], executor, wait_silently):
        if news.shares:
            raise KeyboardInterrupt


def test_ctrl_c_ends_processes_whose_step_takes_long(rescued):
    with pytest.raises(KeyboardInterrupt), Workers(2) as workers:
        begun(workers, rescued)
    assert not (rescued / "go").exists()
    for process in multiprocessing.active_children():
        process.join(30)
    assert multiprocessing.active_children() == []


def test_ctrl_c_ends_workers_of_a_cluster_whose_step_takes_long(rescued, monkeypatch):
    """Dask itself would wait four seconds."""
    nanny = pytest.importorskip("distributed.nanny").Nanny
    close, patience = nanny.close, []

    def closed(self, timeout=5, **more):
        patience.append(timeout)
        return close(self, timeout=timeout, **more)

    monkeypatch.setattr(nanny, "close", closed)
    with pytest.raises(KeyboardInterrupt), DaskCluster("local", 1) as cluster:
        begun(cluster, rescued)
    assert not (rescued / "go").exists()
    assert patience[0] < MOST


def test_after_a_cancel_no_other_image_of_a_group_is_begun(project, monkeypatch):
    """Images that failed together are done again alone; a cancel ends that."""
    begun = []

    class Stopped(RunTasks):
        def __call__(self, task):
            begun.append(task.name)
            return Report(name=task.name, stopped=True)

    def fails(_):
        raise MemoryError

    monkeypatch.setattr(batch_model_sharing, "run_images", fails)
    tasks = plan(OpenProject.read(project)).tasks
    reports = list(Stopped(demo_model()).together(tasks))
    assert begun == [tasks[0].name]
    assert [report.stopped for report in reports] == [True, True]
