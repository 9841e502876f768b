"""Files of data sets, with errors that name file and record."""

from __future__ import annotations

import warnings
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...base.errors import InputError
from ...images.reading import read_image
from .protocol import BadRecordError

IMAGES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp")


def existing_folder(folder: Path, what: str, holds: str = "") -> Path:
    """Refuse a missing folder.

    Raises
    ------
    InputError
    """
    if not folder.is_dir():
        more = f" {holds}" if holds else ""
        raise InputError(f"There is no folder {folder} ({what}).{more}")
    return folder


@contextmanager
def opening(file: Path, record: str, what: str) -> Generator[None, None, None]:
    """Turn all errors of reading a file in the block into `BadRecordError`.

    Raises
    ------
    BadRecordError
        If it is missing, damaged, no image, or larger than Pillow opens.
    """
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
    """Read an image as `run` does, see `read_image`.

    Raises
    ------
    BadRecordError
        If it is missing, damaged, no image, or no single plane.
    """
    with opening(file, record, "image"):
        try:
            return read_image(file)
        except InputError as error:
            if error.__cause__ is not None:
                raise error.__cause__ from None  # what the decoder said
            raise BadRecordError(f"{record}: {error}") from None


def read_labels(file: Path, record: str) -> NDArray[Any]:
    """Read an image of integers unchanged, (H, W) or (H, W, 3).

    Raises
    ------
    BadRecordError
        If it is missing, damaged, or has other values.
    """
    from PIL import Image

    with opening(file, record, "annotation"):
        if file.suffix.lower() in (".tif", ".tiff"):
            import tifffile

            pixels: NDArray[Any] = np.asarray(tifffile.imread(file))
        else:
            with Image.open(file) as picture:
                pixels = np.asarray(picture)
    if pixels.dtype.kind not in "iub":
        raise BadRecordError(f"{record}: {file} holds {pixels.dtype}, not whole numbers.")
    return pixels


def check_size(mask: tuple[int, ...], image: tuple[int, ...], file: Path, record: str) -> None:
    """Refuse masks whose size differs from their image.

    Raises
    ------
    BadRecordError
    """
    if tuple(mask[:2]) != tuple(image[:2]):
        raise BadRecordError(
            f"{record}: the masks in {file} are {mask[0]} x {mask[1]} px and reach outside the "
            f"image, or leave some of it out: it has {image[0]} x {image[1]} px."
        )
