"""Which image of a file is read: one of several by name, folder or number, and its size."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import takewhile
from pathlib import Path, PureWindowsPath
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from ...base.errors import (
    InputError,
    ManyImagesError,
    MaskShapeError,
    NotListedError,
    if_turned,
)
from ...base.identity import Position
from ...base.units import Georeference
from ...base.validation import composed
from ...images.decoding import PICTURES

NO_GEOREFERENCE: Final = "the image has no georeference"
# Label Studio puts eight digits before names, and _ for spaces; Roboflow adds digits after them.
# Eight digits without a letter are a date.
_PREFIX: Final = re.compile(r"(?!\d{8})[0-9a-f]{8}-(?=.)")
_SUFFIX: Final = re.compile(r"(.+)_(\w+)\.rf\.\w+\.\w+")
# How alike two names are: more than the parts of any path, and less than a file of the same name.
_EXACT = 1000.0
_SAME_STEM = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageReference:
    """The image that annotations are read for."""

    name: str = ""  # File name, or path; selects the image in a file about several
    # Its number in a file with several images, which share a name; None if unknown
    series: int | None = None
    shape: tuple[int, int] | None = None  # Pixels (H, W); None takes the size from the file
    geo: Georeference | None = None  # For files in world coordinates
    without: str = NO_GEOREFERENCE  # Why there is none, for messages
    by_name: bool = False  # Whether a file about one image with another name is not about it

    @property
    def file(self) -> str:
        """The file name, for messages."""
        return PureWindowsPath(self.name).name


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedImage:
    """One image, or plane of an image, as a file lists it."""

    key: Any = None  # What annotations call it
    name: str = ""  # File name, with or without folders
    size: tuple[int, int] | None = None  # Pixels (H, W); None if the file has none
    position: Position = ()  # Of the plane
    series: int | None = None  # Number of the image in its file; None if the file does not say

    @property
    def title(self) -> str:
        """The name, and which image of its file it is."""
        if self.series is None:
            return self.name
        return f"{self.name} (series {self.series})"


def whole_size(height: Any, width: Any) -> tuple[int, int] | None:
    """Return a size (H, W); None unless both sides are whole numbers above 0."""
    sides = (height, width)
    if all(type(side) is int and side > 0 for side in sides):
        return sides
    return None


def check_size(path: Path, size: tuple[int, int], shape: tuple[int, int] | None) -> None:
    """Raise `MaskShapeError` if a file is about an image of another size (H, W)."""
    if shape is not None and size != shape:
        raise MaskShapeError(
            f"{path} is about an image of {size[0]} x {size[1]} px; this one is {shape[0]} x "
            f"{shape[1]} px.{if_turned(size, shape)}"
        )


def size_of_images(
    chosen: Sequence[ListedImage], path: Path, shape: tuple[int, int] | None
) -> tuple[int, int] | None:
    """Return the size (H, W) of the chosen image; None if neither file nor image has one."""
    for listed_image in chosen:
        if listed_image.size is not None:
            check_size(path, listed_image.size, shape)
            shape = listed_image.size
    return shape


def _parts(name: str) -> tuple[str, ...]:
    # Some programs write letters and their accents apart, as macOS once did, Windows' slashes, or
    # the address of the image with the keys of its store; Label Studio "?d=" before its own files.
    if "://" in name:
        name = urlsplit(name).path
    else:
        name = name.rpartition("?d=")[2]
    return PureWindowsPath(unquote(composed(name))).parts


def same_image(name: str, other: str) -> bool:
    """Return whether two names mean the same file, ignoring folders and a missing suffix."""
    return _likeness(name, other) >= _SAME_STEM


def _likeness(name: str, other: str) -> float:
    """Return how alike a listed name and another are: 0 for other files, more for each folder."""
    if not name or not other:
        return 0
    if name == other:
        return _EXACT
    parts = _parts(name)
    other_parts = _parts(other)
    pairs = zip(reversed(parts), reversed(other_parts), strict=False)
    if same := len(list(takewhile(lambda pair: pair[0] == pair[1], pairs))):
        return same
    first = PureWindowsPath(parts[-1])
    second = PureWindowsPath(other_parts[-1])
    if first.stem == second.stem and not (first.suffix and second.suffix):
        return _SAME_STEM
    converted = {first.suffix.lower(), second.suffix.lower()} <= PICTURES
    converted &= first.stem.casefold() == second.stem.casefold()
    if converted or _uploaded(first.name, second.name):
        return _SAME_STEM / 2
    return 0


def _uploaded(listed: str, name: str) -> bool:
    """Return whether a listed name may be another one after an upload."""
    before = _SUFFIX.sub(r"\1.\2", _PREFIX.sub("", listed)).lower()
    name = name.lower()
    if listed.isdigit() and PureWindowsPath(name).stem.lstrip("0") == listed.lstrip("0"):
        return True  # lists of results have a number for 000000000139.jpg
    return before in (name, re.sub(r"[^-\w.]", "", name.replace(" ", "_")))


def _is_of_another(listed: str, image: Path) -> bool:
    """Return whether a listed name may belong to another file next to an image."""
    if not image.is_file():
        return False
    names = _files_in(image.parent, image.parent.stat().st_mtime_ns)
    return any(name != image.name and _likeness(listed, name) for name in names)


@lru_cache(maxsize=1)
def _files_in(folder: Path, _: int) -> list[str]:
    return [file.name for file in folder.iterdir()]


def choose_images(
    listed: Sequence[ListedImage], path: Path, image: ImageReference
) -> list[ListedImage]:
    """Return the listed image that is read: one entry, or one for each plane."""
    titled = []
    for listed_image in listed:
        if listed_image.series is not None and composed(listed_image.title) == composed(image.name):
            titled.append(listed_image)
    if titled:  # as the user chose it from a list of titles
        listed = titled
        image = replace(image, name=titled[0].name, series=titled[0].series)
    likeness = [_likeness(listed_image.name, image.name) for listed_image in listed]
    best = max(likeness, default=0)
    chosen = []
    for listed_image, alike in zip(listed, likeness, strict=True):
        if alike == best:
            chosen.append(listed_image)
    names = list(dict.fromkeys(listed_image.name for listed_image in chosen))
    if len(names) == 1 and image.name and best < _SAME_STEM:
        without_size = names[0] and image.shape is not None and chosen[0].size is None
        fault = ""
        if not best and (image.by_name or without_size):
            fault = f"which may be another image than {image.file}."
        elif _is_of_another(names[0], Path(image.name)):
            fault = f"which may be another file beside {image.file}."
        if fault:
            subject = names[0] or "an image without a name"
            raise NotListedError(
                f"{path} is about {subject}, {fault}", _fitting(chosen, image.shape)
            )
    if len(names) != 1:
        some = ", ".join(names[:5]) or "none"
        fault = f"has {len(names)} images that may be {image.file} ({some})."
        if not best:
            fault = (
                f"is about {len(names)} images ({some}) and none of them is called "
                f"{image.file or 'as the image'}."
            )
        kind = ManyImagesError if best else NotListedError
        raise kind(f"{path} {fault}", _fitting(chosen, image.shape))
    chosen = _of_series(chosen, path, image)
    if len({listed_image.position for listed_image in chosen}) < len(chosen):
        raise InputError(
            f"{path} has {len(chosen)} images called {names[0] or '(no name)'}; give each its own "
            "name."
        )
    return chosen


def _of_series(chosen: list[ListedImage], path: Path, image: ImageReference) -> list[ListedImage]:
    """Return the image with a number among those of one file; all, where none has a number."""
    series = image.series
    numbers = sorted(
        {listed_image.series for listed_image in chosen if listed_image.series is not None}
    )
    if series is None and len(numbers) < 2:
        return chosen
    fitting = []
    for listed_image in chosen:
        if listed_image.series in (None, series):
            fitting.append(listed_image)
    if fitting:
        return fitting
    listed = ", ".join(map(str, numbers))
    if series is None:
        other = "; choose one by its number"
    else:
        other = f", and not of {series}"
    raise ManyImagesError(
        f"{path} has regions of {chosen[0].name} (series {listed}){other}.",
        _fitting(chosen, image.shape),
    )


def _fitting(listed: Sequence[ListedImage], shape: tuple[int, int] | None) -> tuple[str, ...]:
    """Return the titles of images with this size, or without one."""
    fits = []
    for listed_image in listed:
        if shape is None or listed_image.size in (shape, None):
            fits.append(listed_image.title)
    return tuple(dict.fromkeys(fits))
