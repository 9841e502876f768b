"""How results were computed: model, settings, vocabulary, image."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar
from uuid import uuid4

from pydantic import ConfigDict, PositiveInt, TypeAdapter

from ..base.units import Units
from ..engine.methods.registry import Method
from ..engine.settings import InversionConfig
from ..images.windows import WindowConfig
from ..language.captions.bank import CaptionUse
from ..language.generation.settings import GenerationUse
from ..language.labels.vocabulary import Vocabulary
from ..language.ranking.calibration import Calibration
from ..language.ranking.uncertainty import UncertaintyConfig
from .machine import Machine
from .settings import RunSettings, without_dropped


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """How results were computed."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(allow_inf_nan=False)

    fingerprint: str  # Hash of the model's name, weights and use
    settings: RunSettings
    vocabulary: Vocabulary | None
    image_shape: tuple[PositiveInt, PositiveInt]  # Pixels (H, W) of the plane
    # Pixels (H, W) and tokens of the model's input, for the first window
    input_size: tuple[PositiveInt, PositiveInt]
    grid: tuple[PositiveInt, PositiveInt]
    embed_dim: PositiveInt
    device: str  # Of the first region. Regions computed after memory ran out may have another one.
    units: Units | None = None  # Sizes of the image's pixels
    axes: tuple[str, ...] = ()  # Names of the axes in the regions' positions
    captions: CaptionUse | None = None  # Where captions come from
    generated: GenerationUse | None = None  # The decoder that wrote sentences from the embeddings
    machine: Machine | None = None  # What computed them
    # Limits of the model's flags at that time; None if they were not calibrated
    calibration: Calibration | None = None
    # The same in all files of a run
    run_id: str = field(default_factory=lambda: uuid4().hex, compare=False)

    @property
    def model(self) -> str:
        """Name of the model."""
        return self.settings.model

    @property
    def config(self) -> InversionConfig:
        """Settings of the inversion."""
        return self.settings.inversion

    @property
    def keep_aspect(self) -> bool:
        """False if the plane was squeezed into a square."""
        return self.settings.keep_aspect

    @property
    def window(self) -> WindowConfig:
        """How regions were put into windows."""
        return self.settings.window

    @property
    def unsure(self) -> UncertaintyConfig:
        """Limits that the user chose; None stands for the calibrated ones."""
        return self.settings.unsure

    @property
    def limits(self) -> UncertaintyConfig:
        """Limits that answers are flagged by."""
        return self.unsure.filled(self.calibration)

    @property
    def flags_note(self) -> str:
        """What the flags do not say, in one line; "" if they say everything."""
        if not self.method.inverts or self.limits.overlap is not None:
            return ""
        return (
            f"Whether heatmaps fit is not flagged: the limits are not calibrated for {self.model}. "
            "Review some regions, save results.npz, then run "
            f"'napari-maskinversion models calibrate {self.model} results.npz'."
        )

    @property
    def method(self) -> Method:
        """How regions were embedded."""
        return self.settings.method

    @property
    def space(self) -> str:
        """Identify the embedding space: only embeddings of one space can be compared."""
        return self.fingerprint if self.method.inverts else f"{self.fingerprint}/{self.method.name}"


def info_to_json(info: RunInfo) -> dict[str, Any]:
    """Return plain values for JSON; `info_from_json` reads them."""
    values: dict[str, Any] = _adapter().dump_python(info, mode="json")
    return values


def info_from_json(values: Mapping[str, Any]) -> RunInfo:
    """Read what `info_to_json` returned."""
    settings = without_dropped(values["settings"], "These results")
    info: RunInfo = _adapter().validate_python({**values, "settings": settings})
    return info


@cache
def _adapter() -> Any:
    return TypeAdapter(RunInfo)
