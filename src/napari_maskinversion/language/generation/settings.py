"""How sentences are generated, and what results record of it. Imports no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np
import numpy.typing as npt

from ...base.errors import InputError
from ...base.validation import Config, setting

FloatArray = npt.NDArray[np.float32]
Search = Literal["greedy", "beam"]
Norm = Literal["optimised", "cls"]
SEARCHES: Final[tuple[Search, ...]] = get_args(Search)


class GenerationSettings(Config):
    """How sentences are generated."""

    search: Search = setting(
        "greedy",
        "Words",
        "How to choose the next word: the most likely one (greedy), or by comparing several "
        "sentences (beam).",
    )
    beams: int = setting(5, "Beams", "Beam: sentences kept at a time.", ge=1, le=50)
    temperature: float = setting(
        1.0, "Temperature", "Beam: above 1 more varied, below 1 less.", gt=0, le=100
    )
    max_tokens: int | None = setting(
        None,
        "Longest sentence",
        "Longest sentence in tokens; by default the decoder's own (CLIPCap 67).",
        ge=1,
        le=512,
    )
    norm: Norm = setting(
        "optimised",
        "Norm",
        "Length of the embedding: as optimised, or that of the whole image (cls). DeCap ignores "
        "the length.",
    )


def describe(name: str) -> str:
    """Return what a field of `GenerationSettings` is, for options and tooltips."""
    return str(GenerationSettings.model_fields[name].description)


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationUse:
    """The decoder that wrote the sentences of results."""

    decoder: str  # Its name
    weights: str  # SHA-256 of its weights
    settings: GenerationSettings


def scaled(embeddings: FloatArray, norms: Sequence[float] | FloatArray) -> FloatArray:
    """Return embeddings (N, e) scaled to these norms (N,)."""
    lengths = np.asarray(norms, np.float32)
    if not (np.isfinite(lengths) & (lengths > 0)).all():
        raise InputError(
            "The norm of the whole image's embedding is unknown for these regions (another "
            "method); use the norm 'optimised', or run MaskInversion."
        )
    before = np.linalg.norm(embeddings, axis=1, keepdims=True)
    return np.asarray(embeddings / np.maximum(before, 1e-12) * lengths[:, None], np.float32)
