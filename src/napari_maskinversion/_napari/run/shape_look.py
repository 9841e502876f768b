"""Shapes as outlines, so that what they are drawn around stays visible."""

from __future__ import annotations

from typing import Any

import numpy as np
from napari.utils.colormaps.standardize_color import transform_color

from ..layers.outline import COLOR


def show_outlines(layer: Any) -> None:
    """Show shapes without a fill where they have napari's white one; a look of the user stays."""
    selected = set(layer.selected_data)
    # napari gives a new look to the selected shapes.
    layer.selected_data = set()
    if bool((transform_color(layer.current_face_color)[0] == 1).all()):
        layer.current_face_color, layer.current_edge_color = "transparent", COLOR
    faces = np.array(layer.face_color)
    white = (faces == 1).all(axis=1) if len(faces) else np.zeros(0, bool)
    if white.any():
        edges = np.array(layer.edge_color)
        faces[white, 3] = 0
        edges[white] = transform_color(COLOR)[0]
        layer.face_color, layer.edge_color = faces, edges
    layer.selected_data = selected
