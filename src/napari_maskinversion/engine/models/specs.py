"""Models by name. Imports neither torch nor open_clip."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal

from ...base.download import size_text
from ...base.errors import ModelError

BUNDLED: Final = "bundled"
DEMO: Final = "demo"
CONFIG_FILE: Final = "open_clip_config.json"
CHECKPOINTS: Final = (".safetensors", ".pt", ".pth", ".bin", ".ckpt")
"""Endings of checkpoint files."""
WEIGHTS_FILE: Final = "open_clip_model.safetensors"
WEIGHTS_FILES: Final = (WEIGHTS_FILE, "open_clip_pytorch_model.bin")
"""Names of the weights in a repository of the hub or a copy of one, the safest format first."""

OPENAI_MEAN: Final = (0.48145466, 0.4578275, 0.40821073)
OPENAI_STD: Final = (0.26862954, 0.26130258, 0.27577711)
HALF: Final = (0.5, 0.5, 0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """A model before it is loaded."""

    name: str  # What users type: ``"demo"`` or ``"ViT-B-16/openai"`` (architecture / tag)
    title: str  # One short line for a list
    architecture: str  # open_clip's names; `tag` is empty for models that have none
    source: str  # ``"bundled"``, the id of a repository on the model hub, or a local path
    native_resolution: int  # Side of the training images in pixels
    tag: str = ""
    # Approximate size of the weights in megabytes (10**6 bytes); 0 if unknown. The hub tells the
    # exact size before a download.
    size_mb: int = 0
    license: str = ""  # Licence of the weights
    quick_gelu: bool = False  # Whether the weights were trained with OpenAI's approximation of GELU
    # Normalisation per channel of an RGB image in 0..1
    mean: tuple[float, float, float] = OPENAI_MEAN
    std: tuple[float, float, float] = OPENAI_STD
    interpolation: Literal["bicubic", "bilinear"] = "bicubic"  # How images are resized

    @property
    def size_text(self) -> str:
        """Size of the weights as text."""
        return size_text(self.size_mb * 1_000_000) if self.size_mb else "size unknown"

    @property
    def working_resolution(self) -> int:
        """Default resolution of an inversion, in pixels."""
        return default_working_resolution(self.native_resolution)

    @property
    def bundled(self) -> bool:
        """Whether the weights are part of this package."""
        return self.source == BUNDLED


def default_working_resolution(native: int) -> int:
    """Return the default resolution of an inversion, in pixels.

    A 224-pixel CLIP has at most 14 x 14 patches, too coarse for regions: it runs at 448 pixels.
    Tiny models and those trained above 448 pixels keep their native resolution.
    """
    return 448 if 200 <= native <= 448 else native


def _clip(
    name: str, repository: str, size_mb: int, title: str, resolution: int = 224, **more: Any
) -> ModelSpec:
    architecture, _, tag = name.partition("/")
    return ModelSpec(
        name=name,
        title=title,
        architecture=architecture,
        tag=tag,
        source=repository,
        size_mb=size_mb,
        license="MIT",
        native_resolution=resolution,
        quick_gelu=tag == "openai",
        **more,
    )


# fmt: off
_TABLE: Final = (
    ModelSpec(name=DEMO, architecture="demo", source=BUNDLED, size_mb=15, license="BSD-3-Clause",
        title="Small model for drawings, aerial land cover, blood cells and nuclei; for trials",
        native_resolution=128, mean=HALF, std=HALF),
    _clip("ViT-B-32/openai", "timm/vit_base_patch32_clip_224.openai", 605,
        "OpenAI CLIP, base, 32-pixel patches: quickest, coarse"),
    _clip("ViT-B-16/openai", "timm/vit_base_patch16_clip_224.openai", 599,
        "OpenAI CLIP, base, 16-pixel patches: a good start"),
    _clip("ViT-L-14/openai", "timm/vit_large_patch14_clip_224.openai", 1711,
        "OpenAI CLIP, large, 14-pixel patches: better names, slower"),
    _clip("ViT-L-14-336/openai", "timm/vit_large_patch14_clip_336.openai", 1712,
        "OpenAI CLIP, large, trained at 336 pixels", 336),
    _clip("ViT-B-16/laion2b_s34b_b88k", "laion/CLIP-ViT-B-16-laion2B-s34B-b88K", 599,
        "OpenCLIP base, trained on LAION-2B"),
    _clip("ViT-B-16/datacomp_xl_s13b_b90k", "laion/CLIP-ViT-B-16-DataComp.XL-s13B-b90K", 599,
        "OpenCLIP base, trained on DataComp-1B"),
    # The only LAION model trained with this normalisation.
    _clip("ViT-L-14/laion2b_s32b_b82k", "laion/CLIP-ViT-L-14-laion2B-s32B-b82K", 1711,
        "OpenCLIP large, trained on LAION-2B", mean=HALF, std=HALF),
    _clip("ViT-L-14/datacomp_xl_s13b_b90k", "laion/CLIP-ViT-L-14-DataComp.XL-s13B-b90K", 1711,
        "OpenCLIP large, trained on DataComp-1B"),
    _clip("ViT-H-14/laion2b_s32b_b79k", "laion/CLIP-ViT-H-14-laion2B-s32B-b79K", 3944,
        "OpenCLIP huge, trained on LAION-2B: the paper's best; wants a GPU"),
    _clip("ViT-bigG-14/laion2b_s39b_b160k", "laion/CLIP-ViT-bigG-14-laion2B-39B-b160k", 10159,
        "OpenCLIP giant, trained on LAION-2B; wants a large GPU"),
)
# fmt: on

MODELS: Final[Mapping[str, ModelSpec]] = MappingProxyType({spec.name: spec for spec in _TABLE})


def unknown_model(name: str, known: Iterable[str]) -> ModelError:
    """Return the error for a name that no model has."""
    candidates = {known_name.lower(): known_name for known_name in known}
    begun = [key for key in candidates if name and key.startswith(name.lower())]
    near = begun[:3] or difflib.get_close_matches(name.lower(), list(candidates), n=3, cutoff=0.5)
    names = [candidates[key] for key in near] or list(MODELS)
    if _is_path(name):
        return ModelError(
            f"There is no folder or file {Path(name)}; name a folder with "
            "open_clip_config.json and weights, a checkpoint file, or a model of 'models list'."
        )
    path = ", and no folder or file of that name" if "/" in name else ""
    return ModelError(
        f"There is no model called {name!r}{path}. "
        + ("Did you mean " if near else "Known models: ")
        + ", ".join(names)
        + ("?" if near else ".")
    )


def _is_path(name: str) -> bool:
    """Return whether a name can only be that of a file or folder."""
    begins = name.startswith((".", "~")) or Path(name).is_absolute()
    return begins or "\\" in name or name.count("/") > 1 or name.endswith("/")


def bundled_folder() -> Path:
    """Return the folder of the bundled model's files."""
    return Path(__file__).resolve().parents[2] / "demo_model" / "weights"
