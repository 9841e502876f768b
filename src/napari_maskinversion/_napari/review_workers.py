"""What a review does beside the GUI thread: opening, and learning from decisions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from napari.qt.threading import thread_worker
from qtpy.QtCore import QObject, Signal

from ..core.errors import InputError, MaskInversionError
from .learning import Learned, learn
from .notify import report
from .working import Failed, JobError

if TYPE_CHECKING:
    from ..results import Results
    from ..review.exemplars import Exemplars, Learner
    from ..review.identity import RegionIdentity
    from ..review.queue import ReviewQueue
    from ..review.session import Review


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Opening:
    """What a review is opened with.

    Parameters
    ----------
    results : Results
    regions : sequence of RegionIdentity
        As they were when the run began.
    name : str
        Of the image.
    pixels : array-like
        All of it, at full resolution.
    file : Path or None
        Where it came from.
    review : Review or None
        One that is open for the same image and regions.
    """

    results: Results
    regions: Sequence[RegionIdentity]
    name: str
    pixels: Any
    file: Path | None
    review: Review | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Opened:
    """A review, its queue, and what re-ranks its suggestions (None without labels).

    ``kept`` where the review was open before.
    """

    results: Results
    review: Review
    queue: ReviewQueue
    learner: Learner | None
    kept: bool


def open_review(opening: Opening) -> Opened | Failed:
    """Open a review; `Failed` for reasons that a user can act on."""
    from ..review.exemplars import Learner
    from ..review.identity import identify_image
    from ..review.queue import ReviewQueue
    from ..review.session import Review

    results = opening.results
    try:
        queue = ReviewQueue.from_results(results)
        try:
            learner = Learner.from_results(results)
        except InputError:
            learner = None
        review = opening.review
        if review is None:
            image = identify_image(opening.name, opening.pixels)
            review = Review(image, opening.regions, results.info, file=opening.file)
    except (MaskInversionError, OSError) as error:
        return Failed(str(error))
    except RuntimeError as error:  # a worker swallows these
        raise JobError(f"The review could not be opened: {error}") from error
    return Opened(results, review, queue, learner, opening.review is not None)


class _Work(QObject):
    """One function at a time in a worker; asked again meanwhile, the last question counts."""

    done = Signal(object)
    ended = Signal()

    def __init__(self, function: Callable[[Any], Any], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._function = function
        self._worker: Any = None
        self._waiting: list[Any] = []
        self._number = 0

    @property
    def busy(self) -> bool:
        """Whether something is under way."""
        return self._worker is not None

    def ask(self, given: Any) -> None:
        """Ask for something; the answer to an older question is dropped."""
        self._number += 1
        self._waiting = [given]
        self._begin()

    def drop(self) -> None:
        """Want no answer any more."""
        self._number += 1
        self._waiting = []

    def unwanted(self, answer: Any) -> None:
        """Take an answer that nobody waits for."""

    def _begin(self) -> None:
        if self._worker is not None or not self._waiting:
            return
        # In a list that is emptied: napari keeps every worker as long as its window lives.
        box = [(self._number, self._function, self._waiting.pop())]
        # Bound methods of a QObject: called on the main thread, whichever Qt is in use.
        self._worker = thread_worker(_answer, ignore_errors=True)(box)
        self._worker.returned.connect(self._returned)
        self._worker.errored.connect(report)
        self._worker.finished.connect(self._finished)
        self._worker.start()

    def _returned(self, numbered: tuple[int, Any]) -> None:
        number, answer = numbered
        if number == self._number:
            self.done.emit(answer)
        else:
            self.unwanted(answer)

    def _finished(self) -> None:
        self._worker = None
        if self._waiting:
            self._begin()
        else:
            self.ended.emit()


def _answer(box: list[tuple[int, Callable[[Any], Any], Any]]) -> tuple[int, Any]:
    number, function, given = box.pop()
    return number, function(given)


class Opener(_Work):
    """Opens reviews."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(open_review, parent)

    def unwanted(self, answer: Any) -> None:
        """Let others review that image."""
        if isinstance(answer, Opened) and not answer.kept:
            answer.review.close(lose_unsaved=True)


@dataclass(frozen=True, slots=True, eq=False)
class Lesson:
    """What is to be learned from."""

    learner: Learner
    exemplars: Exemplars
    weight: float
    results: Results


def take_lesson(lesson: Lesson) -> tuple[Results, Learned]:
    """Score everything anew; says for which results."""
    try:
        found = learn(lesson.learner, lesson.exemplars, lesson.weight, lesson.results)
    except RuntimeError as error:
        raise JobError(f"Learning from decisions broke off: {error}") from error
    return lesson.results, found


class Learning(_Work):
    """Re-ranks suggestions."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(take_lesson, parent)
