"""The window that checks the installation, with a text to copy into a report."""

from __future__ import annotations

from qtpy.QtGui import QFontDatabase
from qtpy.QtWidgets import QApplication, QPlainTextEdit, QPushButton, QWidget

from ...doctor.checks import Report, examine
from ..widgets.dialogs import ToolDialog
from ..widgets.sections import column
from ..workers.worker import Worker

WAIT = "Checking Python, torch, Qt, OpenGL, napari, models and packages. This takes some seconds..."


class DoctorDialog(ToolDialog):
    """What ``napari-maskinversion doctor`` prints; examined anew each time it is opened."""

    def __init__(self, parent: QWidget) -> None:
        self.text, self.copy_button = QPlainTextEdit(WAIT), QPushButton("Copy")
        content = column(self.text, self.copy_button)
        super().__init__("Installation", content, parent, scrolls=False)
        self.text.setReadOnly(True)
        self.text.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.text.setAccessibleName("What is installed and what is wrong")
        self.text.setToolTip("The output of napari-maskinversion doctor")
        self.text.setTabChangesFocus(True)
        self.copy_button.setAccessibleName("Copy for a report")
        self.copy_button.setToolTip("Copy the text to report a problem")
        self.copy_button.clicked.connect(self.copy)
        self.worker = Worker("single", "The check of the installation", parent=self)
        self.worker.done.connect(self._show)
        self.worker.failed.connect(self.text.setPlainText)
        self.resize(680, 420)

    def bring(self) -> None:
        """Show the window and examine the installation."""
        if self.worker.start(examine):
            self.text.setPlainText(WAIT)
            self.copy_button.setEnabled(False)
        super().bring()

    def copy(self) -> None:
        """Copy the report, as code for an issue."""
        clipboard = QApplication.clipboard()
        if clipboard is not None:
            clipboard.setText(f"```text\n{self.text.toPlainText()}\n```\n")

    def _show(self, report: Report) -> None:
        self.text.setPlainText(report.text())
        self.copy_button.setEnabled(True)
