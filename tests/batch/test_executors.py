"""What does the tasks of a batch, and what happens when a part of it goes away."""

import os
import time
from concurrent.futures import BrokenExecutor, Future

import pytest
import torch

from napari_maskinversion.base.errors import MaskInversionError
from napari_maskinversion.batch.batch_model_sharing import Here
from napari_maskinversion.batch.batch_running import Underway, run_batch
from napari_maskinversion.batch.executors import (
    THREADS,
    VISIBLE,
    TaskExecutor,
    Workers,
    gpus_for,
    limit_threads,
    take_gpu,
)
from napari_maskinversion.batch.image_task import Report

from .work import die_once, say_process, task, wait_halfway


class Scripted(TaskExecutor):
    """Answers a task when it is submitted; ``outcomes`` has the errors of the first attempts."""

    at_once = 4

    def __init__(self, outcomes=None):
        self.outcomes = outcomes or {}
        self.open = []
        self.attempts = []

    def submit(self, work, task):
        self.open.append(task.name)
        self.attempts.append((task.name, len(self.open)))
        future = Future()
        errors = self.outcomes.get(task.name, [])
        if errors:
            future.set_exception(errors.pop(0))
        else:
            future.set_result(Report(name=task.name))
        future.add_done_callback(lambda _: None)
        return future

    def underway(self):
        self.open.clear()
        return {}

    def __exit__(self, kind, error, where):
        pass


def done(executor, work=None, count=6, folder=None):
    """Return the reports and the notes of a batch."""
    tasks = [task(n, folder) if folder else task(n) for n in range(count)]
    news = list(run_batch(tasks, executor, work))
    reports = [one for one in news if isinstance(one, Report)]
    return reports, [one.note for one in news if isinstance(one, Underway) and one.note]


ALL = [f"image {number}" for number in range(6)]


def test_few_tasks_are_held_at_once():
    tasks = iter([task(n) for n in range(20)])
    taken = []
    work = run_batch((taken.append(one) or one for one in tasks), Scripted(), None)
    next(work)
    assert len(taken) == Scripted.at_once
    assert sum(isinstance(one, Report) for one in work) == 19


def test_a_task_whose_worker_died_is_done_again():
    reports, notes = done(Scripted({"image 2": [BrokenExecutor()]}))
    assert sorted(one.name for one in reports) == ALL
    assert not any(one.problem for one in reports)
    assert notes == ["A worker process ended suddenly. It is replaced."]


def test_a_task_that_ends_every_worker_is_given_up_and_ends_no_other_one():
    executor = Scripted({"image 2": [BrokenExecutor() for _ in range(99)]})
    reports, _ = done(executor, count=40)
    assert len(reports) == 40
    (given_up,) = [one for one in reports if one.problem]
    assert given_up.name == "image 2"
    assert "ended suddenly again and again, perhaps for lack of memory" in given_up.problem
    beside = [count for name, count in executor.attempts if name == "image 2"]
    assert len(beside) == 6
    assert beside[2:] == [1, 1, 1, 1]  # alone


def test_a_lost_cluster_ends_the_batch_in_one_line():
    class Lost(Scripted):
        def submit(self, work, task):
            future = Future()
            future.cancel()
            future.set_running_or_notify_cancel()
            return future

    with pytest.raises(MaskInversionError, match=r"went away\. Finished images are kept"):
        done(Lost())


def test_an_error_of_a_task_ends_the_batch():
    with pytest.raises(MaskInversionError, match="wrong"):
        done(Scripted({"image 0": [MaskInversionError("wrong")]}))


def begun(executor, folder):
    """Begin a task that waits halfway."""
    future = executor.submit(wait_halfway, task(0, folder))
    until = time.monotonic() + 60
    while executor.underway() != {"image 0": 0.5} and time.monotonic() < until:
        time.sleep(0.01)
    return future


def shares_of(executor, folder):
    """Return what is under way while a task waits, then let it go on."""
    future = begun(executor, folder)
    shares = executor.underway()
    (folder / "go").touch()
    assert future.result(timeout=60).name == "image 0"
    return shares, executor.underway()


def test_the_share_of_each_image_is_told_while_it_is_computed(tmp_path):
    with Here() as here:
        assert shares_of(here, tmp_path) == ({"image 0": 0.5}, {})


def test_processes_do_the_tasks_and_one_that_is_killed_is_replaced(tmp_path):
    with Workers(2) as workers:
        assert shares_of(workers, tmp_path) == ({"image 0": 0.5}, {})
        reports, notes = done(workers, die_once, folder=tmp_path)
        assert sorted(one.name for one in reports) == ALL
        assert not any(one.problem for one in reports)
        assert notes
        assert len((tmp_path / "image 1").read_text()) == 2
        reports, _ = done(workers, say_process)
    assert os.getpid() not in {one.regions for one in reports}


def test_a_worker_computes_with_its_share_of_the_cores(monkeypatch):
    """Libraries that are loaded later read it from the environment; torch gets it by a call."""
    for name in THREADS:
        monkeypatch.setenv(name, "64")
    before = torch.get_num_threads()
    limit_threads(3)
    try:
        assert {os.environ[name] for name in THREADS} == {"3"}
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_an_error_stops_what_is_computed_between_two_steps(tmp_path):
    executor = Here()
    future = begun(executor, tmp_path)
    executor.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert "stopped" in str(future.exception())


@pytest.mark.parametrize(
    ("device", "visible", "count", "gpus"),
    [
        ("auto", None, 2, ["0", "1", "0"]),
        ("cuda", "3,5", 2, ["3", "5", "3"]),
        ("cuda:1", None, 2, [None] * 3),
        ("auto", None, 0, [None] * 3),
    ],
)
def test_each_worker_sees_one_gpu_in_turns(monkeypatch, device, visible, count, gpus):
    monkeypatch.setattr("torch.cuda.device_count", lambda: count)
    monkeypatch.delenv(VISIBLE, raising=False)
    if visible:
        monkeypatch.setenv(VISIBLE, visible)
    choice = gpus_for(device)
    seen = []
    for number in range(3):
        take_gpu(str(number), choice)
        seen.append(os.environ.get(VISIBLE))
    assert seen == gpus
