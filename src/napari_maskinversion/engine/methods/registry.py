"""The ways to embed a region: names, what they do, what they cost. Knows no torch."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from ...base.errors import ConfigError

MASKINVERSION: Final = "maskinversion"
TYPICAL: Final = 10  # regions of an image that relative costs are told for
UNIT: Final = "its native size"


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodSpec:
    """What is known about a way before it is used.

    Attributes
    ----------
    name : str
        What the user types.
    title : str
    about : str
        One line: what the model sees, and what is taken of it.
    image, region : float
        Cost per image, and per region on top, in passes of the model at its native size; counted
        in tokens for a model of 224 px that looks at whole images at 448 px (four times as many
        tokens). MaskInversion's were measured (ViT-B/16, ten regions, 10 steps).
    where : str
        ``"module:Class"`` in this package.
    options : mapping
        Arguments that make this variant of the class.
    whole_image : bool
        The model sees the whole window, at its working resolution; else pictures made for each
        region, at its native one.
    cut_out : bool
        Each region is cut out and enlarged, so a small one does not become a few tokens.
    weights : bool
        Needs a checkpoint file of its own.
    heatmaps : bool
        Gives heatmaps and losses besides embeddings.
    """

    name: str
    title: str
    about: str
    image: float
    region: float
    where: str
    options: Mapping[str, Any] = field(default_factory=dict)
    whole_image: bool = False
    cut_out: bool = False
    weights: bool = False
    heatmaps: bool = False

    @property
    def cost(self) -> str:
        """Say the relative cost for people."""
        return cost_text(self.image, self.region)


def cost_text(image: float, region: float) -> str:
    """Say what ten regions cost, in passes of the model at its native size."""
    total = round(image + TYPICAL * region)
    return f"{TYPICAL} regions cost {total} pass{'es' * (total != 1)} of the model at {UNIT}"


def _ways() -> tuple[MethodSpec, ...]:
    circle, masked = "red_circle:RedCircle", "masked_crop:MaskedCrop"
    return (
        MethodSpec(
            name=MASKINVERSION,
            title="MaskInversion",
            about="An embedding optimised until its heatmap over the whole image is the mask.",
            image=4.6,
            region=2.1,
            where="maskinversion:Inversion",
            whole_image=True,
            heatmaps=True,
        ),
        MethodSpec(
            name="cls",
            title="CLIP [CLS]",
            about="The whole image's embedding, the same for every region in it.",
            image=1,
            region=0,
            where="whole_image:WholeImage",
        ),
        MethodSpec(
            name="crop",
            title="Crop",
            about="The region's box, cut out and squeezed to a square.",
            image=0,
            region=1,
            where="crop:Crop",
            cut_out=True,
        ),
        MethodSpec(
            name="masked-crop",
            title="Masked Crop (full image)",
            about="The whole image with everything outside the mask painted over.",
            image=0,
            region=1,
            where=masked,
            options={"context": math.inf},
        ),
        MethodSpec(
            name="masked-crop-box",
            title="Masked Crop (box)",
            about="The region's box with everything outside the mask painted over.",
            image=0,
            region=1,
            where=masked,
            cut_out=True,
        ),
        MethodSpec(
            name="red-circle",
            title="RedCircle",
            about="The whole image with a red ellipse drawn around the region.",
            image=0,
            region=1,
            where=circle,
        ),
        MethodSpec(
            name="red-circle-grey",
            title="RedCircle (grey outside)",
            about="The same, everything outside the ellipse grey.",
            image=0,
            region=1,
            where=circle,
            options={"outside": ("grey",)},
        ),
        MethodSpec(
            name="red-circle-blur",
            title="RedCircle (blurred outside)",
            about="The same, everything outside the ellipse blurred.",
            image=0,
            region=1,
            where=circle,
            options={"outside": ("blurred",)},
        ),
        MethodSpec(
            name="red-circle-mean",
            title="RedCircle (averaged)",
            about="The mean of these three.",
            image=0,
            region=3,
            where=circle,
            options={"outside": ("as it is", "grey", "blurred")},
        ),
        MethodSpec(
            name="fgvp",
            title="FGVP",
            about="The whole image strongly blurred, the region alone sharp.",
            image=0,
            region=1,
            where="fgvp:BlurReverseMask",
        ),
        MethodSpec(
            name="ris",
            title="RIS",
            about="The [CLS] token of last layers in which other tokens are weighed down, and a "
            "little of Masked Crop.",
            image=3,
            region=2,
            where="ris:MaskedTokens",
            whole_image=True,
        ),
        MethodSpec(
            name="maskclip",
            title="MaskCLIP",
            about="The mean of the mask's tokens, the last layer without its attention.",
            image=4,
            region=0,
            where="maskclip:MaskClip",
            whole_image=True,
        ),
        MethodSpec(
            name="maskclip-values",
            title="MaskCLIP (values alone)",
            about="The same without the last layer's residual and MLP.",
            image=4,
            region=0,
            where="maskclip:MaskClip",
            options={"reading": "values"},
            whole_image=True,
        ),
        MethodSpec(
            name="clip-surgery",
            title="CLIPSurgery",
            about="The mean of the mask's tokens on a second path that attends by values alone.",
            image=4.6,
            region=0,
            where="clip_surgery:ClipSurgery",
            whole_image=True,
        ),
        MethodSpec(
            name="sclip",
            title="SCLIP",
            about="The mean of the mask's tokens, each attending to those like itself.",
            image=4,
            region=0,
            where="sclip:Sclip",
            whole_image=True,
        ),
        MethodSpec(
            name="alphaclip",
            title="AlphaCLIP",
            about="A CLIP trained to take the mask as a fourth channel; needs its own weights.",
            image=0,
            region=1,
            where="alphaclip:AlphaClip",
            weights=True,
        ),
    )


WAYS: Final[Mapping[str, MethodSpec]] = MappingProxyType({spec.name: spec for spec in _ways()})


def list_methods() -> list[MethodSpec]:
    """Return the ways to embed a region, MaskInversion first."""
    return list(WAYS.values())


@dataclass(frozen=True, slots=True)
class Method:
    """A way, or a fusion of two.

    Parameters
    ----------
    name : str
        A name of `list_methods`, or two of them joined by ``+``: the mean of both unit embeddings,
        whose similarity to a text is the mean of the two similarities, up to a factor.
    weights : Path, optional
        Checkpoint file of a way that needs one.

    Raises
    ------
    ConfigError
        If there is no such way (names the nearest), or a fusion is of more than two or of one
        with itself.
    """

    name: str = MASKINVERSION
    weights: Path | None = None

    def __post_init__(self) -> None:
        parts = [part.strip().lower().replace("_", "-") for part in self.name.split("+")]
        for part in parts:
            if part not in WAYS:
                near = difflib.get_close_matches(part, list(WAYS), n=3, cutoff=0.5)
                raise ConfigError(
                    f"There is no method {part!r}. "
                    + (
                        f"Did you mean {', '.join(near)}?"
                        if near
                        else f"Known: {', '.join(WAYS)}; two of them may be joined by +."
                    )
                )
        if len(parts) > 2 or len(set(parts)) < len(parts):
            raise ConfigError(f"A fusion is of two different methods; got {self.name!r}.")
        object.__setattr__(self, "name", "+".join(parts))

    @classmethod
    def of(cls, given: str | Method | None) -> Method:
        """Take a name or a method; None is MaskInversion."""
        return cls(given or MASKINVERSION) if not isinstance(given, Method) else given

    @property
    def parts(self) -> tuple[MethodSpec, ...]:
        """The way, or the two of a fusion."""
        return tuple(WAYS[part] for part in self.name.split("+"))

    @property
    def title(self) -> str:
        """For people."""
        return " + ".join(spec.title for spec in self.parts)

    @property
    def about(self) -> str:
        """One line: what it does."""
        if len(self.parts) == 1:
            return self.parts[0].about
        return f"The similarities of {self.parts[0].title} and {self.parts[1].title}, averaged."

    @property
    def cost(self) -> str:
        """Say the relative cost for people."""
        parts = self.parts
        return cost_text(sum(part.image for part in parts), sum(part.region for part in parts))

    @property
    def inverts(self) -> bool:
        """It is MaskInversion alone, which has heatmaps and losses."""
        return self.name == MASKINVERSION

    @property
    def uses_inversion(self) -> bool:
        """Its steps, learning rate, alpha and layers count."""
        return any(part.name == MASKINVERSION for part in self.parts)

    @property
    def whole_image(self) -> bool:
        """It looks at tokens of the whole image, at the model's working resolution."""
        return any(part.whole_image for part in self.parts)

    @property
    def cut_out(self) -> bool:
        """A small region does not become a few tokens, for it is enlarged."""
        return all(part.cut_out for part in self.parts)

    @property
    def lacks(self) -> str:
        """Say what there is not; empty for MaskInversion."""
        return "" if self.inverts else f"{self.title} gives no heatmaps, overlaps or losses."

    def check(self) -> None:
        """Refuse a method whose weights are not given.

        Raises
        ------
        ConfigError
            Says which needs some; or that there is no such file.
        """
        needy = [part.title for part in self.parts if part.weights]
        if needy and self.weights is None:
            raise ConfigError(
                f"{needy[0]} needs weights: give the file of its checkpoint for this model's "
                "architecture (--method-weights FILE)."
            )
        if needy and self.weights is not None and not self.weights.is_file():
            raise ConfigError(f"There is no file {self.weights} with weights of {needy[0]}.")
