"""Decoders of CLIP image embeddings by name. Imports neither torch nor diffusers."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal

from ..base.cache_folder import cache_folder
from ..base.errors import ConfigError

CONFIG: Final = "config.json"
SAFETENSORS: Final = "diffusion_pytorch_model.safetensors"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One folder of a decoder, in diffusers' layout."""

    folder: str
    files: tuple[str, ...]  # What must be in the folder. Weights end in ``.safetensors``.
    kind: str = ""  # The class that its configuration names; "" for files without one
    size_gb: float = 0.0  # Of the weights, in 10**9 bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoder:
    """A diffusion model that draws what a CLIP image embedding shows."""

    name: str
    title: str
    family: Literal["kandinsky", "unclip"]  # Which pipeline of diffusers it is
    clip_model: str  # The model whose embeddings it was trained on, as in `list_models`
    width: int  # Values of such an embedding
    repository: str  # Where it is found, on the model hub
    license: str
    parts: tuple[Part, ...]
    steps: int
    guidance: float
    size: int  # Defaults: steps, scale of the guidance, side of a picture in pixels
    # Whether a prior can put regions into a prompt, in the place of words
    takes_subjects: bool = False
    # Where its authors published it, if it is gone from there: ``repository`` is a copy by others
    original: str = ""

    @property
    def folder_name(self) -> str:
        """Name of its folder: the repository's without its owner."""
        return self.repository.rpartition("/")[2]

    @property
    def size_gb(self) -> float:
        """Size of the weights in 10**9 bytes."""
        return sum(part.size_gb for part in self.parts)


PRIOR_REPOSITORY: Final = "ECLIPSE-Community/Lambda-ECLIPSE-Prior-v1.0"
PRIOR_MB: Final = 139

_MODEL: Final = (CONFIG, SAFETENSORS)
_SCHEDULER: Final = ("scheduler_config.json",)
_TOKENIZER: Final = ("vocab.json", "merges.txt", "tokenizer_config.json", "special_tokens_map.json")


def _unclip(name: str, title: str, clip_model: str, width: int, published: str) -> Decoder:
    return Decoder(
        name=name,
        title=title,
        family="unclip",
        clip_model=clip_model,
        width=width,
        # Stability AI took its Stable Diffusion 2 models down in November 2025.
        repository=f"sd2-community/{published}",
        original=f"stabilityai/{published}",
        license="CreativeML Open RAIL++-M",
        parts=(
            Part(folder="unet", files=_MODEL, kind="UNet2DConditionModel", size_gb=3.48),
            Part(folder="vae", files=_MODEL, kind="AutoencoderKL", size_gb=0.33),
            Part(folder="text_encoder", files=(CONFIG, "model.safetensors"), size_gb=1.36),
            Part(folder="image_normalizer", files=_MODEL, kind="StableUnCLIPImageNormalizer"),
            Part(folder="tokenizer", files=_TOKENIZER),
            Part(folder="scheduler", files=_SCHEDULER),
            Part(folder="image_noising_scheduler", files=_SCHEDULER),
        ),
        steps=20,
        guidance=10.0,
        size=768,
    )


_TABLE: Final = (
    Decoder(
        name="kandinsky22",
        title="Kandinsky 2.2",
        family="kandinsky",
        clip_model="ViT-bigG-14/laion2b_s39b_b160k",
        width=1280,
        repository="kandinsky-community/kandinsky-2-2-decoder",
        license="Apache-2.0",
        parts=(
            Part(folder="unet", files=_MODEL, kind="UNet2DConditionModel", size_gb=5.01),
            Part(folder="movq", files=_MODEL, kind="VQModel", size_gb=0.27),
            Part(folder="scheduler", files=_SCHEDULER),
        ),
        steps=50,
        guidance=7.5,
        size=512,
        takes_subjects=True,
    ),
    _unclip(
        "unclip-h",
        "unCLIP ViT-H/14",
        "ViT-H-14/laion2b_s32b_b79k",
        1024,
        "stable-diffusion-2-1-unclip",
    ),
    _unclip(
        "unclip-l",
        "unCLIP ViT-L/14",
        "ViT-L-14/openai",
        768,
        "stable-diffusion-2-1-unclip-small",
    ),
)

DECODERS: Final[Mapping[str, Decoder]] = MappingProxyType({one.name: one for one in _TABLE})


def get_decoder(name: str) -> Decoder:
    """Return a decoder by its name."""
    if name in DECODERS:
        return DECODERS[name]
    near = difflib.get_close_matches(name.lower(), list(DECODERS), n=1, cutoff=0.6)
    hint = f" Did you mean {near[0]}?" if near else ""
    raise ConfigError(
        f"There is no decoder called {name!r}; there are {', '.join(DECODERS)}.{hint}"
    )


def decoder_that_fits(clip_model: str) -> Decoder | None:
    """Return the decoder that was trained on a model's embeddings; None if there is none."""
    return next((one for one in _TABLE if one.clip_model == clip_model), None)


def default_folder(decoder: Decoder) -> Path:
    """Return the folder in which a decoder is looked for."""
    return cache_folder() / "diffusion" / decoder.folder_name


def default_prior() -> Path:
    """Return the folder in which the prior is looked for."""
    return cache_folder() / "diffusion" / PRIOR_REPOSITORY.rpartition("/")[2]
