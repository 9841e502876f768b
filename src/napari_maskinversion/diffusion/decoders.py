"""Decoders of CLIP image embeddings by name. Imports neither torch nor diffusers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from ..base.cache_folder import cache_folder
from ..base.errors import ConfigError

CONFIG: Final = "config.json"
SAFETENSORS: Final = "diffusion_pytorch_model.safetensors"


class Part(NamedTuple):
    """One folder of a decoder, in diffusers' layout."""

    folder: str
    files: tuple[str, ...]  # What must be in the folder. Weights end in ``.safetensors``.
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


def _unclip(name: str, tower: str, weights: str, width: int, published: str) -> Decoder:
    return Decoder(
        name=f"unclip-{name}",
        title=f"unCLIP {tower}/14",
        family="unclip",
        clip_model=f"{tower}-14/{weights}",
        width=width,
        # Stability AI took its Stable Diffusion 2 models down in November 2025.
        repository=f"sd2-community/{published}",
        original=f"stabilityai/{published}",
        license="CreativeML Open RAIL++-M",
        parts=(
            Part("unet", _MODEL, 3.48),
            Part("vae", _MODEL, 0.33),
            Part("text_encoder", (CONFIG, "model.safetensors"), 1.36),
            Part("image_normalizer", _MODEL),
            Part("tokenizer", _TOKENIZER),
            Part("scheduler", _SCHEDULER),
            Part("image_noising_scheduler", _SCHEDULER),
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
            Part("unet", _MODEL, 5.01),
            Part("movq", _MODEL, 0.27),
            Part("scheduler", _SCHEDULER),
        ),
        steps=50,
        guidance=7.5,
        size=512,
        takes_subjects=True,
    ),
    _unclip("h", "ViT-H", "laion2b_s32b_b79k", 1024, "stable-diffusion-2-1-unclip"),
    _unclip("l", "ViT-L", "openai", 768, "stable-diffusion-2-1-unclip-small"),
)

DECODERS: Final[Mapping[str, Decoder]] = MappingProxyType({one.name: one for one in _TABLE})


def get_decoder(name: str) -> Decoder:
    """Return a decoder by its name."""
    if name not in DECODERS:
        raise ConfigError(f"There is no decoder called {name!r}; use {', '.join(DECODERS)}.")
    return DECODERS[name]


def decoder_that_fits(clip_model: str) -> Decoder | None:
    """Return the decoder that was trained on a model's embeddings; None if there is none."""
    return next((one for one in _TABLE if one.clip_model == clip_model), None)


def default_folder(decoder: Decoder) -> Path:
    """Return the folder in which a decoder is looked for."""
    return cache_folder() / "diffusion" / decoder.folder_name


def default_prior() -> Path:
    """Return the folder in which the prior is looked for."""
    return cache_folder() / "diffusion" / PRIOR_REPOSITORY.rpartition("/")[2]
