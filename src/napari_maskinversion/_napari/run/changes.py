"""Finds out what has changed since the results shown were made."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from qtpy.QtCore import QObject

from ...base.errors import InputError, MaskInversionError
from ..layers.coordinates import ViewPoint
from ..run_requests.chosen_regions import chosen_ids
from ..run_requests.preparing import prepare
from ..session import Bindings, ResultRecord, Session, same_run
from ..widgets.sections import debouncer
from ..workers.worker import Worker
from .image_watch import ImageWatch

if TYPE_CHECKING:
    from ..layers.tasks import RunInput

_QUIET: Final = 500  # milliseconds without an edit


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """What differs from a record: keys of regions, and the image if it was compared."""

    record: ResultRecord
    regions: frozenset[Any]
    image: bool | None


class Changes(QObject):
    """Compares regions and image with those of the results, in a worker, after edits."""

    def __init__(self, viewer: Any, session: Session, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._viewer, self._session, self._bindings = viewer, session, Bindings()
        self._touched = False  # whether the image may have changed since it was compared
        self._record: ResultRecord | None = None  # the last one
        self._watch = ImageWatch(viewer)
        self._watch.changed.connect(self._image_touched)
        self.worker = Worker("latest", "Comparing with the results", parent=self)
        self.worker.done.connect(self._compared)
        self._pause = debouncer(self, _QUIET, self._start)

    def follow(self) -> None:
        """Follow the session."""
        events = self._session.events
        self._bindings.connect((events.layers, events.scope, events.record), self._watch_image)
        self._bindings.connect(events.record, self._record_changed)
        self._bindings.connect((events.edits, events.scope, events.record), self._later)
        self._bindings.connect((events.picks, events.scope, events.record), self._compare_choice)
        self._record_changed(self._session.record)
        self._later()

    def stop(self) -> None:
        """Follow the session no more."""
        self._bindings.release()
        self._record = None
        self._watch.drop()
        self._pause.cancel()
        self.worker.drop()

    def _watch_image(self, _: object) -> None:
        session, record = self._session, self._session.record
        if record is None or session.image is None:
            self._watch.drop()
        else:
            self._watch.watch(session.image, session.scope.channels)

    def _record_changed(self, record: ResultRecord | None) -> None:
        """Look at the image again where results come back: nobody has watched it meanwhile."""
        before, self._record = self._record, record
        if record is not None and not same_run(before, record):
            run = self._session.run
            self._touched = not (run.running and run.snapshot is record.snapshot)

    def _compare_choice(self, _: object) -> None:
        """Notice that other regions are selected in the layer than those of a limited run."""
        session, record = self._session, self._session.record
        if record is None or record.only is None:
            return
        with suppress(InputError):  # nothing is selected
            ids = chosen_ids(session.scope, session.regions)
            session.others_picked = not session.scope.ids.strip() and ids != record.only

    def _image_touched(self) -> None:
        self._touched = True
        self._later()

    def _later(self, _: object = None) -> None:
        self.worker.drop()
        record = self._session.record
        if record is not None and record.settled and record.identities and not self._session.live:
            self._pause.throttle()
        else:
            self._pause.cancel()

    def _start(self) -> None:
        session, record = self._session, self._session.record
        # Regions of another choice, or of another plane than the one shown, cannot be compared.
        if record is None or session.run.running or session.scope != record.snapshot.scope:
            return
        shown = record.finder is not None and record.finder.view == ViewPoint.of(self._viewer)
        if not (shown or record.finder.all_planes):
            return
        try:
            run_input = prepare(self._viewer, session, snapshot=False, only=record.only)
        except MaskInversionError:
            return  # a run will say it
        image = self._touched and record.fingerprint is not None
        self.worker.start(partial(_compare, run_input, record, image))

    def _compared(self, change: Change) -> None:
        record = self._session.record
        if record is None or record.identities is not change.record.identities:
            return
        self._session.changed_regions = change.regions
        if change.image is not None:
            self._touched, self._session.image_changed = False, change.image


def _compare(run_input: RunInput, record: ResultRecord, image: bool) -> Change:
    from ..layers.image_fingerprint import ImageFingerprint
    from ..layers.tasks import identities

    # Of chosen regions some may be gone, which a run would refuse.
    every = run_input if run_input.merge else replace(run_input, only=None)
    try:
        now = identities(every.tasks())
    except MaskInversionError:  # no region is left
        now = ()
    if record.only is not None and not run_input.merge:
        now = tuple(one for one in now if one.key.id in record.only)
    keys = frozenset(one.key for one in set(now) ^ set(record.painted_as or record.identities))
    return Change(
        record, keys, ImageFingerprint.of(run_input) != record.fingerprint if image else None
    )
