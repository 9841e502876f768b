"""Open Images V7: photographs with masks of 350 classes, one file a mask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...base.errors import InputError
from ...base.reading import check_file
from ...base.regions import Region, Regions
from ..content import content_of
from .layouts import OPEN_IMAGES
from .protocol import BadRecordError, Sample, check_classes
from .reading import check_size, check_there, read_labels, read_lines, read_pixels

_COLUMNS: Final = ("MaskPath", "ImageID", "LabelName")
_MOST: Final = 2**31  # bytes of a table


@dataclass(frozen=True, slots=True)
class _Mask:
    file: str
    label: int


class OpenImages:
    """``openimages/`` with the images and masks of a split, its table, and the names of classes.

    Masks may have another resolution than their image; they are brought to the image's.
    """

    template = "a photo of a {}"
    context: float | None = None

    def __init__(self, data: Path, split: str = "validation") -> None:
        parts = OPEN_IMAGES.locate(data, split)
        self.name = f"openimages {split}"
        codes = parts["classes"][0]
        places = {code: place for place, code in enumerate(read_lines(codes, "list of classes"))}
        descriptions = parts["names of classes"][0]
        names = _table(descriptions, ("LabelName", "DisplayName"), head=False)
        words = dict(zip(names["LabelName"], names["DisplayName"], strict=True))
        unnamed = [code for code in places if code not in words]
        if unnamed:
            raise InputError(f"{descriptions} has no name of class {unnamed[0]}, as {codes} has.")
        self.classes = check_classes([words[code] for code in places], descriptions)
        self._masks: dict[str, list[_Mask]] = {}
        file = parts["annotations"][0]
        table = _table(file, _COLUMNS)
        for line, (path, image, code) in enumerate(
            table[list(_COLUMNS)].itertuples(index=False), 2
        ):
            if code not in places:
                raise InputError(f"{file}, line {line}: class {code!r} is not in {codes.name}.")
            self._masks.setdefault(image, []).append(_Mask(path, places[code]))
        self._files = {
            kind: {entry.name: entry for folder in parts[kind] for entry in folder.iterdir()}
            for kind in ("images", "masks")
        }
        self._usual = {kind: parts[kind][0] for kind in ("images", "masks")}
        images = [self._image(key) for key in self._masks]
        masks = [self._mask(one) for rows in self._masks.values() for one in rows]
        check_there(images, f"images of {split}", OPEN_IMAGES.title)
        check_there(masks, f"masks of {split}", OPEN_IMAGES.title)

    def _image(self, key: str) -> Path:
        name = f"{key}.jpg"
        return self._files["images"].get(name, self._usual["images"] / name)

    def _mask(self, one: _Mask) -> Path:
        return self._files["masks"].get(one.file, self._usual["masks"] / one.file)

    def keys(self) -> Sequence[str]:
        """Return the ids of the images that have masks."""
        return sorted(self._masks)

    def content(self, key: str) -> str:
        """See `Dataset.content`."""
        rows = self._masks[key]
        files = [self._mask(one) for one in rows]
        return content_of(self._image(key), *files, rows=[asdict(one) for one in rows])

    def read(self, key: str) -> Sample:
        """Read an image and its masks."""
        image = read_pixels(self._image(key), key)
        shape = (int(image.shape[0]), int(image.shape[1]))
        regions, labels = [], []
        for number, one in enumerate(self._masks[key], 1):
            region = Region.from_mask(number, _mask_of(self._mask(one), shape, key))
            if region is not None:
                regions.append(region)
                labels.append(one.label)
        small = len(self._masks[key]) - len(regions)
        return Sample(image, Regions(shape, regions), np.array(labels, np.int64), small=small)


def _mask_of(file: Path, shape: tuple[int, int], key: str) -> NDArray[np.bool_]:
    """Read a mask and bring it to the resolution of its image."""
    from PIL import Image

    values = read_labels(file, key)
    if values.ndim != 2:
        raise BadRecordError(f"{key}: {file} has colours; a mask is black and white.")
    mask = np.asarray(values > 0)
    if mask.shape == shape:
        return mask
    scale = mask.shape[1] / shape[1]
    if abs(shape[0] * scale - mask.shape[0]) > 1 + scale:  # sides are rounded
        check_size(mask.shape, shape, file, key)
    resized = Image.fromarray(mask).resize(shape[::-1], Image.Resampling.NEAREST)
    return np.asarray(resized, bool)


def _table(file: Path, columns: tuple[str, ...], *, head: bool = True) -> pd.DataFrame:
    """Read columns of a CSV file as texts; without a head they are in this order."""
    check_file(file, "table", most=_MOST)
    how: dict[str, Any] = {} if head else {"names": list(columns), "header": None}
    try:
        table: pd.DataFrame = pd.read_csv(
            file, usecols=list(columns), dtype=str, keep_default_na=False, encoding="utf-8", **how
        )
    except (ValueError, OSError) as error:  # pandas' own errors are ValueErrors
        why = str(error).splitlines()[0]
        raise InputError(f"{file} cannot be read as a table: {why}.") from None
    return table
