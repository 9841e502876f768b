"""The methods to embed a region: names, descriptions and costs. Imports no torch."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from pydantic import ConfigDict, field_validator

from ...base.errors import ConfigError
from ...base.validation import Config, FrozenModel, setting

MASKINVERSION: Final = "maskinversion"
TYPICAL: Final = 10  # regions per image, for `cost`


@dataclass(frozen=True, slots=True)
class MethodSpec:
    """A method before it is loaded."""

    name: str  # What users type
    title: str
    location: str = field(repr=False)  # ``"module:Class"`` in this package
    about: str  # One line: the model's input, and what the embedding is made of
    # Cost per image, and per region on top, in passes of the model at its native size; counted in
    # tokens for a model of 224 px that sees whole images at 448 px (four times as many tokens).
    # MaskInversion's were measured (ViT-B/16, ten regions, 10 steps).
    image: float = field(default=0, repr=False)
    region: float = field(default=1, repr=False)
    # Arguments that make this variant of the class
    options: Mapping[str, Any] = field(default_factory=dict, kw_only=True, repr=False)
    # The model sees the whole window at its working resolution, instead of pictures made for each
    # region at its native resolution
    whole_image: bool = field(default=False, kw_only=True, repr=False)
    # Each region is cut out and enlarged, so a small one covers more than a few tokens
    cut_out: bool = field(default=False, kw_only=True, repr=False)
    # Needs a checkpoint file of its own
    weights: bool = field(default=False, kw_only=True, repr=False)


# fmt: off
_TABLE: Final = (
    MethodSpec(MASKINVERSION, "MaskInversion", "factory:Inversion",
        "An embedding optimised until its heatmap over the whole image is the mask.",
        4.6, 2.1, whole_image=True),
    MethodSpec("cls", "CLIP [CLS]", "region_method:WholeImage",
        "The whole image's embedding, the same for every region in it.", 1, 0),
    MethodSpec("crop", "Crop", "edits:Crop",
        "The region's box, cropped and resized to a square.", cut_out=True),
    MethodSpec("masked-crop", "Masked Crop (full image)", "edits:Crop",
        "The whole image with everything outside the mask painted over.",
        options={"context": math.inf, "fill": "dataset mean"}),
    MethodSpec("masked-crop-box", "Masked Crop (box)", "edits:Crop",
        "The region's box with everything outside the mask painted over.",
        options={"fill": "dataset mean"}, cut_out=True),
    MethodSpec("red-circle", "RedCircle", "edits:RedCircle",
        "The whole image with a red ellipse drawn around the region."),
    MethodSpec("red-circle-grey", "RedCircle (grey outside)", "edits:RedCircle",
        "The same, with everything outside the ellipse in grey.",
        options={"outside": ("grey",)}),
    MethodSpec("red-circle-blur", "RedCircle (blurred outside)", "edits:RedCircle",
        "The same, with everything outside the ellipse blurred.",
        options={"outside": ("blurred",)}),
    MethodSpec("red-circle-mean", "RedCircle (averaged)", "edits:RedCircle",
        "The mean of these three.", 0, 3,
        options={"outside": ("as it is", "grey", "blurred")}),
    MethodSpec("fgvp", "FGVP", "edits:Crop",
        "The whole image strongly blurred, with only the region sharp.",
        options={"context": math.inf, "fill": "strongly blurred"}),
    MethodSpec("box-blur", "Box, blurred outside", "edits:Crop",
        "The whole image strongly blurred, with only the region's box sharp; ReCLIP joins it with "
        "Crop (crop+box-blur).",
        options={"context": math.inf, "fill": "blurred by 100 pixels", "by_box": True}),
    MethodSpec("shade", "Shaded box", "edits:Shade",
        "The whole image with the region's box in translucent red (CPT as ReCLIP adapts it); "
        "for prompts such as 'a dog in red'."),
    MethodSpec("ris", "RIS", "dense:MaskedTokens",
        "The [CLS] token of last layers in which the other tokens count less, and a little of "
        "Masked Crop.", 3, 2, whole_image=True),
    MethodSpec("maskclip", "MaskCLIP", "dense:MaskClip",
        "The mean of the mask's tokens, the last layer without its attention.",
        4, 0, whole_image=True),
    MethodSpec("maskclip-values", "MaskCLIP (values alone)", "dense:MaskClip",
        "The same without the last layer's residual and MLP.",
        4, 0, options={"reading": "values"}, whole_image=True),
    MethodSpec("clip-surgery", "CLIPSurgery", "dense:ClipSurgery",
        "The mean of the mask's tokens on a second path that attends by values alone.",
        4.6, 0, whole_image=True),
    MethodSpec("sclip", "SCLIP", "dense:Sclip",
        "The mean of the mask's tokens, each attending to tokens like itself.",
        4, 0, whole_image=True),
    MethodSpec("textregion", "TextRegion", "textregion:TextRegion",
        "The model's last pooling, restricted to the mask's tokens that are more like it than like "
        "the rest.", 3.6, 0.0022, whole_image=True),
    MethodSpec("clearclip", "ClearCLIP", "last_block:ClearClip",
        "The mean of the mask's tokens; the last layer is attention to like tokens alone.",
        4, 0, whole_image=True),
    MethodSpec("naclip", "NACLIP", "last_block:NaClip",
        "The mean of the mask's tokens; the last layer is attention to near, like tokens.",
        4, 0, whole_image=True),
    MethodSpec("resclip", "ResCLIP", "last_block:ResClip",
        "The same, a part of the attention that of the sixth to ninth layer; for deeper models.",
        4, 0, whole_image=True),
    MethodSpec("alphaclip", "AlphaCLIP", "alphaclip:AlphaClip",
        "A CLIP trained to take the mask as a fourth channel; needs its own weights.",
        weights=True),
)
# fmt: on

METHODS: Final[Mapping[str, MethodSpec]] = MappingProxyType({spec.name: spec for spec in _TABLE})


def list_methods() -> list[MethodSpec]:
    """Return the methods to embed a region, MaskInversion first."""
    return list(METHODS.values())


class Method(Config):
    """A method, or a fusion of two."""

    model_config = ConfigDict(strict=False)  # files hold the path as a text

    # A name of `list_methods`, or two of them joined by ``+``: the mean of both unit embeddings,
    # whose similarity to a text is the mean of the two similarities, up to a factor
    name: str = setting(
        MASKINVERSION,
        "Method",
        "Method to embed regions; A+B averages two. See the command methods.",
        cli="method",
    )
    # Checkpoint file of a method that needs one
    weights: Path | None = setting(
        None,
        "Weights of the method",
        "Checkpoint file of a method that needs one (AlphaCLIP).",
        cli="method-weights",
    )

    def __init__(self, name: str = MASKINVERSION, weights: Path | None = None, **more: Any) -> None:
        FrozenModel.__init__(self, name=name, weights=weights, **more)

    @field_validator("name")
    @classmethod
    def _known(cls, name: str) -> str:
        parts = [part.strip().lower().replace("_", "-") for part in name.split("+")]
        for part in parts:
            if part not in METHODS:
                near = difflib.get_close_matches(part, list(METHODS), n=3, cutoff=0.5)
                if near:
                    hint = f"Did you mean {', '.join(near)}?"
                else:
                    hint = f"Known: {', '.join(METHODS)}; two of them can be joined by +."
                raise ConfigError(f"There is no method {part!r}. {hint}")
        if len(parts) > 2 or len(set(parts)) < len(parts):
            raise ConfigError(f"A fusion needs two different methods; got {name!r}.")
        return "+".join(parts)

    @classmethod
    def of(cls, method: str | Method | None) -> Method:
        """Convert a name to a method; None is MaskInversion."""
        if isinstance(method, Method):
            return method
        return cls(method or MASKINVERSION)

    @property
    def parts(self) -> tuple[MethodSpec, ...]:
        """The method, or the two of a fusion."""
        return tuple(METHODS[part] for part in self.name.split("+"))

    @property
    def title(self) -> str:
        """Name for display."""
        return " + ".join(spec.title for spec in self.parts)

    @property
    def about(self) -> str:
        """Description in one line."""
        if len(self.parts) == 1:
            return self.parts[0].about
        return f"The similarities of {self.parts[0].title} and {self.parts[1].title}, averaged."

    @property
    def cost(self) -> str:
        """Cost of ten regions in words, in passes of the model at its native size."""
        total = round(sum(part.image + TYPICAL * part.region for part in self.parts))
        plural = ""
        if total != 1:
            plural = "es"
        return f"{TYPICAL} regions cost {total} pass{plural} of the model at its native size"

    @property
    def inverts(self) -> bool:
        """Whether it is MaskInversion alone, which has heatmaps and losses."""
        return self.name == MASKINVERSION

    @property
    def uses_inversion(self) -> bool:
        """Whether it depends on steps, learning rate, alpha and layers."""
        return any(part.name == MASKINVERSION for part in self.parts)

    @property
    def whole_image(self) -> bool:
        """Whether it uses tokens of the whole image, at the model's working resolution."""
        return any(part.whole_image for part in self.parts)

    @property
    def cut_out(self) -> bool:
        """Whether it enlarges regions, so that a small one covers more than a few tokens."""
        return all(part.cut_out for part in self.parts)

    @property
    def lacks(self) -> str:
        """Its missing outputs in words; empty for MaskInversion."""
        if self.inverts:
            return ""
        return f"{self.title} has no heatmaps, overlaps or losses."

    def check(self) -> None:
        """Refuse a method whose weights are missing."""
        needy = next((part.title for part in self.parts if part.weights), None)
        if needy is None:
            return
        if self.weights is None:
            raise ConfigError(
                f"{needy} needs weights: pass the file of its checkpoint for this model's "
                "architecture (--method-weights FILE)."
            )
        if not self.weights.is_file():
            raise ConfigError(f"There is no file {self.weights} with weights of {needy}.")
