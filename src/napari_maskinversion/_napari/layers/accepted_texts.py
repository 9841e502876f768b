"""Accepted words as text on the canvas, in a layer of ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from napari.layers import Points, Shapes

from ...app.layer_input.coordinates import Plane
from ...app.layer_input.layer_facts import OURS
from ...app.layer_input.run_input import PlaneFinder
from ...base.identity import Position
from ...regions.affine import FloatArray
from ...results.region_result import RegionResult
from .placing import LayerHolder, plane_transform

if TYPE_CHECKING:
    from napari.layers import Image, Labels

# Each change redraws all texts: 0.2 ms each, 0.3 ms in software.
MOST: Final = 100
_SIZE: Final = 10
_LUMINANCE: Final = (0.21, 0.72, 0.07)  # of red, green and blue


class AcceptedText(NamedTuple):
    """A region and its accepted word."""

    region: RegionResult
    word: str


class TextStyle(NamedTuple):
    """The texts of a Points layer, one for each point, and how they look."""

    words: tuple[str, ...]
    colors: tuple[str, ...]
    below: bool  # a line below their points, where a layer of the user has texts

    def for_napari(self) -> dict[str, object]:
        """Return it as a Points layer takes it."""
        # napari centres the three lines on the point, so the last one lies below.
        lines_before = "\n\n" if self.below else ""
        strings = [lines_before + word for word in self.words]
        return {"string": strings, "color": list(self.colors), "size": _SIZE}


class AcceptedTexts(LayerHolder[Points]):
    """Shows words at the centres of regions, in a Points layer with invisible points."""

    _shown: tuple[bytes, TextStyle] | None = None

    def show(
        self,
        texts: Sequence[AcceptedText],
        image: Image,
        finder: PlaneFinder,
        regions: Labels | Shapes,
    ) -> None:
        """Show these texts and no others, above the layer of regions."""
        if not texts:
            self.remove()
            return
        backdrop = Backdrop(image, regions)
        planes: dict[Position, Plane] = {}
        points, colors = [], []
        for text in texts:
            position = text.region.position if finder.all_planes else ()
            if position not in planes:
                planes[position] = finder.plane(position)
            points.append(planes[position].to_data(text.region.centroid)[0])
            bright = backdrop.luminance(text.region, planes[position]) > 0.5
            colors.append("black" if bright else "white")
        data = np.array(points)
        words = tuple(text.word for text in texts)
        style = TextStyle(words, tuple(colors), below=shows_text(regions))
        placed = plane_transform(image, next(iter(planes.values())))
        layer = self.fitting(image)
        if layer is None:
            layer = _text_layer(data, style, image, placed)
            self.insert(layer, image, regions)
        else:
            self.follow(placed)
            if (data.tobytes(), style) != self._shown:
                layer.data = data
                layer.text = style.for_napari()
        layer.editable = False  # napari makes it editable when it slices
        self._shown = (data.tobytes(), style)


class Backdrop:
    """Tells how bright the canvas is where a text is drawn: the image, and the region's colour."""

    def __init__(self, image: Image, regions: Labels | Shapes) -> None:
        thumbnail = np.asarray(image.thumbnail, dtype=float) / 255
        # napari fills up the square with transparent pixels.
        opaque = thumbnail[..., 3] > 0
        shown = np.ix_(opaque.any(axis=1), opaque.any(axis=0))
        self._image = (thumbnail[..., :3] @ _LUMINANCE)[shown]
        self._regions = regions

    def luminance(self, region: RegionResult, plane: Plane) -> float:
        """Return it at the centre of a region, from 0 to 1."""
        image = self._luminance_of_image(region.centroid, plane)
        layer = self._regions
        # Shapes are mostly borders; so are labels with a contour.
        if isinstance(layer, Shapes) or not layer.visible or layer.contour:
            return image
        color = np.ravel(layer.get_color(region.id))
        opacity = float(color[3]) * layer.opacity
        return opacity * float(color[:3] @ _LUMINANCE) + (1 - opacity) * image

    def _luminance_of_image(self, centroid: tuple[float, float], plane: Plane) -> float:
        if not self._image.size:
            return 0.0
        shares = np.divide(centroid, plane.shape)
        index = np.minimum(shares * self._image.shape, np.subtract(self._image.shape, 1))
        row, column = index.astype(int)
        return float(self._image[row, column])


def nearest(
    texts: Sequence[AcceptedText], to: RegionResult | None, most: int = MOST
) -> list[AcceptedText]:
    """Return the texts nearest to a region, those of its own plane first."""
    if to is None or len(texts) <= most:
        return list(texts[:most])
    y, x = to.centroid

    def distance(text: AcceptedText) -> tuple[bool, float]:
        text_y, text_x = text.region.centroid
        return text.region.position != to.position, (text_y - y) ** 2 + (text_x - x) ** 2

    return sorted(texts, key=distance)[:most]


def shows_text(layer: Labels | Shapes) -> bool:
    """Return whether a layer of the user has texts of its own on the canvas."""
    if not isinstance(layer, Shapes) or not layer.text.visible:
        return False
    return bool(np.any(np.asarray(layer.text.values) != ""))


def _text_layer(
    points: FloatArray, style: TextStyle, image: Image, placed: dict[str, object]
) -> Points:
    return Points(
        points,
        name=f"accepted labels: {image.name}",
        ndim=image.ndim,
        size=1,
        face_color="transparent",
        border_width=0,
        text=style.for_napari(),
        metadata={OURS: "accepted labels"},
        **placed,
    )
