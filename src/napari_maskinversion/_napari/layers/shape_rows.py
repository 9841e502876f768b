"""Tracks the rows of a layer's shapes as shapes are added and removed."""

from __future__ import annotations

from typing import Any

# Kind and corners of a shape.
Outline = tuple[str, bytes]


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
