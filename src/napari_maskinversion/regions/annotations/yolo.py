"""YOLO's text files: a line for each region, a box or an outline in shares of the image."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from pathlib import Path
from typing import Any, Final

import numpy as np

from ...base.errors import InputError
from ...base.reading import parse_yaml, read_bytes, read_text
from .annotation import Annotation, Annotations, box_region, check_not_empty, on_image
from .annotation_format import AnnotationFormat, ImageReference
from .polygons import draw_region, ring

_NAMES: Final = ("data.yaml", "dataset.yaml", "classes.txt", "obj.names")
_FOLDERS: Final = (
    4  # where names are looked for: of dataset/labels/train/a.txt, dataset is the third
)
_MAX_NAMES_SIZE: Final = 1_000_000  # bytes
_SLACK: Final = 0.01  # coordinates are rounded


def read_yolo(lines: list[str], path: Path, image: ImageReference) -> Annotations:
    """Read lines as regions, counted from 1; see `AnnotationFormat.read`.

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
    items: list[Annotation] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        kind, values = _parsed(line, where, poses=poses)
        if source is not None and kind not in names:
            raise InputError(f"{where} is of class {kind}, which {source} does not name.")
        score = float(values[-1]) if len(values) % 2 else None
        values = values[: len(values) // 2 * 2]
        region = _region(len(items) + 1, values, where, image.shape, notes)
        items.append(
            Annotation(
                region=region, label=names.get(kind, ""), score=score, values={"class": kind}
            )
        )
    check_not_empty(items, path, notes)
    return Annotations(
        shape=image.shape,
        items=tuple(items),
        image=image.name,
        colors={name: "" for name in names.values() if name},
        notes=tuple(notes),
    )


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


def _region(number: int, values: Any, where: str, shape: tuple[int, int], notes: list[str]) -> Any:
    height, width = shape
    if len(values) > 4:
        corners = values.reshape(-1, 2) * (width, height)
        return draw_region(number, [ring(corners)], where, shape, notes)
    x, y, wide, high = values * (width, height, width, height)
    box = (y - high / 2, x - wide / 2, y + high / 2, x + wide / 2)
    return on_image(box_region(number, box, where, shape, notes), where, shape)


def _names(path: Path) -> tuple[dict[int, str], Path | None, bool]:
    """Return the names of classes, their file, and whether lines hold poses."""
    for file in _candidates(path):
        try:
            if not file.is_file() or file == path:
                continue
            if file.suffix == ".yaml":
                content = read_bytes(file, "file of names", most=_MAX_NAMES_SIZE)
                page = parse_yaml(content, file)
            else:
                text = read_text(file, "file of names", most=_MAX_NAMES_SIZE)
                page = {"names": text.splitlines()}
            if isinstance(page, dict) and "names" in page:
                return _by_class(page["names"]), file, "kpt_shape" in page
        except InputError as error:
            raise InputError(f"{error} It names the classes of {path}.") from None
        except (OSError, ValueError, TypeError) as error:
            reason = str(error).splitlines()[0]
            raise InputError(
                f"{file}, which names the classes of {path}, is broken: {reason}."
            ) from None
    return {}, None, False


def class_names(path: Path) -> dict[int, str]:
    """Return the names that other files give to the classes of a file of lines."""
    return _names(path)[0]


def _by_class(names: Any) -> dict[int, str]:
    if not isinstance(names, dict | list):
        raise ValueError(f"names: {names!r} is neither a list nor names by class")
    pairs = names.items() if isinstance(names, dict) else enumerate(names)
    by_class = {}
    for kind, name in pairs:
        if type(name) is bool:  # YAML takes the words no, off, yes and on for them
            raise ValueError(f"the name of class {kind!r} needs quotes, such as 'no'")
        if type(kind) is not int or type(name) not in (str, int, float):
            raise ValueError(f"class {kind!r} has no name")
        by_class[kind] = str(name).strip()
    return by_class


def _candidates(path: Path) -> Iterator[Path]:
    for folder in path.absolute().parents[:_FOLDERS]:
        yield from (folder / name for name in _NAMES)


YOLO: Final = AnnotationFormat(
    name="YOLO",
    suffixes=(".txt",),
    content="lines of a class and numbers",
    markers=(),
    load=read_lines,
    matches=lambda lines: True,
    read=read_yolo,
    in_viewer=False,
)
