"""Files of data sets, with errors that name file and record."""

from __future__ import annotations

import warnings
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.errors import InputError
from .dataset import BadRecordError

IMAGES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp")


def existing_folder(folder: Path, what: str, holds: str = "") -> Path:
    """Refuse a folder that is not there.

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
    """Tell whatever is wrong with an image file that is read in the block.

    Raises
    ------
    BadRecordError
        If it is not there, broken, none, or larger than Pillow opens.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            # Pillow warns at half of the size that it refuses.
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            yield
    except FileNotFoundError as error:
        raise BadRecordError(f"{record}: there is no {what} {error.filename or file}.") from None
    except Image.DecompressionBombError as error:
        raise BadRecordError(
            f"{record}: {file} is too large to be read whole ({error}). Cut it into tiles."
        ) from None
    except (OSError, SyntaxError, ValueError, UnidentifiedImageError) as error:
        raise BadRecordError(f"{record}: {file} is broken or no image ({error}).") from None


def read_pixels(file: Path, record: str) -> NDArray[np.uint8]:
    """Read a photograph as RGB of eight bits.

    Raises
    ------
    BadRecordError
        If it is not there, broken or none.
    """
    from PIL import Image

    with opening(file, record, "image"), Image.open(file) as picture:
        return np.asarray(picture.convert("RGB"), np.uint8)


def read_labels(file: Path, record: str) -> NDArray[Any]:
    """Read an image of whole numbers as it is, (H, W) or (H, W, 3).

    Raises
    ------
    BadRecordError
        If it is not there, broken, or holds something else.
    """
    from PIL import Image

    with opening(file, record, "annotation"):
        if file.suffix.lower() in (".tif", ".tiff"):
            import tifffile

            found: NDArray[Any] = np.asarray(tifffile.imread(file))
        else:
            with Image.open(file) as picture:
                found = np.asarray(picture)
    if found.dtype.kind not in "iub":
        raise BadRecordError(f"{record}: {file} holds {found.dtype}, not whole numbers.")
    return found


def check_size(mask: tuple[int, ...], image: tuple[int, ...], file: Path, record: str) -> None:
    """Refuse masks that do not lie on their image.

    Raises
    ------
    BadRecordError
    """
    if tuple(mask[:2]) != tuple(image[:2]):
        raise BadRecordError(
            f"{record}: the masks in {file} are {mask[0]} x {mask[1]} px and reach outside the "
            f"image, or leave some of it out: it has {image[0]} x {image[1]} px."
        )
