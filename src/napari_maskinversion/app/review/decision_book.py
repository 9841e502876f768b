"""One book of decisions: about images whose review is open, and about all others in their files.

A review that is open locks the file of its image, so only itself can decide about that image, and
only in the thread that has it. The book knows these reviews. `DecisionBook.start` decides in them,
`DecisionTask.run` decides in the files, which may take long and belongs into a worker, and
`DecisionBook.finish` tells everybody. `DecisionBook.apply` does all three.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Final

from psygnal import Signal

from ...base.errors import Cancelled, InputError, InUseError, MaskInversionError
from ...base.identity import ImagePlace, RegionKey
from ...base.wording import one_line
from ...review.decisions import Step
from ...review.review import sync_together
from ...review.stored_images import DecidedImage, StoredImages, Summary
from ..work.driver import Job, show
from .decision_requests import (
    SHOWN,
    DecisionOutcome,
    DecisionRequest,
    Request,
    TakeBackRequest,
)
from .review_state import ReviewState

# So many images share one wait for the disk; their files stay locked until then.
_SAVED_TOGETHER: Final = 20
IN_REVIEW: Final = "it is under review, here or in another window"
Summaries = Mapping[str, Summary]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class OpenReview:
    """A review that is open, and what the window around it says about its image."""

    state: ReviewState
    place: ImagePlace
    why_not: Callable[[Sequence[int]], str]  # Why rows cannot be decided now; "" if they can
    staleness: Callable[[], str]  # What has changed since the suggestions were made
    changed: Callable[[], Collection[RegionKey]]  # Regions that have changed since

    def decide(self, request: DecisionRequest, name: str) -> Step:
        """Decide about regions that are as they were seen."""
        wanted = set(request.regions[name])
        changed = self.changed()
        rows = [row for row, key in enumerate(self.state.queue.keys) if key in wanted]
        unchanged = [row for row in rows if self.state.queue.keys[row] not in changed]
        self._check(unchanged or rows)
        return self.state.decide(request, name, changed)

    def accept_word(self, word: str, confidence: float) -> Step:
        """Accept a word wherever it is suggested so surely."""
        if stale := self.staleness():
            raise InputError(f"the suggestions are old ({stale})")
        rows = self.state.above(word, confidence)
        if not rows:
            return ()
        self._check(rows)
        return self.state.accept_rows(rows)

    def take_back(self, step: Step) -> Step:
        """Take back a step, except where a later decision exists."""
        self._check(())
        return self.state.take_back(step)

    def _check(self, rows: Sequence[int]) -> None:
        if problem := self.why_not(rows):
            raise InputError(problem)


class DecisionTask:
    """A request while it is carried out, and what has come of it so far."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.pending = list(request.images)  # Images about which nothing is decided yet
        self.try_again: list[str] = []  # Images whose file somebody else has locked
        self.stopped = False
        self.project_closed = False  # Whether another project was opened meanwhile
        self._steps: dict[str, Step] = {}
        self._problems: dict[str, str] = {}
        self._notes: dict[str, str] = {}
        self._settled: set[str] = set()

    @property
    def outcome(self) -> DecisionOutcome:
        """What has come of the request."""
        return DecisionOutcome(
            request=self.request,
            places=self.request.images,
            source=self.request.source,
            steps=dict(self._steps),
            problems=dict(self._problems),
            notes=dict(self._notes),
            reached=frozenset(self._settled - self._problems.keys()),
            stopped=self.stopped,
            project_closed=self.project_closed,
        )

    def decide_in_review(self, name: str, review: OpenReview) -> Step:
        """Decide about an image in its open review."""
        self._problems.pop(name, None)
        try:
            step = self.request.decide_in_review(name, review)
        except InputError as error:
            self._problems[name] = str(error)
            return ()
        self._take(name, step)
        if step and review.state.left_out:
            self._notes[name] = review.state.left_out
        if review.state.problem:  # the decision counts, and is written with the next one
            self._problems[name] = review.state.problem
        return step

    def run(self, tell: Callable[[Summaries], object] = show) -> None:
        """Decide about pending images in their files; tell of the counts of those images.

        Stopped by `Cancelled`, it keeps what was decided so far.
        """
        source = self.request.source
        if source is None or not self.pending:
            return
        total = len(self.pending)
        decided: list[DecidedImage] = []  # Their files are locked, and not on the disk yet
        try:
            images = source.open(self.pending)
            try:
                while self.pending:
                    name = self.pending[0]
                    image = self._decide_in_file(images, name)
                    if image is not None:
                        decided.append(image)
                    del self.pending[0]
                    if len(decided) >= _SAVED_TOGETHER:
                        tell(self._save(images, decided))
                    number = total - len(self.pending)
                    show(partial(Job, f"Image {number:,} of {total:,}: {name}", number / total))
            finally:  # also where somebody has pressed Cancel
                summaries = self._save(images, decided)
            tell(summaries)
        except Cancelled:
            self.stopped = True

    def _decide_in_file(self, images: StoredImages, name: str) -> DecidedImage | None:
        """Decide about one image; one that cannot be decided about stops none of the others."""
        try:
            regions = self.request.regions_of(name, images.regions(name))
            if regions:
                review = images.review(name, fresh=self.request.needs_fresh)
                try:
                    step = self.request.decide_in_file(name, regions, review)
                except BaseException:
                    review.close(lose_unsaved=True)
                    raise
                if step:
                    return DecidedImage(name, review, regions, step)
                review.close()
            self._settled.add(name)
        except InUseError:
            self._problems[name] = IN_REVIEW
            self.try_again.append(name)
        except (MaskInversionError, OSError) as error:
            self._problems[name] = one_line(error)
        return None

    def _save(self, images: StoredImages, decided: list[DecidedImage]) -> Summaries:
        """Bring decisions to the disk, then to what is stored, and close their files.

        From here on they count: only what is on the disk is part of the outcome.
        """
        summaries: dict[str, Summary] = {}
        try:
            errors = sync_together([image.review for image in decided])
            for image in decided:
                error = errors.get(image.review)
                if error is not None:
                    self._problems[image.name] = one_line(error)
            saved = [image for image in decided if image.review not in errors]
            for image in saved:
                self._take(image.name, image.step)
            if saved:
                self._problems |= images.keep(saved)
            for image in saved:
                summary = images.summary(image.name)
                if summary is not None:
                    summaries[image.name] = summary
        finally:
            for image in decided:
                image.review.close(lose_unsaved=True)
            decided.clear()
        return summaries

    def _take(self, name: str, step: Step) -> None:
        self._settled.add(name)
        if step:
            self._steps[name] = step


class DecisionBook:
    """Decides about regions of any images, and tells everybody what was decided.

    Only `DecisionTask.run` may be called outside the thread of the open reviews.
    """

    changed: ClassVar[Signal] = Signal(DecisionOutcome)

    def __init__(self) -> None:
        self._open: list[OpenReview] = []

    def register(self, review: OpenReview) -> None:
        """Take note of a review that is open."""
        self._open.append(review)

    def release(self, state: ReviewState) -> None:
        """Forget a review that is closed."""
        self._open = [review for review in self._open if review.state is not state]

    def review_at(self, place: ImagePlace) -> OpenReview | None:
        """Return the open review of an image."""
        for review in self._open:
            if review.place == place:
                return review
        return None

    def start(self, request: Request) -> DecisionTask:
        """Decide in open reviews and tell of that, now; `DecisionTask.run` decides in files."""
        task = DecisionTask(request)
        self._decide_in_reviews(task, task.pending)
        return task

    def _decide_in_reviews(self, task: DecisionTask, names: list[str]) -> None:
        """Decide about those images whose review is open, and take them off the list."""
        for name in list(names):
            place = task.request.images[name]
            if task.request.source is not None and not place.path:
                continue  # it is not known where: the place of each image without a file
            review = self.review_at(place)
            if review is not None:
                self.tell(review.state, task.decide_in_review(name, review))
                names.remove(name)

    def finish(self, task: DecisionTask) -> DecisionOutcome:
        """Decide in reviews that were opened meanwhile, and tell everybody of the outcome."""
        self._decide_in_reviews(task, task.try_again)
        outcome = task.outcome
        self.changed.emit(outcome)
        return outcome

    def apply(self, request: Request) -> DecisionOutcome:
        """Decide about images, whether their reviews are open or not."""
        task = self.start(request)
        task.run()
        return self.finish(task)

    def take_back(self, outcome: DecisionOutcome) -> DecisionOutcome:
        """Take back an outcome, except where a later decision exists."""
        return self.apply(TakeBackRequest(outcome))

    def tell(self, state: ReviewState, step: Step) -> None:
        """Report what was decided in the open review without a request."""
        for review in self._open:
            if review.state is state and step:
                places = {SHOWN: review.place}
                self.changed.emit(DecisionOutcome(places=places, steps={SHOWN: step}))
