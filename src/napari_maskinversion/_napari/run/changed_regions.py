"""Finds out which regions have changed since the results shown were made."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from qtpy.QtCore import QObject

from ...base.errors import MaskInversionError
from ..layers.coordinates import ViewPoint
from ..run_requests.preparing import prepare
from ..session import Bindings, Session
from ..widgets.sections import debouncer
from ..workers.worker import Worker

if TYPE_CHECKING:
    from ...base.identity import RegionIdentity
    from ..layers.tasks import RunInput

_QUIET: Final = 500  # milliseconds without an edit


class ChangedRegions(QObject):
    """Compares the regions with those of the results, in a worker, after edits.

    Parameters
    ----------
    viewer : napari.Viewer
    session : Session
    """

    def __init__(self, viewer: Any, session: Session, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._viewer, self._session, self._bindings = viewer, session, Bindings()
        self.worker = Worker("latest", "Comparing the regions", parent=self)
        self.worker.done.connect(self._compared)
        self._pause = debouncer(self, _QUIET, self._start)

    def follow(self) -> None:
        """Follow the session."""
        events = self._session.events
        self._bindings.connect((events.edits, events.record), self._later)

    def stop(self) -> None:
        """Follow the session no more."""
        self._bindings.release()
        self._pause.cancel()
        self.worker.drop()

    def _later(self, _: object) -> None:
        self.worker.drop()
        record = self._session.record
        if record is not None and record.settled and record.identities and not self._session.live:
            self._pause.throttle()
        else:
            self._pause.cancel()

    def _start(self) -> None:
        session, record = self._session, self._session.record
        # Chosen regions, and those of another plane than the one shown, cannot be compared.
        if record is None or record.snapshot.scope.limited or session.run.running:
            return
        shown = record.finder is not None and record.finder.view == ViewPoint.of(self._viewer)
        if session.scope != record.snapshot.scope or not (shown or record.finder.all_planes):
            return
        try:
            run_input = prepare(self._viewer, session, snapshot=False)
        except MaskInversionError:
            return  # a run will say it
        self.worker.start(partial(_changed, run_input, record.identities))

    def _compared(self, answer: tuple[object, frozenset[Any]]) -> None:
        compared, changed = answer
        record = self._session.record
        if record is not None and record.identities is compared:
            self._session.changed_regions = changed


def _changed(
    run_input: RunInput, before: tuple[RegionIdentity, ...]
) -> tuple[object, frozenset[Any]]:
    """Return the identities that were compared, and the keys of changed regions."""
    from ..layers.tasks import identities

    try:
        now = identities(run_input.tasks())
    except MaskInversionError:  # no region is left
        now = ()
    return before, frozenset(one.key for one in set(now) ^ set(before))
