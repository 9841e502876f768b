"""Pascal VOC 2012 segmentation: one region for each class in an image."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from ..content import content_of
from .layouts import VOC
from .protocol import BadRecordError, Sample
from .reading import check_size, check_there, class_regions, read_labels, read_lines, read_pixels

CLASSES: Final = (
    *("aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow"),
    *("dining table", "dog", "horse", "motorbike", "person", "potted plant", "sheep", "sofa"),
    *("train", "tv monitor"),
)
VOID: Final = 255  # borders and what is too hard to tell


class PascalVoc:
    """The archive ``VOCtrainval_11-May-2012.tar``, unpacked."""

    template = "a photo of a {}"
    context: float | None = None

    def __init__(self, data: Path, split: str = "val", *, classes: int = len(CLASSES)) -> None:
        parts = VOC.locate(data, split)
        self.name = f"voc {split}"
        self.classes = CLASSES[:classes]
        self._images, self._masks = parts["images"][0], parts["masks"][0]
        self._keys = sorted(set(read_lines(parts["list of images"][0], "list of images")))
        check_there([self._image(key) for key in self._keys], f"images of {split}", VOC.title)
        check_there([self._mask(key) for key in self._keys], f"masks of {split}", VOC.title)

    def _image(self, key: str) -> Path:
        return self._images / f"{key}.jpg"

    def _mask(self, key: str) -> Path:
        return self._masks / f"{key}.png"

    def keys(self) -> Sequence[str]:
        """Return the names of the images without suffix."""
        return self._keys

    def content(self, key: str) -> str:
        """See `Dataset.content`."""
        return content_of(self._image(key), self._mask(key))

    def read(self, key: str) -> Sample:
        """Read an image and its classes; there may be none of those that are measured."""
        image, file = read_pixels(self._image(key), key), self._mask(key)
        values = read_labels(file, key)
        if values.ndim != 2:
            raise BadRecordError(f"{key}: {file} has colours; its palette numbers the classes.")
        check_size(values.shape, image.shape, file, key)
        unknown = np.setdiff1d(values, [*range(len(CLASSES) + 1), VOID])
        if len(unknown):
            raise BadRecordError(
                f"{key}: {file} holds class {unknown[0]}; {VOC.title} has {len(CLASSES)}."
            )
        return class_regions(image, np.where(values <= len(self.classes), values, 0))
