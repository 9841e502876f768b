"""Follows the shapes of a layer from row to row, while the user draws, moves and removes some."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from .viewer_protocols import ShapesEvent, ShapesLayer


class Outline(NamedTuple):
    """What tells a shape from others."""

    kind: str
    corners: bytes


class ShapeRows:
    """Tracks the row of each shape that a layer has now.

    A moved or edited shape keeps its identity. If napari does not report the change (all shapes set
    at once, or events blocked), shapes are matched by their outlines.
    """

    def __init__(self, layer: ShapesLayer) -> None:
        self._layer = layer
        self._outlines = _outlines_of(layer)
        self._rows: list[int | None] = list(range(len(self._outlines)))
        layer.events.data.connect(self._follow)  # napari holds this weakly

    @property
    def count(self) -> int:
        """The number of shapes now."""
        return len(self._layer.data)

    @property
    def current(self) -> list[int | None]:
        """The row of each shape now, in their original order; None for removed ones."""
        if len(self._layer.data) != len(self._outlines):
            self._match_outlines()
        return self._rows

    def _follow(self, event: ShapesEvent) -> None:
        action = str(getattr(event, "action", ""))
        if not action.endswith("ed"):
            return  # "removing", "adding": napari reports again when it is done
        count_before, count = len(self._outlines), len(self._layer.data)
        touched: set[int] = set()
        if count_before:  # negative rows count from the end
            touched = {int(row) % count_before for row in event.data_indices}
        if action == "removed" and count == count_before - len(touched):
            left = sorted(set(range(count_before)) - touched)
            self._move({row: new_row for new_row, row in enumerate(left)})
        elif (
            action == "changed"
            and count == count_before
            and touched <= set(self._layer.selected_data)
        ):
            # Dragged: each stays in its row, even where it lies on another's old place.
            self._move({row: row for row in range(count)})
        else:
            self._match_outlines()

    def _match_outlines(self) -> None:
        self._move(match_outlines(self._outlines, _outlines_of(self._layer)))

    def _move(self, new_rows: dict[int, int]) -> None:
        self._rows = [None if row is None else new_rows.get(row) for row in self._rows]
        self._outlines = _outlines_of(self._layer)


def match_outlines(before: list[Outline], after: list[Outline]) -> dict[int, int]:
    """Return the new row of each shape that is there still.

    A shape stays in its row, or is where its outline is the only one of its kind. If the number of
    shapes is unchanged, those that are left over were edited in their rows.
    """
    same_rows = range(min(len(before), len(after)))
    new_rows = {row: row for row in same_rows if before[row] == after[row]}
    lost = _unique_outlines(before, without=new_rows.keys())
    unclaimed = _unique_outlines(after, without=new_rows.values())
    for outline, row in lost.items():
        if outline in unclaimed:
            new_rows[row] = unclaimed[outline]
    if len(before) == len(after):
        claimed = set(new_rows.values())
        for row in range(len(after)):
            if row not in new_rows and row not in claimed:
                new_rows[row] = row
    return new_rows


def _outlines_of(layer: ShapesLayer) -> list[Outline]:
    shapes = zip(layer.shape_type, layer.data, strict=True)
    return [Outline(str(kind), corners.tobytes()) for kind, corners in shapes]


def _unique_outlines(outlines: list[Outline], without: Collection[int]) -> dict[Outline, int]:
    """Return the row of each outline that only one shape has, among all rows but some."""
    excluded = set(without)
    rows: dict[Outline, list[int]] = {}
    for row, outline in enumerate(outlines):
        if row not in excluded:
            rows.setdefault(outline, []).append(row)
    return {outline: places[0] for outline, places in rows.items() if len(places) == 1}
