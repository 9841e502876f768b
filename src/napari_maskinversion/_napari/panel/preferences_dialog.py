"""The panel's window for preferences and for what is kept on disk."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Any

from qtpy.QtCore import QSignalBlocker, Signal
from qtpy.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QFileDialog,
    QHBoxLayout,
    QLineEdit,
    QMessageBox,
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
from ..widgets.sections import form, note
from ..workers.calls import Calls
from ..workers.notify import inform, refuse

_TIPS = {
    "model": "The model that the panel starts with",
    "device": "The device that the panel starts with; auto: CUDA, else Apple's MPS, else the CPU",
    "cache_folder": "Folder for weights and all that is computed once; empty: the usual place",
    "offline": "Nothing is fetched; the command line keeps to it too",
    "live": "Live mode is on when the panel opens",
    "heatmap": "Colours of heatmaps",
    "palette": "Colours of accepted regions whose label has none of its own",
}


class PreferencesDialog(QDialog):
    """Shows preferences; what is chosen is read when it is accepted.

    Signals
    -------
    cleared
        Something was deleted from the cache folder.
    forget_asked
        The panel shall forget what it remembers.
    """

    cleared = Signal()
    forget_asked = Signal()

    def __init__(self, preferences: Preferences, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Preferences of MaskInversion")
        self.chosen = preferences
        self.usage: Usage | None = None
        self.model, self.device = _combo("model"), _combo("device")
        self.heatmap, self.palette = _combo("heatmap"), _combo("palette")
        self.cache_folder = QLineEdit()
        self.browse = QPushButton("...")
        self.offline = QCheckBox("Offline")
        self.live = QCheckBox("Live at start")
        self.size, self.problem = note("Counting ..."), note()
        self.clear = QPushButton("Clear the cache...")
        self.clear.setToolTip("Delete what can be fetched or computed again; asks first")
        self.clear.setEnabled(False)
        self.forget = QPushButton("Forget what the panel remembers")
        self.forget.setToolTip("Model, device, labels, prompts, context, columns and sections")
        standard = QDialogButtonBox.StandardButton
        self.buttons = QDialogButtonBox(standard.Ok | standard.Cancel)
        self._measuring, self._clearing = Calls(self), Calls(self)
        self._build()
        self._show(preferences)
        self._measuring.done.connect(self._show_usage)
        self._measuring.failed.connect(self.size.setText)
        self._clearing.done.connect(self._on_cleared)
        self._clearing.failed.connect(refuse)
        self._measuring.start(usage)

    def _build(self) -> None:
        for name, tip in _TIPS.items():
            getattr(self, name).setToolTip(tip)
        self.browse.setToolTip("Choose the folder")
        self.browse.setAccessibleName("Choose the cache folder")
        self.browse.setFixedWidth(32)
        self.cache_folder.setPlaceholderText(str(cache_folder()))
        self.cache_folder.setAccessibleName("Cache folder")
        place = QWidget()
        row = QHBoxLayout(place)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(4)
        row.addWidget(self.cache_folder, 1)
        row.addWidget(self.browse)
        if os.environ.get(VARIABLE):
            for widget in (self.cache_folder, self.browse):
                widget.setEnabled(False)
                widget.setToolTip(f"The environment variable {VARIABLE} decides.")
        layout = QVBoxLayout(self)
        layout.addWidget(
            form(
                [
                    ("Model", self.model),
                    ("Device", self.device),
                    ("Heatmaps", self.heatmap),
                    ("Label colours", self.palette),
                    self.live,
                    self.offline,
                    ("Cache folder", place),
                    self.problem,
                    self.size,
                    self.clear,
                    self.forget,
                ]
            )
        )
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
        """Close, unless something cannot work: then say what."""
        try:
            self.chosen = Preferences(
                model=self.model.currentText(),
                device=self.device.currentText(),
                heatmap=self.heatmap.currentText(),
                palette=self.palette.currentText(),
                cache_folder=self.cache_folder.text().strip(),
                offline=self.offline.isChecked(),
                live=self.live.isChecked(),
            )
        except ConfigError as error:
            self.problem.setText(str(error))
            self.problem.show()
            self._fit()
            return
        super().accept()

    def done(self, result: int) -> None:
        """Close; what is still being counted is dropped."""
        self._measuring.abandon()
        super().done(result)

    def ask_clear(self) -> None:
        """Say what would be deleted, and delete it if that is wanted."""
        if self.usage is None:
            return
        sizes = self.usage.sizes
        going = [
            f"{kind.title}: {readable(sizes[kind.name])}" for kind in KINDS if sizes[kind.name]
        ]
        answer = QMessageBox.question(
            self,
            "Clear the cache?",
            f"From {self.usage.folder} this deletes:\n\n"
            + "\n".join(going)
            + "\n\nIt can be fetched or computed again. Decisions of reviews stay. Delete?",
        )
        if answer == QMessageBox.StandardButton.Yes:
            self.clear.setEnabled(False)
            names = [kind.name for kind in KINDS]
            self._clearing.start(lambda: clear(names))

    def _ask_forget(self) -> None:
        answer = QMessageBox.question(
            self,
            "Forget?",
            "The panel returns to how it first started: model, device, labels, prompts, context, "
            "columns and sections. Preferences stay. Forget?",
        )
        if answer == QMessageBox.StandardButton.Yes:
            self.forget_asked.emit()

    def _ask_folder(self) -> None:
        chosen = QFileDialog.getExistingDirectory(self, "Cache folder", str(cache_folder()))
        if chosen:
            self.cache_folder.setText(chosen)

    def _show(self, preferences: Preferences) -> None:
        for name, value in asdict(preferences).items():
            widget = getattr(self, name)
            with QSignalBlocker(widget):
                if isinstance(widget, QComboBox):
                    widget.setCurrentText(value)
                elif isinstance(widget, QCheckBox):
                    widget.setChecked(value)
                else:
                    widget.setText(value)

    def _show_usage(self, found: Usage) -> None:
        self.usage = found
        lines = found.lines() or ["empty"]
        self.size.setText(f"{readable(found.total)} in {found.folder}\n" + "\n".join(lines))
        self.clear.setEnabled(any(found.sizes.values()))
        self._fit()

    def _fit(self) -> None:
        """Grow as high as lines that wrap need."""
        self.layout().activate()
        needed = self.layout().totalHeightForWidth(self.width())
        self.resize(self.width(), max(self.height(), needed))

    def _on_cleared(self, done: Any) -> None:
        said = [f"Freed {readable(done.freed)}.", *done.problems]
        inform(" ".join(said))
        self.cleared.emit()
        self._measuring.start(usage)


def _combo(name: str) -> QComboBox:
    combo = QComboBox()
    combo.addItems((LAST, *MODELS) if name == "model" else choices(name))
    combo.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
    return combo
