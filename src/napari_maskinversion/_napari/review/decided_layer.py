"""Writes accepted labels to the regions' layer: a column of its features, and colours."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ...app.layer_input.label_layers import whole, with_labels
from ...app.layer_input.layer_facts import is_shapes

if TYPE_CHECKING:
    import pandas as pd

Outline = tuple[str, bytes]  # Kind and corners of a shape
COLUMN: Final = "accepted_label"
# Name of our column, to tell it from a column of the user with the same name.
_OURS: Final = "napari-maskinversion column"
# Of undecided regions: light on a dark image, dark on a light one, and the object shows through.
LIGHT: Final = (1.0, 1.0, 1.0, 0.55)
DARK: Final = (0.0, 0.0, 0.0, 0.55)
# Our changes to the text of shapes.
_TEXT: Final = (
    *("string", "color", "visible", "size", "scaling"),
    *("blending", "anchor", "translation", "rotation"),
)
_FACE: Final = 0.3  # opacity of a shape's face


class DecidedLayer:
    """A Labels or Shapes layer that shows the accepted labels of its regions."""

    def __init__(self, layer: Any) -> None:
        self.layer = layer
        self._rows = ShapeRows(layer) if is_shapes(layer) else None
        self._own: dict[str, Any] | None = None  # the user's look, while ours is shown
        self._set: Any = None
        self._painted: dict[int, Any] = {}  # colours of the labels in `_set`

    @property
    def column(self) -> str:
        """Name of our column; a numbered one if the user has a column of that name."""
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
        """A warning for the user, or ""."""
        name, layer, messages = self.column, self.layer, [self.gone]
        if name != COLUMN:
            messages.append(
                f"'{layer.name}' has a column {COLUMN} of its own; words are written to {name}."
            )
        if self._rows is None and "index" in layer.features:
            others = sum(whole(value) is None for value in layer.features["index"])
            if others:
                messages.append(
                    f"In the column index of '{layer.name}' {others} "
                    f"value{'s are' if others > 1 else ' is'} no whole number: such rows belong to "
                    "no region and stay as they are; words are written to rows of their own."
                )
        return " ".join(filter(None, messages))

    @property
    def moved(self) -> bool:
        """Whether shapes have moved to other rows since the run began, or are gone."""
        return self._rows is not None and any(
            place != row for row, place in enumerate(self._rows.places)
        )

    @property
    def gone(self) -> str:
        """A message about removed shapes, or ""."""
        count = 0 if self._rows is None else self._rows.places.count(None)
        if not count:
            return ""
        shapes, their = (
            ("shapes were", "their words are") if count > 1 else ("shape was", "its word is")
        )
        return (
            f"{count} {shapes} removed from '{self.layer.name}' since the run; {their} not "
            "written to it."
        )

    def take_over(self, other: DecidedLayer) -> None:
        """Replace an earlier instance, whose colours the layer may have."""
        if other.layer is self.layer:
            self._own, self._set, self._painted = other._own, other._set, other._painted
            other._own = other._set = None
        else:
            other.restore()

    def write(self, labels: Mapping[int, str]) -> None:
        """Write the label of each region into our column; other columns stay."""
        import pandas as pd

        layer, name = self.layer, self.column
        frame = layer.features.copy()
        before = frame[name].tolist() if name in frame else None
        if before is None and not any(labels.values()):
            return
        if self._rows is not None:
            labels = _placed(labels, self._rows)
            ids = pd.Series(range(len(layer.data)))
        else:
            frame, ids = _with_rows(frame, [key for key, label in labels.items() if label])
        old = pd.Series([""] * len(ids) if before is None else before, dtype=object)
        old = old.reindex(range(len(ids)), fill_value="")
        column = [
            old_label if (number := whole(value)) is None else labels.get(number, old_label)
            for value, old_label in zip(ids, old, strict=True)
        ]
        if before == column and len(frame) == len(layer.features):
            return
        frame[name] = np.array([*column, None], dtype=object)[:-1]
        layer.features = frame
        layer.metadata[_OURS] = name
        if is_shapes(layer):
            # Otherwise the next shape drawn would inherit the last label.
            defaults = layer.feature_defaults.copy()
            defaults[name] = ""
            layer.feature_defaults = defaults

    def color(
        self,
        labels: Mapping[int, str],
        colors: Mapping[str, str],
        undecided: tuple[float, float, float, float] = LIGHT,
    ) -> None:
        """Colour regions by their accepted labels; shapes also show the label as text."""
        from napari.utils.colormaps.standardize_color import transform_color

        # Parse each colour once: thousands of regions share dozens of colours.
        ready = {label: transform_color(color)[0] for label, color in colors.items()}
        chosen = {key: ready[label] for key, label in labels.items() if label in ready}
        if self._rows is not None:
            self._color_shapes(_placed(chosen, self._rows), undecided)
        else:
            self._color_labels(chosen, undecided)

    def restore(self) -> None:
        """Restore the layer's look before the review, unless the user has changed it since."""
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
            now = np.array(getattr(layer, name))  # shapes may have been added since
            for place, color in _placed(dict(enumerate(own[name])), own["rows"]).items():
                now[place] = color
            setattr(layer, name, now)
        for name, value in own["text"].items():
            setattr(layer.text, name, value)
        layer.refresh_text()

    def _color_labels(self, chosen: Mapping[int, Any], undecided: Any) -> None:
        layer = self.layer
        if self._own is None or layer.colormap is not self._set:
            self._own = {"colormap": layer.colormap}
        elif _same_colors(chosen, self._painted):
            return
        layer.colormap = direct_colormap(chosen, undecided)
        self._set, self._painted = layer.colormap, dict(chosen)

    def _color_shapes(self, chosen: Mapping[int, Any], undecided: Any) -> None:
        layer = self.layer
        if self._own is None:
            self._own = {
                "face_color": np.array(layer.face_color),
                "edge_color": np.array(layer.edge_color),
                "text": {n: getattr(layer.text, n) for n in _TEXT if hasattr(layer.text, n)},
                "rows": ShapeRows(layer),
            }
        edges = np.tile(np.array(undecided), (len(layer.data), 1))
        for row, color in chosen.items():
            edges[row] = color
        faces = edges.copy()
        faces[:, 3] *= _FACE
        layer.edge_color, layer.face_color = edges, faces
        layer.text = {"string": f"{{{self.column}}}", "color": "white", "size": 10}


def _placed(values: Mapping[int, Any], rows: ShapeRows) -> dict[int, Any]:
    """Return values of shapes by their current rows."""
    places = dict(enumerate(rows.places))
    moved = {places.get(row): value for row, value in values.items()}
    return {place: value for place, value in moved.items() if place is not None}


def seen_on(image: Any) -> tuple[float, float, float, float]:
    """Return the colour of undecided regions that shows on an image layer."""
    thumbnail = np.asarray(image.thumbnail, dtype=float)
    shown = thumbnail[thumbnail[..., 3] > 0][:, :3]
    bright = shown.size and shown @ (0.21, 0.72, 0.07)
    return DARK if np.mean(bright) > 127 else LIGHT


def direct_colormap(chosen: Mapping[int, Any], undecided: Any = LIGHT) -> Any:
    """Make a label colormap from RGBA colours; other labels get the colour of undecided ones.

    napari validates each of thousands of colours (60 ms); copying a small colormap with another
    table avoids this.
    """
    from napari.utils.colormaps import DirectLabelColormap

    small = DirectLabelColormap(color_dict={None: undecided, 0: (0.0, 0.0, 0.0, 0.0)})
    table = copy(small.color_dict)
    table.update(chosen)
    return small.model_copy(update={"color_dict": table})


def _same_colors(one: Mapping[int, Any], other: Mapping[int, Any]) -> bool:
    return one.keys() == other.keys() and all(
        np.array_equal(color, other[key]) for key, color in one.items()
    )


def _with_rows(frame: pd.DataFrame, needed: list[int]) -> tuple[pd.DataFrame, pd.Series[Any]]:
    """Return features with a row for each label needed, and the label of each row."""
    import pandas as pd

    if frame.shape[1] == 0:
        frame = pd.DataFrame({"index": sorted(needed)})
    if "index" not in frame:
        if not needed or max(needed) < len(frame):
            return frame, pd.Series(range(len(frame)))  # the row is the label
        frame.insert(0, "index", range(len(frame)))
    frame = with_labels(frame, needed)
    return frame, frame["index"]


class ShapeRows:
    """Tracks the shapes that a layer has now.

    A moved or edited shape keeps its identity. If napari does not report the change (all shapes set
    at once, or events blocked), shapes are matched by their outlines.
    """

    def __init__(self, layer: Any) -> None:
        self._layer = layer
        self._outlines = _outlines(layer)
        self._places: list[int | None] = list(range(len(self._outlines)))
        layer.events.data.connect(self._follow)  # napari holds this weakly

    @property
    def places(self) -> list[int | None]:
        """Current row of each shape, in the original order; None for removed ones."""
        if len(self._layer.data) != len(self._outlines):
            self._compare()
        return self._places

    def _follow(self, event: Any) -> None:
        action, count = str(getattr(event, "action", "")), len(self._outlines)
        if not action.endswith("ed"):
            return  # about to be done
        rows = {int(row) % count for row in event.data_indices} if count else set()
        left = len(self._layer.data)
        if action == "removed" and left == count - len(rows):
            self._move({row: new for new, row in enumerate(sorted({*range(count)} - rows))})
        elif action == "changed" and left == count and rows <= set(self._layer.selected_data):
            self._move({row: row for row in range(count)})  # dragged, each in its row
        else:
            self._compare()

    def _compare(self) -> None:
        self._move(_found(self._outlines, _outlines(self._layer)))

    def _move(self, to: dict[int, int]) -> None:
        self._places = [None if row is None else to.get(row) for row in self._places]
        self._outlines = _outlines(self._layer)


def _outlines(layer: Any) -> list[Outline]:
    return [
        (str(kind), corners.tobytes())
        for kind, corners in zip(layer.shape_type, layer.data, strict=True)
    ]


def _found(before: list[Outline], now: list[Outline]) -> dict[int, int]:
    """Match shapes by outline: in the same row, or where the outline is unique.

    If the number of shapes is unchanged, unmatched rows keep their (edited) shapes.
    """
    new_rows = {
        row: row for row, (old, new) in enumerate(zip(before, now, strict=False)) if old == new
    }
    taken = set(new_rows.values())
    lost, free = _single(before, set(new_rows)), _single(now, taken)
    new_rows |= {row: free[outline] for outline, row in lost.items() if outline in free}
    if len(now) == len(before):
        taken = set(new_rows.values())
        new_rows |= {
            row: row for row in range(len(now)) if row not in new_rows and row not in taken
        }
    return new_rows


def _single(outlines: list[Outline], without: set[int]) -> dict[Outline, int]:
    """Rows of unique outlines."""
    rows: dict[Outline, list[int]] = {}
    for row, outline in enumerate(outlines):
        if row not in without:
            rows.setdefault(outline, []).append(row)
    return {outline: places[0] for outline, places in rows.items() if len(places) == 1}
