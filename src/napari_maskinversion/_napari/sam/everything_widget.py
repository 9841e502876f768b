"""Controls for segmenting everything in an image."""

from __future__ import annotations

from typing import Final

from qtpy.QtWidgets import QSizePolicy, QWidget

from ...regions.sam.automatic_config import AutomaticConfig
from ...results.settings import fields_of
from ..widgets.form import SettingsForm
from ..widgets.sections import form, stack

_SHARES: Final = ("score", "stability", "overlap")


class EverythingWidget(QWidget):
    """Edits an `AutomaticConfig`; starts with the defaults."""

    def __init__(self) -> None:
        super().__init__()
        settings = [one for one in fields_of(model=AutomaticConfig) if one.extra.get("ui", True)]
        self.form = SettingsForm(
            settings, options={key: {"step": 0.01} for key in _SHARES}, parent=self
        )
        for setting in settings:
            self.form[setting.key].setSizePolicy(
                QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed
            )
        stack(self, form(list(self.form.rows().values())), margins=(12, 0, 0, 0))

    def config(self) -> AutomaticConfig:
        """Return the chosen settings."""
        return AutomaticConfig(**self.form.values())
