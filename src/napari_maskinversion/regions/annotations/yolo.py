"""YOLO's text files: a line for each region, a box or an outline in shares of the image."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any, Final

import numpy as np

from ...base.errors import InputError
from ...base.reading import parse_yaml, read_bytes, read_text
from .building import AnnotationFormat, Box, Drawn, Geometry, Outline, Parsed, left_out
from .listed_images import ImageReference
from .polygons import ring

_NAMES: Final = ("data.yaml", "dataset.yaml", "classes.txt", "obj.names")
# Where names are looked for: of dataset/labels/train/a.txt, dataset is the third.
_FOLDERS: Final = 4
_MAX_NAMES_SIZE: Final = 1_000_000  # bytes
_SLACK: Final = 0.01  # coordinates are rounded
_LEAST_POSE: Final = 10  # numbers of a box and two points of a body with their visibility


@dataclass(frozen=True, slots=True)
class _Line:
    where: str
    kind: int  # Its class
    numbers: list[float]
    whole: list[bool]  # Which of them have no decimal point


def parse_yolo(lines: list[str], path: Path, image: ImageReference) -> Parsed:
    """Return the boxes and outlines of lines; their numbers mean the same in the whole file.

    The file has neither the image's size nor names. Names come from the nearest ``data.yaml``,
    ``dataset.yaml``, ``classes.txt`` or ``obj.names`` in its folder and those above.
    """
    if image.shape is None:
        raise InputError(
            f"{path} does not have the size of its image; open the image and read the file from "
            "the panel, or use the command napari-maskinversion run IMAGE FILE."
        )
    notes: list[str] = []
    names, source, poses = _names(path)
    if source is None:
        notes.append(
            f"{path}: classes have no names; put data.yaml or classes.txt into its folder or one "
            "above."
        )
    elif source.parent != path.absolute().parent:
        notes.append(f"{path}: the names of its classes are those in {source}.")
    parsed = []
    for number, text in enumerate(lines, 1):
        where = f"{path}, line {number}"
        with left_out(where, notes):
            if text.strip():
                parsed.append(_parsed(text, where))
    tracked = False
    if poses or _are_poses(parsed):
        notes.append(f"{path} has boxes with points of a body; the boxes are used.")
        parsed = [_Line(one.where, one.kind, one.numbers[:4], []) for one in parsed]
    elif tracked := _are_tracked(parsed):
        notes.append(f"{path}: the last number of each line was read as a track number.")
    objects = []
    for one in parsed:
        track, values = (one.numbers[-1], one.numbers[:-1]) if tracked else (None, one.numbers)
        if source is not None and one.kind not in names:
            notes.append(f"{one.where} is of class {one.kind}, which {source} does not name.")
        objects.append(
            Drawn(
                where=one.where,
                geometry=partial(_geometry, values[: len(values) // 2 * 2], image.shape),
                label=names.get(one.kind, ""),
                score=values[-1] if len(values) % 2 else None,
                values={"class": one.kind},
                source_id="" if track is None else str(int(track)),
            )
        )
    colors = {name: "" for name in names.values() if name}
    return Parsed(objects=objects, notes=notes, colors=colors)


def read_lines(path: Path) -> list[str]:
    """Read the lines of a text file."""
    return read_text(path, "file of regions").splitlines()


def _parsed(text: str, where: str) -> _Line:
    words = text.split()
    try:
        numbers = [float(word) for word in words]
    except ValueError:
        numbers = []
    if len(numbers) < 5 or not words[0].isdecimal() or not all(map(isfinite, numbers)):
        raise ValueError(
            "not YOLO: a class, and four numbers of a box or six or more of an outline"
        )
    return _Line(where, int(words[0]), numbers[1:], [word.isdecimal() for word in words[1:]])


def _are_poses(lines: list[_Line]) -> bool:
    """Return whether a box and points follow, each with a whole number for its visibility."""
    return bool(lines) and all(
        len(one.numbers) >= _LEAST_POSE and len(one.numbers) % 3 == 1 and all(one.whole[6::3])
        for one in lines
    )


def _are_tracked(lines: list[_Line]) -> bool:
    """Return whether a track number ends all lines: the only whole one, and 1 or more."""
    return bool(lines) and all(
        len(one.numbers) > 4 and one.whole[-1] and one.numbers[-1] >= 1 and not all(one.whole[:-1])
        for one in lines
    )


def _geometry(numbers: list[float], shape: tuple[int, int]) -> Geometry:
    values = np.array(numbers)
    if values.min() < -_SLACK or values.max() > 1 + _SLACK:
        raise ValueError("it has coordinates outside 0 to 1; YOLO's are shares of the image")
    height, width = shape
    if len(values) > 4:
        return Outline([ring(values.reshape(-1, 2) * (width, height))])
    x, y, wide, high = (values * (width, height, width, height)).tolist()
    return Box(y - high / 2, x - wide / 2, y + high / 2, x + wide / 2)


def _names(path: Path) -> tuple[dict[int, str], Path | None, bool]:
    """Return the names of classes, their file, and whether it says that lines hold poses."""
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
                return _by_class(page["names"], file), file, "kpt_shape" in page
        except InputError as error:
            raise InputError(f"{error} It names the classes of {path}.") from None
    return {}, None, False


def class_names(path: Path) -> dict[int, str]:
    """Return the names that other files give to the classes of a file of lines."""
    return _names(path)[0]


def _by_class(names: Any, file: Path) -> dict[int, str]:
    pairs = dict(enumerate(names)) if isinstance(names, list) else names
    if not isinstance(pairs, dict) or any(type(kind) is not int for kind in pairs):
        raise InputError(f"{file}: names are a list, or names by class; got {names!r}.")
    for kind, name in pairs.items():
        if type(name) not in (str, int, float):  # YAML takes the words no, off, yes, on for truths
            raise InputError(f"{file}: the name of class {kind} needs quotes, such as 'no'.")
    return {kind: str(name).strip() for kind, name in pairs.items()}


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
