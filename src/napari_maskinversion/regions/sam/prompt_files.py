"""Read boxes and points from CSV files, our own or those that napari saves. Imports no torch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from ...base.errors import InputError
from ...base.reading import read_rows
from .prompts import BoxMark, PointMark

_CORNERS: Final = ("y0", "x0", "y1", "x1")
_YES: Final = {"1", "true", "yes", "positive", "+"}
_NO: Final = {"0", "false", "no", "negative", "-"}

Row = Mapping[str, str]


def read_boxes(path: Path) -> list[BoxMark]:
    """Read boxes.

    The file has columns ``y0, x0, y1, x1`` (pixel edges: 0, 0, H, W is the whole plane) and
    optionally ``object``, or is a Shapes layer saved by napari; then each shape's box is used.
    """
    rows = list(read_rows(path, "table of marks"))
    if "vertex-index" in rows[0][1]:
        return _shapes(path, rows)
    _check_columns(path, rows[0][1], _CORNERS, "y0, x0, y1, x1 (optional: object)")
    boxes = []
    for line, row in rows:
        name = f"{path.name}, line {line}"
        # Edges to centres: the first pixel's centre is 0, its edge -0.5.
        y0, x0, y1, x1 = (_number(row[key], key, name) - 0.5 for key in _CORNERS)
        boxes.append(BoxMark(box=(y0, x0, y1, x1), name=name, object=_object(row, name)))
    return boxes


def read_points(path: Path) -> list[PointMark]:
    """Read points.

    The file has columns ``y, x`` (whole numbers are pixel centres), or is a Points layer saved by
    napari. Optional columns: ``label`` (positive, negative, 1, 0) and ``object``.
    """
    rows = list(read_rows(path, "table of marks"))
    axes = _axes(rows[0][1]) or ("y", "x")
    _check_columns(path, rows[0][1], axes, "y, x (optional: label, object)")
    _check_flat(path, rows, axes)
    points = []
    for line, row in rows:
        name = f"{path.name}, line {line}"
        y, x = (_number(row[key], key, name) for key in axes[-2:])
        positive = _positive(row.get("label", "") or row.get("positive", ""), name)
        points.append(
            PointMark(point=(y, x), name=name, positive=positive, object=_object(row, name))
        )
    return points


def _shapes(path: Path, rows: Sequence[tuple[int, Row]]) -> list[BoxMark]:
    axes = _axes(rows[0][1])
    _check_columns(path, rows[0][1], ("index", *axes[-2:]), "index and axes, as napari writes them")
    _check_flat(path, rows, axes)
    corners: dict[str, list[tuple[float, float]]] = {}
    for line, row in rows:
        name = f"{path.name}, line {line}"
        y, x = (_number(row[key], key, name) for key in axes[-2:])
        corners.setdefault(row["index"], []).append((y, x))
    boxes = []
    for index, vertices in corners.items():
        down, across = zip(*vertices, strict=True)
        box = (min(down), min(across), max(down), max(across))
        boxes.append(BoxMark(box=box, name=f"{path.name}, shape {index}"))
    return boxes


def _axes(row: Row) -> tuple[str, ...]:
    """Return the names of napari's coordinate columns."""
    return tuple(f"axis-{i}" for i in range(len(row)) if f"axis-{i}" in row)


def _check_columns(path: Path, row: Row, wanted: Sequence[str], what: str) -> None:
    missing = [name for name in wanted if name not in row]
    if missing or len(wanted) < 2:
        raise InputError(
            f"{path} has the columns {', '.join(row) or 'none'}; it needs {what}, or those of a "
            "layer that napari saved as CSV."
        )


def _check_flat(path: Path, rows: Sequence[tuple[int, Row]], axes: Sequence[str]) -> None:
    """Refuse coordinates on several planes."""
    for axis in axes[:-2]:
        if len({row[axis] for _, row in rows}) > 1:
            raise InputError(
                f"{path} has rows on several planes ({axis} differs); keep those of one plane, and "
                "choose it with --plane."
            )


def _number(text: str, column: str, name: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(f"{name}: {column} is {text or 'empty'!r}; a number is needed.")
    return value


def _object(row: Row, name: str) -> int | None:
    text = row.get("object", "")
    if not text:
        return None
    value = _number(text, "object", name)
    if value != int(value):
        raise InputError(f"{name}: object is {text!r}; a whole number is needed.")
    return int(value)


def _positive(text: str, name: str) -> bool:
    word = text.lower().removesuffix(".0")
    if word in _NO:
        return False
    if word in _YES or not word:
        return True
    raise InputError(f"{name}: label is {text!r}; say positive or negative (1 or 0).")
