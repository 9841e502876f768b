"""Files that are dropped on the panel: regions, results, images. Opened as the buttons do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from qtpy.QtCore import QEvent, QObject, QUrl
from qtpy.QtGui import QDropEvent
from qtpy.QtWidgets import QWidget

from ...app.project.project_files import is_project
from ...app.session import Session
from ...batch.pairing import is_image
from ...regions.annotations.annotation_reading import FORMATS, is_annotations
from ..inputs.regions_file import LABEL_IMAGES
from ..workers.notify import refuse
from .panel_parts import PanelParts

RESULTS: Final = ".npz"


class FileDrops(QObject):
    """Takes files anywhere on the panel, also on its text fields."""

    def __init__(self, panel: PanelParts, session: Session) -> None:
        super().__init__(panel)
        self._panel, self._session = panel, session
        panel.setAcceptDrops(True)
        self._watch()
        panel.tabs.filled.connect(self._watch)

    def _watch(self, filled: str = "") -> None:
        inside = self._panel.tabs.areas[filled] if filled else self._panel
        for widget in (inside, *inside.findChildren(QWidget)):
            if widget.acceptDrops():
                widget.installEventFilter(self)  # a second time changes nothing

    def eventFilter(self, watched: QObject | None, event: QEvent | None) -> bool:  # noqa: N802
        """Take files; whatever else is dragged is left to the field under it."""
        # The events of dragging are of this class, too.
        if not isinstance(event, QDropEvent) or not event.mimeData().hasUrls():
            return False
        if watched is not self._panel:
            event.ignore()  # Qt offers it to the panel next
        else:
            event.acceptProposedAction()
            if event.type() == QEvent.Type.Drop:
                self.open(event.mimeData().urls())
        return True

    def open(self, urls: Sequence[QUrl]) -> None:
        """Open files, or say in the status line why that is not possible."""
        foreign = next((url for url in urls if not url.isLocalFile()), None)
        if foreign is not None:
            refuse(f"{foreign.toString()} is not on this machine; download it first.")
            return
        paths = [Path(url.toLocalFile()) for url in urls]
        path = paths[0]
        if len(paths) > 1 and not all(map(is_image, paths)):
            refuse(f"Drop one file at a time, or several images; these are {len(paths)}.")
        elif len(paths) > 1 or is_project(path):
            self._session.project.open_images.emit(paths)
        elif path.suffix.lower() == RESULTS:
            self._session.run.open_results.emit(path)
        elif is_annotations(path) or path.suffix.lower() in LABEL_IMAGES:
            self._session.run.open_regions.emit(path)
        else:
            formats = ", ".join(form.name for form in FORMATS)
            refuse(
                f"{path.name} holds neither regions nor results; drop a file of regions "
                f"({formats}, label image) or a results.npz here, a folder of images or a "
                "project.yaml, and one image on the canvas."
            )
