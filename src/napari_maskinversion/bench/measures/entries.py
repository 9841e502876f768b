"""Rows of a comparison: methods, maps, or masks of different quality."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ...base.regions import Region, Regions
from ...engine.explain.registry import MAPS
from ...engine.methods.registry import Method, list_methods
from ...engine.settings import InversionConfig
from ...images.plane_source import ArrayPlane
from ...regions.cleanup import CleanUp, clean_region
from ...regions.sam.prompts import Prompt

if TYPE_CHECKING:
    from ...regions.sam.segmenter import Segmenter

MaskChange = Literal["mask", "eroded", "dilated", "box", "box + SAM"]
SAM: Final = "box + SAM"
NEEDS_SAM: Final = "needs a checkpoint of Segment Anything (--sam FILE, or vit_b once fetched)"
Captions = Literal["", "optimised", "cls"]
Scorer = Literal["embeddings", "gradcam"]
SHARE: Final = 0.1  # share of a region's diameter that is removed or added


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One row of a comparison."""

    key: str  # Name in the record; name for users
    title: str
    method: Method = field(default_factory=Method)
    inversion: InversionConfig = field(default_factory=InversionConfig)
    # How a mask is changed before it is embedded; answers are compared with the true mask
    masks: MaskChange = "mask"
    template: str = "{}"  # Prompt for sentences, with ``{}`` for the sentence
    # How regions and sentences are compared: by their embeddings, or by a sentence's map in the
    # region's box as in ReCLIP, see `class_token_maps`. The latter ranks no classes.
    scorer: Scorer = "embeddings"
    # Steps of the inversion after which the classes are ranked as well
    points: tuple[int, ...] = ()
    relations: bool = False  # Places and sizes that a sentence names count as well, see `relations`
    # A sentence is generated from each embedding, of this length, and judged
    captions: Captions = ""
    lacks: str = ""  # Why no model can measure it; shown in its row

    def settings(self) -> dict[str, Any]:
        """Return what the figures depend on."""
        settings: dict[str, Any] = {"method": self.method.name, "masks": self.masks}
        if self.method.weights is not None:
            settings["weights"] = self.method.weights.name
        return settings


def methods(names: str, inversion: InversionConfig, weights: Path | None = None) -> list[Entry]:
    """Return rows of methods by name, separated by commas; ``all`` is every method."""
    every = names.strip() == "all"
    rows = []
    chosen = [name.strip() for name in names.split(",")]
    if every:
        chosen = [spec.name for spec in list_methods()]
    for name in dict.fromkeys(filter(None, chosen)):
        method = Method(name, weights)
        needy = every and weights is None and any(part.weights for part in method.parts)
        if not needy:
            method.check()
        lacks = ""
        if needy:
            lacks = "needs weights (--method-weights FILE)"
        row = Entry(key=method.name, title=method.title, method=method, inversion=inversion)
        rows.append(replace(row, lacks=lacks))
    return rows


def maps(inversion: InversionConfig, layers: int) -> list[Entry]:
    """Return rows of explainability maps; LeGrad with 1, 2 and all layers."""
    rows = []
    for name in MAPS:
        if name == "legrad":
            depths = sorted({1, min(2, layers), layers})
        else:
            depths = [1]
        for depth in depths:
            key = name if depth == 1 else f"{name}-{depth}"
            title = name if depth == 1 else f"{name}, {depth} layers"
            changed = inversion.changed(explainer=name, layers=depth)
            rows.append(Entry(key=key, title=title, inversion=changed))
    return rows


def masks(rows: Sequence[Entry]) -> list[Entry]:
    """Return each row with every change of masks that needs no other model."""
    listed = []
    for row, change in product(rows, get_args(MaskChange)):
        if change != SAM:
            title = change if len(rows) == 1 else f"{row.title}, {change}"
            listed.append(replace(row, key=f"{row.key}/{change}", title=title, masks=change))
    return listed


def changed(
    regions: Regions,
    how: MaskChange,
    image: NDArray[Any] | None = None,
    segmenter: Segmenter | None = None,
) -> Regions:
    """Redraw masks: eroded or dilated by a tenth of their diameter, or their boxes filled.

    A region that erosion would delete stays unchanged. ``box + SAM`` needs image and segmenter.
    """
    if how == "mask":
        return regions
    if how == SAM:
        assert image is not None
        assert segmenter is not None
        return _by_sam(regions, image, segmenter)
    return Regions(regions.shape, [_changed(region, how, regions.shape) for region in regions])


def _changed(region: Region, how: MaskChange, shape: tuple[int, int]) -> Region:
    if how == "box":
        return Region(region.id, region.bbox, np.ones(region.mask.shape, bool))
    reach = max(1.0, SHARE * 2 * float(np.sqrt(region.area / np.pi)))
    if how == "eroded":
        clean = CleanUp(erode=reach)
    else:
        clean = CleanUp(dilate=reach)
    return clean_region(region, shape, clean) or region


def _by_sam(regions: Regions, image: NDArray[Any], segmenter: Segmenter) -> Regions:
    """Return the best mask of Segment Anything for each box; the box itself if it has no pixel."""
    prompts = []
    for region in regions:
        y0, x0, y1, x1 = region.bbox
        # Whole numbers are centres of pixels there.
        box = (y0 - 0.5, x0 - 0.5, y1 - 0.5, x1 - 0.5)
        prompts.append(Prompt(id=region.id, boxes=(box,)))
    pairs = zip(segmenter.segment(ArrayPlane(image), prompts), regions, strict=True)
    drawn = []
    for segmented, region in pairs:
        drawn.append(segmented.region() or _changed(region, "box", regions.shape))
    return Regions(regions.shape, drawn)
