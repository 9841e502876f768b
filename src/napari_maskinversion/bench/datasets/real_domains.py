"""The shared sets: aerial tiles and blood smears that the bundled model was not trained on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from ...base.errors import InputError
from ...base.regions import Region, Regions
from ...demo_model.domains import FOLDERS, annotation_of, files_of
from ...demo_model.vocabulary import REAL
from ..content import content_of
from .protocol import BadRecordError, Sample
from .real_images import read_picture


class RealDomains:
    """Test images of one kind, split as in `demo_model.domains`; each region in a window."""

    def __init__(
        self, folder: Path, kind: str, *, per_class: int = 8, context: float | None = 2.0
    ) -> None:
        self.name, self.context = kind, context
        self._kind, self._most = kind, per_class
        self._files = {file.stem: file for file in files_of(folder, "test", kind)}
        if not self._files:
            raise InputError(
                f"{folder} has no images of {FOLDERS[kind]}/images; name the folder that holds it."
            )
        names = [name for name in REAL if name.group == kind]
        self.classes = tuple(name.name for name in names)
        self.template = names[0].templates[0]
        self._first = REAL.index(names[0])

    def keys(self) -> Sequence[str]:
        """Return the names of the test images without suffix."""
        return sorted(self._files)

    def content(self, key: str) -> str:
        """See `Dataset.content`."""
        file = self._files[key]
        return content_of(file, annotation_of(file, self._kind), most=self._most)

    def read(self, key: str) -> Sample:
        """Read an image and some regions of each class."""
        file = self._files[key]
        picture = read_picture(file, self._kind, key)
        if picture is None or not len(picture.boxes):
            raise BadRecordError(f"{key}: {file} has no region of use.")
        height, width = picture.pixels.shape[:2]
        regions, labels = [], []
        for place in self._chosen(picture.labels, key):
            y0, x0, y1, x1 = (int(edge) for edge in picture.boxes[place])
            mask = picture.mask(place, y0, x0, y1 - y0, x1 - x0) > 0.5
            if not mask.any():
                raise BadRecordError(f"{key}: region {place + 1} of {file} has no pixel.")
            regions.append(Region(place + 1, (y0, x0, y1, x1), mask))
            labels.append(int(picture.labels[place]) - self._first)
        return Sample(picture.pixels, Regions((height, width), regions), np.array(labels))

    def _chosen(self, labels: NDArray[np.int64], key: str) -> list[int]:
        rng = np.random.default_rng(list(key.encode()))
        chosen: list[int] = []
        for label in np.unique(labels):
            places = np.flatnonzero(labels == label)
            chosen += cast("list[int]", rng.permutation(places)[: self._most].tolist())
        return sorted(chosen)
