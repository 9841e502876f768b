"""The windows of the button ?: all keys, the documentation, the check of the installation."""

from __future__ import annotations

from typing import Final

from qtpy.QtCore import Qt, QUrl
from qtpy.QtGui import QDesktopServices, QFontDatabase
from qtpy.QtWidgets import (
    QApplication,
    QDialogButtonBox,
    QHeaderView,
    QPlainTextEdit,
    QTreeWidget,
    QTreeWidgetItem,
    QWidget,
)

from ...app.session import job_kinds
from ...app.session.jobs import Jobs
from ...doctor.checks import Report, examine
from ..widgets.dialogs import ToolDialog
from ..widgets.keys import KEYS
from ..widgets.sections import button, column

DOCS: Final = "https://napari-maskinversion.github.io/napari-maskinversion/"
WAIT: Final = (
    "Checking Python, torch, Qt, OpenGL, napari, models and packages. This takes some seconds..."
)


class KeysDialog(ToolDialog):
    """Every key of `keys.KEYS`, by place, and the ways to more help. Non-modal."""

    def __init__(self, parent: QWidget) -> None:
        self.list = QTreeWidget()
        self.list.setAccessibleName("Keys and what they do")
        self.list.setToolTip("Keys and what they do, by where they work")
        self.list.setHeaderLabels(["Key", "What it does"])
        self.list.setRootIsDecorated(False)
        self.list.setItemsExpandable(False)
        self.list.setIndentation(12)
        self.list.setTabKeyNavigation(False)
        places: dict[str, QTreeWidgetItem] = {}
        for key in KEYS:
            if key.place not in places:
                head = QTreeWidgetItem(self.list, [key.place])
                font = head.font(0)
                font.setBold(True)
                head.setFont(0, font)
                head.setFirstColumnSpanned(True)
                places[key.place] = head
            QTreeWidgetItem(places[key.place], [key.shown, key.effect])
        self.list.expandAll()
        header = self.list.header()
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.ResizeToContents)
        header.setStretchLastSection(True)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAsNeeded)
        super().__init__("Keys of MaskInversion", self.list, parent, scrolls=False)
        docs = button("Documentation...", DOCS, lambda: QDesktopServices.openUrl(QUrl(DOCS)))
        tip = "See what is installed and what is wrong; you can copy it for a report"
        self.check = button("Check this installation...", tip, name="Check this installation")
        for help_button in (docs, self.check):
            self.buttons.addButton(help_button, QDialogButtonBox.ButtonRole.ActionRole)
        self.resize(520, 560)


class DoctorDialog(ToolDialog):
    """What ``napari-maskinversion doctor`` prints; examined anew each time it is opened."""

    def __init__(self, parent: QWidget, jobs: Jobs) -> None:
        self.text = QPlainTextEdit(WAIT)
        tip = "Copy the text to report a problem"
        self.copy_button = button("Copy", tip, self.copy, name="Copy for a report")
        content = column(self.text, self.copy_button)
        super().__init__("Installation", content, parent, scrolls=False)
        self.text.setReadOnly(True)
        self.text.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.text.setAccessibleName("What is installed and what is wrong")
        self.text.setToolTip("The output of napari-maskinversion doctor")
        self.text.setTabChangesFocus(True)
        self._job = jobs.of(job_kinds.CHECK_INSTALLATION)
        self.resize(680, 420)

    def bring(self) -> None:
        """Show the window and examine the installation."""
        if self._job.start(examine, self._show, failed=self.text.setPlainText):
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
