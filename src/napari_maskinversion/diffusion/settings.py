"""How pictures are drawn."""

from __future__ import annotations

from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, ConfigDict, model_validator

from ..base.validation import FrozenModel, setting
from .decoders import DECODERS, Decoder, get_decoder

Precision = Literal["auto", "float32", "float16", "bfloat16"]
Norm = Literal["optimised", "cls"]

MOST_STEPS: Final = 1000
MOST_GUIDANCE: Final = 50.0
SMALLEST = 64
LARGEST = 2048
SIDE_STEP = 64  # sides of pictures in pixels
MOST_PICTURES: Final = 16
MOST_SEED: Final = 2**32 - 1


def _known(name: str) -> str:
    return get_decoder(name).name


class PictureSettings(FrozenModel):
    """How pictures are drawn."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    decoder: Annotated[str, AfterValidator(_known)] = setting(
        "kandinsky22", "Decoder", "Diffusion model.", choices=list(DECODERS)
    )
    # Each region and [CLS] start from the same noise.
    seed: int = setting(
        0,
        "Seed",
        "Seed of the first picture; the next ones count up from it.",
        ge=0,
        le=MOST_SEED,
    )
    # None for the decoder's default, as with the next two
    steps: int | None = setting(
        None,
        "Steps",
        "Steps of a picture (default: 50; unclip: 20).",
        ge=1,
        le=MOST_STEPS,
        cli="draw-steps",
    )
    guidance: float | None = setting(
        None,
        "Guidance",
        "Scale of the guidance (default: 7.5; unclip: 10); 1 turns it off.",
        ge=0,
        le=MOST_GUIDANCE,
        allow_inf_nan=False,
    )
    size: int | None = setting(
        None,
        "Size",
        "Side of a picture in pixels (default: 512; unclip: 768).",
        ge=SMALLEST,
        le=LARGEST,
        multiple_of=SIDE_STEP,
    )
    pictures: int = setting(
        1, "Pictures", "Pictures of each region, and of [CLS].", ge=1, le=MOST_PICTURES
    )
    norm: Norm = setting(
        "optimised", "Norm", "The embedding as optimised, or scaled to the length of [CLS]."
    )
    device: str = setting("auto", "Device", cli=False)  # See `load_model`
    dtype: Precision = setting(
        "auto", "Precision", "Precision of the decoder; auto: float16 on CUDA, else float32."
    )

    @model_validator(mode="after")
    def _last_seed(self) -> Self:
        if self.seeds[-1] > MOST_SEED:
            raise ValueError(f"the seed of the last picture must be at most {MOST_SEED}")
        return self

    @property
    def spec(self) -> Decoder:
        """The decoder."""
        return get_decoder(self.decoder)

    def filled(self) -> Self:
        """Return settings with the decoder's defaults in place of None."""
        chosen = {}
        for name, value in self.model_dump().items():
            if value is not None:
                chosen[name] = value
        usual = {name: getattr(self.spec, name) for name in ("steps", "guidance", "size")}
        return type(self)(**{**usual, **chosen})

    def dtype_on(self, device: str) -> str:
        """Return the name of the decoder's dtype on a device."""
        if self.dtype != "auto":
            return self.dtype
        if device.startswith("cuda"):
            return "float16"
        return "float32"

    @property
    def seeds(self) -> range:
        """Seeds of the pictures of a region."""
        return range(self.seed, self.seed + self.pictures)
