"""Windows that stay open beside the panel."""

from __future__ import annotations

from qtpy.QtGui import QIcon
from qtpy.QtWidgets import QDialog, QDialogButtonBox, QVBoxLayout, QWidget

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
