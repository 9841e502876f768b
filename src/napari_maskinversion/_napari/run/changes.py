"""Finds out what has changed since the results shown were made, and when the image changes."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from psygnal import Signal
from qtpy.QtCore import QObject

from ...app.layer_input.coordinates import ViewPoint
from ...app.layer_input.layer_facts import MOVES
from ...app.requests.preparing import chosen_ids, image_layers, prepare
from ...app.session import (
    ResultRecord,
    Session,
    Topic,
    job_kinds,
    only_ranked_again,
    same_run,
)
from ...base.errors import InputError, MaskInversionError
from ..widgets.layer_list import LayerEvents, layer_of
from ..widgets.sections import debouncer

if TYPE_CHECKING:
    from napari.components import ViewerModel
    from napari.layers import Image
    from napari.utils.events import Event

    from ...app.layer_input.input_pictures import Picture
    from ...app.layer_input.run_input import RunInput
    from ...app.layer_input.viewer_protocols import ImageLayer
    from ...app.requests.run_task import Request
    from ...base.identity import RegionKey

_QUIET: Final = 500  # milliseconds without an edit
_LOOKS: Final = (
    *("data", "set_data", "contrast_limits", "gamma", "colormap"),
    *("blending", "opacity", "visible", "interpolation2d"),
    *MOVES,
)


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """What differs from a record: keys of regions, and the image if it was compared."""

    regions: frozenset[RegionKey]
    image: bool | None
    pixels: bool = False  # Not only contrast, colours and the like


class Changes(Topic, QObject):
    """Compares regions and image with those of the results, in a worker, after edits."""

    def __init__(
        self, viewer: ViewerModel, session: Session, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._viewer, self._session = viewer, session
        self._touched = False  # whether the image may have changed since it was compared
        self._record: ResultRecord | None = None  # the last one
        self._watch = ImageWatch(viewer)
        self._watch.changed.connect(self._image_touched)
        self.job = session.jobs.of(job_kinds.COMPARE_WITH_RESULTS)
        self._due = False  # Whether a comparison follows after the pause
        self._pause = debouncer(self, _QUIET, self._start)

    def bind(self) -> None:
        """Follow the session."""
        run = self._session.run.events
        self.after(self._watch_image, run.layers, run.scope, run.record)
        self.after(self._record_changed, run.record)
        self.after(self._later, run.edits, run.scope)
        self.after(self._compare_choice, run.picks, run.scope, run.record)
        self.after(self._ended, self.job.ended)
        self._record_changed(self._session.run.record)
        self._later()

    def stop(self) -> None:
        """Follow the session no more."""
        super().stop()
        self._session.run.comparing = False
        self._record = None
        self._watch.drop()
        self._pause.cancel()

    def _watch_image(self, _: object) -> None:
        session, record = self._session, self._session.run.record
        if record is None or session.run.image is None:
            self._watch.drop()
        else:
            self._watch.watch(session.run.image, record.snapshot.scope.channels)

    def _record_changed(self, record: ResultRecord | None) -> None:
        """Look at the image again where results come back: nobody has watched it meanwhile."""
        before, self._record = self._record, record
        if record is not None and not same_run(before, record):
            run = self._session.run.progress
            self._touched = not (run.running and run.snapshot is record.snapshot)
        if not only_ranked_again(before, record):
            self._later()

    def _compare_choice(self, _: object) -> None:
        """Notice that other regions are selected in the layer than those of a limited run."""
        session, record = self._session, self._session.run.record
        if record is None or record.only is None:
            return
        with suppress(InputError):  # nothing is selected
            ids = chosen_ids(session.run.scope, session.run.regions)
            session.run.others_picked = not session.run.scope.ids.strip() and ids != record.only

    def _image_touched(self, event: str = "") -> None:
        self._touched = True
        if event == "data":  # other events come without a change of pixels, too
            self._session.run.comparing = True
        self._later()

    def _later(self, _: object = None) -> None:
        record = self._session.run.record
        self._due = (
            record is not None
            and record.settled
            and bool(record.identities)
            and not self._session.run.live
        )
        self.job.drop()
        if self._due:
            self._pause.throttle()
        else:
            self._pause.cancel()
            self._session.run.comparing = False

    def _ended(self) -> None:
        if not self._due:
            self._session.run.comparing = False

    def _start(self) -> None:
        self._due = False
        session, record = self._session, self._session.run.record
        run_input = None
        if record is not None and record.finder is not None and not session.run.progress.running:
            with suppress(MaskInversionError):  # a run will say it
                run_input = prepare(self._viewer, session, snapshot=False, record=record)
        if record is None or run_input is None:
            session.run.comparing = False
            return
        image = self._touched and record.shown is not None
        self.job.start(partial(_compare, run_input, record, image), self._compared)

    def _compared(self, change: Change) -> None:
        self._session.run.changed_regions = change.regions
        if change.image is not None:
            self._touched, self._session.run.image_changed = False, change.image
            self._session.run.pixels_changed = change.pixels


def _compare(run_input: RunInput, record: ResultRecord, image: bool) -> Change:
    from ...app.layer_input.run_input import changes_pixels, identities, shown_to_model

    # Of chosen regions some may be gone, which a run would refuse.
    all_regions = run_input if run_input.merge else replace(run_input, only=None)
    try:
        current = set(identities(all_regions.tasks()))
    except MaskInversionError:  # no region is left
        current = set()
    if record.only is not None and not run_input.merge:
        current = {identity for identity in current if identity.key.id in record.only}
    before = set(record.painted_as or record.identities)
    keys = frozenset(identity.key for identity in current ^ before)
    if not image:
        return Change(keys, None)
    different = record.recipe.differences(shown_to_model(run_input))
    return Change(keys, bool(different), any(map(changes_pixels, different)))


class ImageWatch:
    """Reuses one copy of the pixels while they do not change: copying blocks the GUI thread."""

    changed = Signal(str)  # the copy is out of date, after an event of a layer

    def __init__(self, viewer: ViewerModel) -> None:
        self._viewer = viewer
        self._watched: list[ImageLayer] = []
        self._all = False  # image layers are watched, also those to come
        self._kept: tuple[Picture, Image, ViewPoint, str] | None = None
        listed = dict.fromkeys(("inserted", "removed", "reordered"), self._listed)
        looks = dict.fromkeys(_LOOKS, self._looks_changed)
        self._events = LayerEvents(viewer, {**looks, **listed})

    def picture(self, image: Image, channels: str) -> Picture | None:
        """Return the copy if it shows this image as it is displayed now."""
        if self._kept is None:
            return None
        picture, *kept_for = self._kept
        if kept_for != [image, ViewPoint.of(self._viewer), channels]:
            return None
        return picture

    def keep(self, request: Request, image: Image, channels: str) -> None:
        """Keep the copy of a request, and watch the layers in it."""
        self._kept = (request.input.picture, image, request.input.view, channels)
        self.watch(image, channels)

    def watch(self, image: Image, channels: str) -> None:
        """Watch an image, or with "displayed" channels all of them."""
        self._all = channels == "displayed"
        self._watched = image_layers(self._viewer) if self._all else [image]
        self._events.connect()

    def drop(self) -> None:
        """Release the copy and the layers."""
        self._kept = None
        self._watched = []
        self._events.disconnect()

    def _listed(self, _: Event) -> None:
        if self._all and image_layers(self._viewer) != self._watched:
            self._touched("")

    def _looks_changed(self, event: Event) -> None:
        if layer_of(event) in self._watched:
            self._touched(event.type)

    def _touched(self, event: str) -> None:
        self._kept = None
        self.changed.emit(event)
