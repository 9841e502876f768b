"""What was accepted, written to the regions' own layer: a column of its features, and colours."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any, Final

import numpy as np
import pandas as pd

from .feature_rows import with_labels
from .layers import is_shapes

COLUMN: Final = "accepted_label"
# Which column is ours, so that one of the user's with the same name is never taken for it.
_OURS: Final = "napari-maskinversion column"
_UNDECIDED: Final = (0.5, 0.5, 0.5, 0.4)
_TEXT: Final = ("string", "color", "size")  # what of a shape's text is ours meanwhile
_FACE: Final = 0.3  # opacity of a shape's face


class DecidedLayer:
    """A Labels or Shapes layer that shows what was accepted of its regions.

    Parameters
    ----------
    layer : napari.layers.Labels or Shapes
    """

    def __init__(self, layer: Any) -> None:
        self.layer = layer
        self._count = len(layer.data) if is_shapes(layer) else 0
        self._own: dict[str, Any] | None = None  # how the user had it, while it has our colours
        self._set: Any = None
        self._painted: dict[int, Any] = {}  # colours of the labels in `_set`

    @property
    def column(self) -> str:
        """Name of our column: another one where the user has a column of that name."""
        ours = self.layer.metadata.get(_OURS)
        features = self.layer.features
        if ours is not None and ours in features:
            return str(ours)
        name, number = COLUMN, 2
        while name in features:
            name, number = f"{COLUMN}_{number}", number + 1
        return name

    @property
    def note(self) -> str:
        """What the user should know; empty if there is nothing."""
        if self.moved:
            return (
                f"Shapes were removed from '{self.layer.name}' since the run; labels are no longer "
                "written to it. Run again to go on."
            )
        name = self.column
        if name == COLUMN:
            return ""
        return (
            f"'{self.layer.name}' has a column {COLUMN} of its own; labels are written to {name}."
        )

    def take_over(self, other: DecidedLayer) -> None:
        """Take the place of what was shown before: the same layer may have our colours."""
        if other.layer is self.layer:
            self._own, self._set, self._painted = other._own, other._set, other._painted
            other._own = other._set = None
        else:
            other.restore()

    def write(self, labels: Mapping[int, str]) -> None:
        """Write the label of each region into our column; all other columns stay as they are.

        Parameters
        ----------
        labels : mapping of int to str
            By label value or row of the shape; empty text where nothing is accepted. Regions that
            are not in it keep what they have.
        """
        if self.moved:
            return
        layer, name = self.layer, self.column
        frame = layer.features.copy()
        before = frame[name].tolist() if name in frame else None
        if before is None and not any(labels.values()):
            return
        if is_shapes(layer):
            ids = pd.Series(range(len(layer.data)))
        else:
            frame, ids = _with_rows(frame, [key for key, label in labels.items() if label])
        old = pd.Series([""] * len(ids) if before is None else before, dtype=object)
        old = old.reindex(range(len(ids)), fill_value="")
        column = [labels.get(int(k), o) for k, o in zip(ids, old, strict=True)]
        if before == column and len(frame) == len(layer.features):
            return
        frame[name] = np.array([*column, None], dtype=object)[:-1]
        layer.features = frame
        layer.metadata[_OURS] = name
        if is_shapes(layer):
            # A shape drawn next would take over the label of the last one.
            defaults = layer.feature_defaults.copy()
            defaults[name] = ""
            layer.feature_defaults = defaults

    def color(self, labels: Mapping[int, str], colors: Mapping[str, str]) -> None:
        """Colour regions by their accepted labels, shapes with their label as text."""
        if self.moved:
            return
        from napari.utils.colormaps.standardize_color import transform_color

        # Each colour is read once: thousands of regions share some dozens.
        ready = {label: transform_color(color)[0] for label, color in colors.items()}
        chosen = {key: ready[label] for key, label in labels.items() if label in ready}
        if is_shapes(self.layer):
            self._color_shapes(chosen)
        else:
            self._color_labels(chosen)

    def restore(self) -> None:
        """Give the layer the look that its user gave it, unless it was changed since."""
        own, self._own = self._own, None
        if own is None:
            return
        layer = self.layer
        if not is_shapes(layer):
            if layer.colormap is self._set:
                layer.colormap = own["colormap"]
            self._set = None
            return
        for name in ("face_color", "edge_color"):
            now = np.array(getattr(layer, name))
            count = min(len(now), len(own[name]))  # shapes may have been drawn since
            now[:count] = own[name][:count]
            setattr(layer, name, now)
        for name, value in own["text"].items():
            setattr(layer.text, name, value)
        layer.refresh_text()

    def _color_labels(self, chosen: Mapping[int, Any]) -> None:
        layer = self.layer
        if self._own is None or layer.colormap is not self._set:
            self._own = {"colormap": layer.colormap}
        elif _same_colors(chosen, self._painted):
            return
        layer.colormap = direct_colormap(chosen)
        self._set, self._painted = layer.colormap, dict(chosen)

    def _color_shapes(self, chosen: Mapping[int, Any]) -> None:
        layer = self.layer
        if self._own is None:
            self._own = {
                "face_color": np.array(layer.face_color),
                "edge_color": np.array(layer.edge_color),
                "text": {name: getattr(layer.text, name) for name in _TEXT},
            }
        edges = np.tile(np.array(_UNDECIDED), (len(layer.data), 1))
        for row, color in chosen.items():
            edges[row] = color
        faces = edges.copy()
        faces[:, 3] *= _FACE
        layer.edge_color, layer.face_color = edges, faces
        layer.text = {"string": f"{{{self.column}}}", "color": "white", "size": 10}

    @property
    def moved(self) -> bool:
        """Whether rows belong to other shapes than when the run began."""
        return is_shapes(self.layer) and len(self.layer.data) < self._count


def direct_colormap(chosen: Mapping[int, Any]) -> Any:
    """Make a colormap of labels from colours that are numbers already; all others are grey.

    napari reads each of thousands of colours anew (60 ms): a copy of a small colormap with another
    table is not validated.
    """
    from napari.utils.colormaps import DirectLabelColormap

    small = DirectLabelColormap(color_dict={None: _UNDECIDED, 0: (0.0, 0.0, 0.0, 0.0)})
    table = copy(small.color_dict)
    table.update(chosen)
    return small.model_copy(update={"color_dict": table})


def _same_colors(one: Mapping[int, Any], other: Mapping[int, Any]) -> bool:
    return one.keys() == other.keys() and all(
        np.array_equal(color, other[key]) for key, color in one.items()
    )


def _with_rows(frame: pd.DataFrame, needed: list[int]) -> tuple[pd.DataFrame, pd.Series[Any]]:
    """Give features a row for each label needed, and the label of each row."""
    if frame.shape[1] == 0:
        frame = pd.DataFrame({"index": sorted(needed)})
    if "index" not in frame:
        if not needed or max(needed) < len(frame):
            return frame, pd.Series(range(len(frame)))  # the row is the label
        frame.insert(0, "index", range(len(frame)))
    frame = with_labels(frame, needed)
    return frame, frame["index"]
