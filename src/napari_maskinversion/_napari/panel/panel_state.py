"""What the panel restores at its next start. No Qt here."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    field_serializer,
    field_validator,
    model_validator,
)

from ...base.errors import ConfigError
from ...base.preferences import ConfigFile
from ...results.settings import RunSettings, settings_by_key, without_dropped
from ..results.results_columns import ColumnState

FILE: Final = ConfigFile("panel.json", 1)


class PanelState(BaseModel):
    """The panel's last state; an empty value means: as at the first start."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    # The file holds what differs from the defaults, by the key of a `Setting`; what is unknown or
    # invalid there is the default
    settings: RunSettings = Field(default_factory=RunSettings)
    channels: str = ""  # As in `Scope`, whose other fields belong to an image
    outlined: bool = False  # As in `Session`
    forming: bool = False
    features: bool = False
    labels: str = ""  # The text as it was typed
    # Group and colour by label, for labels that have one of the two
    marks: dict[str, tuple[str, str]] = Field(default_factory=dict)
    none: bool = False  # Whether "None of these" is switched on
    threshold: float | None = None  # Lowest similarity of a label
    prompts: str = ""  # Name of the prompt set, and the text of the user's own prompts
    own_prompts: str = ""
    columns: ColumnState = Field(default_factory=ColumnState)
    tab: str = ""  # The tab in view

    @model_validator(mode="before")
    @classmethod
    def _from_earlier_version(cls, values: Any) -> Any:
        """Read the file of a version that kept model, device and context only."""
        if isinstance(values, Mapping) and "settings" not in values:
            names = {"model": "model", "device": "device", "alpha": "inversion.alpha"}
            earlier = {key: values.get(name) for name, key in names.items()}
            return {**values, "settings": {key: one for key, one in earlier.items() if one}}
        return values

    @field_validator("settings", mode="before")
    @classmethod
    def _settings_that_work(cls, values: Any) -> RunSettings:
        if isinstance(values, RunSettings):
            return values
        settings = RunSettings()
        if not isinstance(values, Mapping):
            return settings
        values = without_dropped(values, "The settings of the last time")
        for key in _keys():
            if key in values:
                with suppress(ConfigError):
                    settings = settings.changed({key: values[key]})
        return settings

    @field_serializer("settings")
    def _differences(self, settings: RunSettings) -> dict[str, Any]:
        default = RunSettings()
        values = {key: settings.get(key) for key in _keys()}
        return {
            key: TypeAdapter(Any).dump_python(value, mode="json")
            for key, value in values.items()
            if value != default.get(key)
        }


def _keys() -> list[str]:
    """Return the keys of all settings; a method and its weights are one value."""
    parts = settings_by_key(RunSettings)
    return ["method", *(key for key in parts if not key.startswith("method."))]


def read_state() -> tuple[PanelState, str]:
    """Return the last state, and one line that says why it was ignored."""
    values, problem = FILE.read()
    try:
        return PanelState(**values), problem
    except ValidationError:
        return PanelState(), FILE.unreadable


def write_state(state: PanelState) -> None:
    """Write the state to its file; raises OSError if that fails."""
    FILE.write(state.model_dump(mode="json"))
