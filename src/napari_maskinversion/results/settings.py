"""Settings of a run, in one place.

Command-line options, the panel's forms, ``result.json`` and the archive are made from the fields of
`RunSettings` and of the configurations nested in it. A new setting is one field here (or there),
and the code that reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, field_validator
from pydantic.fields import FieldInfo

from ..base.errors import ConfigError, InputError
from ..base.validation import Config, FrozenModel, setting
from ..engine.methods.registry import Method
from ..engine.settings import InversionConfig
from ..images.windows import WindowConfig
from ..language.captions.bank import TOP
from ..language.ranking.ranking import EXPRESSION_ALPHA
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
    "uncertainty": "Flags",
}
"""Groups of settings and their titles, in the order in which people read them."""


PaperTask = Literal["classes", "expressions"]
PAPER: Final[Mapping[str, Any]] = {
    "inversion.steps": 10,
    "inversion.learning_rate": 0.1,
    "inversion.alpha": 0.0,
    "inversion.weight_decay": 0.0,
    "inversion.layers": 1,
    "inversion.explainer": "legrad",
    "inversion.fast": False,
    "inversion.precision": "float32",
    "resolution": 448,
    "keep_aspect": False,
    "window": "whole",
}
"""The paper's setting for class retrieval, by the key of a `Setting`. It names neither learning
rate nor weight decay: these are the defaults of the published code."""

CHUNK: Final = 16  # regions inverted in one call on the CPU, and the most that Cancel can lose
GPU_CHUNK: Final = 256  # on a GPU, which takes a fraction of a second for them
_LIMITS: Final = ("ge", "gt", "le", "lt")


class RunSettings(FrozenModel):
    """All settings of a run, except files and labels.

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

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    model: str = setting("demo", "Model", "Model name, or a checkpoint file.", group="model")
    architecture: str | None = setting(
        None, "Architecture", "open_clip architecture of a checkpoint file.", group="model"
    )
    device: str = setting("auto", "Device", "auto, cpu, cuda, cuda:1 or mps.", group="model")
    method: Method = setting(Method, "Method", group="method")
    inversion: InversionConfig = setting(InversionConfig, "Inversion", group="inversion")
    chunk_size: int | None = setting(
        None,
        "Regions at once",
        f"Regions inverted together (default: {CHUNK} on the CPU, {GPU_CHUNK} on a GPU).",
        group="input",
        ge=1,
        ui_max=1024,
        automatic=CHUNK,
    )
    resolution: int | None = setting(
        None,
        "Resolution",
        "Side of the model's input in pixels (default: the model's).",
        group="input",
        ge=1,
        unit="px",
        ui_max=4096,
    )
    keep_aspect: bool = setting(
        True,
        "Keep the aspect ratio",
        "Otherwise the image is squeezed into a square.",
        group="input",
        cli="square",
        cli_help="Squeeze the image into a square.",
    )
    window: WindowConfig = setting(
        WindowConfig,
        "Windows",
        "What the model sees with a region: auto, whole, or a side in pixels.",
        group="window",
    )
    planes: Literal["largest", "each"] | None = setting(
        None,
        "Planes",
        "Use all planes of a 3-D or time label file: each region on the plane where it is largest "
        "(largest), or on each plane that it touches (each).",
        group="planes",
    )
    plane: str = setting("", "Plane", "Plane of a stack, for example z=12,t=3.", group="planes")
    series: int | None = setting(
        None,
        "Image in the file",
        "Which image of a file with several (positions), from 0 (default: the first).",
        group="planes",
        ge=0,
    )
    channels: str | None = setting(
        None, "Channels", "Channels by number or name, for example 0,2.", group="planes"
    )
    only: str = setting(
        "",
        "Only these regions",
        "Only the regions with these labels, for example 3,5.",
        group="planes",
    )
    merge: tuple[str, ...] = setting(
        (),
        "Merge regions",
        "Labels to merge into one region, for example 3,5,9; may be repeated.",
        group="planes",
    )
    measure: bool = setting(
        False,
        "Measure regions",
        "Measure the shape of regions, and mean and spread of each channel in them.",
        group="planes",
    )
    pixel_size: float | None = setting(
        None, "Pixel size", "Size of a pixel (default: as stored in the file).", group="units", gt=0
    )
    unit: str = setting("µm", "Unit", "Unit of the pixel size.", group="units")
    threshold: float | None = setting(
        None,
        "Threshold",
        "Regions less similar than this to every label are 'none of these' (default: off).",
        group="labels",
        ge=-1,
        le=1,
    )
    top_captions: int = setting(
        TOP, "Captions", "Captions for each region.", group="labels", ge=1, cli="top-k", ui_max=100
    )
    unsure: UncertaintyConfig = setting(UncertaintyConfig, "Flags", group="uncertainty")

    def __init__(self, **values: Any) -> None:  # a method and a window may be texts
        super().__init__(**values)

    @field_validator("method", mode="before")
    @classmethod
    def _method_by_name(cls, value: Any) -> Any:
        if value is None or isinstance(value, str):
            return Method.of(value)
        return value

    @field_validator("window", mode="before")
    @classmethod
    def _window_from_text(cls, value: Any) -> Any:
        if isinstance(value, str):
            return WindowConfig.parse(value)
        return value

    @classmethod
    def paper(cls, task: PaperTask = "classes") -> Self:
        """Return the setting of the paper's experiments (arXiv 2407.20034): `PAPER`.

        Parameters
        ----------
        task : {"classes", "expressions"}
            Regions are named by classes (alpha 0), or found by referring expressions (alpha 5).
        """
        alpha = {}
        if task == "expressions":
            alpha = {"inversion.alpha": EXPRESSION_ALPHA}
        return cls().changed({**PAPER, **alpha})

    def differences_from_paper(self) -> list[str]:
        """Return the keys of settings that are not the paper's for naming regions."""
        return [key for key, value in PAPER.items() if self.get(key) != value]

    def at_once(self, device: str) -> int:
        """Return how many regions a device inverts in one call, as far as memory allows."""
        return self.chunk_size or (CHUNK if device == "cpu" else GPU_CHUNK)

    @property
    def uses_native_windows(self) -> bool:
        """Whether windows of large regions have the model's own resolution; measured for this."""
        return self.method.inverts and self.resolution is None

    @property
    def only_ids(self) -> set[int] | None:
        """Ids of the only regions to use; None for all."""
        if self.only:
            return set(_ids("only", self.only))
        return None

    @property
    def merge_ids(self) -> list[list[int]]:
        """Groups of ids, each merged into one region."""
        return [_ids("merge", group) for group in self.merge]

    @classmethod
    def of(
        cls, settings: RunSettings | InversionConfig | None = None, **changes: Any
    ) -> RunSettings:
        """Return settings with changes; an `InversionConfig` alone leaves the rest at its default.

        Parameters
        ----------
        settings : RunSettings or InversionConfig, optional
            What to start from; default: all defaults.
        **changes
            Fields of `RunSettings`, or of its `InversionConfig`. None stands for the default.
        """
        if not isinstance(settings, RunSettings):
            if settings is None:
                settings = cls()
            else:
                settings = cls(inversion=settings)
        values = {}
        for name, value in changes.items():
            if value is not None:
                values[f"inversion.{name}" if name in InversionConfig.model_fields else name] = (
                    value
                )
        return settings.changed(values)

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
        whole = {key: value for key, value in values.items() if "." not in key}
        new = type(self)(**{**dict(self), **whole}) if whole else self
        parts: dict[str, dict[str, Any]] = {}
        for key in values.keys() - whole.keys():
            self.get(key)
            parent, name = key.split(".")
            parts.setdefault(parent, {})[name] = values[key]
        # Each part checks its own values; what holds them has nothing to check again.
        update = {parent: getattr(new, parent).changed(**part) for parent, part in parts.items()}
        return new.model_copy(update=update)

    def get(self, key: str) -> Any:
        """Return the value of a setting by its key, such as ``"inversion.steps"``.

        Raises
        ------
        ConfigError
            If there is no such setting.
        """
        value: Any = self
        for name in key.split("."):
            if name not in getattr(type(value), "model_fields", ()):
                raise ConfigError(f"There is no setting {key!r}.")
            value = getattr(value, name)
        return _as_text(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting as forms and the command line show it."""

    key: str  # ``"device"``; ``"inversion.steps"`` for a field of a nested configuration
    annotation: Any  # Without metadata
    default: Any
    title: str
    help: str
    group: str  # A key of `GROUPS`
    unit: str = ""
    minimum: float | None = None  # Inclusive limits; `above` excludes the minimum
    maximum: float | None = None
    above: bool = False
    extra: Mapping[str, Any]  # The other entries of ``json_schema_extra``

    @property
    def name(self) -> str:
        """Name of the field, without the name of its configuration."""
        return self.key.rpartition(".")[2]


def fields_of(*groups: str, model: type[BaseModel] | None = None) -> list[Setting]:
    """Return the settings of groups, or all of them, in the order of their fields."""
    every = settings_by_key(model or RunSettings).values()
    return [setting for setting in every if not groups or setting.group in groups]


@cache
def settings_by_key(model: type[BaseModel]) -> Mapping[str, Setting]:
    """Return all settings by key."""
    return {setting.key: setting for setting in _settings(model)}


def _settings(model: type[BaseModel]) -> Iterator[Setting]:
    defaults = model()
    for name, field in model.model_fields.items():
        kind = field.annotation
        default = getattr(defaults, name)
        if not (isinstance(kind, type) and issubclass(kind, Config)):
            yield _setting(name, kind, field, default)
            continue
        if field.description:  # can be written as one text, such as a window's size
            yield _setting(name, str, field, _as_text(default))
        group = _extra(field)["group"]
        for part, inner in kind.model_fields.items():
            if inner.title:
                value = getattr(default, part)
                yield _setting(f"{name}.{part}", inner.annotation, inner, value, group)


def _ids(name: str, text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"--{name} takes labels such as 3,5,9; got {text!r}.") from None


def _as_text(value: Any) -> Any:
    if isinstance(value, WindowConfig):
        return value.text
    return value


def _extra(field: FieldInfo) -> dict[str, Any]:
    if isinstance(field.json_schema_extra, dict):
        return dict(field.json_schema_extra)
    return {}


def _setting(
    key: str, annotation: Any, field: FieldInfo, default: Any, group: str | None = None
) -> Setting:
    extra = {"group": group} | _extra(field)
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
