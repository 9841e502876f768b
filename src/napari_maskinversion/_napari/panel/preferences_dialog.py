"""The preferences dialog, with the cache on disk."""

from __future__ import annotations

import os
from typing import Any

from qtpy.QtCore import QSignalBlocker, Signal
from qtpy.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QFileDialog,
    QLineEdit,
    QPushButton,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from ...base.cache_folder import VARIABLE, cache_folder
from ...base.errors import ConfigError
from ...base.preferences import LAST, Preferences, choices
from ...engine.models.specs import MODELS
from ...pipeline.cache_usage import KINDS, Usage, clear, readable, usage
from ..widgets.questions import confirm
from ..widgets.sections import Note, combo_box, form, line
from ..workers.notify import inform, refuse
from ..workers.worker import Worker

_FIELDS = Preferences.model_fields


class PreferencesDialog(QDialog):
    """Edits preferences; `preferences` holds the new ones after it is accepted.

    Titles and tool tips come from the fields of `Preferences`.

    Signals
    -------
    cleared
        Files were deleted from the cache folder.
    forget_asked
        The user asks to forget the panel's last state.
    """

    cleared = Signal()
    forget_asked = Signal()

    def __init__(self, preferences: Preferences, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Preferences of MaskInversion")
        self.preferences = preferences
        self.usage: Usage | None = None
        self.model, self.device = combo_box([LAST, *MODELS]), combo_box(choices("device"))
        self.heatmap, self.palette = combo_box(choices("heatmap")), combo_box(choices("palette"))
        self.live, self.offline = QCheckBox(), QCheckBox()
        self.cache_folder = QLineEdit()
        self.browse = QPushButton("...")
        self.size, self.problem = Note("Counting ..."), Note()
        self.clear = QPushButton("Clear the cache...")
        self.clear.setToolTip("Delete files that can be downloaded or computed again; asks first")
        self.clear.setEnabled(False)
        self.forget = QPushButton("Forget the panel's last state")
        self.forget.setToolTip("Model, device, labels, prompts, context, columns and tab")
        standard = QDialogButtonBox.StandardButton
        self.buttons = QDialogButtonBox(standard.Ok | standard.Cancel)
        self._measuring = Worker("latest", "Measuring the cache", parent=self)
        self._clearing = Worker("queue", "Clearing the cache", parent=self)
        self._build()
        self._show(preferences)
        self._measuring.done.connect(self._show_usage)
        self._measuring.failed.connect(self.size.setText)
        self._clearing.done.connect(self._on_cleared)
        self._clearing.failed.connect(refuse)
        self._measuring.start(usage)

    def _build(self) -> None:
        for name, field in _FIELDS.items():
            getattr(self, name).setToolTip(field.description)
        self.browse.setToolTip("Choose the folder")
        self.browse.setAccessibleName("Choose the cache folder")
        self.browse.setFixedWidth(32)
        self.cache_folder.setPlaceholderText(str(cache_folder()))
        self.cache_folder.setAccessibleName("Cache folder")
        self.cache_folder.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        if os.environ.get(VARIABLE):
            for widget in (self.cache_folder, self.browse):
                widget.setEnabled(False)
                widget.setToolTip(f"The environment variable {VARIABLE} sets this folder.")
        rows: list[Any] = []
        for name, field in _FIELDS.items():
            widget = getattr(self, name)
            if isinstance(widget, QCheckBox):
                widget.setText(field.title)
                rows.append(widget)
            elif widget is self.cache_folder:
                rows.append((field.title, line(widget, self.browse)))
            else:
                rows.append((field.title, widget))
        layout = QVBoxLayout(self)
        layout.addWidget(form([*rows, self.problem, self.size, self.clear, self.forget]))
        layout.addStretch(1)
        layout.addWidget(self.buttons)
        self.problem.hide()
        for button in (self.browse, self.clear, self.forget):
            button.setAutoDefault(False)
        self.browse.clicked.connect(self._ask_folder)
        self.clear.clicked.connect(self.ask_clear)
        self.forget.clicked.connect(self._ask_forget)
        self.buttons.accepted.connect(self.accept)
        self.buttons.rejected.connect(self.reject)
        self.setMinimumWidth(340)

    def accept(self) -> None:
        """Close with the new preferences; stay open and say why if a value is not allowed."""
        try:
            self.preferences = Preferences(**{name: self._value(name) for name in _FIELDS})
        except ConfigError as error:
            self.problem.setText(str(error))
            self.problem.show()
            self._fit()
            return
        super().accept()

    def done(self, result: int) -> None:
        """Close and stop measuring."""
        self._measuring.drop()
        super().done(result)

    def ask_clear(self) -> None:
        """List the files that would be deleted, and delete them if the user agrees."""
        if self.usage is None:
            return
        sizes = self.usage.sizes
        listed = [f"{kind.title}: {readable(sizes[kind.name])}" for kind in KINDS]
        listed = [text for kind, text in zip(KINDS, listed, strict=True) if sizes[kind.name]]
        text = (
            f"This deletes from {self.usage.folder}:\n\n"
            + "\n".join(listed)
            + "\n\nIt can be downloaded or computed again. Decisions of reviews stay. Delete?"
        )
        if confirm(self, "Clear the cache?", text):
            self.clear.setEnabled(False)
            names = [kind.name for kind in KINDS]
            self._clearing.start(lambda: clear(names))

    def _ask_forget(self) -> None:
        text = (
            "The panel returns to its first start: model, device, labels, prompts, context, "
            "columns and tab. Preferences stay. Forget?"
        )
        if confirm(self, "Forget?", text):
            self.forget_asked.emit()

    def _ask_folder(self) -> None:
        folder = QFileDialog.getExistingDirectory(self, "Cache folder", str(cache_folder()))
        if folder:
            self.cache_folder.setText(folder)

    def _value(self, name: str) -> str | bool:
        widget = getattr(self, name)
        if isinstance(widget, QCheckBox):
            return bool(widget.isChecked())
        text = widget.currentText() if isinstance(widget, QComboBox) else widget.text()
        return str(text).strip()

    def _show(self, preferences: Preferences) -> None:
        for name, value in preferences:
            widget = getattr(self, name)
            with QSignalBlocker(widget):
                if isinstance(widget, QComboBox):
                    widget.setCurrentText(value)
                elif isinstance(widget, QCheckBox):
                    widget.setChecked(value)
                else:
                    widget.setText(value)

    def _show_usage(self, measured: Usage) -> None:
        self.usage = measured
        lines = measured.lines() or ["empty"]
        self.size.setText(f"{readable(measured.total)} in {measured.folder}\n" + "\n".join(lines))
        self.clear.setEnabled(any(measured.sizes.values()))
        self._fit()

    def _fit(self) -> None:
        """Grow until all wrapped lines fit."""
        self.layout().activate()
        needed = self.layout().totalHeightForWidth(self.width())
        self.resize(self.width(), max(self.height(), needed))

    def _on_cleared(self, outcome: Any) -> None:
        inform(" ".join([f"Freed {readable(outcome.freed)}.", *outcome.problems]))
        self.cleared.emit()
        self._measuring.start(usage)
