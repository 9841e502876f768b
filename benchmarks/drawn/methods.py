"""The methods of ``bench scenes``, and the search of each one's best setting.

MaskInversion sees a scene whole, and a real region in a window whose size is chosen on validation
images. It is compared with methods that need only the model: the whole image's embedding
(CLIP [CLS]), the cut-out box (Crop), the same with everything else painted over (Masked Crop), and
the mean of the mask's own tokens (after MaskCLIP). The other methods compare as they are published,
see `methods`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from napari_maskinversion.base.errors import ModelError
from napari_maskinversion.base.regions import Region
from napari_maskinversion.bench.datasets.scene_dataset import Case
from napari_maskinversion.bench.measures.statistics import share
from napari_maskinversion.engine.invert.inverter import MaskInverter
from napari_maskinversion.engine.methods.dense import Reading
from napari_maskinversion.engine.methods.edits import Fill, cut_box
from napari_maskinversion.engine.methods.factory import region_embedder
from napari_maskinversion.engine.settings import InversionConfig

from .cases import ModelUnderTest, labels_of, sources_of

Embeddings = NDArray[np.float32]
Texts = tuple[NDArray[np.int64], NDArray[np.float32]]  # labels, and a text embedding of each


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Setting of a method."""

    resolution: int  # Side in pixels of the model's input
    # Side of the window or crop as a multiple of the longer side of the region's box; infinite is
    # the whole image
    context: float = math.inf
    fill: Fill = "image mean"  # What a masked crop shows outside the mask
    reading: Reading = "values"  # Which tokens are averaged, see `MaskClip`


@dataclass(frozen=True, slots=True)
class SceneMethod:
    """A method as ``bench scenes`` measures it."""

    title: str  # For tables
    method: str  # Its name in `list_methods`
    # Options besides the resolution, the usual value first
    choices: dict[str, tuple[Any, ...]] = field(default_factory=dict)

    def embed(
        self,
        subject: ModelUnderTest,
        cases: Sequence[Case],
        setting: Setting,
        inversion: InversionConfig,
    ) -> Embeddings:
        """Return the embeddings (regions, e) of all regions, in the cases' order."""
        if self.method == "maskinversion":
            return invert(subject, cases, setting, inversion)[0]
        options = {name: getattr(setting, name) for name in ("resolution", *self.choices)}
        embedder = region_embedder(self.method, subject.model, **options)
        embeddings = []
        for case in cases:
            embedder.set_image(case.image)
            embeddings.append(embedder.embed(case.masks))
        return np.concatenate(embeddings)

    def describe(self, setting: Setting) -> dict[str, Any]:
        """Return the relevant part of a setting, ready for JSON."""
        shown = {k: v for k, v in asdict(setting).items() if k == "resolution" or k in self.choices}
        return {k: "whole image" if v == math.inf else v for k, v in shown.items()}


def read_setting(described: dict[str, Any]) -> Setting:
    """Undo `SceneMethod.describe`."""
    named: dict[str, float] = {"whole image": math.inf}
    values: dict[str, Any] = {key: named.get(value, value) for key, value in described.items()}
    return Setting(**values)


def invert(
    subject: ModelUnderTest, cases: Sequence[Case], setting: Setting, inversion: InversionConfig
) -> tuple[Embeddings, NDArray[np.float64]]:
    """Invert every mask; return embeddings (regions, e) and heatmap-to-mask IoU (map > 0.5).

    The setting's context is about the box of all masks of a case; no window is smaller than the
    model's input.
    """
    inverter = MaskInverter(subject.model)
    embeddings, overlaps = [], []
    for case in cases:
        every = Region.from_mask(1, np.asarray(case.masks.any(0)))
        assert every is not None  # each region of a case covers pixels
        box = every.bbox
        longer = max(box[2] - box[0], box[3] - box[1])
        context = max(setting.context, setting.resolution / longer)
        y0, x0, y1, x1 = cut_box(box, case.image.shape[:2], context)
        masks = case.masks[:, y0:y1, x0:x1]
        inverter.set_image(case.image[y0:y1, x0:x1], resolution=setting.resolution)
        result = inverter.invert(masks, inversion)
        embeddings.append(result.embeddings)
        overlaps.append(overlap(result.heatmaps, masks))
    return np.concatenate(embeddings), np.concatenate(overlaps)


def overlap(heatmaps: NDArray[np.float32], masks: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the IoU (M,) of heatmaps above 0.5 and masks, both (M, H, W)."""
    hot = heatmaps > 0.5
    both, either = (hot & masks).sum((1, 2)), (hot | masks).sum((1, 2))
    return np.asarray(both / np.maximum(either, 1), float)


def hits(
    embeddings: NDArray[np.float32], texts: NDArray[np.float32], labels: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return (N, 2): whether the right name is first, and among the first five."""
    order = (-(embeddings @ texts.T)).argsort(1)[:, :5] == labels[:, None]
    return np.stack([order[:, 0], order.any(1)], 1)


CONTEXTS: Final = (1.0, 1.15, 1.4, 2.0)
SCENE_METHODS: Final[dict[str, SceneMethod]] = {
    "maskinversion": SceneMethod(
        "MaskInversion", "maskinversion", {"context": (math.inf, 1.4, 1.2)}
    ),
    "cls": SceneMethod("CLIP [CLS]", "cls"),
    "maskclip": SceneMethod("token means (MaskCLIP)", "maskclip", {"reading": ("values", "block")}),
    "crop": SceneMethod("Crop", "crop", {"context": CONTEXTS}),
    "masked_crop": SceneMethod(
        "Masked Crop",
        "masked-crop",
        {"context": (*CONTEXTS, math.inf), "fill": ("image mean", "model mean", "blurred")},
    ),
}


def why_not(subject: ModelUnderTest) -> dict[str, str]:
    """Return why methods do not work with the model's image tower, by key in `SCENE_METHODS`."""
    reasons = {}
    for key, method in SCENE_METHODS.items():
        try:
            region_embedder(method.method, subject.model)
        except ModelError as error:
            reasons[key] = f"not for this model: {error}"
    return reasons


def usual_settings(subject: ModelUnderTest, resolution: int | None = None) -> dict[str, Setting]:
    """Return the usual setting of every method that the model allows."""
    native = Setting(resolution=subject.model.native_resolution, context=1.0)
    lacks = why_not(subject)
    settings = dict.fromkeys((key for key in SCENE_METHODS if key not in lacks), native)
    settings["maskinversion"] = Setting(resolution=subject.resolution(resolution))
    return settings


def choose_settings(
    subject: ModelUnderTest,
    cases: Sequence[Case],
    texts: Texts,
    inversion: InversionConfig,
    on_step: Callable[[float], None] = lambda _: None,
    *,
    resolution: int | None = None,
    macro: bool = False,
) -> dict[str, dict[str, Any]]:
    """Choose each method's setting by top-1: first its own options, then the resolution.

    MaskInversion sees images of several regions whole.
    """
    true, sources = np.searchsorted(texts[0], labels_of(cases)), sources_of(cases)

    def score(name: str, setting: Setting) -> float:
        embeddings = SCENE_METHODS[name].embed(subject, cases, setting, inversion)
        right = hits(embeddings, texts[1], true)[:, 0]
        return share(right, sources, true if macro else None)["value"]

    chosen: dict[str, dict[str, Any]] = {}
    usual = usual_settings(subject, resolution)
    for done, (name, start) in enumerate(usual.items()):
        method = SCENE_METHODS[name]
        fixed = name == "maskinversion" and resolution is not None
        tried: dict[Setting, float] = {}
        whole = name == "maskinversion" and any(len(case.labels) > 1 for case in cases)
        if method.choices and not whole:
            for values in product(*method.choices.values()):
                setting = replace(start, **dict(zip(method.choices, values, strict=True)))
                tried[setting] = score(name, setting)
        best = max(tried, key=lambda s: tried[s]) if tried else start
        for side in [start.resolution] if fixed else subject.resolutions():
            setting = replace(best, resolution=side)
            if setting not in tried:
                tried[setting] = score(name, setting)
        best = max(tried, key=lambda s: tried[s])  # the first of equals is the more usual one
        chosen[name] = {
            "setting": method.describe(best),
            "top1": tried[best],
            "tried": len(tried),
        }
        on_step((done + 1) / len(usual))
    return chosen


# -- what size and colour alone tell -----------------------------------------------------------


def size_and_colour(cases: Iterable[Case]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return log area, mean and standard deviation of each channel, (N, 7), and labels (N,)."""
    rows, labels = [], []
    for case in cases:
        for mask, label in zip(case.masks, case.labels, strict=True):
            inside = case.image[mask].astype(np.float64) / 255
            rows.append([np.log(len(inside)), *inside.mean(0), *inside.std(0)])
            labels.append(int(label))
    return np.array(rows), np.array(labels)


def discriminant(
    x: NDArray[np.float64], y: NDArray[np.int64], z: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Name rows z (K, f) by linear discriminants fitted to x (N, f), every class as likely."""
    classes = np.unique(y)
    means = np.array([x[y == label].mean(0) for label in classes])
    spread = x - means[np.searchsorted(classes, y)]
    inverse = np.linalg.inv(spread.T @ spread / len(x) + 1e-6 * np.eye(x.shape[1]))
    away = z[:, None] - means[None]
    nearest = np.einsum("nkf,fg,nkg->nk", away, inverse, away).argmin(1)
    return np.asarray(classes[nearest], np.int64)
