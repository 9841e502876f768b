"""Settings of a run, in one place.

Command-line options, the panel's forms, ``result.json`` and the archive are made from the fields of
`RunSettings` and of the configurations nested in it. A new setting is one field here (or there),
and the code that reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, is_dataclass, replace
from dataclasses import fields as dataclass_fields
from typing import Any, Final, Literal, Self, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic.fields import FieldInfo

from ..base.errors import ConfigError
from ..base.validation import config_error
from ..engine.methods.registry import Method
from ..engine.settings import InversionConfig
from ..images.windows import WindowConfig
from ..language.captions.bank import TOP
from ..language.ranking.uncertainty import UncertaintyConfig

GROUPS: Final = {
    "model": "Model",
    "method": "Method",
    "inversion": "Inversion",
    "input": "Model input",
    "window": "Windows",
    "planes": "Planes, channels and regions",
    "units": "Units",
    "labels": "Labels and captions",
    "uncertainty": "Uncertain answers",
}
"""Groups of settings and their titles, in the order in which people read them."""


_LIMITS: Final = ("ge", "gt", "le", "lt")


class RunSettings(BaseModel):
    """Everything that decides how the regions of an image are answered, but for files and labels.

    Frozen. Each field's ``title``, ``description`` and range are shown to users. ``group`` in
    ``json_schema_extra`` is one of `GROUPS`. ``cli`` there names the command-line option where it
    is not the field's name (False: there is none), ``cli_help`` its help where that differs.
    ``unit`` and ``ui_max`` are for forms; ``ui`` is False for fields that forms leave out.

    Raises
    ------
    ConfigError
        If a value cannot work; names field and value.

    Examples
    --------
    >>> settings = RunSettings(inversion=InversionConfig(alpha=5), window="whole")
    >>> settings.changed({"inversion.steps": 20, "device": "cpu"}).inversion.steps
    20
    """

    model_config = ConfigDict(frozen=True)

    model: str = Field(
        "demo",
        title="Model",
        description="Model name, or a checkpoint file.",
        json_schema_extra={"group": "model"},
    )
    architecture: str | None = Field(
        None,
        title="Architecture",
        description="open_clip architecture of a checkpoint file.",
        json_schema_extra={"group": "model"},
    )
    device: str = Field(
        "auto",
        title="Device",
        description="auto, cpu, cuda, cuda:1 or mps.",
        json_schema_extra={"group": "model"},
    )
    method: Method = Field(
        default_factory=Method, title="Method", json_schema_extra={"group": "method"}
    )
    inversion: InversionConfig = Field(
        default_factory=InversionConfig, title="Inversion", json_schema_extra={"group": "inversion"}
    )
    chunk_size: int | None = Field(
        None,
        ge=1,
        title="Regions at once",
        description="Regions inverted together (default: 16).",
        json_schema_extra={"group": "input", "ui_max": 1024, "automatic": 16},
    )
    resolution: int | None = Field(
        None,
        ge=1,
        title="Resolution",
        description="Side of the model's input in pixels (default: the model's).",
        json_schema_extra={"group": "input", "unit": "px", "ui_max": 4096},
    )
    keep_aspect: bool = Field(
        True,
        title="Keep the aspect ratio",
        description="Otherwise the image is squeezed into a square.",
        json_schema_extra={
            "group": "input",
            "cli": "square",
            "cli_help": "Squeeze the image into a square.",
        },
    )
    window: WindowConfig = Field(
        default_factory=WindowConfig,
        title="Windows",
        description="What the model sees with a region: auto, whole, or a side in pixels.",
        json_schema_extra={"group": "window"},
    )
    planes: Literal["largest", "each"] | None = Field(
        None,
        title="Planes",
        description="Use all planes of a 3-D or time label file: each region on the plane where it "
        "is largest (largest), or on each plane that it touches (each).",
        json_schema_extra={"group": "planes"},
    )
    plane: str = Field(
        "",
        title="Plane",
        description="Plane of a stack, for example z=12,t=3.",
        json_schema_extra={"group": "planes"},
    )
    channels: str | None = Field(
        None,
        title="Channels",
        description="Channels by number or name, for example 0,2.",
        json_schema_extra={"group": "planes"},
    )
    only: str = Field(
        "",
        title="Only these regions",
        description="Only the regions with these labels, for example 3,5.",
        json_schema_extra={"group": "planes"},
    )
    merge: tuple[str, ...] = Field(
        (),
        title="Merge regions",
        description="Labels to merge into one region, for example 3,5,9; may be repeated.",
        json_schema_extra={"group": "planes"},
    )
    pixel_size: float | None = Field(
        None,
        gt=0,
        title="Pixel size",
        description="Size of a pixel (default: as stored in the file).",
        json_schema_extra={"group": "units"},
    )
    unit: str = Field(
        "µm",
        title="Unit",
        description="Unit of the pixel size.",
        json_schema_extra={"group": "units"},
    )
    threshold: float | None = Field(
        None,
        title="Threshold",
        description="Regions less similar than this to every label are 'none of these' "
        "(default: off).",
        json_schema_extra={"group": "labels"},
    )
    top_captions: int = Field(
        TOP,
        title="Captions",
        description="Captions for each region.",
        ge=1,
        json_schema_extra={"group": "labels", "cli": "top-k", "ui_max": 100},
    )
    unsure: UncertaintyConfig = Field(
        default_factory=UncertaintyConfig,
        title="Uncertain answers",
        json_schema_extra={"group": "uncertainty"},
    )

    def __init__(self, **values: Any) -> None:
        for name in values.keys() - type(self).model_fields.keys():
            raise ConfigError(f"There is no setting {name!r}.")
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise config_error(error) from None

    @field_validator("method", mode="before")
    @classmethod
    def _method_by_name(cls, value: Any) -> Any:
        return Method.of(value) if value is None or isinstance(value, str) else value

    @field_validator("window", mode="before")
    @classmethod
    def _window_from_text(cls, value: Any) -> Any:
        return WindowConfig.parse(value) if isinstance(value, str) else value

    @classmethod
    def of(cls, settings: RunSettings | InversionConfig | None = None, **changes: Any) -> Self:
        """Return settings with changes; an `InversionConfig` alone leaves the rest at its default.

        Parameters
        ----------
        settings : RunSettings or InversionConfig, optional
        **changes
            Fields of `RunSettings`. None stands for the default.
        """
        values = dict(settings) if isinstance(settings, RunSettings) else {}
        if isinstance(settings, InversionConfig):
            values["inversion"] = settings
        changes = {name: value for name, value in changes.items() if value is not None}
        return cls(**{**values, **changes})

    def changed(self, values: Mapping[str, Any]) -> Self:
        """Return a copy with other values.

        Parameters
        ----------
        values : mapping
            By the key of a `Setting`: ``{"device": "cpu", "inversion.steps": 20}``.

        Raises
        ------
        ConfigError
            If there is no such setting, or a value cannot work.
        """
        changes = {name: value for name, value in values.items() if "." not in name}
        new = type(self)(**{**dict(self), **changes})
        nested: dict[str, dict[str, Any]] = {}
        for key, value in values.items():
            if "." in key:
                self.get(key)
                parent, name = key.split(".")
                nested.setdefault(parent, {})[name] = value
        parts = {parent: replace(getattr(new, parent), **parts) for parent, parts in nested.items()}
        return type(self)(**{**dict(new), **parts}) if parts else new

    def get(self, key: str) -> Any:
        """Return the value of a setting by its key, such as ``"inversion.steps"``.

        Raises
        ------
        ConfigError
            If there is no such setting.
        """
        value: Any = self
        for name in key.split("."):
            if not hasattr(value, name):
                raise ConfigError(f"There is no setting {key!r}.")
            value = getattr(value, name)
        return _as_text(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting as forms and the command line show it.

    Attributes
    ----------
    key : str
        ``"device"``; ``"inversion.steps"`` for a field of a nested configuration.
    annotation : type
        Without metadata.
    default : object
    title, help, unit : str
    group : str
        A key of `GROUPS`.
    minimum, maximum : float or None
        Inclusive limits; `above` excludes the minimum.
    above : bool
    extra : mapping
        The other entries of ``json_schema_extra``.
    """

    key: str
    annotation: Any
    default: Any
    title: str
    help: str
    group: str
    unit: str = ""
    minimum: float | None = None
    maximum: float | None = None
    above: bool = False
    extra: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Name of the field, without that of the configuration it is in."""
        return self.key.rpartition(".")[2]


def fields_of(*groups: str, model: type[RunSettings] | None = None) -> list[Setting]:
    """Return the settings of groups, or all of them, in the order of their fields.

    Parameters
    ----------
    *groups : str
        Keys of `GROUPS`.
    model : type, optional
        A subclass of `RunSettings`, with more fields.
    """
    every = settings_by_key(model or RunSettings).values()
    return [setting for setting in every if not groups or setting.group in groups]


def settings_by_key(model: type[RunSettings]) -> dict[str, Setting]:
    """Return all settings by key."""
    return {setting.key: setting for setting in _settings(model)}


def _settings(model: type[RunSettings]) -> Iterator[Setting]:
    defaults = model()
    for name, field in model.model_fields.items():
        kind, default = field.annotation, getattr(defaults, name)
        if not (isinstance(kind, type) and is_dataclass(kind)):
            yield _setting(name, kind, field, default, {})
            continue
        if field.description:  # can be written as one text, such as a window's size
            yield _setting(name, str, field, _as_text(default), {})
        extra = _extra(field)
        hints = get_type_hints(kind, include_extras=True)
        for part in dataclass_fields(kind):
            inner = FieldInfo.from_annotation(hints[part.name])
            if inner.title:
                yield _setting(
                    f"{name}.{part.name}",
                    inner.annotation,
                    inner,
                    getattr(default, part.name),
                    extra,
                )


def _as_text(value: Any) -> Any:
    return value.text if isinstance(value, WindowConfig) else value


def _extra(field: FieldInfo) -> dict[str, Any]:
    extra = field.json_schema_extra
    return dict(extra) if isinstance(extra, Mapping) else {}


def _setting(
    key: str, annotation: Any, field: FieldInfo, default: Any, inherited: Mapping[str, Any]
) -> Setting:
    extra = {"group": inherited.get("group")} | _extra(field)
    limits: dict[str, Any] = {}
    for rule in field.metadata:  # such as Ge(ge=1)
        limits |= {name: getattr(rule, name) for name in _LIMITS if hasattr(rule, name)}
    return Setting(
        key=key,
        annotation=annotation,
        default=default,
        title=field.title or key,
        help=field.description or "",
        group=str(extra.pop("group")),
        unit=str(extra.pop("unit", "")),
        minimum=limits.get("ge", limits.get("gt")),
        maximum=limits.get("le"),
        above="gt" in limits,
        extra=extra,
    )
