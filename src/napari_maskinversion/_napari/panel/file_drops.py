"""Files that are dropped on the panel: regions and results, opened as the buttons open them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from qtpy.QtCore import QEvent, QObject
from qtpy.QtWidgets import QWidget

from ...regions.annotations.reading import FORMATS, is_annotations
from ..inputs.regions_file import LABEL_IMAGES
from ..workers.notify import refuse

RESULTS: Final = ".npz"
_DRAGGED: Final = (QEvent.Type.DragEnter, QEvent.Type.DragMove)


class FileDrops(QObject):
    """Takes files anywhere on the panel, also on its text fields.

    Parameters
    ----------
    panel : QWidget
        With all its fields.
    open_regions, open_results : callable
        Take a path.
    """

    def __init__(
        self,
        panel: QWidget,
        open_regions: Callable[[Path], object],
        open_results: Callable[[Path], object],
    ) -> None:
        super().__init__(panel)
        self._panel, self._open_regions, self._open_results = panel, open_regions, open_results
        panel.setAcceptDrops(True)
        for widget in (panel, *panel.findChildren(QWidget)):
            if widget.acceptDrops():
                widget.installEventFilter(self)

    def eventFilter(self, watched: QObject | None, event: QEvent | None) -> bool:  # noqa: N802
        """Take files; whatever else is dragged is left to the field under it."""
        dropped = event is not None and event.type() == QEvent.Type.Drop
        if not (dropped or (event is not None and event.type() in _DRAGGED)):
            return False
        drag: Any = event
        if not drag.mimeData().hasUrls():
            return False
        if watched is not self._panel:
            drag.ignore()  # Qt offers it to the panel next
        else:
            drag.acceptProposedAction()
            if dropped:
                self._open(drag.mimeData().urls())
        return True

    def _open(self, urls: list[Any]) -> None:
        if len(urls) > 1:
            refuse(f"Drop one file at a time; these are {len(urls)}.")
            return
        path = Path(urls[0].toLocalFile())
        if not urls[0].isLocalFile():
            refuse(f"{urls[0].toString()} is not on this machine; download it first.")
        elif path.suffix.lower() == RESULTS:
            self._open_results(path)
        elif is_annotations(path) or path.suffix.lower() in LABEL_IMAGES:
            self._open_regions(path)
        else:
            formats = ", ".join(form.name for form in FORMATS)
            refuse(
                f"{path.name} holds neither regions nor results; drop a file of regions "
                f"({formats}, label image) or a results.npz here, and images on the canvas."
            )
