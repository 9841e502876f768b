"""What every annotation format provides, and the image that a file is read for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...base.errors import MaskShapeError
from ...base.units import Georeference
from .annotation import Annotations, same_image


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageReference:
    """The image that annotations are read for.

    Attributes
    ----------
    name : str
        File name; selects the image in a file about several.
    shape : tuple of int or None
        Pixels (H, W); None takes the size from the file.
    geo : Georeference or None
        For files in world coordinates.
    """

    name: str = ""
    shape: tuple[int, int] | None = None
    geo: Georeference | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotationFormat:
    """A format of annotation files; `reading.FORMATS` lists them.

    Attributes
    ----------
    name : str
        As in file dialogs.
    suffixes : tuple of str
        In lower case; napari.yaml lists all of them.
    content : str
        What such a file contains, for error messages.
    markers : tuple of tuple of bytes
        A file may be of this format if its first and last bytes contain all markers of one group.
    load : callable
        Parses a file: `read_json`, `read_xml` or another. Each file is parsed once for all formats
        with the same function.
    matches : callable
        Whether parsed content is of this format.
    read : callable
        Takes the parsed content, the path (for messages) and the image. Raises `InputError` with
        file and record if the content is broken, `MaskShapeError` if the file is about an image of
        another size.
    """

    name: str
    suffixes: tuple[str, ...]
    content: str
    markers: tuple[tuple[bytes, ...], ...]
    load: Callable[[Path], Any]
    matches: Callable[[Any], bool]
    read: Callable[[Any, Path, ImageReference], Annotations]


def check_size(path: Path, size: tuple[int, int], shape: tuple[int, int] | None) -> None:
    """Raise `MaskShapeError` if a file is about an image of another size (H, W)."""
    if shape is not None and size != shape:
        raise MaskShapeError(
            f"{path} is about an image of {size[0]} x {size[1]} px; this one is {shape[0]} x "
            f"{shape[1]} px."
        )


def note_other_image(path: Path, name: str, image: ImageReference, notes: list[str]) -> None:
    """Add a note if a file names another image."""
    if image.name and name and not same_image(name, image.name):
        notes.append(f"{path} says it is about {name}, and the image is {image.name}.")
