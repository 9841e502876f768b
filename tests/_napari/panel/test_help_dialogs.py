"""Help: the installation is checked in a thread, and its report can be copied."""

import threading

from qtpy.QtWidgets import QApplication

from napari_maskinversion._napari.panel import help_dialogs
from napari_maskinversion.doctor.checks import Finding, Report

REPORT = Report("0.2", (Finding("Qt", "ok", "PyQt6 6.11.0"),))


def test_help_checks_the_installation_outside_the_gui_thread_and_copies_the_report(
    widget, qtbot, monkeypatch
):
    threads = []

    def examine():
        threads.append(threading.current_thread())
        return REPORT

    monkeypatch.setattr(help_dialogs, "examine", examine)
    widget.controller.part.keys.click()
    widget.controller.keys.check.click()
    dialog = widget.controller.doctor
    assert dialog.isVisible()
    assert "some seconds" in dialog.text.toPlainText()
    assert not dialog.copy_button.isEnabled()
    qtbot.waitUntil(dialog.copy_button.isEnabled)
    assert dialog.text.toPlainText() == REPORT.text()
    dialog.copy_button.click()
    assert QApplication.clipboard().text() == f"```text\n{REPORT.text()}\n```\n"
    assert threads[0] is not threading.main_thread()
    dialog.close()
    widget.controller.keys.close()
