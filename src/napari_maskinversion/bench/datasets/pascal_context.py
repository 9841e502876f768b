"""Pascal Context: photographs of VOC 2010 in which nearly every pixel has a class."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ...base.errors import InputError
from ...base.reading import check_file
from ..content import content_of
from .layouts import CONTEXT
from .protocol import BadRecordError, Sample, check_classes
from .reading import check_size, check_there, class_regions, opening, read_lines, read_pixels

# The list of the 59 classes spells three of them unlike the list of all labels.
_SPELLED: Final = {"diningtable": "table", "bedcloth": "bedclothes", "clothes": "cloth"}
_READABLE: Final = {
    "diningtable": "dining table",
    "pottedplant": "potted plant",
    "tvmonitor": "tv monitor",
    "bedcloth": "bed clothes",
    "bedclothes": "bed clothes",
}
_MOST: Final = 2**28  # bytes of a label map


class PascalContext:
    """The label maps ``trainval/*.mat`` with two lists of names, and the images of VOC 2010.

    The maps have 459 labels; the classes are the 59 of ``59_labels.txt``, and pixels of other
    labels belong to no region.
    """

    name = "context"
    template = "a photo of a {}"
    context: float | None = None

    def __init__(self, data: Path, split: str = "val") -> None:
        parts = CONTEXT.locate(data, split)
        self.name = f"context {split}"
        self._images, self._maps = parts["images"][0], parts["label maps"][0]
        every = parts["names of all labels"][0]
        few = parts["names of the 59 classes"][0]
        numbers = {name: number for number, name in _numbered(every).items()}
        self._places = np.zeros(max(numbers.values()) + 1, np.int64)
        names = list(_numbered(few).values())
        for place, name in enumerate(names, 1):
            spelled = name if name in numbers else _SPELLED.get(name, name)
            if spelled not in numbers:
                raise InputError(f"{few} names the class {name!r}, which {every} does not list.")
            self._places[numbers[spelled]] = place
        self.classes = check_classes([_READABLE.get(name, name) for name in names], few)
        self._keys = sorted(set(read_lines(parts["list of images"][0], "list of images")))
        check_there([self._image(key) for key in self._keys], f"images of {split}", CONTEXT.title)
        check_there([self._map(key) for key in self._keys], f"maps of {split}", CONTEXT.title)

    def _image(self, key: str) -> Path:
        return self._images / f"{key}.jpg"

    def _map(self, key: str) -> Path:
        return self._maps / f"{key}.mat"

    def keys(self) -> Sequence[str]:
        """Return the names of the images without suffix."""
        return self._keys

    def content(self, key: str) -> str:
        """See `Dataset.content`."""
        return content_of(self._image(key), self._map(key), places=self._places.tolist())

    def read(self, key: str) -> Sample:
        """Read an image and its classes; there may be none of the 59."""
        image, file = read_pixels(self._image(key), key), self._map(key)
        labels = _label_map(file, key)
        check_size(labels.shape, image.shape, file, key)
        if labels.max(initial=0) >= len(self._places):
            raise BadRecordError(
                f"{key}: {file} holds label {labels.max()}; labels.txt lists "
                f"{len(self._places) - 1}."
            )
        return class_regions(image, self._places[labels])


def _numbered(file: Path) -> dict[int, str]:
    """Read lines such as ``1: accordion``; without spaces in names, where the lists differ."""
    names = {}
    for line in read_lines(file, "list of names"):
        number, colon, name = line.partition(":")
        if not (colon and name.strip() and number.strip().isdecimal()):
            raise InputError(f"{file} has the line {line[:80]!r}; its lines are like '1: name'.")
        names[int(number)] = name.replace(" ", "")
    return names


def _label_map(file: Path, key: str) -> NDArray[Any]:
    from scipy.io import loadmat

    with opening(file, key, "annotation"):
        check_file(file, "label map", most=_MOST)
        labels = loadmat(file, variable_names=["LabelMap"]).get("LabelMap")
    if not isinstance(labels, np.ndarray) or labels.ndim != 2 or labels.dtype.kind not in "ui":
        raise BadRecordError(f"{key}: {file} has no LabelMap of whole numbers.")
    if labels.min(initial=0) < 0:
        raise BadRecordError(f"{key}: {file} holds label {labels.min()}.")
    return labels
