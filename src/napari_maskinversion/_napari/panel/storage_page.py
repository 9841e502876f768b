"""The page of the settings for files on disk, and rows for the page of the display."""

from __future__ import annotations

import os

from qtpy.QtCore import QSignalBlocker, Signal
from qtpy.QtGui import QShowEvent
from qtpy.QtWidgets import QLineEdit, QSizePolicy, QWidget

from ...app.session import job_kinds
from ...app.session.jobs import Jobs
from ...base.cache_folder import VARIABLE, cache_folder
from ...base.errors import ConfigError
from ...base.preferences import Preferences
from ...pipeline.cache_usage import KINDS, Cleared, Usage, clear, readable, usage
from ...results.settings import fields_of
from ..widgets.dialogs import ask_folder, confirm
from ..widgets.form import SettingsForm
from ..widgets.sections import Note, button, form, line, stack
from ..workers.notify import inform

_CHOICES = ("heatmap", "palette", "offline")  # in forms; what applies at start has napari's page


class StoragePage(QWidget):
    """Edits preferences, each at once, with titles and tool tips from `Preferences`.

    It measures the files on disk whenever it comes into view. `display` are rows of another page.
    """

    changed = Signal(object)
    cleared = Signal()
    unload_asked = Signal()
    forget_asked = Signal()

    def __init__(self, preferences: Preferences, jobs: Jobs) -> None:
        super().__init__()
        self._preferences = preferences
        self.usage: Usage | None = None
        settings = {setting.key: setting for setting in fields_of(model=Preferences)}
        self.form = SettingsForm([settings[key] for key in _CHOICES], parent=self)
        self.cache_folder = QLineEdit()
        self.browse = button(
            "...", "Choose the folder", self._ask_folder, name="Choose the cache folder"
        )
        self.sizes, self.problem = Note("Counting ..."), Note()
        self.clear = button(
            "Clear the cache...",
            "Delete files that can be downloaded or computed again; asks first",
            self.ask_clear,
        )
        self.unload = button(
            "Unload the model",
            "Free the memory of the model; the next run loads it again",
            self.unload_asked.emit,
        )
        self.forget = button(
            "Forget the panel's last state...",
            "Settings, words, prompts, columns and tab",
            self._ask_forget,
        )
        self._measuring = jobs.of(job_kinds.MEASURE_CACHE)
        self._clearing = jobs.of(job_kinds.CLEAR_CACHE)
        rows, folder = self.form.rows(), settings["cache_folder"]
        self.display = [rows["heatmap"], rows["palette"]]
        for push_button in (self.browse, self.clear, self.unload, self.forget):
            push_button.setAutoDefault(False)  # Return ends the typing of a folder
        self.browse.setFixedWidth(32)
        self.cache_folder.setPlaceholderText(str(cache_folder()))
        self.cache_folder.setAccessibleName(folder.title)
        self.cache_folder.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.cache_folder.editingFinished.connect(self._edited)
        self._about = folder.help
        self.clear.setEnabled(False)
        self.problem.hide()
        place = (folder.title, line(self.cache_folder, self.browse))
        below = (self.problem, self.sizes, self.clear, self.unload, self.forget)
        stack(self, form([rows["offline"], place, *below]))
        self.show_preferences(preferences)
        self.form.changed.connect(self._edited)

    def show_preferences(self, preferences: Preferences) -> None:
        """Show values that were changed elsewhere."""
        self._preferences = preferences
        with QSignalBlocker(self.form):
            self.form.set_values({key: getattr(preferences, key) for key in _CHOICES})
        with QSignalBlocker(self.cache_folder):
            self.cache_folder.setText(preferences.cache_folder)

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802 - Qt's name
        """Measure the files on disk, and look whether a variable sets their folder."""
        super().showEvent(event)
        self._measure()

    def _measure(self) -> None:
        fixed = bool(os.environ.get(VARIABLE))
        for widget in (self.cache_folder, self.browse):
            widget.setEnabled(not fixed)
        self.cache_folder.setToolTip(
            f"The environment variable {VARIABLE} sets this folder." if fixed else self._about
        )
        self._measuring.start(usage, self._show_usage, failed=self.sizes.setText)

    def ask_clear(self) -> None:
        """List the files that would be deleted, and delete them if the user agrees."""
        if self.usage is None:
            return
        sizes = self.usage.sizes
        there = [kind for kind in KINDS if sizes[kind.name]]
        listed = [f"{kind.title}: {readable(sizes[kind.name])}" for kind in there]
        text = (
            f"This deletes from {self.usage.folder}:\n\n"
            + "\n".join(listed)
            + "\n\nIt can be downloaded or computed again. Review decisions stay. Delete?"
        )
        if confirm(self, "Clear the cache?", text):
            self.clear.setEnabled(False)
            names = [kind.name for kind in KINDS]
            self._clearing.start(lambda: clear(names), self._on_cleared)

    def _edited(self) -> None:
        values = {**dict(self._preferences), **self.form.values()}
        try:
            new = Preferences(**{**values, "cache_folder": self.cache_folder.text().strip()})
        except ConfigError as error:
            self.problem.say(str(error))
            return
        self.problem.say("")
        if new != self._preferences:
            moved = new.cache_folder != self._preferences.cache_folder
            self._preferences = new
            self.changed.emit(new)
            if moved:
                self._measure()

    def _ask_forget(self) -> None:
        text = (
            "The panel returns to its first start: settings, words, prompts, columns and tab. "
            "Preferences stay. Forget?"
        )
        if confirm(self, "Forget?", text):
            self.forget_asked.emit()

    def _ask_folder(self) -> None:
        if folder := ask_folder(self, "Cache folder", str(cache_folder())):
            self.cache_folder.setText(str(folder))
            self._edited()

    def _show_usage(self, measured: Usage) -> None:
        self.usage = measured
        lines = measured.lines() or ["empty"]
        self.sizes.setText(f"{readable(measured.total)} in {measured.folder}\n" + "\n".join(lines))
        self.clear.setEnabled(any(measured.sizes.values()))

    def _on_cleared(self, outcome: Cleared) -> None:
        inform(" ".join([f"Freed {readable(outcome.freed)}.", *outcome.problems]))
        self.cleared.emit()
        self._measure()
