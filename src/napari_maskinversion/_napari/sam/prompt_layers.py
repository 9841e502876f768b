"""Shapes and Points layers as boxes and points for SAM, in pixels of the image's plane.

Points are positive or negative by their feature ``label``, as is usual in napari: its values are
"positive" and "negative", and a point without one is positive. A feature ``object``, if there is
one, numbers the objects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from ...app.layer_input.coordinates import Grid, Plane, ViewPoint, pixels_to_layer, slice_of
from ...app.layer_input.layer_facts import OURS, levels_of, shapes_on_plane
from ...regions.drawn_shapes import Shape, outline_of
from ...regions.sam.prompts import BoxMark, PointMark, positive_of
from ..layers.placing import place_of

if TYPE_CHECKING:
    from napari.components import ViewerModel
    from napari.layers import Image, Points, Shapes


LABEL: Final = "label"
POSITIVE, NEGATIVE = "positive", "negative"
_OBJECT: Final = "object"
BOXES: Final = "boxes"
"""Marks a Shapes layer as ours that is made for boxes: it is not offered as regions."""
# Blue discs and orange crosses: distinguishable without colour vision.
_COLOURS: Final = ("#4aa3ff", "#ff8c1a")
_SYMBOLS: Final = {POSITIVE: "disc", NEGATIVE: "cross"}


def box_marks(
    layer: Shapes, image: Grid, plane: Plane, view: ViewPoint
) -> tuple[list[BoxMark], tuple[Shape, ...]]:
    """Return the bounding box of each shape on the displayed plane, and the shapes."""
    grid = Grid.of(layer, view)
    shapes = shapes_on_plane(layer, grid, view)
    to_pixels = pixels_to_layer(image, plane, grid, view).inverse
    objects = _objects(layer)
    marks = []
    for shape in shapes:
        outline = outline_of(shape, to_pixels)
        (y0, x0), (y1, x1) = outline.min(axis=0), outline.max(axis=0)
        marks.append(
            BoxMark(
                box=(float(y0), float(x0), float(y1), float(x1)),
                name=f"Shape {shape.id} of '{layer.name}'",
                object=objects[shape.id],
            )
        )
    return marks, shapes


def point_marks(layer: Points, image: Grid, plane: Plane, view: ViewPoint) -> list[PointMark]:
    """Return the points on the displayed plane."""
    grid = Grid.of(layer, view)
    cut = slice_of(grid, view)
    across = list(cut.others)
    index = np.asarray(cut.index)[across]
    to_pixels = pixels_to_layer(image, plane, grid, view).inverse
    kinds = layer.features.get(LABEL)
    objects = _objects(layer)
    marks = []
    for row, data in enumerate(np.asarray(layer.data, dtype=float)):
        # napari rounds in the same way when it decides what to draw.
        if across and not np.all(np.round(data[across]) == index):
            continue
        y, x = to_pixels(data[None, list(cut.axes)])[0]
        marks.append(
            PointMark(
                point=(float(y), float(x)),
                name=f"Point {row} of '{layer.name}'",
                positive=kinds is None or positive_of(kinds.iloc[row]) is not False,
                object=objects[row],
            )
        )
    return marks


def _objects(layer: Shapes | Points) -> list[int | None]:
    """Return the object number of each row of a layer; 0 is none, too."""
    if _OBJECT not in layer.features:
        return [None] * len(layer.data)
    import pandas as pd  # the panel opens without it

    numbers = pd.to_numeric(layer.features[_OBJECT], errors="coerce").fillna(0)
    return [int(number) if number >= 1 else None for number in numbers]


def new_boxes(viewer: ViewerModel, image: Image) -> Shapes:
    """Add a Shapes layer aligned with the image, ready for drawing boxes."""
    layer = viewer.add_shapes(
        name="boxes",
        ndim=image.ndim,
        edge_color=_COLOURS[0],
        face_color="transparent",
        edge_width=2,
        metadata={OURS: BOXES},
        **place_of(image),
    )
    layer.mode = "add_rectangle"
    return layer


def new_points(viewer: ViewerModel, image: Image, kind: str) -> Points:
    """Add a Points layer aligned with the image, ready for adding points."""
    import pandas as pd

    # napari learns both values and their colours from two points, which are removed again.
    layer = viewer.add_points(
        np.zeros((2, image.ndim)),
        name="points",
        features=pd.DataFrame({LABEL: [POSITIVE, NEGATIVE]}),
        face_color=LABEL,
        face_color_cycle=list(_COLOURS),
        size=max(3.0, min(levels_of(image)[0].shape[: image.ndim][-2:]) / 50),
        **place_of(image),
    )
    layer.data = np.empty((0, image.ndim))
    set_kind(layer, kind)
    layer.mode = "add"
    return layer


def set_kind(layer: Points, kind: str) -> None:
    """Make new points positive or negative; in select mode the selected points, too."""
    features = layer.features.copy()
    chosen = sorted(layer.selected_data) if str(layer.mode) == "select" else []
    new = LABEL not in features
    if new:
        features[LABEL] = POSITIVE
    if chosen:
        features.loc[chosen, LABEL] = kind
    else:
        # A new point is still selected and would get the new symbol.
        layer.selected_data = set()
    defaults = layer.feature_defaults.to_dict("records")
    if new or chosen:  # napari would forget the defaults of a layer without points
        layer.features = features
    layer.feature_defaults = {**(defaults[0] if defaults else {}), LABEL: kind}
    layer.current_symbol = _SYMBOLS[kind]
