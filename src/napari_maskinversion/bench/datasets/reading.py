"""Files of data sets, with errors that name file and record."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...base.errors import InputError
from ...base.reading import read_text
from ...base.regions import Regions
from ...images.decoding import decode
from ...images.reading import read_plane
from .protocol import BadRecordError, Sample

IMAGES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp")


def existing_folder(folder: Path, what: str, holds: str = "") -> Path:
    """Refuse a missing folder."""
    if not folder.is_dir():
        more = f" {holds}" if holds else ""
        raise InputError(f"There is no folder {folder} ({what}).{more}")
    return folder


@contextmanager
def opening(file: Path, record: str, what: str) -> Generator[None, None, None]:
    """Turn all errors of reading a file in the block into `BadRecordError`."""
    from PIL import Image

    try:
        with warnings.catch_warnings():
            # Pillow warns at half of the size that it refuses.
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            yield
    except (InputError, MemoryError):
        raise
    except FileNotFoundError as error:
        raise BadRecordError(f"{record}: there is no {what} {error.filename or file}.") from None
    except Image.DecompressionBombError as error:
        raise BadRecordError(
            f"{record}: {file} is too large to be read whole ({error}). Cut it into tiles."
        ) from None
    except Exception as error:
        # Decoders have errors of their own: zlib's and LZW's are RuntimeErrors.
        raise BadRecordError(f"{record}: {file} is broken or no image ({error}).") from None


def read_pixels(file: Path, record: str) -> NDArray[Any]:
    """Read an image as `run` does, see `read_image`."""
    return _read(read_plane, file, record, "image")


def read_labels(file: Path, record: str) -> NDArray[Any]:
    """Read an image of integers unchanged, (H, W) or (H, W, 3)."""
    pixels = _read(partial(decode, what="masks", colours=False), file, record, "annotation")
    if pixels.dtype.kind not in "iub":
        raise BadRecordError(f"{record}: {file} holds {pixels.dtype}, not whole numbers.")
    return pixels


def _read(read: Callable[[Path], NDArray[Any]], file: Path, record: str, what: str) -> NDArray[Any]:
    with opening(file, record, what):
        try:
            return read(file)
        except InputError as error:
            if error.__cause__ is not None:
                raise error.__cause__ from None  # what the decoder said
            raise BadRecordError(f"{record}: {error}") from None


def check_size(mask: tuple[int, ...], image: tuple[int, ...], file: Path, record: str) -> None:
    """Refuse masks whose size differs from their image."""
    if tuple(mask[:2]) != tuple(image[:2]):
        raise BadRecordError(
            f"{record}: the masks in {file} are {mask[0]} x {mask[1]} px and reach outside the "
            f"image, or leave some of it out: it has {image[0]} x {image[1]} px."
        )


def read_lines(file: Path, what: str) -> list[str]:
    """Read the lines of a text that are not empty, without the spaces around them."""
    lines = [line.strip() for line in read_text(file, what).splitlines() if line.strip()]
    if not lines:
        raise InputError(f"{file} ({what}) is empty.")
    return lines


def check_there(files: Collection[Path], what: str, title: str) -> None:
    """Refuse a set with missing files before anything is read; each folder is listed once."""
    names: dict[Path, set[str]] = {}
    missing = []
    for file in files:
        folder = file.parent
        if folder not in names:
            names[folder] = {entry.name for entry in folder.iterdir()} if folder.is_dir() else set()
        if file.name not in names[folder]:
            missing.append(file)
    if missing:
        raise InputError(
            f"{title} is not complete: {len(missing)} of {len(files)} {what} are missing, such as "
            f"{missing[0]}; unpack its archive again."
        )


def class_regions(image: NDArray[Any], classes: NDArray[Any]) -> Sample:
    """Return an image with one region for each class in its class map.

    ``classes`` (H, W) holds the place of the class plus 1, and 0 for none.
    """
    regions = Regions.from_labels(classes)
    return Sample(image, regions, np.array(regions.ids, np.int64) - 1)
