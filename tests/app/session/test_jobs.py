"""Jobs of all kinds: how they are cancelled, what they are about, and answers that come too late.

Without a window: the runner of a test hears what threads tell when the test waits for something.
"""

import ast
import queue
import re
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

import napari_maskinversion
from napari_maskinversion.app.explore.region_sources import SOURCES, SUBJECTS
from napari_maskinversion.app.review.review_state import ReviewState
from napari_maskinversion.app.review.review_target import ReviewTarget
from napari_maskinversion.app.session import Scope, Session, job_kinds, subjects
from napari_maskinversion.app.session.jobs import JobKind
from napari_maskinversion.app.session.records import ResultRecord
from napari_maskinversion.app.session.state import ProjectState, RunState
from napari_maskinversion.app.work.driver import Job, JobError, Partial, show
from napari_maskinversion.base.errors import InputError
from napari_maskinversion.base.identity import RegionIdentity, RegionKey
from napari_maskinversion.base.progress import tick
from napari_maskinversion.library.library import Library
from napari_maskinversion.results.results import Results

from ..._napari.made import made_info, made_region

KINDS = [value for value in vars(job_kinds).values() if isinstance(value, JobKind)]
PANEL = Path(napari_maskinversion.__file__).parent / "_napari"
WAIT = 20  # seconds, at most


class Layer:
    """Stands in for a layer."""

    name = "layer"


class Threads:
    """Runs jobs in threads; `wait` hears what they tell, as a GUI thread does."""

    def __init__(self, jobs):
        self._jobs, self._told = jobs, queue.Queue()
        self.refused, self.informed, self.reported = [], [], []
        self.refuse, self.inform = self.refused.append, self.informed.append
        self.report = self.reported.append
        jobs.open(self)

    def run(self, tasks, *, to_the_end):
        del to_the_end
        threading.Thread(target=tasks.drive, daemon=True).start()

    def tell(self, task, value):
        self._told.put((task, value))

    def wait(self, condition):
        """Hear what comes until something is so."""
        began = time.monotonic()
        while not condition():
            assert time.monotonic() < began + WAIT
            with suppress(queue.Empty):
                self._jobs.hear(*self._told.get(timeout=0.01))


class Steps:
    """Work that ticks until it is told to answer, or is stopped."""

    def __init__(self, answer="answer"):
        self.begun, self._go, self.answer = threading.Event(), threading.Event(), answer
        self.steps = 0

    def __call__(self):
        while not self._go.is_set():
            tick("Step", 1, 2)
            self.steps += 1
            self.begun.set()
            time.sleep(0.002)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def answer_now(self):
        self._go.set()


@pytest.fixture
def layers():
    """The layers of a viewer."""
    return [Layer() for _ in range(4)]


@pytest.fixture
def session(layers):
    """A session with an image, regions of it, and results of which the first is selected."""
    made = Session()
    made.run.layers = layers[:2]
    show_results(made)
    made.select(0)
    return made


def show_results(session):
    info = made_info(None, session.run.settings)
    results = Results(info, tuple(made_region(number + 1) for number in range(3)))
    identities = (RegionIdentity(RegionKey(1), "0" * 32, (0, 0, 4, 4)),)
    snapshot = session.run.snapshot()
    session.show(ResultRecord(results=results, snapshot=snapshot, identities=identities))


def show_as_other_results(session):
    """Show the same regions, ranked again."""
    record = session.run.record
    again = Results(record.results.info, record.results.regions)
    session.show(record.changed(results=again))


@pytest.fixture
def threads(session):
    made = Threads(session.jobs)
    yield made
    session.jobs.close(made)


def change(subject, session, layers):
    """Let there be something else that a job may be about."""
    other_channels = Scope(channels="displayed")
    opening = ProjectState("cells", ("1.png", "2.png"), opening="2.png")
    project = ProjectState("others", file="others.yaml")
    review = Mock(spec=ReviewState, results=session.run.results, review=object())
    changes = {
        subjects.image_chosen: lambda: setattr(session.run, "image", layers[2]),
        subjects.layers_chosen: lambda: setattr(session.run, "regions", layers[3]),
        subjects.run_shown: lambda: show_results(session),
        subjects.regions_shown: lambda: show_results(session),
        subjects.results_shown: lambda: show_as_other_results(session),
        subjects.region_selected: lambda: session.select(1),
        subjects.run_at_work: lambda: session.begin_run(session.run.snapshot()),
        subjects.run_regions: lambda: show_results(session),
        subjects.is_live: lambda: setattr(session.run, "live", True),
        subjects.plane_in_view: lambda: session.turn_to((("z", 1),)),
        subjects.channels_chosen: lambda: setattr(session.run, "scope", other_channels),
        subjects.model_chosen: lambda: session.run.change_settings({"model": "ViT-B-16/openai"}),
        subjects.image_opening: lambda: setattr(session.project, "state", opening),
        subjects.project_open: lambda: setattr(session.project, "state", project),
        subjects.library_chosen: lambda: setattr(session.explore, "library", Library.in_memory()),
        subjects.review_open: lambda: setattr(session.review, "state", review),
        subjects.review_target: lambda: setattr(session.review, "target", target_of(session)),
    }
    changes[subject]()


def target_of(session):
    """What a review of the results can be opened of."""
    return ReviewTarget(session.run.results, session.run.image, None, {})


kinds = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
# An answer about another one of these would be shown in the wrong place, or undo a later choice
NEVER_LATE = [
    (job_kinds.READ_MODEL, subjects.model_chosen),
    (job_kinds.OPEN_RESULTS, subjects.image_chosen),
    (job_kinds.OPEN_RESULTS, subjects.run_at_work),
    (job_kinds.CROP, subjects.review_open),
    (job_kinds.FIND_REGION, subjects.image_chosen),
    (job_kinds.FIND_REGION, subjects.library_chosen),
]
BOUND_OF_KINDS = [(kind, subject) for kind in KINDS for subject in kind.about]
BOUND = list(dict.fromkeys([*BOUND_OF_KINDS, *NEVER_LATE]))


def test_the_kinds_are_all_that_the_panel_starts():
    """A job of a new kind gets into the tests below by being listed."""
    used = set()
    for path in PANEL.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "job_kinds":
                used.add(node.attr)
    listed = {name for name, value in vars(job_kinds).items() if isinstance(value, JobKind)}
    assert used == listed
    assert len({kind.name for kind in KINDS}) == len(KINDS)


def test_one_module_of_the_panel_has_threads_for_jobs():
    """Imports have threads of their own: nothing waits for an answer, and none can be stopped."""
    of_imports = {"dock.py", "warming.py"}
    threads = re.compile(r"\b(create_worker|thread_worker|QThread\w*|Thread)\(")
    paths = [path for path in PANEL.rglob("*.py") if threads.search(path.read_text("utf-8"))]
    starting = {path.name for path in paths}
    assert starting - of_imports == {"job_runner.py"}


@kinds
def test_cancel_ends_a_job_at_its_next_step_and_says_so_meanwhile(session, threads, kind):
    job, answers, work = session.jobs.of(kind), [], Steps()
    job.start(work, answers.append)
    threads.wait(work.begun.is_set)
    seen = []
    job.changed.connect(lambda: seen.append(job.job))
    job.cancel()
    steps_before = work.steps
    assert job.job.stopping
    threads.wait(lambda: not job.busy)
    assert work.steps <= steps_before + 1
    assert job.job is None
    assert seen[-1] is None
    assert not answers + threads.refused + threads.reported


@kinds
def test_what_a_cancelled_job_has_so_far_is_its_answer(session, threads, kind):
    job, answers, steps = session.jobs.of(kind), [], Steps()

    def work():
        try:
            steps()
        except BaseException as error:
            return Partial("a part", error)

    job.start(work, answers.append)
    threads.wait(steps.begun.is_set)
    job.cancel()
    threads.wait(lambda: not job.busy)
    assert answers == ["a part"]


@pytest.mark.parametrize("answer", ["answer", InputError("no"), RuntimeError("a kernel failed")])
@pytest.mark.parametrize(
    ("kind", "subject"),
    BOUND,
    ids=lambda part: getattr(part, "name", getattr(part, "__name__", "")),
)
def test_an_answer_about_something_else_is_dropped(session, threads, layers, kind, subject, answer):
    job, told, work = session.jobs.of(kind), [], Steps(answer)
    job.start(work, told.append, failed=told.append)
    threads.wait(work.begun.is_set)
    change(subject, session, layers)
    assert not job.busy
    work.answer_now()
    threads.wait(lambda: job.idle and threads._told.empty())
    assert not told + threads.refused + threads.reported
    assert job.job is None


@pytest.mark.parametrize("source", SOURCES)
def test_an_answer_about_the_regions_of_another_source_is_dropped(session, threads, layers, source):
    job, told, work = session.jobs.of(job_kinds.FIND), [], Steps()
    job.start(work, told.append, about=[SUBJECTS[source]])
    threads.wait(work.begun.is_set)
    change(SUBJECTS[source], session, layers)
    assert not job.busy
    work.answer_now()
    threads.wait(lambda: job.idle and threads._told.empty())
    assert told == []


@kinds
def test_any_job_can_be_bound_to_more_and_news_come_too_late_as_well(session, threads, kind):
    place, told, steps = SimpleNamespace(name="here"), [], Steps()
    job = session.jobs.of(kind)

    def work():
        steps()
        show(object())  # a part of the answer
        return "answer"

    job.start(work, told.append, news=told.append, about=[lambda _: place.name])
    threads.wait(steps.begun.is_set)
    place.name = "there"
    steps.answer_now()
    threads.wait(lambda: not job.busy)
    assert told == []


@pytest.mark.parametrize(("kind", "subject"), BOUND[:1])
def test_an_answer_counts_while_what_it_is_about_is_the_same(session, threads, kind, subject):
    job, told, work = session.jobs.of(kind), [], Steps()
    job.start(work, told.append)
    threads.wait(work.begun.is_set)
    session.run.scope = Scope(ids="3")
    session.run.progress = RunState("done")
    work.answer_now()
    threads.wait(lambda: not job.busy)
    assert told == ["answer"]


@kinds
def test_another_job_of_a_kind_is_refused_replaces_it_or_follows_it(session, threads, kind):
    job, told = session.jobs.of(kind), []
    first, second = Steps("first"), Steps("second")
    assert job.start(first, told.append)
    threads.wait(first.begun.is_set)
    assert job.start(second, told.append) == (kind.mode != "single")
    first.answer_now()
    second.answer_now()
    threads.wait(lambda: not job.busy)
    answers = {"single": ["first"], "latest": ["second"], "queue": ["first", "second"]}
    assert told == answers[kind.mode]


@kinds
def test_nothing_of_a_closed_panel_is_told_and_only_a_queue_is_worked_off(session, threads, kind):
    job, told, done, steps = session.jobs.of(kind), [], [], Steps()

    def work():
        steps()
        done.append("written")
        return "answer"

    job.start(work, told.append, failed=told.append)
    threads.wait(steps.begun.is_set)
    job.changed.connect(lambda: told.append(job.job))
    session.jobs.close(threads)
    assert told == [None]
    if kind.mode == "queue":
        steps.answer_now()
    threads.wait(lambda: job.idle and threads._told.empty())
    assert told == [None]
    assert done == (["written"] if kind.mode == "queue" else [])
    assert not job.start(steps, told.append)  # no panel is there for its answer


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.mode == "queue"], ids=str)
def test_cancel_leaves_what_was_dropped_and_is_still_to_be_worked_off(session, threads, kind):
    job, done, dropped, shown = session.jobs.of(kind), [], Steps(), Steps()

    def save():
        dropped()
        done.append("saved")

    job.start(save)
    threads.wait(dropped.begun.is_set)
    job.drop()
    job.start(shown)
    job.cancel()
    steps = dropped.steps
    threads.wait(lambda: job.idle or dropped.steps > steps + 1)  # it would have been stopped by now
    dropped.answer_now()
    threads.wait(lambda: job.idle)
    assert done == ["saved"]
    assert not shown.begun.is_set()


def test_an_error_of_who_takes_the_answer_leaves_no_job_behind(session, threads):
    job, told = session.jobs.of(job_kinds.FIND), []
    job.ended.connect(lambda: told.append("ended"))

    def take(answer):
        raise ZeroDivisionError

    job.start(lambda: "answer", take)
    with pytest.raises(ZeroDivisionError):
        threads.wait(lambda: not job.busy)
    assert told == ["ended"]


def test_closing_one_of_two_panels_leaves_the_jobs_of_the_other(session, threads):
    job, told, work = session.jobs.of(job_kinds.FIND), [], Steps()
    job.start(work, told.append)
    second = Threads(session.jobs)
    session.jobs.close(second)
    work.answer_now()
    threads.wait(lambda: not job.busy)
    assert told == ["answer"]


def test_reasons_are_told_to_the_user_and_unexpected_errors_name_the_job(session, threads):
    job = session.jobs.of(job_kinds.CAPTIONS)
    for error in (InputError("The file is empty."), KeyError("odd")):
        job.start(raising(error))
        threads.wait(lambda: not job.busy)
    assert threads.refused == ["The file is empty."]
    (unexpected,) = threads.reported
    assert isinstance(unexpected, JobError)
    assert str(unexpected) == (
        "The caption bank broke off: KeyError: 'odd'. The captions that are embedded are kept."
    )
    told = []
    job.start(raising(InputError("no")), failed=told.append)
    threads.wait(lambda: not job.busy)
    assert (told, threads.refused) == (["no"], ["The file is empty."])


def raising(error):
    def work():
        raise error

    return work


def test_a_job_says_how_far_it_is_and_what_memory_allows(session, threads):
    job, seen, steps = session.jobs.of(job_kinds.FIND), [], Steps()

    def work():
        show(Job(text="Half", fraction=0.5, note="Not enough memory: 8 at once"))
        show(Job(text="More", fraction=0.7, note="Not enough memory: 8 at once"))
        steps()

    job.changed.connect(lambda: job.job and seen.append((job.job.text, job.job.fraction)))
    job.start(work)
    threads.wait(lambda: len(seen) > 2)
    assert seen[:3] == [("", None), ("Half", 0.5), ("More", 0.7)]
    assert threads.informed == ["Not enough memory: 8 at once"]
    steps.answer_now()
    threads.wait(lambda: not job.busy)
