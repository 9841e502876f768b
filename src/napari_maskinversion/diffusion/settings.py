"""How pictures are drawn."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final, Literal, Self, get_args

from ..base.errors import ConfigError
from .decoders import Decoder, get_decoder

Precision = Literal["auto", "float32", "float16", "bfloat16"]
Norm = Literal["optimised", "cls"]

MOST_STEPS: Final = 1000
MOST_GUIDANCE: Final = 50.0
SMALLEST, LARGEST, SIDE_STEP = 64, 2048, 64  # sides of pictures in pixels
MOST_PICTURES: Final = 16
MOST_SEED: Final = 2**32 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureSettings:
    """How pictures are drawn."""

    decoder: str = "kandinsky22"  # A name in `DECODERS`
    # Of the first picture, from 0; the next ones count on. Each region and [CLS] start from the
    # same noise.
    seed: int = 0
    # Denoising steps of a picture; None for the decoder's default, as with the next two
    steps: int | None = None
    guidance: float | None = None  # Scale of the guidance; 1 turns it off
    size: int | None = None  # Side of a picture in pixels, a multiple of 64
    pictures: int = 1  # For each region, and for [CLS]
    norm: Norm = "optimised"  # Use the embedding as optimised, or scaled to the length of [CLS]
    device: str = "auto"  # See `load_model`
    dtype: Precision = "auto"  # Of the decoder; "auto" is float16 on CUDA and float32 elsewhere

    def __post_init__(self) -> None:
        get_decoder(self.decoder)
        _check_range("seed", self.seed, 0, MOST_SEED)
        _check_range("pictures", self.pictures, 1, MOST_PICTURES)
        _check_range("seed of the last picture", self.seed + self.pictures - 1, 0, MOST_SEED)
        if self.steps is not None:
            _check_range("steps of a picture", self.steps, 1, MOST_STEPS)
        if self.size is not None:
            _check_range("size", self.size, SMALLEST, LARGEST)
            if self.size % SIDE_STEP:
                low = self.size // SIDE_STEP * SIDE_STEP
                raise ConfigError(
                    f"size must be a multiple of {SIDE_STEP} px; got {self.size}, use "
                    f"{low} or {min(low + SIDE_STEP, LARGEST)}."
                )
        guidance = self.guidance
        if guidance is not None and not (
            math.isfinite(guidance) and 0 <= guidance <= MOST_GUIDANCE
        ):
            raise ConfigError(f"guidance must be 0 to {MOST_GUIDANCE:g}; got {guidance}.")
        _check_choice("norm", self.norm, get_args(Norm))
        _check_choice("dtype", self.dtype, get_args(Precision))

    @property
    def spec(self) -> Decoder:
        """The decoder."""
        return get_decoder(self.decoder)

    def filled(self) -> Self:
        """Return settings with the decoder's defaults in place of None."""
        spec = self.spec
        return replace(
            self,
            steps=spec.steps if self.steps is None else self.steps,
            guidance=spec.guidance if self.guidance is None else self.guidance,
            size=spec.size if self.size is None else self.size,
        )

    @property
    def seeds(self) -> range:
        """Seeds of the pictures of a region."""
        return range(self.seed, self.seed + self.pictures)


def _check_range(name: str, value: int, lowest: int, highest: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= highest:
        raise ConfigError(
            f"{name} must be a whole number from {lowest} to {highest}; got {value!r}."
        )


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ConfigError(f"{name} must be {' or '.join(choices)}; got {value!r}.")
