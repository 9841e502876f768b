"""Boxes and points from CSV files: columns of our own, or those that napari writes. No torch."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from ...base.errors import InputError
from .prompts import BoxMark, PointMark

_CORNERS: Final = ("y0", "x0", "y1", "x1")
_YES: Final = {"1", "true", "yes", "positive", "+"}
_NO: Final = {"0", "false", "no", "negative", "-"}

Row = Mapping[str, str]


def read_boxes(path: Path) -> list[BoxMark]:
    """Read boxes.

    Either columns ``y0, x0, y1, x1`` (pixel edges: 0, 0, H, W is the whole plane) and maybe
    ``object``, or the Shapes layer that napari saved, of which the box around each shape is taken.

    Raises
    ------
    InputError
        If the file cannot be read, has other columns, or a line no numbers; names file and line.
    """
    rows = list(_rows(path))
    if "vertex-index" in rows[0][1]:
        return _shapes(path, rows)
    _check_columns(path, rows[0][1], _CORNERS, "y0, x0, y1, x1 (and maybe object)")
    found = []
    for line, row in rows:
        name = f"{path.name}, line {line}"
        # Edges to centres: the first pixel's centre is 0, its edge -0.5.
        y0, x0, y1, x1 = (_number(row[key], key, name) - 0.5 for key in _CORNERS)
        found.append(BoxMark(box=(y0, x0, y1, x1), name=name, object=_object(row, name)))
    return found


def read_points(path: Path) -> list[PointMark]:
    """Read points.

    Either columns ``y, x`` (whole numbers are pixel centres), or the Points layer that napari
    saved; with either, maybe ``label`` (positive, negative, 1, 0) and ``object``.

    Raises
    ------
    InputError
        As `read_boxes`.
    """
    rows = list(_rows(path))
    axes = _axes(rows[0][1]) or ("y", "x")
    _check_columns(path, rows[0][1], axes, "y, x (and maybe label, object)")
    _check_flat(path, rows, axes)
    found = []
    for line, row in rows:
        name = f"{path.name}, line {line}"
        y, x = (_number(row[key], key, name) for key in axes[-2:])
        positive = _positive(row.get("label", "") or row.get("positive", ""), name)
        found.append(
            PointMark(point=(y, x), name=name, positive=positive, object=_object(row, name))
        )
    return found


def _shapes(path: Path, rows: Sequence[tuple[int, Row]]) -> list[BoxMark]:
    axes = _axes(rows[0][1])
    _check_columns(path, rows[0][1], ("index", *axes[-2:]), "index and axes, as napari writes them")
    _check_flat(path, rows, axes)
    corners: dict[str, list[tuple[float, float]]] = {}
    for line, row in rows:
        name = f"{path.name}, line {line}"
        y, x = (_number(row[key], key, name) for key in axes[-2:])
        corners.setdefault(row["index"], []).append((y, x))
    found = []
    for index, points in corners.items():
        down, across = zip(*points, strict=True)
        box = (min(down), min(across), max(down), max(across))
        found.append(BoxMark(box=box, name=f"{path.name}, shape {index}"))
    return found


def _rows(path: Path) -> Iterator[tuple[int, Row]]:
    """Yield lines with their numbers; column names in lower case; at least one."""
    if not path.is_file():
        raise InputError(f"There is no file {path}; check the path.")
    empty = True
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            names = [(name or "").strip().lower() for name in reader.fieldnames or ()]
            for values in reader:
                cells = [(values.get(name) or "").strip() for name in reader.fieldnames or ()]
                if any(cells):
                    empty = False
                    yield reader.line_num, dict(zip(names, cells, strict=True))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} could not be read as CSV: {error}") from error
    if empty:
        raise InputError(f"{path} holds no line of numbers below its column names.")


def _axes(row: Row) -> tuple[str, ...]:
    """Names of napari's coordinate columns."""
    return tuple(f"axis-{i}" for i in range(len(row)) if f"axis-{i}" in row)


def _check_columns(path: Path, row: Row, wanted: Sequence[str], what: str) -> None:
    missing = [name for name in wanted if name not in row]
    if missing or len(wanted) < 2:
        raise InputError(
            f"{path} has the columns {', '.join(row) or 'none'}; it needs {what}, or those of a "
            "layer that napari saved as CSV."
        )


def _check_flat(path: Path, rows: Sequence[tuple[int, Row]], axes: Sequence[str]) -> None:
    """Refuse what lies on several planes: one plane is looked at."""
    for axis in axes[:-2]:
        if len({row[axis] for _, row in rows}) > 1:
            raise InputError(
                f"{path} lies on several planes ({axis} differs); keep those of one plane, and "
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
