"""Aerial tiles and blood smears, split as in `demo_model.domains`: measured on the test split."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ...base.errors import InputError
from ...base.regions import Region
from ...demo_model.domains import (
    FOLDERS,
    AnnotationError,
    Picture,
    Split,
    annotated,
    annotation_of,
    files_of,
    pixels_of,
)
from ...demo_model.vocabulary import REAL
from .base import BadRecordError, Dataset, Sample, assemble, opening
from .registry import DatasetSpec


class RealDomains(Dataset):
    """Test images of one kind, with some regions of each class; each region in a window."""

    context = 2.0

    def __init__(self, data: Path, split: str, spec: DatasetSpec, *, per_class: int = 8) -> None:
        self.name, self._most = spec.name, per_class
        files = {file.stem: file for file in files_of(data, "test", spec.name)}
        self._images = dict(sorted(files.items()))
        if not self._images:
            raise InputError(
                f"{data} has no images of {FOLDERS[spec.name]}/images; name the folder that holds "
                "it."
            )
        names = [name for name in REAL if name.group == spec.name]
        self.classes = tuple(name.name for name in names)
        self.template = names[0].templates[0]
        self._first = REAL.index(names[0])

    def _annotation(self, key: str) -> tuple[list[Path], dict[str, Any]]:
        return [annotation_of(self._images[key], self.name)], {"most": self._most}

    def read(self, key: str) -> Sample:
        """Read an image and some regions of each class."""
        file = self._images[key]
        picture = read_picture(file, self.name, key)
        if picture is None or not len(picture.boxes):
            raise BadRecordError(f"{key}: {file} has no region of use.")
        drawn: list[tuple[Region | None, int]] = []
        for place in self._chosen(picture.labels, key):
            y0, x0, y1, x1 = (int(edge) for edge in picture.boxes[place])
            mask = picture.mask(place, y0, x0, y1 - y0, x1 - x0) > 0.5
            region = Region(place + 1, (y0, x0, y1, x1), mask) if mask.any() else None
            drawn.append((region, int(picture.labels[place]) - self._first))
        return assemble(picture.pixels, drawn)

    def _chosen(self, labels: NDArray[np.int64], key: str) -> list[int]:
        rng = np.random.default_rng(list(key.encode()))
        chosen: list[int] = []
        for label in np.unique(labels):
            places = np.flatnonzero(labels == label)
            chosen += cast("list[int]", rng.permutation(places)[: self._most].tolist())
        return sorted(chosen)


def pictures(
    folder: Path, split: Split, kind: str, skipped: dict[str, str] | None = None
) -> list[Picture]:
    """Read every picture of a split; bad ones are noted in ``skipped``, or refused."""
    usable = []
    for file in files_of(folder, split, kind):
        try:
            picture = read_picture(file, kind, f"{kind}, {file.stem}")
        except BadRecordError as error:
            if skipped is None:
                raise BadRecordError(
                    f"{error} Say --skip-bad to leave such images out; finished parts are kept."
                ) from None
            skipped[str(file)] = str(error)
            continue
        if picture is not None:
            usable.append(picture)
    if not any(len(picture.boxes) for picture in usable):
        why = next(iter((skipped or {}).values()), "there are none with regions")
        raise BadRecordError(f"No {split} image of {kind} in {folder} can be used: {why}")
    return usable


def read_picture(file: Path, kind: str, record: str) -> Picture | None:
    """Read one image and its annotation; None if it is not annotated."""
    with opening(file, record, "image"):
        pixels = pixels_of(file)
    try:
        with opening(annotation_of(file, kind), record, "annotation"):
            return annotated(file, kind, pixels)
    except AnnotationError as error:
        raise BadRecordError(f"{record}: {error}") from None
