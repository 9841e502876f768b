"""Limits below which a suggestion is flagged."""

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
        settings = [one for one in fields_of("uncertainty") if one.extra.get("ui", True)]
        self.form = SettingsForm(settings, parent=self)
        self.form.name_least("off")
        about = Note(
            "Suggestions below these limits are flagged, also in the current table. Automatic: as "
            "calibrated for the model."
        )
        stack(self, form([about, *self.form.rows().values()]))
        self.form.changed.connect(self.changed.emit)

    def show_settings(self, settings: RunSettings) -> None:
        """Show the limits."""
        self.form.show_settings(settings)

    def config(self) -> UncertaintyConfig:
        """Return the limits."""
        return RunSettings().changed(self.form.values()).unsure
