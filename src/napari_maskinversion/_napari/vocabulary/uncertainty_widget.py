"""Limits below which a suggestion is unsure."""

from __future__ import annotations

from qtpy.QtCore import Signal
from qtpy.QtWidgets import QWidget

from ...language.ranking.uncertainty import UncertaintyConfig
from ...results.settings import RunSettings, fields_of
from ..widgets.form import SettingsForm
from ..widgets.sections import Note, form, stack


class UncertaintyWidget(QWidget):
    """The limits of `UncertaintyConfig`; 0 switches one off."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.form = SettingsForm(fields_of("uncertainty"), parent=self)
        for key in self.form.values():
            self.form[key].setSpecialValueText("off")
        about = Note("Suggestions below these limits are flagged, also in the current table.")
        stack(self, form([about, *self.form.rows().values()]))
        self.form.changed.connect(self.changed.emit)

    def config(self) -> UncertaintyConfig:
        """Return the limits."""
        return RunSettings().changed(self.form.values()).unsure
