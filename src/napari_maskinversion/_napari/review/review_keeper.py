"""Opens and closes reviews of the results shown, one at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from qtpy.compat import isalive
from qtpy.QtCore import QObject, Signal

from ...base.errors import InputError, NotSavedError
from ...base.identity import ImageIdentity, RegionIdentity, identify_image
from ...base.wording import counted
from ...results.results import Results
from ...review.queue import ReviewQueue
from ...review.review import Review
from ..layers.layers import IDENTITY, file_of, levels_of
from ..widgets.sections import pause
from ..workers.worker import Worker
from .decided_layer import DecidedLayer
from .review_state import ReviewState

if TYPE_CHECKING:
    from ..session import ResultRecord

_SETTLING: Final = 20  # milliseconds

_KEEPERS: WeakSet[ReviewKeeper] = WeakSet()


@dataclass(frozen=True, slots=True, eq=False)
class ReviewTarget:
    """Results, their layers, and their regions at the start of the run."""

    results: Results
    image: Any
    layer: DecidedLayer
    regions: Mapping[Any, RegionIdentity]
    saved: bytes = b""


class ReviewKeeper(QObject):
    """Opens reviews in a worker and closes them; unsaved decisions are never dropped."""

    ready = Signal()  # There are results to review
    opened = Signal(list)  # Messages for the user; `state` is the new one
    closed = Signal()
    left = Signal(str)  # Name of a layer that was removed from the viewer, and its review with it
    opening_changed = Signal()  # `opening` may be another now
    refused = Signal(str)  # Why a review could not be opened, closed or saved

    def __init__(self, viewer: Any, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._viewer = viewer
        self.target: ReviewTarget | None = None
        self.state: ReviewState | None = None
        self.unasked = False
        self._finder = Worker("latest", "Looking for decisions", self._decided_before, parent=self)
        self.opener = Worker(
            "latest",
            "Opening the review",
            self._opened,
            self.refused,
            discard=discard_review,
            parent=self,
        )
        self._next: tuple[Any, DecidedLayer] | None = None
        # The open review, its regions, and the pixels it was opened with.
        self._open: tuple[Review, Mapping[Any, RegionIdentity], Any] | None = None
        self._settling = pause(self, _SETTLING, self._tell_opening)
        _KEEPERS.add(self)
        viewer.layers.events.removed.connect(self._layer_removed)

    @property
    def opening(self) -> bool:
        """Whether a review is being opened, or will be if there are decisions."""
        # An opener that was dropped may still hold the file.
        return self._finder.busy or self.opener.busy or not self.opener.idle

    def _tell_opening(self) -> None:
        self.opening_changed.emit()
        if self.opening:
            self._settling.start()  # a dropped opener gives no signal

    def expect(self, image: Any, regions: Any) -> None:
        """Set the layers of the next results; call it when a run begins."""
        self._next = (image, DecidedLayer(regions))

    def follow(self, record: ResultRecord) -> None:
        """Take complete results.

        A review that is open goes on with them: the same one if image and regions are the same,
        otherwise the old one is closed and a new one opened. Decisions that came with the results
        count for regions without a decision in the image's file.
        """
        results = record.results
        known = self.target is not None and self.target.results is results
        if not len(results) or known:
            return
        if self._next is not None:
            image, layer = self._next
        elif self.target is not None:
            image, layer = self.target.image, self.target.layer
        else:
            return
        if image not in self._viewer.layers or layer.layer not in self._viewer.layers:
            self._next = None
            return
        if self.target is not None and self.target.layer is not layer:
            layer.take_over(self.target.layer)
        self._next = None
        regions = {region.key: region for region in record.identities}
        self.target = ReviewTarget(results, image, layer, regions, record.decisions)
        self.ready.emit()
        if self._open is not None or self.opener.busy:
            self.begin(unasked=self.unasked)
        elif not self.target.saved and (request := self._request()) is not None:
            self._finder.start(partial(find_decisions, request))
            self._tell_opening()

    def _decided_before(self, results: Results | None) -> None:
        idle = self.state is None and not self.opener.busy
        if idle and self.target is not None and self.target.results is results:
            self.begin(unasked=True)

    def renew(self, before: Results, after: Results) -> None:
        """Continue with other limits or captions, if the target holds ``before``."""
        if self.target is None or self.target.results is not before:
            return
        self.target = replace(self.target, results=after)
        if self.state is not None and self.state.results is before:
            self.state.replace_results(after)
        elif self.opener.busy:
            self.begin(unasked=self.unasked)

    def begin(self, *, any_image: bool = False, unasked: bool = False) -> None:
        """Open a review of the target in a worker; `opened` follows.

        With ``any_image`` decisions about other pixels are taken over permanently.
        """
        self.unasked = unasked
        request = self._request(any_image)
        if self.target is None or request is None:
            return
        target, pixels = self.target, request.pixels
        kept = None
        if self._open is not None:
            review, regions, before = self._open
            same = before is pixels and regions == target.regions and not any_image
            kept = review if same else None
            if kept is None and not self.close():
                return
        close_orphaned_reviews()
        self.opener.start(partial(open_review, replace(request, review=kept)))
        self._tell_opening()

    def _request(self, any_image: bool = False) -> ReviewRequest | None:
        """Return what opens a review of the target; None if its image cannot be read."""
        target = self.target
        if target is None:
            return None
        try:
            pixels = levels_of(target.image)[0]
        except InputError as error:
            self.refused.emit(str(error))
            return None
        return ReviewRequest(
            results=target.results,
            regions=list(target.regions.values()),
            name=str(target.image.name),
            pixels=pixels,
            image=target.image.metadata.get(IDENTITY),
            file=file_of(target.image),
            any_image=any_image,
            saved=target.saved,
        )

    def save(self) -> bool:
        """Write unsaved decisions again, or report why this fails."""
        try:
            if self._open is not None:
                self._open[0].save()
        except NotSavedError as error:
            self.refused.emit(str(error))
            return False
        state, target = self.state, self.target
        if state is not None and target is not None and state.results is not target.results:
            self.begin()  # results that waited until the old decisions were saved
        return True

    def close(self, *, last: bool = False) -> bool:
        """Close the review; with unsaved decisions it stays open, unless ``last``."""
        if self._open is None:
            return True
        review = self._open[0]
        try:
            review.close()
        except NotSavedError as error:
            lost = "lost" if last else "not saved; press Save again before you go on"
            self.refused.emit(f"{error} {counted(review.unsaved, 'decision')} {lost}.")
            if not last:
                return False
            review.close(lose_unsaved=True)
        self._open = self.state = None
        self.closed.emit()
        return True

    @property
    def why_not(self) -> str:
        """Why no decision can be made now: the image is not shown; "" if one can."""
        image = None if self.target is None else self.target.image
        if image is None or image not in self._viewer.layers:
            return "The image of this review is not in the viewer; its decisions are closed."
        if not image.visible:
            return f"'{image.name}' is hidden; show it, then decide."
        return ""

    def _layer_removed(self, event: Any) -> None:
        """End the review with its layers: nothing is decided about an image that is gone."""
        target, layer = self.target, event.value
        if target is None or layer not in (target.image, target.layer.layer):
            return
        self._drop()
        self.target = None
        self.close()
        self.left.emit(str(layer.name))

    def stop(self) -> None:
        """Close the review and release the layers."""
        self._drop()
        target = self.target
        self.close(last=True)
        self.target = self._next = None
        if target is not None:
            target.layer.restore()
        self._settling.stop()

    def _drop(self) -> None:
        self.opener.drop()
        self._finder.drop()

    def _opened(self, opened: OpenedReview) -> None:
        target = self.target
        if target is None or opened.results is not target.results:
            discard_review(opened)
            return
        review = opened.review
        if opened.kept:
            review.set_info(opened.results.info)
        self._open = (review, target.regions, levels_of(target.image)[0])
        self.state = ReviewState(opened.results, review, opened.queue)
        messages = [] if opened.kept else list(review.notes)
        self.opened.emit([*messages, target.layer.note] if target.layer.note else messages)


def close_orphaned_reviews() -> None:
    """Close reviews of closed windows: a viewer does not tell its widgets that it closes."""
    for keeper in list(_KEEPERS):
        if not isalive(keeper) and keeper._open is not None:
            keeper._open[0].close(lose_unsaved=True)
            keeper._open = None


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

    @property
    def identity(self) -> ImageIdentity:
        """The image that decisions are about."""
        return self.image or identify_image(self.name, self.pixels)


@dataclass(frozen=True, slots=True, eq=False)
class OpenedReview:
    """A review and its queue."""

    results: Results
    review: Review
    queue: ReviewQueue
    kept: bool  # The review was open before


def find_decisions(opening: ReviewRequest) -> Results | None:
    """Return the results if decisions about their image are on the disk."""
    from ...review.decision_file import has_decisions

    return opening.results if has_decisions(opening.file, opening.identity) else None


def open_review(opening: ReviewRequest) -> OpenedReview:
    """Open a review."""
    from ...review.queue import ReviewQueue
    from ...review.review import Review

    results = opening.results
    queue = ReviewQueue.from_results(results)
    review = opening.review
    if review is None:
        review = Review(
            opening.identity,
            opening.regions,
            results.info,
            file=opening.file,
            any_image=opening.any_image,
        )
        if opening.any_image:
            _keep(review, review.adopt)
        if opening.saved:
            _keep(review, lambda: review.take(opening.saved, "The results file"))
    return OpenedReview(results, review, queue, opening.review is not None)


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
