"""Folders of decoders: what is missing, what does not fit, how much memory it takes.

Imports neither torch nor diffusers, and reads only configurations and the heads of weights.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any, Final

from ..base.download import sha256_of, size_text
from ..base.errors import ModelError
from ..base.reading import check_file, read_json
from ..engine.models.specs import MODELS
from .decoders import (
    CONFIG,
    PRIOR_MB,
    PRIOR_REPOSITORY,
    SAFETENSORS,
    Decoder,
    Part,
    decoder_that_fits,
    default_folder,
    default_prior,
)

CLIP_FILE: Final = "clip_model.json"
"""Beside the parts: ``{"model": "ViT-B-16/openai"}``, of a decoder trained for another model."""


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
        return {f"{file.parent.name}/{file.name}": weights_hash(file) for file in files}

    def check_model(self, name: str, width: int | None = None) -> None:
        """Refuse embeddings of a model that the decoder was not trained on."""
        published = name in MODELS or "/" in name
        if (published and name != self.clip_model) or width not in (None, self.width):
            values = "" if width is None else f" ({width} values)"
            fits = decoder_that_fits(name)
            instead = "" if fits is None else f", or the decoder {fits.name}"
            raise ModelError(
                f"{self.decoder.title} draws embeddings of {self.clip_model} ({self.width} "
                f"values), not of {name}{values}; use that model{instead}."
            )


def _weights(decoder: Decoder, path: Path) -> list[Path]:
    """Return the files of weights of a decoder in a folder."""
    files = [path / part.folder / name for part in decoder.parts for name in part.files]
    return [file for file in files if file.suffix == ".safetensors"]


def open_folder(decoder: Decoder, folder: Path | None = None) -> DecoderFolder:
    """Check that a decoder is on this machine, whole and in the layout of diffusers."""
    path = default_folder(decoder) if folder is None else folder
    missing = [
        (part, name)
        for part in decoder.parts
        for name in part.files
        if not (path / part.folder / name).is_file()
    ]
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
    """Return the file of the prior's weights."""
    folder = default_prior() if place is None else place
    file = folder if folder.suffix == ".safetensors" else folder / SAFETENSORS
    if file.is_file():
        return file
    raise ModelError(
        f"A prompt needs the prior, which is not there: put {SAFETENSORS} of {PRIOR_REPOSITORY} "
        f"({PRIOR_MB} MB, licence MIT) in {file.parent}, choose another folder (--prior), or leave "
        f"the prompt out: {_command(PRIOR_REPOSITORY, file.parent)} {SAFETENSORS}"
    )


def weights_hash(file: Path) -> str:
    """Return the SHA-256 of a file of weights; it is read once as long as it is unchanged."""
    state = file.stat()
    return _hash(file, state.st_size, state.st_mtime_ns)


@lru_cache(maxsize=32)
def _hash(file: Path, _size: int, _changed: int) -> str:
    return sha256_of(file)


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
    """Return what a JSON file holds; nothing if there is no such file."""
    values = read_json(file) if file.is_file() else {}
    if not isinstance(values, dict):
        raise ModelError(f"{file} must hold an object; put the published file there.")
    return values


def _width(decoder: Decoder, path: Path) -> int:
    """Return the values of the embeddings that a UNet is made for."""
    unet = _settings(path / "unet" / CONFIG)
    if decoder.family == "kandinsky":
        width = unet.get("encoder_hid_dim")
        fits = unet.get("encoder_hid_dim_type") == "image_proj"
    else:
        both = unet.get("projection_class_embeddings_input_dim")
        width = both // 2 if isinstance(both, int) else None
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
    amount = f"{size_text(round(size * 1e9))}, " if size else ""
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
