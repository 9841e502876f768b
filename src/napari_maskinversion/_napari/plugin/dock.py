"""The dock of the panel: opens at once, and makes the panel in pieces."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING

from ..workers import needs_qt  # noqa: F401  # isort: skip - before Qt is asked for

from qtpy.QtCore import QEvent, QSize, Qt, QTimer
from qtpy.QtWidgets import QLabel, QSizePolicy, QVBoxLayout, QWidget

from ...app.work.preload import without_collections

if TYPE_CHECKING:
    from napari.viewer import Viewer
    from qtpy.QtGui import QCloseEvent, QDragEnterEvent, QDropEvent

    from ..panel.widget import MaskInversionWidget


class PanelDock(QWidget):
    """Shows that the panel is loading, and then the panel.

    Importing and making the panel take most of a second. In one piece the window would freeze, so
    modules are imported in a thread and the panel's parts are made one at a time.
    """

    def __init__(self, napari_viewer: Viewer) -> None:
        super().__init__()
        self._viewer = getattr(napari_viewer, "__wrapped__", napari_viewer)
        self._panel: MaskInversionWidget | None = None
        self._made = False
        self._waiting: list[Callable[[MaskInversionWidget], object]] = []
        self._note = QLabel("Loading...", self)
        self._note.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._note.setWordWrap(True)
        # Else napari adds a stretch, which would stay above the panel.
        expanding = QSizePolicy.Policy.Expanding
        self._note.setSizePolicy(expanding, expanding)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self._note)
        self.setMinimumWidth(300)
        self.setAcceptDrops(True)
        self._timer = QTimer(self)
        self._timer.setInterval(5)
        self._timer.timeout.connect(self._go_on)
        self._imports = Thread(target=_import_panel, name="imports of the panel")
        self._imports.start()
        self._timer.start()

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        """As large as the panel."""
        return QSize(360, 760)

    def panel(self) -> MaskInversionWidget:
        """Return the panel; what is missing of it is made at once."""
        self._timer.stop()
        while not self._made:
            self._make_part()
        assert self._panel is not None
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            call(self._panel)
        return self._panel

    def when_made(self, call: Callable[[MaskInversionWidget], object]) -> None:
        """Call a function with the panel, now or once it is made."""
        self._waiting.append(call)
        if self._made:
            self.panel()

    def belongs_to(self, viewer: Viewer) -> bool:
        """Whether it is docked in this viewer."""
        return self._viewer is viewer and self.parent() is not None

    def shut_down(self) -> None:
        """Stop the panel's workers and release viewer, layers and model."""
        self._timer.stop()
        if self._panel is not None:
            self.panel().shut_down()

    def event(self, event: QEvent) -> bool:
        """Shut down when undocked, go on when docked: napari only changes the parent."""
        if event.type() == QEvent.Type.ParentChange:
            if self.parent() is None:
                self.shut_down()
            elif self._made:
                self.panel().resume()
            else:
                self._timer.start()
        return bool(super().event(event))

    def closeEvent(self, event: QCloseEvent) -> None:  # noqa: N802 - Qt's name
        """Shut down when closed as a separate window."""
        self.shut_down()
        super().closeEvent(event)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:  # noqa: N802 - Qt's name
        """Take files before the panel is there to take them."""
        if not self._made and event.mimeData().hasUrls():
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:  # noqa: N802 - Qt's name
        """Keep files for the panel."""
        urls = event.mimeData().urls()
        event.acceptProposedAction()
        self.when_made(lambda panel: panel.drops.open(urls))

    def _go_on(self) -> None:
        """Make the next part of the panel."""
        if self._imports.is_alive():
            return
        try:
            self._make_part()
            if self._made:
                self.panel()
        except Exception as error:
            self._timer.stop()
            self._waiting.clear()
            self._panel = None
            self._note.setText(f"The panel could not be made: {error}")
            raise

    def _make_part(self) -> None:
        if self._panel is None:
            from ..panel.widget import MaskInversionWidget

            self._panel = MaskInversionWidget(self._viewer, in_parts=True)
        else:
            can_be_shown = next(self._panel.parts, None)
            self._made = can_be_shown is None
            if can_be_shown and not self._note.isHidden():
                self._note.hide()
                self.layout().addWidget(self._panel)


def _import_panel() -> None:
    # An error comes up again, with its text, where the panel is made.
    with without_collections(), suppress(Exception):
        import pandas  # noqa: F401 - the panel is made with empty tables

        from ..panel import widget  # noqa: F401
