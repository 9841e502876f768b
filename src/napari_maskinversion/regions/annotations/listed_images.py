"""Which image of a file is read: one of several by name, folder or number, and its size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath, PurePosixPath
from typing import Any

from ...base.errors import InputError, ManyImagesError, MaskShapeError
from ...base.identity import Position
from ...base.units import Georeference
from ...base.validation import composed


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageReference:
    """The image that annotations are read for."""

    name: str = ""  # File name, or path; selects the image in a file about several
    # Its number in a file with several images, which share a name; None if unknown
    series: int | None = None
    shape: tuple[int, int] | None = None  # Pixels (H, W); None takes the size from the file
    geo: Georeference | None = None  # For files in world coordinates

    @property
    def file(self) -> str:
        """The file name, for messages."""
        return PurePath(self.name).name


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
        return self.name if self.series is None else f"{self.name} (series {self.series})"


def whole_size(height: Any, width: Any) -> tuple[int, int] | None:
    """Return a size (H, W); None unless both sides are whole numbers above 0."""
    sides = (height, width)
    return sides if all(type(side) is int and side > 0 for side in sides) else None


def check_size(path: Path, size: tuple[int, int], shape: tuple[int, int] | None) -> None:
    """Raise `MaskShapeError` if a file is about an image of another size (H, W)."""
    if shape is not None and size != shape:
        raise MaskShapeError(
            f"{path} is about an image of {size[0]} x {size[1]} px; this one is {shape[0]} x "
            f"{shape[1]} px."
        )


def size_of_images(
    chosen: Sequence[ListedImage], path: Path, shape: tuple[int, int] | None
) -> tuple[int, int] | None:
    """Return the size (H, W) of the chosen image; None if neither file nor image has one."""
    for one in chosen:
        if one.size is not None:
            check_size(path, one.size, shape)
            shape = one.size
    return shape


def same_image(one: str, other: str) -> bool:
    """Return whether two names mean the same file, ignoring folders and a missing suffix."""
    first, second = (PurePosixPath(composed(name).replace("\\", "/")) for name in (one, other))
    if first.suffix and second.suffix:
        return first.name == second.name
    return first.name == second.name or first.stem == second.stem


def choose_images(
    listed: Sequence[ListedImage], path: Path, image: ImageReference
) -> list[ListedImage]:
    """Return the listed image that is read: one entry, or one for each plane."""
    names = list(dict.fromkeys(one.name for one in listed))
    # Some programs write letters and their accents apart, as macOS once did.
    written, image = image.name, replace(image, name=composed(image.name))
    if any(one.series is not None and composed(one.title) == image.name for one in listed):
        listed = [one for one in listed if composed(one.title) == image.name]
        image = replace(image, name=composed(listed[0].name), series=listed[0].series)
    # Prefer equal paths to equal file names, and these to names without suffix.
    chosen = [one for one in listed if written and one.name == written]
    for matches in (str.__eq__, _ends_path, _same_file, same_image):
        if chosen:
            break
        chosen = [one for one in listed if image.name and matches(composed(one.name), image.name)]
    if not chosen and len(names) == 1:
        chosen = list(listed)
    if not chosen:
        text = ", ".join(names[:5]) or "none"
        raise ManyImagesError(
            f"{path} is about {len(names)} images ({text}) and none of "
            f"them is called {image.file or 'as the image'}.",
            _fitting(listed, image.shape),
        )
    names = list(dict.fromkeys(one.name for one in chosen))
    if len(names) > 1:
        raise ManyImagesError(
            f"{path} has {len(names)} images that may be {image.file} ({', '.join(names[:5])}).",
            _fitting(chosen, image.shape),
        )
    chosen = _of_series(chosen, path, image)
    if len({one.position for one in chosen}) < len(chosen):
        raise InputError(
            f"{path} has {len(chosen)} images called {names[0] or '(no name)'}; give each its own "
            "name."
        )
    return chosen


def _of_series(chosen: list[ListedImage], path: Path, image: ImageReference) -> list[ListedImage]:
    """Return the image with a number among those of one file; all, where none has a number."""
    series = image.series
    numbers = sorted({one.series for one in chosen if one.series is not None})
    if series is None and len(numbers) < 2:
        return chosen
    fitting = [one for one in chosen if one.series in (None, series)]
    if fitting:
        return fitting
    listed = ", ".join(map(str, numbers))
    other = "; choose one by its number" if series is None else f", and not of {series}"
    raise ManyImagesError(
        f"{path} has regions of {chosen[0].name} (series {listed}){other}.",
        _fitting(chosen, image.shape),
    )


def _ends_path(one: str, path: str) -> bool:
    """Return whether a name with folders is the end of a path."""
    parts = PurePath(one).parts
    return len(parts) > 1 and PurePath(path).parts[-len(parts) :] == parts


def _same_file(one: str, other: str) -> bool:
    return PurePath(one).name == PurePath(other).name


def _fitting(listed: Sequence[ListedImage], shape: tuple[int, int] | None) -> tuple[str, ...]:
    """Return the titles of images with this size, or without one."""
    fits = [one.title for one in listed if shape is None or one.size in (shape, None)]
    return tuple(dict.fromkeys(fits))
