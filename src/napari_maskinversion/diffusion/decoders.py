"""Decoders of CLIP image embeddings: by name, and their folders on this machine.

Imports neither torch nor diffusers, and reads only configurations and the heads of weights.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

from ..base.cache_folder import cache_folder
from ..base.download import size_text
from ..base.errors import ConfigError, ModelError
from ..base.identity import file_sha256
from ..base.reading import check_file, read_json
from ..engine.models.specs import MODELS

CONFIG: Final = "config.json"
SAFETENSORS: Final = "diffusion_pytorch_model.safetensors"
# Beside the parts: {"model": "ViT-B-16/openai"}, of a decoder trained for another model
CLIP_FILE: Final = "clip_model.json"


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


def _unclip(name: str, tower: str, weights: str, published: str) -> Decoder:
    return Decoder(
        name=f"unclip-{name}",
        title=f"unCLIP {tower}/14",
        family="unclip",
        clip_model=f"{tower}-14/{weights}",
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
    _unclip("h", "ViT-H", "laion2b_s32b_b79k", "stable-diffusion-2-1-unclip"),
    _unclip("l", "ViT-L", "openai", "stable-diffusion-2-1-unclip-small"),
)

DECODERS: Final[Mapping[str, Decoder]] = MappingProxyType(
    {decoder.name: decoder for decoder in _TABLE}
)


def get_decoder(name: str) -> Decoder:
    """Return a decoder by its name."""
    if name not in DECODERS:
        raise ConfigError(f"There is no decoder called {name!r}; use {', '.join(DECODERS)}.")
    return DECODERS[name]


def decoder_that_fits(clip_model: str) -> Decoder | None:
    """Return the decoder that was trained on a model's embeddings; None if there is none."""
    return next((decoder for decoder in _TABLE if decoder.clip_model == clip_model), None)


def default_folder(decoder: Decoder) -> Path:
    """Return the folder in which a decoder is looked for."""
    return cache_folder() / "diffusion" / decoder.folder_name


# -- folders: what is missing, what does not fit, how much memory it takes ----------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderFolder:
    """A decoder on this machine."""

    decoder: Decoder
    path: Path
    clip_model: str  # Model whose embeddings it draws
    width: int  # Values of such an embedding
    parameters: int  # Numbers in all its weights
    most_steps: int = 1000  # Steps that its noise was trained with

    def hashes(self) -> dict[str, str]:
        """Return the SHA-256 of each file of weights, by part and name; takes seconds for GB."""
        files = _weights(self.decoder, self.path)
        return {f"{file.parent.name}/{file.name}": file_sha256(file) for file in files}

    def check_model(self, name: str, width: int | None = None) -> None:
        """Refuse embeddings of a model that the decoder was not trained on."""
        published = name in MODELS or "/" in name
        if (published and name != self.clip_model) or width not in (None, self.width):
            values = "" if width is None else f" ({width} values)"
            fits = decoder_that_fits(name)
            if fits is None:
                instead = ""
            else:
                instead = f", or the decoder {fits.name}"
            raise ModelError(
                f"{self.decoder.title} draws embeddings of {self.clip_model} ({self.width} "
                f"values), not of {name}{values}; use that model{instead}."
            )


def _weights(decoder: Decoder, path: Path) -> list[Path]:
    """Return the files of weights of a decoder in a folder."""
    files = []
    for part in decoder.parts:
        for name in part.files:
            files.append(path / part.folder / name)
    return [file for file in files if file.suffix == ".safetensors"]


def open_folder(decoder: Decoder, folder: Path | None = None) -> DecoderFolder:
    """Check that a decoder is on this machine, whole and in the layout of diffusers."""
    path = default_folder(decoder) if folder is None else folder
    missing = []
    for part in decoder.parts:
        for name in part.files:
            if not (path / part.folder / name).is_file():
                missing.append((part, name))
    if missing:
        raise ModelError(_missing(decoder, path, missing))
    scheduler = _settings(path / "scheduler" / "scheduler_config.json")
    return DecoderFolder(
        decoder=decoder,
        path=path,
        clip_model=str(_settings(path / CLIP_FILE).get("model") or decoder.clip_model),
        width=_width(decoder, path),
        parameters=sum(map(count_parameters, _weights(decoder, path))),
        most_steps=int(scheduler.get("num_train_timesteps", 1000)),
    )


def prior_file(place: Path | None = None) -> Path:
    """Return the file of the prior's weights, by default in the cache."""
    folder = place or cache_folder() / "diffusion" / PRIOR_REPOSITORY.rpartition("/")[2]
    if folder.suffix == ".safetensors":
        file = folder
    else:
        file = folder / SAFETENSORS
    if file.is_file():
        return file
    raise ModelError(
        f"A prompt needs the prior, which is not there: put {SAFETENSORS} of {PRIOR_REPOSITORY} "
        f"({PRIOR_MB} MB, licence MIT) in {file.parent}, choose another folder (--prior), or leave "
        f"the prompt out: {_command(PRIOR_REPOSITORY, file.parent)} {SAFETENSORS}"
    )


def count_parameters(file: Path) -> int:
    """Return how many numbers a safetensors file holds; reads only its head."""
    from safetensors import SafetensorError, safe_open

    check_file(file, "weights")
    try:
        with safe_open(file, framework="np") as weights:
            return sum(prod(weights.get_slice(key).get_shape()) for key in weights.keys())  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise ModelError(
            f"{file} is damaged or no safetensors file ({error}); download it again."
        ) from None


def _settings(file: Path) -> dict[str, Any]:
    """Return the settings that a JSON file holds; none if it holds none, or there is no file."""
    values = None
    if file.is_file():
        values = read_json(file)
    if isinstance(values, dict):
        return values
    return {}


def _width(decoder: Decoder, path: Path) -> int:
    """Return the values of the embeddings that a UNet is made for."""
    unet = _settings(path / "unet" / CONFIG)
    if decoder.family == "kandinsky":
        width = unet.get("encoder_hid_dim")
        fits = unet.get("encoder_hid_dim_type") == "image_proj"
    else:
        both = unet.get("projection_class_embeddings_input_dim")
        width = None
        if isinstance(both, int):
            width = both // 2
        fits = unet.get("class_embed_type") == "projection"
    if not fits or not isinstance(width, int):
        raise ModelError(
            f"The UNet in {path} takes no image embeddings as {decoder.title} does; put the parts "
            f"of {decoder.repository} there."
        )
    return width


def _missing(decoder: Decoder, path: Path, missing: list[tuple[Part, str]]) -> str:
    files = " ".join(f"{part.folder}/{name}" for part, name in missing)
    size = sum(part.size_gb for part, name in missing if name.endswith(".safetensors"))
    amount = ""
    if size:
        amount = f"{size_text(round(size * 1e9))}, "
    state = "complete" if path.is_dir() else "there"
    about = f"{amount}licence {decoder.license}"
    if decoder.original:
        about = f"an unofficial copy of {decoder.original}, which is gone; {about}"
    return (
        f"The decoder {decoder.title} is not {state}: put these files of {decoder.repository} "
        f"({about}) in {path}, or choose another folder (--weights): "
        f"{_command(decoder.repository, path)} {files}"
    )


def _command(repository: str, folder: Path) -> str:
    return f"hf download {repository} --local-dir {shlex.quote(str(folder))}"
