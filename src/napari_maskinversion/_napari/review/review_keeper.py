"""Opens and closes reviews of the results shown, one at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from weakref import WeakSet

from qtpy.compat import isalive
from qtpy.QtCore import QObject, Signal

from ...app.layer_input.layer_facts import IDENTITY, file_of, levels_of, place_of_image
from ...app.layer_input.layer_features import FeatureWriter
from ...app.layer_input.viewer_protocols import RegionsLayer
from ...app.review.decision_book import IN_REVIEW, OpenReview
from ...app.review.review_state import ReviewState
from ...app.review.review_target import ReviewTarget
from ...app.session import job_kinds, outdated, staleness
from ...base.errors import InputError, NotSavedError
from ...base.identity import (
    ImageIdentity,
    ImagePlace,
    RegionIdentity,
    RegionKey,
    identify_image,
)
from ...base.wording import counted
from ...images.lazy_plane import ArrayLike
from ...results.results import Results
from ...review.queue import ReviewQueue
from ...review.review import Review
from ..widgets.sections import pause

if TYPE_CHECKING:
    from napari.components import ViewerModel
    from napari.layers import Image
    from napari.utils.events import Event

    from ...app.session import ResultRecord, Session

_SETTLING: Final = 20  # milliseconds

_KEEPERS: WeakSet[ReviewKeeper] = WeakSet()  # those with an open review


class ReviewKeeper(QObject):
    """Opens reviews in a worker and closes them; unsaved decisions are never dropped.

    The session has the open review, and what one can be opened of.
    """

    ready = Signal()  # There are results to review
    opened = Signal(list)  # Messages for the user; `state` is the new one
    closed = Signal()
    left = Signal(str)  # Name of a layer that was removed from the viewer, and its review with it
    refused = Signal(str)  # Why a review could not be opened, closed or saved

    def __init__(
        self, viewer: ViewerModel, session: Session, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._viewer, self._session = viewer, session
        self.unasked = False
        self._finder = session.jobs.of(job_kinds.FIND_DECISIONS)
        self._opener = session.jobs.of(job_kinds.OPEN_REVIEW)
        # Image and regions of the next results
        self._next: tuple[Image, FeatureWriter] | None = None
        # Regions and pixels that the open review was opened with.
        self._regions: Mapping[RegionKey, RegionIdentity] = {}
        self._pixels: ArrayLike | None = None
        self._settling = pause(self, _SETTLING, self._tell_opening)
        viewer.layers.events.removed.connect(self._layer_removed)

    @property
    def state(self) -> ReviewState | None:
        """The open review."""
        return self._session.review.state

    @property
    def target(self) -> ReviewTarget | None:
        """What a review can be opened of."""
        return self._session.review.target

    @property
    def is_opening(self) -> bool:
        """Whether a review of the target is being opened."""
        return self._opener.busy

    def _tell_opening(self) -> None:
        # An opener that was dropped may still hold the file, and gives no signal.
        opening = self._finder.busy or self._opener.busy or not self._opener.idle
        self._session.review.opening = opening
        if opening:
            self._settling.start()

    def expect(self, image: Image, regions: RegionsLayer) -> None:
        """Set the layers of the next results; call it when a run begins."""
        self._next = (image, FeatureWriter(regions))

    def follow(self, record: ResultRecord) -> None:
        """Take complete results.

        A review that is open goes on with them: the same one if image and regions are the same,
        otherwise the old one is closed and a new one opened. Decisions that came with the results
        count for regions without a decision in the image's file.
        """
        results, before = record.results, self.target
        known = before is not None and before.results is results
        if not len(results) or known:
            return
        following, self._next = self._next, None
        if following is not None:
            image, features = following
        elif before is not None:
            image, features = before.image, before.features
        else:
            return
        if image not in self._viewer.layers or features.layer not in self._viewer.layers:
            return
        regions = {region.key: region for region in record.identities}
        self._session.review.target = ReviewTarget(
            results, image, features, regions, record.decisions
        )
        self.ready.emit()
        if self.state is not None or self._opener.busy:
            self.begin(unasked=self.unasked)
        elif not record.decisions and (request := self._request()) is not None:
            self._finder.start(partial(find_decisions, request), self._decided_before)
            self._tell_opening()

    def _decided_before(self, decided: bool) -> None:
        if decided and self.state is None and not self._opener.busy:
            self.begin(unasked=True)

    def renew(self, before: Results, after: Results) -> None:
        """Continue with other limits or captions, if the target holds ``before``."""
        if self.target is None or self.target.results is not before:
            return
        self._session.review.target = replace(self.target, results=after)
        if self.state is not None and self.state.results is before:
            self.state.replace_results(after, time.monotonic())
        elif self._opener.busy:
            self.begin(unasked=self.unasked)

    def begin(self, *, any_image: bool = False, unasked: bool = False) -> bool:
        """Open a review of the target in a worker; `opened` follows.

        Return False where none can be opened; `refused` has told why.
        With ``any_image`` decisions about other pixels are taken over permanently.
        """
        self.unasked = unasked
        self._opener.drop()
        request, state = self._request(any_image), self.state
        if request is None:
            return False
        if state is not None:
            same = self._pixels is request.pixels and self._regions == request.regions
            if same and not any_image:
                request = replace(request, review=state.review)
            elif not self.close():
                return False
        close_orphaned_reviews()
        is_started = self._opener.start(
            partial(open_review, request),
            self._opened,
            failed=self.refused.emit,
            discard=_discard,
        )
        self._tell_opening()
        return is_started

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
            regions=target.regions,
            name=str(target.image.name),
            pixels=pixels,
            image=target.image.metadata.get(IDENTITY),
            file=file_of(target.image),
            any_image=any_image,
            saved=target.saved,
        )

    def save(self) -> bool:
        """Write unsaved decisions again, or report why this fails."""
        state, target = self.state, self.target
        try:
            if state is not None:
                state.review.save()
        except NotSavedError as error:
            self.refused.emit(str(error))
            return False
        if state is not None and target is not None and state.results is not target.results:
            self.begin()  # results that waited until the old decisions were saved
        return True

    def close(self, *, last: bool = False) -> bool:
        """Close the review; with unsaved decisions it stays open, unless ``last``."""
        if self.state is None:
            return True
        review = self.state.review
        try:
            review.close()
        except NotSavedError as error:
            lost = "lost" if last else "not saved; press Save again before you go on"
            self.refused.emit(f"{error} {counted(review.unsaved, 'decision')} {lost}.")
            if not last:
                return False
            review.close(lose_unsaved=True)
        self._session.decisions.release(self.state)
        self._session.review.state = self._pixels = None
        _KEEPERS.discard(self)
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

    def _layer_removed(self, event: Event) -> None:
        """End the review with its layers: nothing is decided about an image that is gone."""
        target, layer = self.target, event.value
        if target is None or layer not in (target.image, target.layer):
            return
        self._opener.drop()
        self._session.review.target = None
        self.close()
        self.left.emit(str(layer.name))

    def stop(self) -> None:
        """Close the review and release the layers."""
        self.close(last=True)
        self._session.review.target = self._next = None
        self._settling.stop()
        self._session.review.opening = False

    def _opened(self, opened: OpenedReview) -> None:
        request, review, queue = opened
        target = self.target
        assert target is not None  # without one the opener is dropped
        if opened.kept:
            review.set_info(request.results.info.without_decisions)
        self._regions, self._pixels = request.regions, request.pixels
        before, state = self.state, ReviewState(request.results, review, queue)
        if before is not None:
            self._session.decisions.release(before)
        self._session.review.state = state
        self._register(state, place_of(target))
        _KEEPERS.add(self)
        messages = [] if opened.kept else list(review.notes)
        if target.features.note:
            messages.append(target.features.note)
        self.opened.emit(messages)

    def _register(self, state: ReviewState, place: ImagePlace) -> None:
        """Let the book of decisions know that this review locks the decisions about its image."""
        run = self._session.run

        def why_not(rows: Sequence[int]) -> str:
            if self._session.reviewed is not state:
                return IN_REVIEW
            return self.why_not or outdated(self._session, rows)

        review = OpenReview(
            state=state,
            place=place,
            why_not=why_not,
            staleness=lambda: staleness(self._session).text,
            changed=lambda: run.changed_regions,
        )
        self._session.decisions.register(review)


def place_of(target: ReviewTarget) -> ImagePlace:
    """Return where the image of a review is; one without a file has an empty place."""
    return place_of_image(target.image) or ImagePlace("")


def close_orphaned_reviews() -> None:
    """Close reviews of closed windows: a viewer does not tell its widgets that it closes."""
    for keeper in [one for one in _KEEPERS if not isalive(one)]:
        _KEEPERS.discard(keeper)
        if keeper.state is not None:
            keeper.state.review.close(lose_unsaved=True)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ReviewRequest:
    """Input for opening a review."""

    results: Results
    regions: Mapping[RegionKey, RegionIdentity]  # At the start of the run
    name: str  # Of the image
    pixels: ArrayLike  # All of it, at full resolution
    file: Path | None  # The image's file
    image: ImageIdentity | None = None  # Of the image, if the pixels are not all of it
    review: Review | None = None  # An open one of the same image and regions
    any_image: bool = False  # Take over decisions about other pixels
    saved: bytes = b""  # Decisions that came with the results

    @property
    def identity(self) -> ImageIdentity:
        """The image that decisions are about."""
        return self.image or identify_image(self.name, self.pixels)


class OpenedReview(NamedTuple):
    """A review and its queue."""

    request: ReviewRequest
    review: Review
    queue: ReviewQueue

    @property
    def kept(self) -> bool:
        """Whether the review was open before."""
        return self.review is self.request.review


def find_decisions(opening: ReviewRequest) -> bool:
    """Return whether decisions about the image are on the disk."""
    from ...review.decision_file import has_decisions

    return has_decisions(opening.file, opening.identity)


def open_review(opening: ReviewRequest) -> OpenedReview:
    """Open a review."""
    from ...review.queue import ReviewQueue
    from ...review.review import Review

    results, review = opening.results, opening.review
    queue = ReviewQueue.from_results(results)
    if review is None:
        review = Review(
            opening.identity,
            list(opening.regions.values()),
            results.info.without_decisions,
            file=opening.file,
            any_image=opening.any_image,
        )
        if opening.any_image:
            _keep(review, review.adopt)
        if opening.saved:
            _keep(review, lambda: review.take(opening.saved, "The results file"))
    return OpenedReview(opening, review, queue)


def _keep(review: Review, act: Callable[[], object]) -> None:
    try:
        act()
    except NotSavedError:
        pass  # they count; the next decision writes them
    except BaseException:
        review.close(lose_unsaved=True)
        raise


def _discard(opened: OpenedReview) -> None:
    """Close an abandoned review, so that others can review the image."""
    if not opened.kept:
        opened.review.close(lose_unsaved=True)
