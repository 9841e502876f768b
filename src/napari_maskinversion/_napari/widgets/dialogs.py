"""Windows beside the panel, yes-or-no questions, and filters of file dialogs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from qtpy.QtGui import QIcon
from qtpy.QtWidgets import QDialog, QDialogButtonBox, QMessageBox, QVBoxLayout, QWidget

from .sections import scrolled


class ToolDialog(QDialog):
    """A window that is not modal: the canvas stays in use."""

    def __init__(
        self, title: str, content: QWidget, parent: QWidget, *, scrolls: bool = True
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle(title)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.rejected.connect(self.reject)
        for button in buttons.buttons():
            button.setIcon(QIcon())  # black on any theme
        layout = QVBoxLayout(self)
        layout.addWidget(scrolled(content) if scrolls else content, 1)
        layout.addWidget(buttons)

    def bring(self) -> None:
        """Show the window above the others."""
        self.show()
        self.raise_()
        self.activateWindow()


def confirm(parent: QWidget, title: str, text: str) -> bool:
    """Ask a question; return whether the answer was yes."""
    answer = QMessageBox.question(parent, title, text)
    return bool(answer == QMessageBox.StandardButton.Yes)


def may_replace(parent: QWidget, paths: Sequence[Path]) -> bool:
    """Ask before replacing existing files of one folder; True if there are none."""
    existing = [path for path in paths if path.exists()]
    if not existing:
        return True
    names = ", ".join(path.name for path in existing)
    title = f"Replace file{'s' * (len(existing) > 1)}?"
    return confirm(parent, title, f"{existing[0].parent} already contains {names}. Replace?")


def file_filter(name: str, suffixes: Iterable[str]) -> str:
    """Return an entry of a file dialog's filter: "YAML (*.yaml *.yml)"."""
    return f"{name} ({' '.join(f'*{suffix}' for suffix in suffixes)})"
