"""Rows of a comparison: methods, maps, or masks of different quality."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal, get_args

import numpy as np

from ...base.regions import Region, Regions
from ...engine.explain.registry import MAPS
from ...engine.methods.registry import Method, list_methods
from ...engine.settings import InversionConfig
from ...regions.masks.cleanup import CleanUp, clean_region

MaskChange = Literal["mask", "eroded", "dilated", "box"]
SHARE: Final = 0.1  # share of a region's diameter that is removed or added


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One row of a comparison.

    Attributes
    ----------
    key, title : str
        Name in the record; name for users.
    method : Method
    inversion : InversionConfig
    masks : {"mask", "eroded", "dilated", "box"}
        How a mask is changed before it is embedded; answers are compared with the true mask.
    lacks : str
        Why no model can measure it; shown in its row.
    """

    key: str
    title: str
    method: Method = field(default_factory=Method)
    inversion: InversionConfig = field(default_factory=InversionConfig)
    masks: MaskChange = "mask"
    lacks: str = ""

    def settings(self) -> dict[str, Any]:
        """Return what the figures depend on."""
        settings: dict[str, Any] = {"method": self.method.name, "masks": self.masks}
        if self.method.weights is not None:
            settings["weights"] = self.method.weights.name
        return settings


def methods(names: str, inversion: InversionConfig, weights: Path | None = None) -> list[Entry]:
    """Return rows of methods by name, separated by commas; ``all`` is every method.

    Raises
    ------
    ConfigError
        If a method is unknown, or was named and lacks its weights.
    """
    every = names.strip() == "all"
    if every:
        chosen = [spec.name for spec in list_methods()]
    else:
        chosen = [name for name in (part.strip() for part in names.split(",")) if name]
    rows = []
    for name in dict.fromkeys(chosen):
        method = Method(name, weights)
        needy = every and weights is None and any(part.weights for part in method.parts)
        if not needy:
            method.check()
        lacks = "needs weights (--method-weights FILE)" if needy else ""
        row = Entry(key=method.name, title=method.title, method=method, inversion=inversion)
        rows.append(replace(row, lacks=lacks))
    return rows


def maps(inversion: InversionConfig, layers: int) -> list[Entry]:
    """Return rows of explainability maps; LeGrad with 1, 2 and all layers."""
    rows = []
    for name in MAPS:
        depths = sorted({1, min(2, layers), layers}) if name == "legrad" else [1]
        for depth in depths:
            key = name if depth == 1 else f"{name}-{depth}"
            title = name if depth == 1 else f"{name}, {depth} layers"
            changed = replace(inversion, explainer=name, layers=depth)
            rows.append(Entry(key=key, title=title, inversion=changed))
    return rows


def masks(rows: Sequence[Entry]) -> list[Entry]:
    """Return each row with every change of masks."""
    return [
        replace(
            row,
            key=f"{row.key}/{change}",
            title=change if len(rows) == 1 else f"{row.title}, {change}",
            masks=change,
        )
        for row in rows
        for change in get_args(MaskChange)
    ]


def changed(regions: Regions, how: MaskChange) -> Regions:
    """Redraw masks: eroded or dilated by a tenth of their diameter, or their boxes filled.

    A region that erosion would delete stays unchanged.
    """
    if how == "mask":
        return regions
    return Regions(regions.shape, [_changed(region, how, regions.shape) for region in regions])


def _changed(region: Region, how: MaskChange, shape: tuple[int, int]) -> Region:
    if how == "box":
        return Region(region.id, region.bbox, np.ones(region.mask.shape, bool))
    reach = max(1.0, SHARE * 2 * float(np.sqrt(region.area / np.pi)))
    clean = CleanUp(erode=reach) if how == "eroded" else CleanUp(dilate=reach)
    return clean_region(region, shape, clean) or region
