"""What a review does beside the GUI thread: opening, and learning from decisions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qtpy.QtCore import QObject

from ...base.errors import InputError, MaskInversionError, NotSavedError
from ..workers.latest import Latest
from ..workers.worker_errors import Failed, JobError
from .learning import Learned, learn

if TYPE_CHECKING:
    from ...base.identity import RegionIdentity
    from ...results.results import Results
    from ...review.exemplars import Exemplars, Learner
    from ...review.queue import ReviewQueue
    from ...review.review import Review


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ReviewRequest:
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
    any_image : bool
        Take over decisions about other pixels.
    saved : bytes
        Decisions that came with the results.
    """

    results: Results
    regions: Sequence[RegionIdentity]
    name: str
    pixels: Any
    file: Path | None
    review: Review | None = None
    any_image: bool = False
    saved: bytes = b""


@dataclass(frozen=True, slots=True, eq=False)
class OpenedReview:
    """A review, its queue, and what re-ranks its suggestions (None without labels).

    ``kept`` where the review was open before.
    """

    results: Results
    review: Review
    queue: ReviewQueue
    learner: Learner | None
    kept: bool


def open_review(opening: ReviewRequest) -> OpenedReview | Failed:
    """Open a review; `Failed` for reasons that a user can act on."""
    from ...base.identity import identify_image
    from ...review.exemplars import Learner
    from ...review.queue import ReviewQueue
    from ...review.review import Review

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
            review = Review(
                image,
                opening.regions,
                results.info,
                file=opening.file,
                any_image=opening.any_image,
            )
            if opening.any_image:
                _keep(review, review.adopt)
            if opening.saved:
                _keep(review, lambda: review.take(opening.saved, "The results file"))
    except (MaskInversionError, OSError) as error:
        return Failed(str(error))
    except RuntimeError as error:  # a worker swallows these
        raise JobError(f"The review could not be opened: {error}") from error
    return OpenedReview(results, review, queue, learner, opening.review is not None)


def _keep(review: Review, act: Callable[[], Any]) -> None:
    try:
        act()
    except NotSavedError:
        pass  # they count, and are written with the next decision
    except BaseException:
        review.close(lose_unsaved=True)
        raise


class ReviewOpener(Latest):
    """Opens reviews."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(open_review, parent)

    def unwanted(self, answer: Any) -> None:
        """Let others review that image."""
        if isinstance(answer, OpenedReview) and not answer.kept:
            answer.review.close(lose_unsaved=True)


@dataclass(frozen=True, slots=True, eq=False)
class LearningTask:
    """What is to be learned from."""

    learner: Learner
    exemplars: Exemplars
    weight: float
    results: Results


def rank_with_exemplars(lesson: LearningTask) -> tuple[Results, Learned]:
    """Score everything anew; says for which results."""
    try:
        found = learn(lesson.learner, lesson.exemplars, lesson.weight, lesson.results)
    except RuntimeError as error:
        raise JobError(f"Learning from decisions broke off: {error}") from error
    return lesson.results, found


class Learning(Latest):
    """Re-ranks suggestions."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(rank_with_exemplars, parent)
