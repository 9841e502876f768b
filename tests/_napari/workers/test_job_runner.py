"""Jobs in threads of Qt: modes, progress, stopping, errors, and panels that go away."""

import gc
import sys
import threading
import time
import weakref
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from qtpy.compat import isalive
from qtpy.QtCore import QObject, QThreadPool, QTimer
from superqt.utils import WorkerBase

from napari_maskinversion._napari.workers.job_runner import JobRunner
from napari_maskinversion.app.session import Session
from napari_maskinversion.app.session.jobs import JobKind
from napari_maskinversion.app.work import driver
from napari_maskinversion.app.work.driver import Job, Partial, show, stop_requested
from napari_maskinversion.base.errors import Cancelled, InputError
from napari_maskinversion.base.progress import tick
from napari_maskinversion.engine.compute.compute_lock import end_threads


class Gate:
    """A function that returns, or raises, its outcome when it is opened."""

    def __init__(self, outcome):
        self._open, self.entered, self.outcome = threading.Event(), threading.Event(), outcome

    def open(self):
        self._open.set()

    def __call__(self):
        self.entered.set()
        assert self._open.wait(20)
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


class Endless:
    """A function that works until it is stopped."""

    def __init__(self, result=None):
        self.closed, self.steps, self._result = threading.Event(), 0, result

    def __call__(self):
        try:
            while True:
                self.steps += 1
                show(Job(text="working"))
                time.sleep(0.005)
        except Cancelled:
            if self._result is None:
                raise
            return self._result
        finally:
            self.closed.set()


class NotedJob:
    """A job of its own kind that notes what is told of it."""

    def __init__(self, session, mode, *, kept="", discard=None):
        self.job = session.jobs.of(JobKind("a task", "The task", mode, kept=kept))
        self.heard, self._discard = [], discard
        self.job.changed.connect(self._note)
        self.job.ended.connect(self._note_end)
        self.cancel, self.drop = self.job.cancel, self.job.drop

    def _note(self):
        job = self.job.job
        if job is not None and job.text and not job.stopping:
            self.heard.append(("progressed", job))

    def _note_end(self):
        self.heard.append("ended")

    def start(self, work):
        return self.job.start(
            work,
            lambda answer: self.heard.append(("done", answer)),
            failed=lambda reason: self.heard.append(("failed", reason)),
            discard=self._discard,
        )

    @property
    def busy(self):
        return self.job.busy

    @property
    def idle(self):
        return self.job.idle


@pytest.fixture
def make(qtbot):
    """Make jobs, and lists of what they tell; wait for all threads at the end."""
    panel, session = QObject(), Session()
    runner = JobRunner(session.jobs, panel)
    runner.open()

    def job(mode, **options):
        made = NotedJob(session, mode, **options)
        return made, made.heard

    yield job
    runner.close()
    qtbot.waitUntil(lambda: QThreadPool.globalInstance().activeThreadCount() == 0)


@pytest.fixture
def own_panel(qtbot):
    """A panel that a test deletes, as Qt does with that of a closed window."""
    panel, session = QObject(), Session()
    runner = JobRunner(session.jobs, panel)
    runner.open()

    def delete():
        panel.deleteLater()
        qtbot.waitUntil(lambda: not isalive(panel))

    return SimpleNamespace(session=session, panel=panel, delete=delete)


def finish(qtbot, worker):
    qtbot.waitUntil(lambda: not worker.busy and worker.idle)
    qtbot.wait(20)  # and nothing more comes


def test_a_result_comes_from_another_thread_to_the_gui_thread(qtbot, make):
    worker, heard = make("single")
    threads = []
    worker.job.ended.connect(lambda: threads.append(threading.current_thread()))
    assert worker.start(lambda: threads.append(threading.current_thread()) or 3)
    assert worker.busy
    finish(qtbot, worker)
    assert heard == [("done", 3), "ended"]
    assert threads[0] is not threading.main_thread()
    assert threads[1] is threading.main_thread()


@pytest.fixture
def loop():
    """Run a parallel loop as napari's colours of labels do; return the threads that it leaves."""
    if sys.platform != "linux":
        pytest.skip("OpenMP's threads can be ended on Linux only")
    number = torch.get_num_threads()
    end_threads()
    torch.set_num_threads(3)

    def run():
        before = tasks()
        torch.ones(1000, 1000).mul(2).sum()
        return tasks() - before

    yield run
    torch.set_num_threads(number)
    end_threads()


def tasks():
    return {path.name for path in Path("/proc/self/task").iterdir()}


def test_threads_that_the_windows_own_loops_leave_end_before_work_and_after_updates(
    qtbot, make, loop
):
    """Two sets of OpenMP threads are more than there are processors, which slows either one."""
    worker, _ = make("single")
    left, after = [loop()], Gate(None)
    seen = []

    def work():
        seen.append(left[0] & tasks())
        show(Job(text="working"))
        after()

    worker.job.changed.connect(lambda: worker.heard and left.append(loop()))
    assert left[0]
    worker.start(work)
    qtbot.waitUntil(lambda: len(left) == 2)
    assert left[1]
    qtbot.waitUntil(lambda: not left[1] & tasks())
    after.open()
    finish(qtbot, worker)
    assert seen == [set()]


def test_single_refuses_while_busy(qtbot, make):
    worker, heard = make("single")
    first = Gate("first")
    assert worker.start(first)
    assert not worker.start(Gate("refused"))
    first.open()
    finish(qtbot, worker)
    assert heard == [("done", "first"), "ended"]
    assert worker.start(lambda: "next")
    finish(qtbot, worker)
    assert heard[2:] == [("done", "next"), "ended"]


def test_latest_drops_older_results(qtbot, make):
    discarded = []
    worker, heard = make("latest", discard=discarded.append)
    first = Gate("old")
    worker.start(first)
    assert first.entered.wait(20)
    worker.start(lambda: "between")
    worker.start(lambda: "new")
    first.open()
    finish(qtbot, worker)
    assert heard == [("done", "new"), "ended"]
    assert discarded == ["old"]  # what never began needs no clearing away


def test_latest_stops_an_older_task_at_its_next_step(qtbot, make):
    worker, heard = make("latest")
    endless = Endless()
    worker.start(endless)
    qtbot.waitUntil(lambda: bool(heard))
    worker.start(lambda: "new")
    finish(qtbot, worker)
    assert endless.closed.is_set()
    assert heard[-2:] == [("done", "new"), "ended"]


def test_a_queue_tells_every_outcome_in_order(qtbot, make):
    worker, heard = make("queue")
    first = Gate(InputError("The disk is full."))
    worker.start(first)
    worker.start(lambda: "second")
    worker.start(lambda: "third")
    qtbot.wait(30)
    assert not heard
    first.open()
    finish(qtbot, worker)
    assert heard == [
        ("failed", "The disk is full."),
        ("done", "second"),
        ("done", "third"),
        "ended",
    ]


def test_a_queue_begins_while_the_event_loop_and_other_threads_are_busy(qtbot, make):
    gate, begun, seen = Gate(1), threading.Event(), []
    for _ in range(QThreadPool.globalInstance().maxThreadCount()):
        make("single")[0].start(gate)
    worker, _ = make("queue")

    def wait():
        worker.start(begun.set)
        seen.append(begun.wait(20))

    QTimer.singleShot(0, wait)
    qtbot.waitUntil(lambda: bool(seen))
    gate.open()
    assert seen == [True]


def test_a_queue_that_is_dropped_works_on_in_order_and_tells_nothing(qtbot, make):
    worker, heard = make("queue")
    first, order, last = Gate("first"), [], threading.Event()
    worker.start(first)
    worker.start(lambda: order.append(2) or 1 / 0)
    worker.start(lambda: order.append(3) or last.set())
    worker.drop()
    assert not worker.busy
    first.open()
    qtbot.waitUntil(last.is_set)
    qtbot.wait(20)
    assert order == [2, 3]
    assert heard == ["ended"]


def test_cancel_stops_between_two_steps_and_keeps_what_the_task_returns(qtbot, make):
    for result, told in ((None, ["ended"]), ("a part", [("done", "a part"), "ended"])):
        worker, heard = make("single")
        endless = Endless(result)
        worker.start(endless)
        qtbot.waitUntil(lambda heard=heard: bool(heard))
        worker.cancel()
        finish(qtbot, worker)
        assert endless.closed.is_set()
        assert [entry for entry in heard if entry[0] != "progressed"] == told


@pytest.mark.parametrize("outcome", ["late", InputError("no"), RuntimeError("a kernel failed")])
def test_after_drop_nothing_is_told_and_the_next_task_runs(qtbot, make, messages, outcome):
    worker, heard = make("single")
    gate = Gate(outcome)
    worker.start(gate)
    worker.drop()
    assert not worker.busy
    assert not worker.idle
    assert worker.start(lambda: 3)
    gate.open()
    finish(qtbot, worker)
    assert heard == ["ended", ("done", 3), "ended"]
    assert not messages


@pytest.mark.parametrize("ended", [False, True])
def test_what_was_dropped_is_discarded_before_the_next_task_begins(qtbot, make, ended):
    """As a review must be, since it locks a file that the next one opens."""
    held = []
    worker, heard = make("latest", discard=held.remove)
    first = Gate(None)

    def opening(name):
        def work():
            if name == "first":
                first()
            held.append(name)
            return name if len(held) == 1 else "locked"

        return work

    worker.start(opening("first"))
    assert first.entered.wait(20)
    if ended:
        first.open()
        while not worker.idle:
            time.sleep(0.01)  # no events: the outcome is on its way
    worker.start(opening("second"))
    first.open()
    finish(qtbot, worker)
    assert heard == [("done", "second"), "ended"]


def test_the_result_of_a_job_whose_panel_is_gone_is_discarded(own_panel):
    discarded, gate = threading.Event(), Gate("open")
    job = NotedJob(own_panel.session, "latest", discard=lambda _: discarded.set())
    job.start(gate)
    assert gate.entered.wait(20)
    own_panel.delete()
    gate.open()
    assert discarded.wait(20)
    assert not job.busy


def test_what_a_queue_has_to_write_is_written_without_its_panel(qtbot, own_panel):
    job = NotedJob(own_panel.session, "queue")
    first, last = Gate("first"), threading.Event()
    job.start(first)
    job.start(last.set)
    own_panel.delete()
    first.open()
    qtbot.waitUntil(last.is_set)
    qtbot.wait(20)
    assert job.heard == ["ended"]


@pytest.mark.parametrize("steps", [False, True])
def test_reasons_are_told_and_unexpected_errors_reported_whatever_their_kind(
    qtbot, make, messages, steps
):
    worker, heard = make("single", kept="The rest is kept.")

    def failing(error):
        def function():
            raise error

        def with_steps():
            show("working")
            raise error

        return with_steps if steps else function

    worker.start(failing(InputError("there is no image")))
    finish(qtbot, worker)
    assert ("failed", "there is no image") in heard
    worker.start(failing(MemoryError()))
    finish(qtbot, worker)
    assert "fewer regions at once" in heard[-2][1]
    assert not messages
    for error in (RuntimeError("a kernel failed"), KeyError("odd"), SystemExit(3)):
        messages.clear()
        heard.clear()
        worker.start(failing(error))
        finish(qtbot, worker)
        assert heard[-1] == "ended"
        assert ("failed", messages[0]) not in heard
        assert len(messages) == 1
        assert "The task broke off" in messages[0]
        assert "The rest is kept." in messages[0]


def test_a_part_is_shown_before_the_error_that_ended_it(qtbot, make, messages):
    worker, heard = make("single")
    worker.start(lambda: Partial("a part", InputError("no more")))
    finish(qtbot, worker)
    assert heard == [("done", "a part"), ("failed", "no more"), "ended"]


def test_the_first_quick_step_is_shown_right_after_a_phase(qtbot, make):
    worker, heard = make("single")

    def phases():
        show("a phase")
        tick_through(2)

    worker.start(phases)
    finish(qtbot, worker)
    texts = [value.text for name, value in heard[:-2] if name == "progressed"]
    assert texts == ["a phase", "Step 0 of 2"]


@pytest.mark.parametrize(("drawing", "a_second"), [(0.0, 10), (0.01, 4), (3.0, 2)])
def test_windows_that_are_slow_to_draw_hear_less_often(monkeypatch, drawing, a_second):
    clock = iter(range(10**9))
    monkeypatch.setattr(driver, "time", type("T", (), {"monotonic": lambda: next(clock) / 1000}))
    told = []
    queue = driver.TaskQueue(lambda task, value: told.append(value), "The task")
    task = driver.Task(lambda: tick_through(3000))
    task.drawing_seconds = drawing
    queue.add(task)
    queue.drive()
    seconds = next(clock) / 1000
    assert len(told) == pytest.approx(a_second * seconds, rel=0.2, abs=3)


def tick_through(count):
    for number in range(count):
        tick("Step", number, count)


def test_a_function_can_ask_whether_it_has_to_stop(qtbot, make):
    worker, heard = make("single")
    begun = threading.Event()

    def function():
        while not stop_requested():
            begun.set()
            time.sleep(0.005)
        raise Cancelled

    worker.start(function)
    assert begun.wait(20)
    worker.cancel()
    finish(qtbot, worker)
    assert heard == ["ended"]
    assert not stop_requested()  # outside of any task


def test_a_panel_that_is_gone_is_collected_and_its_job_stopped(qtbot):
    class Panel(QObject):
        def __init__(self):
            super().__init__()
            self.heard, self.job = [], session.jobs.of(JobKind("a task", "The task", "latest"))
            self.runner = JobRunner(session.jobs, self)
            self.runner.open()

        def show(self, value):
            self.heard.append(value)

    session, endless = Session(), Endless()
    panels = [Panel()]
    panels[0].job.start(lambda: "first", panels[0].show)
    qtbot.waitUntil(lambda: panels[0].heard == ["first"])
    panels[0].job.start(endless, panels[0].show)
    qtbot.waitUntil(lambda: endless.steps > 0)
    gone = weakref.ref(panels[0])
    panels[0].deleteLater()
    qtbot.waitUntil(lambda: not isalive(panels[0]))
    qtbot.waitUntil(endless.closed.is_set)
    panels.clear()
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("cancelled", [False, True])
def test_nothing_that_a_task_held_is_kept(qtbot, make, cancelled):
    class Pixels:
        pass

    def task(pixels):
        def steps():
            while not go.is_set():
                show("working")
                time.sleep(0.005)
            return pixels is None

        return steps

    worker, heard = make("single")
    go, pixels = threading.Event(), Pixels()
    copy = weakref.ref(pixels)
    worker.start(task(pixels))
    del pixels
    qtbot.waitUntil(lambda: bool(heard))
    if cancelled:
        worker.cancel()
    go.set()
    finish(qtbot, worker)
    qtbot.waitUntil(lambda: gc.collect() >= 0 and copy() is None)


def test_an_application_that_closes_stops_all_but_a_queue(qtbot, make):
    worker, _ = make("single")
    saving, _ = make("queue")
    endless, saved = Endless(), []
    worker.start(endless)
    gate = Gate(1)
    saving.start(gate)
    saving.start(lambda: saved.append(1))
    assert gate.entered.wait(20)
    qtbot.waitUntil(lambda: endless.steps > 0)
    threading.Timer(0.05, gate.open).start()
    WorkerBase.await_workers(20_000)
    assert endless.closed.is_set()
    qtbot.waitUntil(lambda: saved == [1])  # so does Python, before it ends
