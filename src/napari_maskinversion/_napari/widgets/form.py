"""Forms made from settings: each setting becomes a magicgui widget."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import NoneType
from typing import Any, Final, Protocol, get_args

from magicgui.widgets import create_widget
from magicgui.widgets.bases import RangedWidget
from qtpy.QtCore import QObject, QSignalBlocker, Signal
from qtpy.QtWidgets import (
    QAbstractSpinBox,
    QCheckBox,
    QComboBox,
    QDoubleSpinBox,
    QSizePolicy,
    QWidget,
)

from ...results.settings import Setting
from .sections import line

AUTOMATIC: Final = "automatic"
_LARGEST: Final = 1_000_000  # where neither the setting nor its metadata has a maximum
_DECIMALS: Final = 2
_MOST_DECIMALS: Final = 9
_WIDEST: Final = 2**31 - 1  # of a spin box


class Settings(Protocol):
    """Settings by key, such as `RunSettings`."""

    def get(self, key: str) -> object:
        """Return a value."""


class SettingsForm(QObject):
    """One widget for each setting, by key."""

    changed = Signal()

    def __init__(
        self,
        settings: Iterable[Setting],
        *,
        options: Mapping[str, Mapping[str, Any]] | None = None,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        options = options or {}
        self._fields = {
            setting.key: _Field(setting, options.get(setting.key, {})) for setting in settings
        }
        for field in self._fields.values():
            field.widget.changed.connect(self._on_change)
            if field.automatic is not None:
                field.automatic.toggled.connect(self._on_change)

    def __getitem__(self, key: str) -> Any:
        """Return the Qt widget that edits a setting."""
        return self._fields[key].widget.native

    def name_least(self, text: str) -> None:
        """Show a text in place of the least value of each number."""
        for field in self._fields.values():
            field.name_least(text)

    def rows(self) -> dict[str, tuple[str, QWidget] | QWidget]:
        """Return the rows for `sections.form` by key, in the order of the settings."""
        return {key: field.row for key, field in self._fields.items()}

    def values(self) -> dict[str, Any]:
        """Return the values by key, as `RunSettings.changed` takes them."""
        return {key: field.value for key, field in self._fields.items()}

    def set_values(self, values: Mapping[str, Any]) -> None:
        """Show values by key."""
        for key, value in values.items():
            self._fields[key].show(value)

    def show_settings(self, settings: Settings) -> None:
        """Show the values of `RunSettings`; nothing is emitted."""
        with QSignalBlocker(self):
            self.set_values({key: settings.get(key) for key in self._fields})

    def _on_change(self, *_: object) -> None:
        self.changed.emit()


class _Field:
    """The widget of one setting."""

    def __init__(self, setting: Setting, options: Mapping[str, Any]) -> None:
        kind, optional = setting.annotation, NoneType in get_args(setting.annotation)
        if optional:
            (kind,) = (part for part in get_args(kind) if part is not NoneType)
        title = setting.title
        decimals = setting.extra.get("decimals", _DECIMALS + setting.above)
        self._fewest = decimals
        self._decimals = decimals if kind is float else None
        limits = self._limits_of(setting) if kind in (int, float) else {}
        default = setting.default
        if default is None:
            default = setting.extra.get("automatic", limits.get("min"))
        self.widget = create_widget(
            value=default,
            annotation=kind,
            name=setting.name,
            label=setting.title,
            options={"tooltip": setting.help, **limits, **options},
        )
        native = self.widget.native
        native.setAccessibleName(setting.title)
        if isinstance(native, QDoubleSpinBox):
            native.setDecimals(decimals)
        elif isinstance(native, QComboBox):
            native.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        if setting.unit and hasattr(native, "setSuffix"):
            native.setSuffix(f" {setting.unit}")
        elif setting.unit and setting.unit not in setting.title.lower():
            title += f" ({setting.unit})"
        self.automatic: QCheckBox | None = None
        self._least, self._chosen = "", self.widget.value
        self._shown: tuple[Any, Any] = (None, None)  # and the value that it stands for
        ranged = isinstance(self.widget, RangedWidget)
        self._limits = (self.widget.min, self.widget.max) if ranged else (0, 0)
        if optional:
            self.automatic = QCheckBox(AUTOMATIC)
            self.automatic.setAccessibleName(f"{setting.title}: automatic")
            self.automatic.toggled.connect(self._show_automatic)
            self.show(setting.default)
        # A check box shows its title itself.
        editor = native if self.automatic is None else line(native, self.automatic)
        self.row = native if isinstance(native, QCheckBox) else (title, editor)

    def _limits_of(self, setting: Setting) -> dict[str, Any]:
        least, most = setting.minimum, setting.maximum
        if least is None:
            least = -_LARGEST
        if setting.above:  # by the smallest step that is shown
            least += 1 if self._decimals is None else 10**-self._decimals
        if most is None:
            most = setting.extra.get("ui_max", _LARGEST)
        return {"min": least, "max": most}

    @property
    def value(self) -> Any:
        if self.automatic is not None and self.automatic.isChecked():
            return None
        shown, value = self._shown
        return value if self._number == shown else self._number

    @property
    def _number(self) -> Any:
        value = self.widget.value
        # A slider has more decimals than it shows.
        return value if self._decimals is None else round(value, self._decimals)

    def show(self, value: object) -> None:
        if self.automatic is not None:
            self.automatic.setChecked(value is None)
        if value is not None:
            self._show(value)
            self._shown = self._number, value

    def _show(self, value: object) -> None:
        """Show a value; a file may hold a number that one would not type."""
        if not isinstance(value, int | float) or not isinstance(self.widget, RangedWidget):
            self.widget.value = value
        elif self._decimals is None:
            self._show_number(value, _WIDEST)
        else:
            needed = decimals_of(value, self._fewest)
            self._set_decimals(max(self._decimals, needed))
            # Sliders that go farther lose their decimals, also for the values that follow.
            self._show_number(value, _LARGEST)
            self._set_decimals(needed)

    def _show_number(self, value: float, farthest: int) -> None:
        """Show a number that may lie beyond the usual limits, as near as ``farthest`` allows."""
        widget = self.widget
        least, most = min(self._limits[0], value), max(self._limits[1], min(value, farthest))
        widget.min, widget.max = min(least, widget.min), max(most, widget.max)
        # Limits are rounded, too.
        widget.value = min(max(value, widget.min), widget.max)
        widget.min, widget.max = least, most

    def name_least(self, text: str) -> None:
        """Show a text in place of the least value."""
        self._least = text
        if self.automatic is None or not self.automatic.isChecked():
            self.widget.native.setSpecialValueText(text)

    def _show_automatic(self, automatic: bool) -> None:
        """Let a disabled number say that it is automatic; its value comes back."""
        native = self.widget.native
        native.setDisabled(automatic)
        if isinstance(native, QAbstractSpinBox):
            if automatic:
                self._chosen = self.widget.value
            native.setSpecialValueText(AUTOMATIC if automatic else self._least)
            with QSignalBlocker(native):
                self.widget.value = self.widget.min if automatic else self._chosen

    def _set_decimals(self, decimals: int) -> None:
        self._decimals = decimals
        native = self.widget.native
        # A slider shows its number in a spin box.
        for box in (native, *native.findChildren(QDoubleSpinBox)):
            if isinstance(box, QDoubleSpinBox):
                box.setDecimals(decimals)


def decimals_of(number: float, fewest: int) -> int:
    """Return how many decimals show a number as it is: at least ``fewest``, at most nine."""
    for decimals in range(fewest, _MOST_DECIMALS):
        if round(number, decimals) == number:
            return decimals
    return _MOST_DECIMALS
