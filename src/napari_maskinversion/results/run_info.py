"""How results were computed: model, settings, vocabulary, image, machine."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, ClassVar, Final
from uuid import uuid4

from pydantic import ConfigDict, PositiveInt, TypeAdapter

from ..base.units import Units
from ..engine.methods.registry import Method
from ..engine.settings import InversionConfig
from ..language.captions.bank import CaptionUse
from ..language.generation.settings import GenerationUse
from ..language.labels.vocabulary import Vocabulary
from ..language.ranking.uncertainty import Calibration, UncertaintyConfig
from .recipe import Recipe, Weights, space_key
from .settings import RunSettings

if TYPE_CHECKING:
    import torch

_SOFTWARE: Final = ("napari-maskinversion", "torch", "open_clip_torch", "numpy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What results depend on besides the input, up to rounding."""

    processor: str  # Name of the CPU or GPU
    # What multiplies matrices: "BLAS" or "oneDNN" on a CPU, "CUDA 12.8" or "Metal" on a GPU
    library: str
    threads: int  # Threads that torch uses on the CPU
    # Memory budget of inversions, in units of 2**20 bytes; 0 for methods without one
    memory_mb: int = 0
    instructions: str  # Of torch's CPU kernels: "AVX512", "AVX2", "DEFAULT"...

    @classmethod
    def of(cls, device: torch.device, memory_mb: int) -> Machine:
        """Return the record of this machine, for work on a device."""
        import torch

        from ..engine.compute.devices import processor
        from ..engine.compute.matmul import cpu_library

        name = processor()
        library = str(cpu_library())
        if device.type == "cuda":
            name = torch.cuda.get_device_name(device)
            library = f"CUDA {torch.version.cuda}"
        elif device.type == "mps":
            library = "Metal"
        return cls(
            processor=name,
            library=library,
            threads=torch.get_num_threads(),
            memory_mb=memory_mb,
            instructions=torch.backends.cpu.get_cpu_capability(),
        )


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
    method_sha256: str = ""  # Hash of the method's own weights; "" without any, or if not known
    # The same in all files of a run
    run_id: str = field(default_factory=lambda: uuid4().hex, compare=False)
    created: str = field(
        default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"), compare=False
    )

    @property
    def model(self) -> str:
        """Name of the model."""
        return self.settings.model

    @property
    def config(self) -> InversionConfig:
        """Settings of the inversion."""
        return self.settings.inversion

    @property
    def limits(self) -> UncertaintyConfig:
        """Limits that answers are flagged by."""
        return self.settings.unsure.filled(self.calibration)

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
        """Identify model and method: only embeddings of one space can be compared."""
        return space_key(self.fingerprint, self.method)

    @property
    def without_decisions(self) -> RunInfo:
        """The same without what a review learned from its decisions."""
        if self.vocabulary is None or self.vocabulary.chosen is self.vocabulary:
            return self
        return replace(self, vocabulary=self.vocabulary.chosen)

    @property
    def recipe(self) -> Recipe:
        """What the run was done with."""
        weights = Weights(self.fingerprint, self.model)
        run = Recipe(image={"units": self.units}, embedding={"weights": weights})
        return Recipe.of_settings(self.settings).joined(run, Recipe.of_words(self.vocabulary))

    def provenance(self, source: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Describe the run in JSON types: software, model, settings, vocabulary, sizes, time."""
        values = TypeAdapter(Any).dump_python(self, mode="json")
        settings = values["settings"]
        del settings["method"]  # the path of its weights is nobody's business
        method = self.method
        return {
            "run": self.run_id,
            "created": self.created,
            "software": {name: _version(name) for name in _SOFTWARE}
            | {"python": platform.python_version()},
            "model": {"name": self.model, "fingerprint": self.fingerprint, "device": self.device},
            "machine": values["machine"],
            "method": {
                "name": method.name,
                "title": method.title,
                "weights": None if method.weights is None else method.weights.name,
                "lacks": method.lacks,
            },
            "config": settings["inversion"] if method.uses_inversion else None,
            "vocabulary": values["vocabulary"],
            "captions": values["captions"],
            "generated_captions": values["generated"],
            "image": {
                "shape": values["image_shape"],
                "model_input": values["input_size"],
                "grid": values["grid"],
                "aspect_kept": self.settings.keep_aspect,
            },
            "window": settings["window"],
            "units": values["units"],
            "unsure": settings["unsure"],
            "flags": {
                "limits": self.limits.model_dump(),
                "calibration": values["calibration"],
                "note": self.flags_note,
            },
            "settings": settings,
            "differs_from_paper": self.settings.differences_from_paper(),
            "source": dict(source or {}),
        }


@cache  # a batch asks for each image, and 2 ms each time
def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
