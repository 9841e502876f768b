"""Keeps what somebody draws on an image of a project, whatever layer has it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final
from weakref import ref

from qtpy.QtCore import QObject, QTimer, Signal

from ...base.errors import MaskInversionError
from ..layers.layers import EDITS, MOVES, is_regions
from ..session import Bindings, Session
from ..widgets.sections import debouncer
from ..workers.notify import inform, refuse
from ..workers.worker import Worker
from .own_layers import ShownImage, check_planes, regions_to_save
from .project_disk import KeptRegions, ProjectDisk

_DRAWN: Final = 300  # milliseconds after the last stroke until regions are written


class RegionKeeper(QObject):
    """Follows edits of all layers that hold regions of the image shown, and has them written."""

    written = Signal(object)
    refused = Signal()
    layer_leaving = Signal()

    def __init__(self, viewer: Any, session: Session, writing: Worker, parent: QObject) -> None:
        super().__init__(parent)
        self._viewer, self._session, self._writing = viewer, session, writing
        self._bindings = Bindings()
        self._shown: ShownImage | None = None
        self._disk: ProjectDisk | None = None
        self._edits = self._kept_edits = 0  # and how many of them are on the disk
        self._saving = 0  # copies on their way to the disk
        self._then: Callable[[], object] | None = None  # once all are there
        self._watched: list[Any] = []
        self.later = debouncer(self, _DRAWN, self._save)
        writing.done.connect(self._outcome)
        writing.ended.connect(self._all_written)

    # -- life ---------------------------------------------------------------------------------

    def follow(self) -> None:
        """Follow the session and the viewer."""
        self._bindings.connect(self._session.events.layers, self._chosen)
        for emitter, slot in self._list_events():
            emitter.connect(slot)
        self._watch()
        self._edited()  # perhaps, while nobody followed

    def stop(self) -> None:
        """Follow them no more; what is being written is written."""
        self._bindings.release()
        for emitter, slot in self._list_events():
            emitter.disconnect(slot)
        self._watch(released=True)
        self._saving, self._then = 0, None

    def _list_events(self) -> tuple[tuple[Any, Callable[[Any], None]], ...]:
        events = self._viewer.layers.events
        return (
            (events.inserted, self._layer_added),
            (events.removing, self._layer_leaving),
            (events.removed, self._layer_removed),
        )

    # -- the image ----------------------------------------------------------------------------

    def show(self, shown: ShownImage | None, disk: ProjectDisk | None) -> None:
        """Follow an image in place of the one before; its regions are on the disk."""
        self._shown, self._disk = shown, disk
        self._watch()
        self._kept_edits = self._edits

    @property
    def layers(self) -> list[Any]:
        """The layers that hold regions of the image; its own one comes first."""
        shown = self._shown
        return [] if shown is None else shown.region_layers(self._viewer, self._session)

    @property
    def is_kept(self) -> bool:
        """Whether the regions of the image are on the disk."""
        return self._shown is None or self._edits == self._kept_edits

    def flush(self) -> None:
        """Begin to write what is not on the disk yet, also what was refused before."""
        self.later.flush()
        if not self.is_kept and not self._saving:
            self._save()

    def when_kept(self, then: Callable[[], object]) -> None:
        """Call a function, once all is on the disk; never, if that is refused."""
        self._then = None
        if self.is_kept:
            then()
        else:
            self._then = then
            self.flush()

    def _own(self) -> ShownImage | None:
        """Return the image, if it is the one chosen."""
        shown = self._shown
        return shown if shown is not None and self._session.image in shown.images else None

    # -- its layers ---------------------------------------------------------------------------

    def _watch(self, *, released: bool = False) -> None:
        """Follow edits of all layers that hold its regions."""
        layers = [] if released else self.layers
        changed = [(one, "disconnect") for one in self._watched if one not in layers]
        changed += [(one, "connect") for one in layers if one not in self._watched]
        for layer, act in changed:
            for name in (*EDITS, *MOVES):
                emitter = getattr(layer.events, name, None)
                if emitter is not None:
                    getattr(emitter, act)(self._edited)
        self._watched = layers

    def _chosen(self, _: object = None) -> None:
        """Take other regions that are chosen for the image as regions of it."""
        shown, layer = self._own(), self._session.regions
        if shown is None or layer is None:
            return
        if layer not in self.layers:
            if shown.labels not in self._viewer.layers:
                return  # taken by itself, in place of the image's own
            try:
                check_planes(self._viewer, shown, layer)
            except MaskInversionError as error:
                # Later: another choice takes back what was said before it.
                QTimer.singleShot(0, partial(refuse, str(error)))
                return
            shown.also.append(layer)
        if layer not in self._watched:
            self._watch()
            self._edited()

    def _layer_added(self, event: Any) -> None:
        """Say where regions that somebody draws on a layer of his own belong."""
        if self._own() is not None and is_regions(event.value):
            QTimer.singleShot(0, partial(self._tell_of, ref(event.value)))

    def _tell_of(self, reference: Callable[[], Any]) -> None:
        shown, layer = self._own(), reference()
        if shown is None or layer not in self._viewer.layers or layer in self.layers:
            return
        inform(
            f"'{layer.name}' does not belong to {shown.name} yet; choose it under Regions to "
            "keep what you draw there with the image."
        )

    def _layer_leaving(self, event: Any) -> None:
        shown, layer = self._shown, self._viewer.layers[event.index]
        if shown is not None and (layer in shown.images or layer in self.layers):
            self.layer_leaving.emit()

    def _layer_removed(self, _: Any) -> None:
        # Later: a viewer that closes removes all layers, and that deletes no regions.
        QTimer.singleShot(0, self._layer_gone)

    def _layer_gone(self) -> None:
        if self._shown is not None and set(self._watched) - set(self.layers):
            self._watch()
            self._edited()

    # -- to the disk --------------------------------------------------------------------------

    def _edited(self, _: object = None) -> None:
        if self._shown is not None:
            self._edits += 1
            self.later.throttle()

    def _save(self) -> None:
        """Write the regions if they have changed; the copy is made at once."""
        shown, disk = self._shown, self._disk
        if self.is_kept or shown is None or disk is None:
            return
        try:
            layers = regions_to_save(self._viewer, self._session, shown)
        except MaskInversionError as error:
            self._refuse(str(error))
            return
        self._saving += 1
        self._writing.start(
            partial(disk.keep_regions, self._edits, shown.name, layers, shown.saved)
        )

    def _refuse(self, text: str, action: str = "") -> None:
        self._then = None
        self.refused.emit()
        refuse(text, action)

    def _all_written(self) -> None:
        """Wait no longer for regions that an unexpected error has kept from the disk."""
        if self._saving:
            self._saving, self._then = 0, None
            self.refused.emit()

    def _outcome(self, kept: Any) -> None:
        """Go on where the regions are on the disk; else stay, since they are nowhere else."""
        if not isinstance(kept, KeptRegions):
            return
        self._saving = max(self._saving - 1, 0)
        if kept.problem:
            remedy = "free some space" if kept.is_disk_full else "solve this"
            self._refuse(
                f"{kept.problem.rstrip('.')}. What you drew is not saved: {remedy}, then save it "
                "again.",
                "save regions",
            )
            return
        self._kept_edits = max(self._kept_edits, kept.stamp)
        written, shown = kept.written, self._shown
        if written is not None:
            self.written.emit(written)
        if written is not None and written.layers > 1 and shown is not None:
            others = ", ".join(f"'{one.name}'" for one in self.layers[1:])
            count = len(written.regions or ())
            inform(f"{shown.name} has {count:,} regions, with those of {others}; all are kept.")
        if self._then is not None and self.is_kept:
            self.when_kept(self._then)
