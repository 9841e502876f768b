"""Finds out whether the chosen image can be seen, and whether the demo model knows its kind."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from qtpy.QtCore import QObject

from ...app.layer_input.coordinates import ViewPoint, plane_of
from ...app.layer_input.input_pictures import Picture, copy_picture
from ...app.requests.preparing import background_of, image_layers
from ...app.session import Session, Snapshot, Topic, job_kinds
from ...app.work.model_store import ModelStore
from ...app.work.preload import is_warm
from ...base.errors import MaskInversionError
from ...engine.models.specs import DEMO
from ...images.opening import georeference_of
from ...images.plane_source import brightness_note
from ..widgets.layer_list import LayerEvents, layer_of
from ..widgets.sections import debouncer

if TYPE_CHECKING:
    from napari.components import ViewerModel
    from napari.utils.events import Event

    from ...base.identity import Position


_QUIET: Final = 300  # milliseconds without a change


class ImageCheck(Topic, QObject):
    """Looks at each image that is chosen, in a worker; the demo model does, too."""

    def __init__(
        self,
        viewer: ViewerModel,
        session: Session,
        store: ModelStore,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._viewer, self._session, self._store = viewer, session, store
        self.checked: Snapshot | None = None
        self._plane: Position | None = None  # that was looked at
        looks = dict.fromkeys(("data", "contrast_limits"), self._renewed)
        self._events = LayerEvents(viewer, looks)
        self.job = session.jobs.of(job_kinds.LOOK_AT_IMAGE)
        self._pause = debouncer(self, _QUIET, self._start)

    def bind(self) -> None:
        """Follow the session."""
        run = self._session.run.events
        self._events.connect()
        self.after(self.later, run.image, run.settings, run.scope, run.plane)
        self.later()

    def stop(self) -> None:
        """Follow the session no more."""
        super().stop()
        self._events.disconnect()
        self._pause.cancel()

    def _renewed(self, event: Event) -> None:
        """Look at the new pixels of the same layer."""
        session = self._session
        if layer_of(event) is not session.run.image:
            return
        if session.run.doubt is not None and session.run.doubt.image is session.run.image:
            session.run.doubt = None
        self.checked = session.run.looked_at = None
        self.later()

    def later(self, _: object = None) -> None:
        """Look at the image when nothing has changed for a while, unless that was done."""
        if not self._is_current():
            session = self._session
            self.job.drop()
            # Without PyTorch it would hold up the window's first seconds.
            if session.run.image is not None and is_warm():
                self._pause.throttle()

    def _is_current(self) -> bool:
        """Whether the last answer is about the plane, the channels and the model chosen."""
        session, checked = self._session, self.checked
        return (
            checked is not None
            and session.run.matches(checked, "image")
            and session.run.plane == self._plane
            and session.run.scope.channels == checked.scope.channels
            and session.run.settings.model == checked.settings.model
        )

    def _start(self) -> None:
        snapshot, plane = self._session.run.snapshot(), self._session.run.plane
        view = ViewPoint.of(self._viewer)
        if snapshot.image is None:
            return
        try:
            picture = copy_picture(
                snapshot.image,
                view,
                channels=snapshot.scope.channels,
                others=image_layers(self._viewer),
                background=background_of(self._viewer),
                snapshot=False,
            )
        except MaskInversionError:
            self._session.run.looked_at = None
            return  # a run will say it
        self._plane = plane
        self.job.start(partial(_look, snapshot, picture, view, self._store), self._answered)

    def _answered(self, answer: tuple[Snapshot, bool, str, bool]) -> None:
        self.checked, unknown, note, self._session.run.georeferenced = answer
        self._session.run.looked_at = self.checked, note
        if unknown:
            self._session.run.doubt = self.checked


def _look(
    snapshot: Snapshot, picture: Picture, view: ViewPoint, store: ModelStore
) -> tuple[Snapshot, bool, str, bool]:
    """Return whether the demo model does not know the image, a line, and whether it is a map."""
    from ...images.known_images import is_unknown

    try:
        source = picture.source(plane_of(picture.grid, view), view)
        note, settings = brightness_note(source), snapshot.settings
        unknown = settings.model == DEMO and is_unknown(source, store.get(DEMO, settings.device))
        file = None if snapshot.image is None else snapshot.image.source.path
        mapped = georeference_of(None if file is None else Path(file), source.shape[:2]) is not None
        return snapshot, unknown, note, mapped
    except MaskInversionError:
        return snapshot, False, "", False  # a run will say it
