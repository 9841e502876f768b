"""Work of a review outside the GUI thread: opening, and learning from decisions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...base.errors import NotSavedError
from .learning import Learned, learn, learner_of

if TYPE_CHECKING:
    from ...base.identity import ImageIdentity, RegionIdentity
    from ...results.results import Results
    from ...review.exemplars import Exemplars, Learner
    from ...review.queue import ReviewQueue
    from ...review.review import Review


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ReviewRequest:
    """Input for opening a review."""

    results: Results
    regions: Sequence[RegionIdentity]  # At the start of the run
    name: str  # Of the image
    pixels: Any  # All of it, at full resolution
    file: Path | None  # The image's file
    image: ImageIdentity | None = None  # Of the image, if the pixels are not all of it
    review: Review | None = None  # An open one of the same image and regions
    any_image: bool = False  # Take over decisions about other pixels
    saved: bytes = b""  # Decisions that came with the results


@dataclass(frozen=True, slots=True, eq=False)
class OpenedReview:
    """A review, its queue, and its learner (None without labels).

    ``kept`` if the review was open before.
    """

    results: Results
    review: Review
    queue: ReviewQueue
    learner: Learner | None
    kept: bool


def find_decisions(opening: ReviewRequest) -> Results | None:
    """Return the results if decisions about their image are on the disk."""
    from ...base.identity import identify_image
    from ...review.decision_file import has_decisions

    image = opening.image or identify_image(opening.name, opening.pixels)
    return opening.results if has_decisions(opening.file, image) else None


def open_review(opening: ReviewRequest) -> OpenedReview:
    """Open a review."""
    from ...base.identity import identify_image
    from ...review.queue import ReviewQueue
    from ...review.review import Review

    results = opening.results
    queue = ReviewQueue.from_results(results)
    review = opening.review
    if review is None:
        image = opening.image or identify_image(opening.name, opening.pixels)
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
    return OpenedReview(results, review, queue, learner_of(results), opening.review is not None)


def _keep(review: Review, act: Callable[[], Any]) -> None:
    try:
        act()
    except NotSavedError:
        pass  # they count; the next decision writes them
    except BaseException:
        review.close(lose_unsaved=True)
        raise


def discard_review(opened: OpenedReview) -> None:
    """Close an abandoned review, so that others can review the image."""
    if not opened.kept:
        opened.review.close(lose_unsaved=True)


@dataclass(frozen=True, slots=True, eq=False)
class LearningTask:
    """Input for learning."""

    learner: Learner
    exemplars: Exemplars
    weight: float
    results: Results


def rank_with_exemplars(lesson: LearningTask) -> tuple[Results, Learned]:
    """Score all rows; also return the results they belong to."""
    learned = learn(lesson.learner, lesson.exemplars, lesson.weight, lesson.results)
    return lesson.results, learned
