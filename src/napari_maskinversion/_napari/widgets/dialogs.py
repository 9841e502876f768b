"""Windows beside the panel, notice of its own being closed, questions, and file filters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from weakref import ref

from qtpy.compat import isalive
from qtpy.QtCore import QEvent, QObject, QPoint, Qt, QTimer, Signal
from qtpy.QtGui import QIcon
from qtpy.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QFileDialog,
    QMainWindow,
    QMessageBox,
    QVBoxLayout,
    QWidget,
)

from .sections import scrolled


class ToolDialog(QDialog):
    """A window that is not modal: the canvas stays in use."""

    def __init__(
        self, title: str, content: QWidget, parent: QWidget, *, scrolls: bool = True
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle(title)
        self.buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        self.buttons.rejected.connect(self.reject)
        for button in self.buttons.buttons():
            button.setIcon(QIcon())  # black on any theme
        layout = QVBoxLayout(self)
        self._area = scrolled(content) if scrolls else None
        layout.addWidget(self._area or content, 1)
        layout.addWidget(self.buttons)
        content.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        """Make room for content that grows."""
        if event.type() == QEvent.Type.LayoutRequest:
            self._fit()
        return False

    def _fit(self) -> None:
        """Make room for all of the content, if the screen has it."""
        if self._area is not None:
            inside, screen = self._area.widget(), self.screen().availableSize()
            bar = self._area.verticalScrollBar().sizeHint().width()
            tall = max(inside.sizeHint().height(), inside.heightForWidth(inside.width()))
            tall = min(tall, screen.height() * 3 // 4)
            self._area.setMinimumSize(inside.minimumSizeHint().width() + bar, tall)

    def bring(self) -> None:
        """Show the window above the others; at first over the panel, so that the image is seen."""
        self._fit()
        if not self.testAttribute(Qt.WidgetAttribute.WA_Moved):
            if self._area is not None:
                self.adjustSize()
            panel = self.parentWidget()
            self.move(panel.mapToGlobal(panel.rect().topRight()) - QPoint(self.width(), 0))
        self.show()
        self.raise_()
        self.activateWindow()


class WindowClosing(QObject):
    """Notices when somebody closes the window of a panel, also if it stays open then."""

    closing = Signal()
    gone = Signal()  # It is about to be deleted, with the panel

    def __init__(self, panel: QWidget) -> None:
        super().__init__(panel)
        self._panel = panel
        self._window: ref[QMainWindow] | None = None

    def watch(self) -> None:
        """Begin to watch, once the panel is docked."""
        QTimer.singleShot(0, self._find)

    def _find(self) -> None:
        if not isalive(self._panel):  # PySide calls this also if the panel is gone meanwhile
            return
        window = self._panel.window()
        if isinstance(window, QMainWindow):
            self._window = ref(window)  # a closed window is to be freed
            window.installEventFilter(self)

    def release(self) -> None:
        """Watch no more."""
        watched, self._window = self._window, None
        if watched is None:
            return
        window = watched()
        if window is not None and isalive(window):
            window.removeEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        """Tell of it, and let the window close."""
        if event.type() == QEvent.Type.Close:
            self.closing.emit()
        if event.type() == QEvent.Type.DeferredDelete:
            self.gone.emit()
        return False


def confirm(parent: QWidget, title: str, text: str) -> bool:
    """Ask a question; return whether the answer was yes."""
    answer = QMessageBox.question(parent, title, text)
    return bool(answer == QMessageBox.StandardButton.Yes)


def ask_file(parent: QWidget, title: str, kinds: str = "", place: str = "") -> Path | None:
    """Ask for a file to read; None if nothing was chosen."""
    path, _ = QFileDialog.getOpenFileName(parent, title, place, kinds)
    return Path(path) if path else None


def ask_folder(parent: QWidget, title: str, place: str = "") -> Path | None:
    """Ask for a folder; None if nothing was chosen."""
    folder = QFileDialog.getExistingDirectory(parent, title, place)
    return Path(folder) if folder else None


def ask_where(parent: QWidget, title: str, usual: str, kinds: str, suffix: str = "") -> Path | None:
    """Ask for a file to write, whose name gets the suffix; `may_replace` asks about others."""
    typed, _ = QFileDialog.getSaveFileName(
        parent, title, usual, kinds, options=QFileDialog.Option.DontConfirmOverwrite
    )
    if not typed:
        return None
    if not typed.endswith(suffix):  # a dot in a name that the user chose is not a suffix
        typed += suffix
    return Path(typed)


def may_replace(parent: QWidget, paths: Sequence[Path]) -> bool:
    """Ask before replacing existing files of one folder; True if there are none."""
    existing = [path for path in paths if path.exists()]
    if not existing:
        return True
    names = ", ".join(path.name for path in existing)
    title = "Replace file?" if len(existing) == 1 else "Replace files?"
    return confirm(parent, title, f"{existing[0].parent} already contains {names}. Replace?")


def file_filter(name: str, suffixes: Iterable[str]) -> str:
    """Return an entry of a file dialog's filter: "YAML (*.yaml *.yml)"."""
    return f"{name} ({' '.join(f'*{suffix}' for suffix in suffixes)})"
