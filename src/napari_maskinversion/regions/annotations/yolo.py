"""YOLO's text files: a line for each region, a box or an outline in shares of the image."""

from __future__ import annotations

from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any, Final

import numpy as np

from ...base.errors import InputError
from ...base.reading import parse_yaml, read_bytes, read_text
from .building import AnnotationFormat, Box, Drawn, Geometry, Outline, Parsed
from .listed_images import ImageReference
from .polygons import ring

_NAMES: Final = ("data.yaml", "dataset.yaml", "classes.txt", "obj.names")
# Where names are looked for: of dataset/labels/train/a.txt, dataset is the third.
_FOLDERS: Final = 4
_MAX_NAMES_SIZE: Final = 1_000_000  # bytes
_SLACK: Final = 0.01  # coordinates are rounded


def parse_yolo(lines: list[str], path: Path, image: ImageReference) -> Parsed:
    """Return the boxes and outlines of lines.

    The file has neither the image's size nor names. Names come from the nearest ``data.yaml``,
    ``dataset.yaml``, ``classes.txt`` or ``obj.names`` in its folder and those above.
    """
    if image.shape is None:
        raise InputError(
            f"{path} does not have the size of its image; open the image and read the file from "
            "the panel, or use the command napari-maskinversion run IMAGE FILE."
        )
    notes = []
    names, source, poses = _names(path)
    if source is None:
        notes.append(
            f"{path}: classes have no names; put data.yaml or classes.txt into its folder or one "
            "above."
        )
    elif source.parent != path.absolute().parent:
        notes.append(f"{path}: the names of its classes are those in {source}.")
    objects = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        kind, values = _parsed(line, where, poses=poses)
        if source is not None and kind not in names:
            raise InputError(f"{where} is of class {kind}, which {source} does not name.")
        objects.append(
            Drawn(
                where=where,
                geometry=partial(_geometry, values[: len(values) // 2 * 2], image.shape),
                label=names.get(kind, ""),
                score=float(values[-1]) if len(values) % 2 else None,
                values={"class": kind},
            )
        )
    colors = {name: "" for name in names.values() if name}
    return Parsed(objects=objects, notes=notes, colors=colors)


def read_lines(path: Path) -> list[str]:
    """Read the lines of a text file."""
    return read_text(path, "file of regions").splitlines()


def _parsed(line: str, where: str, *, poses: bool) -> tuple[int, Any]:
    """Return class and coordinates of a line; of a pose the box, without points of the body."""
    try:
        numbers = [float(part) for part in line.split()]
    except ValueError:
        numbers = []
    if len(numbers) < 5 or not numbers[0].is_integer() or numbers[0] < 0:
        raise InputError(
            f"{where} is not YOLO: a class and four numbers of a box or six or more of an outline."
        )
    values = np.array(numbers[1 : 5 if poses else None])
    if not all(map(isfinite, numbers)) or values.min() < -_SLACK or values.max() > 1 + _SLACK:
        raise InputError(f"{where} has coordinates outside 0 to 1; YOLO's are shares of the image.")
    return int(numbers[0]), values


def _geometry(values: Any, shape: tuple[int, int]) -> Geometry:
    height, width = shape
    if len(values) > 4:
        return Outline([ring(values.reshape(-1, 2) * (width, height))])
    x, y, wide, high = (values * (width, height, width, height)).tolist()
    return Box(y - high / 2, x - wide / 2, y + high / 2, x + wide / 2)


def _names(path: Path) -> tuple[dict[int, str], Path | None, bool]:
    """Return the names of classes, their file, and whether lines hold poses."""
    for file in (folder / name for folder in path.absolute().parents[:_FOLDERS] for name in _NAMES):
        if not file.is_file() or file == path:
            continue
        try:
            if file.suffix == ".yaml":
                page = parse_yaml(read_bytes(file, "file of names", most=_MAX_NAMES_SIZE), file)
            else:
                text = read_text(file, "file of names", most=_MAX_NAMES_SIZE)
                page = {"names": text.splitlines()}
            if isinstance(page, dict) and "names" in page:
                return _by_class(page["names"]), file, "kpt_shape" in page
        except InputError as error:
            raise InputError(f"{error} It names the classes of {path}.") from None
        except ValueError as error:
            raise InputError(
                f"{file}, which names the classes of {path}, is broken: {error}."
            ) from None
    return {}, None, False


def class_names(path: Path) -> dict[int, str]:
    """Return the names that other files give to the classes of a file of lines."""
    return _names(path)[0]


def _by_class(names: Any) -> dict[int, str]:
    if not isinstance(names, dict | list):
        raise ValueError(f"names: {names!r} is neither a list nor names by class")
    by_class = {}
    for kind, name in names.items() if isinstance(names, dict) else enumerate(names):
        if type(name) is bool:  # YAML takes the words no, off, yes and on for them
            raise ValueError(f"the name of class {kind!r} needs quotes, such as 'no'")
        if type(kind) is not int or type(name) not in (str, int, float):
            raise ValueError(f"class {kind!r} has no name")
        by_class[kind] = str(name).strip()
    return by_class


YOLO: Final = AnnotationFormat(
    name="YOLO",
    suffixes=(".txt",),
    content="lines of a class and numbers",
    markers=(),
    load=read_lines,
    matches=lambda lines: True,
    parse=parse_yolo,
    in_viewer=False,
)
