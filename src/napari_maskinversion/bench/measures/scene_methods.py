"""The methods of ``bench scenes``, each with a chosen setting.

MaskInversion is compared with methods that need only the model: the whole image's embedding
(CLIP [CLS]), the cut-out box (Crop), the same with everything else painted over (Masked Crop), and
the mean of the mask's own tokens (after MaskCLIP). The other methods compare as they are published,
see `methods`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ...base.errors import ModelError
from ...engine.invert.inverter import MaskInverter
from ...engine.methods.factory import region_embedder
from ...engine.methods.maskclip import Reading
from ...engine.methods.masked_crop import Fill
from ...engine.settings import InversionConfig
from ..datasets.cases import Case
from ..model_under_test import ModelUnderTest

BATCH: Final = 32  # images measured at once
Embeddings = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Setting of a method.

    Attributes
    ----------
    resolution : int
        Side in pixels of the model's input.
    context : float
        Side of the crop as a multiple of the longer side of the region's box; infinite is the whole
        image.
    fill : str
        What a masked crop shows outside the mask.
    reading : {"values", "block"}
        Which tokens are averaged, see `MaskClip`.
    """

    resolution: int
    context: float = 1.0
    fill: Fill = "image mean"
    reading: Reading = "values"


@dataclass(frozen=True, slots=True)
class SceneMethod:
    """A method as ``bench scenes`` measures it.

    Attributes
    ----------
    title : str
        For tables.
    embed : callable
        (subject, cases, setting, inversion) to embeddings (regions, e), in the cases' order.
    choices : dict
        Options besides the resolution, the usual value first.
    method : str
        Its name in `list_methods`.
    """

    title: str
    embed: Callable[[ModelUnderTest, Sequence[Case], Setting, InversionConfig], Embeddings]
    choices: dict[str, tuple[Any, ...]]
    method: str = "maskinversion"

    def describe(self, setting: Setting) -> dict[str, Any]:
        """Return the relevant part of a setting, ready for JSON."""
        shown = {k: v for k, v in asdict(setting).items() if k == "resolution" or k in self.choices}
        if shown.get("context") == math.inf:
            shown["context"] = "whole image"
        return shown


def read_setting(described: dict[str, Any]) -> Setting:
    """Undo `SceneMethod.describe`."""
    setting = Setting(resolution=int(described["resolution"]))
    for key, value in described.items():
        changed: dict[str, Any] = {key: math.inf if value == "whole image" else value}
        setting = replace(setting, **changed)
    return setting


def invert(
    subject: ModelUnderTest, cases: Sequence[Case], setting: Setting, inversion: InversionConfig
) -> tuple[Embeddings, NDArray[np.float64]]:
    """Invert every mask; return embeddings (regions, e) and heatmap-to-mask IoU (map > 0.5)."""
    inverter = MaskInverter(subject.model)
    embeddings, overlaps = [], []
    for case in cases:
        inverter.set_image(case.image, resolution=setting.resolution)
        result = inverter.invert(case.masks, inversion)
        embeddings.append(result.unit_embeddings)
        overlaps.append(overlap(result.heatmaps, case.masks))
    return np.concatenate(embeddings), np.concatenate(overlaps)


def overlap(heatmaps: NDArray[np.float32], masks: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the IoU (M,) of heatmaps above 0.5 and masks, both (M, H, W)."""
    hot = heatmaps > 0.5
    both, either = (hot & masks).sum((1, 2)), (hot | masks).sum((1, 2))
    return np.asarray(both / np.maximum(either, 1), float)


def _inversion(
    subject: ModelUnderTest, cases: Sequence[Case], setting: Setting, inversion: InversionConfig
) -> Embeddings:
    return invert(subject, cases, setting, inversion)[0]


def whole(
    subject: ModelUnderTest, cases: Sequence[Case], setting: Setting, inversion: InversionConfig
) -> Embeddings:
    """Embed every region as its whole image."""
    return _by("cls", subject, cases, setting)


def token_means(
    subject: ModelUnderTest, cases: Sequence[Case], setting: Setting, _: InversionConfig
) -> Embeddings:
    """Average the unit token embeddings over each mask, weighted by how much a token holds."""
    return _by("maskclip", subject, cases, setting, reading=setting.reading)


def crop(
    subject: ModelUnderTest, cases: Sequence[Case], setting: Setting, _: InversionConfig
) -> Embeddings:
    """Embed each region's box, scaled to the model's input."""
    return _by("crop", subject, cases, setting, context=setting.context)


def masked_crop(
    subject: ModelUnderTest, cases: Sequence[Case], setting: Setting, _: InversionConfig
) -> Embeddings:
    """Embed each region's box with everything outside the mask painted over."""
    return _by("masked-crop", subject, cases, setting, context=setting.context, fill=setting.fill)


def _by(
    name: str, subject: ModelUnderTest, cases: Sequence[Case], setting: Setting, **options: Any
) -> Embeddings:
    way = region_embedder(name, subject.model, resolution=setting.resolution, **options)
    return np.concatenate([way.embed(case.image, case.masks) for case in cases])


CONTEXTS: Final = (1.0, 1.15, 1.4, 2.0)
SCENE_METHODS: Final[dict[str, SceneMethod]] = {
    "maskinversion": SceneMethod("MaskInversion", _inversion, {}),
    "cls": SceneMethod("CLIP [CLS]", whole, {}, "cls"),
    "maskclip": SceneMethod(
        "token means (MaskCLIP)", token_means, {"reading": ("values", "block")}, "maskclip"
    ),
    "crop": SceneMethod("Crop", crop, {"context": CONTEXTS}, "crop"),
    "masked_crop": SceneMethod(
        "Masked Crop",
        masked_crop,
        {"context": (*CONTEXTS, math.inf), "fill": ("image mean", "model mean", "blurred")},
        "masked-crop",
    ),
}


def why_not(subject: ModelUnderTest) -> dict[str, str]:
    """Return why methods do not work with the model's image tower, by key in `SCENE_METHODS`."""
    reasons = {}
    for key, way in SCENE_METHODS.items():
        try:
            region_embedder(way.method, subject.model)
        except ModelError as error:
            reasons[key] = f"not for this model: {error}"
    return reasons
