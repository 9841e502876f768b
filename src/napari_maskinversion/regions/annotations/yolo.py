"""YOLO's text files: a line for each region, a box or an outline in shares of the image."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from math import isfinite
from pathlib import Path
from typing import Any, Final

import numpy as np

from ...base.errors import InputError
from ...base.reading import parse_yaml, read_bytes, read_text
from .annotation_building import AnnotationFormat, Box, Drawn, Geometry, Outline, Parsed, left_out
from .json_files import as_number
from .listed_images import ImageReference
from .polygons import ring
from .yolo_layout import layout_of

_NAMES: Final = ("data.yaml", "dataset.yaml", "classes.txt", "obj.names", "_darknet.labels")
# Where names are looked for: of dataset/labels/train/a.txt, dataset is the third.
_FOLDERS: Final = 4
_MAX_NAMES_SIZE: Final = 1_000_000  # bytes
_SLACK: Final = 0.01  # coordinates are rounded
_TURNED_SLACK: Final = 0.5  # oriented boxes reach beyond the image
_BOX: Final = 4  # numbers
_MOST_FILES: Final = 50  # that tell together what lines of a data set mean
_WHOLE: Final = re.compile(r"-?\d{1,15}")
# Eight coordinates of pixels, and a name; about the image before them.
_DOTA: Final = re.compile(r"imagesource:.*|gsd:.*|([-\d.]+\s+){8}[^\d\s-]\S*.*")


@dataclass(frozen=True, slots=True)
class _Line:
    where: str
    kind: int  # Its class
    numbers: list[float]


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
    names, source, points = _names(path)
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
    files = [[line.numbers for line in parsed]]
    plain = all(len(line.numbers) == _BOX for line in parsed)
    if source is not None and source.suffix.startswith(".y") and not plain:  # of a data set
        own_path = path.absolute()
        folder = path.absolute().parent
        beside = _first_in(folder, folder.stat().st_mtime_ns)
        files += [lines for file, lines in beside.items() if lines and file != own_path]
    layout = layout_of(files, image.shape, points)
    if layout.text != "boxes":
        if layout.kind == "poses":
            used = "; the boxes are used"
        else:
            used = ""
        notes.append(f"{path}: its lines were read as {layout.text}{used}.")
    objects = []
    for line in parsed:
        if source is not None and line.kind not in names:
            notes.append(f"{line.where} is of class {line.kind}, which {source} does not name.")
        drawn, score, track = layout.parts(line.numbers)
        objects.append(
            Drawn(
                where=line.where,
                geometry=partial(_geometry, drawn, image.shape, layout.kind),
                label=names.get(line.kind, ""),
                score=score,
                values={"class": line.kind},
                source_id="" if track is None else str(track),
            )
        )
    colors = {}
    for name in names.values():
        if name:
            colors[name] = ""
    return Parsed(objects=objects, notes=notes, colors=colors)


def read_lines(path: Path) -> list[str]:
    """Read the lines of a text file."""
    return read_text(path, "file of regions").splitlines()


def is_dota(content: Any) -> bool:
    """Return whether lines are DOTA's, which has such files, too."""
    lines = []
    if isinstance(content, list):
        lines = content
    return any(isinstance(line, str) and _DOTA.fullmatch(line.strip()) for line in lines[:3])


def _parsed(text: str, where: str) -> _Line:
    try:
        words = text.replace(",", " ").split()
        # As they are written: 1 may number a track, and 1.0 is a share of the image.
        numbers = [int(word) if _WHOLE.fullmatch(word) else float(word) for word in words]
    except ValueError:
        numbers = []
    finite = len(numbers) > 4 and all(map(isfinite, numbers))
    if not finite or numbers[0] < 0 or not float(numbers[0]).is_integer():
        raise ValueError(
            "not YOLO: a class, and four numbers of a box or six or more of an outline"
        )
    return _Line(where, int(numbers[0]), numbers[1:])


@lru_cache(maxsize=1)
def _first_in(folder: Path, _: int) -> dict[Path, list[list[float]]]:
    """Read the numbers of the first files of lines in a folder."""
    files = {}
    for file in sorted(folder.glob("*.txt"))[:_MOST_FILES]:
        with suppress(InputError, ValueError):
            lines = []
            for text in read_lines(file):
                if text.strip():
                    lines.append(_parsed(text, ""))
            files[file] = [line.numbers for line in lines]
    return files


def _geometry(numbers: list[float], shape: tuple[int, int], kind: str) -> Geometry:
    values = np.array(numbers)
    slack = _TURNED_SLACK if kind == "oriented boxes" else _SLACK
    if values.min() < -slack or values.max() > 1 + slack:
        raise ValueError("it has coordinates outside 0 to 1; YOLO's are shares of the image")
    height, width = shape
    if len(values) > 4:
        return Outline([ring(values.reshape(-1, 2) * (width, height))])
    x, y, wide, high = (values * (width, height, width, height)).tolist()
    return Box(y - high / 2, x - wide / 2, y + high / 2, x + wide / 2)


def _names(path: Path) -> tuple[dict[int, str], Path | None, Any]:
    """Return the names of classes, their file, and the points of its poses (``kpt_shape``)."""
    folders = path.absolute().parents[:_FOLDERS]
    files = []
    for folder in folders:
        for name in _NAMES:
            files.append(folder / name)
    # A data set of ultralytics has a name of its own, such as coco8.yaml.
    other_files = []
    for folder in folders:
        for file in sorted(folder.glob("*.y*ml")):
            other_files.append(file)
    for file in [*files, *other_files]:
        if not file.is_file() or file == path:
            continue
        try:
            if file.suffix in (".yaml", ".yml"):
                page = parse_yaml(read_bytes(file, "file of names", most=_MAX_NAMES_SIZE), file)
            else:
                text = read_text(file, "file of names", most=_MAX_NAMES_SIZE)
                page = {"names": text.splitlines()}
            if isinstance(page, dict) and "names" in page:
                points = page.get("kpt_shape")
                pair = isinstance(points, list) and [type(number) for number in points] == [
                    int,
                    int,
                ]
                return _by_class(page["names"], file), file, points if pair else None
        except InputError as error:
            if file in files:
                raise InputError(f"{error} It names the classes of {path}.") from None
    return {}, None, None


def class_names(path: Path) -> dict[int, str]:
    """Return the names that other files give to the classes of a file of lines."""
    return _names(path)[0]


def _by_class(names: Any, file: Path) -> dict[int, str]:
    if isinstance(names, list):
        pairs = dict(enumerate(names))
    else:
        pairs = names
    if isinstance(pairs, dict):
        pairs = {as_number(kind): name for kind, name in pairs.items()}
    named = isinstance(pairs, dict) and all(type(kind) is int for kind in pairs)
    # YAML takes the words no, off, yes, on for truths.
    if not named or any(type(name) not in (str, int, float) for name in pairs.values()):
        raise InputError(
            f"{file}: names are a list, or names by class, with quotes such as 'no'; got {names!r}."
        )
    return {kind: str(name).strip() for kind, name in pairs.items()}


YOLO: Final = AnnotationFormat(
    name="YOLO",
    suffixes=(".txt",),
    content="lines of a class and numbers",
    markers=(),
    load=read_lines,
    matches=lambda lines: not is_dota(lines),
    parse=parse_yolo,
    in_viewer=False,
)
