"""Accepted labels as text on the canvas, for Labels layers, which have no text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from napari.layers import Points
from napari.utils.colormaps.standardize_color import transform_color

from ...results.region_result import RegionResult
from .coordinates import Plane
from .layers import OURS
from .placing import LayerHolder, plane_transform
from .tasks import PlaneFinder

# Each change redraws all texts: 0.2 ms each, 0.3 ms in software.
MOST: Final = 100
_SIZE: Final = 10
_LIGHT: Final = 0.6  # luminance of a region's colour above which its text is dark


@dataclass(frozen=True, slots=True)
class AcceptedText:
    """A region, its accepted label and its colour."""

    region: RegionResult
    label: str
    color: str = "black"


class AcceptedTexts(LayerHolder[Points]):
    """Shows texts at the centres of regions, in a Points layer with invisible points."""

    _shown: tuple[Any, ...] = ()

    def show(
        self, texts: Sequence[AcceptedText], image: Any, finder: PlaneFinder, above: Any
    ) -> None:
        """Show these texts and no others."""
        if not texts:
            self.remove()
            return
        planes: dict[Any, Plane] = {}
        points = []
        for text in texts:
            position = text.region.position if finder.all_planes else ()
            if position not in planes:
                planes[position] = finder.plane(position)
            points.append(planes[position].to_data(text.region.centroid)[0])
        data, look = np.array(points), _look(texts)
        placed = plane_transform(image, next(iter(planes.values())))
        layer = self.fitting(image)
        if layer is None:
            layer = _make(data, look, image, placed)
            self.insert(layer, image, above)
        else:
            self.follow(placed)
            if (data.tobytes(), look) != self._shown:
                layer.data = data
                layer.text = look
        layer.editable = False  # napari does so again when it slices
        self._shown = (data.tobytes(), look)


def nearest(
    texts: Sequence[AcceptedText], to: RegionResult | None, most: int = MOST
) -> list[AcceptedText]:
    """Return the texts nearest to a region, those of its own plane first."""
    if to is None or len(texts) <= most:
        return list(texts[:most])
    y, x = to.centroid

    def distance(text: AcceptedText) -> tuple[bool, float]:
        at = text.region.centroid
        return text.region.position != to.position, (at[0] - y) ** 2 + (at[1] - x) ** 2

    return sorted(texts, key=distance)[:most]


def _look(texts: Sequence[AcceptedText]) -> dict[str, Any]:
    """Return the texts, dark on light colours and light on dark ones."""
    shades = {color: _shade(color) for color in {text.color for text in texts}}
    return {
        "string": [text.label for text in texts],
        "color": [shades[text.color] for text in texts],
        "size": _SIZE,
    }


def _shade(color: str) -> str:
    red, green, blue = (float(part) for part in transform_color(color)[0][:3])
    return "black" if 0.21 * red + 0.72 * green + 0.07 * blue > _LIGHT else "white"


def _make(data: Any, look: dict[str, Any], image: Any, placed: dict[str, Any]) -> Points:
    return Points(
        data,
        name=f"accepted labels: {image.name}",
        ndim=image.ndim,
        size=1,
        face_color="transparent",
        border_width=0,
        text=look,
        metadata={OURS: "accepted labels"},
        **placed,
    )
