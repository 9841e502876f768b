"""Forms made from settings: each setting becomes a magicgui widget."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import NoneType
from typing import Any, Final, get_args

from magicgui.widgets import create_widget
from qtpy.QtCore import QObject, Signal
from qtpy.QtWidgets import QCheckBox, QComboBox, QSizePolicy, QWidget

from ...results.settings import Setting
from .sections import line

_MOST: Final = 1_000_000  # where neither the setting nor its form has a maximum
_DECIMALS: Final = 3


class SettingsForm(QObject):
    """One widget for each setting, by key.

    Parameters
    ----------
    settings : iterable of Setting
        Title, help, unit, range and choices come from them. A number that may be None gets a box
        "automatic".
    parent : QObject, optional

    Signals
    -------
    changed
        Any value was edited or set.
    """

    changed = Signal()

    def __init__(self, settings: Iterable[Setting], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._fields = {setting.key: _Field(setting) for setting in settings}
        for field in self._fields.values():
            field.widget.changed.connect(self._on_change)
            if field.automatic is not None:
                field.automatic.toggled.connect(self._on_change)

    def __getitem__(self, key: str) -> Any:
        """Return the Qt widget that edits a setting."""
        return self._fields[key].widget.native

    def rows(self) -> list[tuple[str, QWidget] | QWidget]:
        """Return the rows for `sections.form`, in the order of the settings."""
        return [field.row() for field in self._fields.values()]

    def values(self) -> dict[str, Any]:
        """Return the values by key, as `RunSettings.changed` takes them."""
        return {key: field.value for key, field in self._fields.items()}

    def set_values(self, values: Mapping[str, Any]) -> None:
        """Show values; settings that are not in this form are ignored."""
        for key in values.keys() & self._fields.keys():
            self._fields[key].show(values[key])

    def _on_change(self, *_: object) -> None:
        self.changed.emit()


class _Field:
    """The widget of one setting."""

    def __init__(self, setting: Setting) -> None:
        self._title = setting.title
        kinds = [kind for kind in get_args(setting.annotation) if kind is not NoneType]
        optional = NoneType in get_args(setting.annotation)
        kind = kinds[0] if optional and len(kinds) == 1 else setting.annotation
        options: dict[str, Any] = {"tooltip": setting.help}
        default = setting.default
        if kind in (int, float):
            least = setting.minimum if setting.minimum is not None else -_MOST
            options["min"] = least + 10**-_DECIMALS if setting.above else least
            most = setting.maximum if setting.maximum is not None else setting.extra.get("ui_max")
            options["max"] = _MOST if most is None else most
            if "step" in setting.extra:
                options["step"] = setting.extra["step"]
            if default is None:
                default = setting.extra.get("automatic", options["min"])
        self.widget = create_widget(
            value=default, annotation=kind, name=setting.name, label=setting.title, options=options
        )
        native = self.widget.native
        native.setAccessibleName(setting.title)
        if kind is float:
            native.setDecimals(_DECIMALS if setting.above else 2)
        if isinstance(native, QComboBox):
            native.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        if setting.unit and hasattr(native, "setSuffix"):
            native.setSuffix(f" {setting.unit}")
        elif setting.unit and setting.unit not in setting.title.lower():
            self._title += f" ({setting.unit})"
        self.automatic: QCheckBox | None = None
        if optional and kind in (int, float):
            self.automatic = QCheckBox("automatic")
            self.automatic.setAccessibleName(f"{setting.title}: automatic")
            self.automatic.toggled.connect(native.setDisabled)
            self.show(setting.default)

    @property
    def value(self) -> Any:
        if self.automatic is not None and self.automatic.isChecked():
            return None
        return self.widget.value

    def show(self, value: Any) -> None:
        if self.automatic is not None:
            self.automatic.setChecked(value is None)
        if value is not None:
            self.widget.value = value

    def row(self) -> tuple[str, QWidget] | QWidget:
        native: QWidget = self.widget.native
        if isinstance(native, QCheckBox):
            return native  # shows its title itself
        return self._title, native if self.automatic is None else line(native, self.automatic)
