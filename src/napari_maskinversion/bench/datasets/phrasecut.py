"""PhraseCut: phrases about regions of photographs of Visual Genome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...base.errors import InputError
from ...base.reading import MOST_JSON, read_json, validated
from ...base.regions import Region, Regions
from ...regions.annotations.coco import read_segmentation
from ..content import content_of
from .layouts import PHRASECUT
from .protocol import BadRecordError, Sample, check_classes
from .reading import check_size, check_there, read_pixels


@dataclass(frozen=True, slots=True)
class _Listed:
    """One image; the file lists those of all splits."""

    image_id: int
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class _Phrase:
    """One phrase and the polygons of the things that it means, [x, y] of each corner."""

    task_id: int | str
    image_id: int
    phrase: str
    Polygons: list[list[list[tuple[float, float]]]]
    phrase_structure: Any = None

    @property
    def word(self) -> str:
        """The thing's name without attributes and relations; the phrase where there is none."""
        structure = self.phrase_structure
        name = structure.get("name") if isinstance(structure, dict) else None
        return name if isinstance(name, str) and name else self.phrase


class PhraseCut:
    """``VGPhraseCut_v0/`` with ``refer_SPLIT.json`` and ``images/``.

    Every phrase has a region: all things that it means, together.
    """

    template = "a photo of a {}"
    context: float | None = None

    def __init__(self, data: Path, split: str = "test") -> None:
        parts = PHRASECUT.locate(data, split)
        self.name = f"phrasecut {split}"
        self._file = parts["phrases"][0]
        phrases = validated(list[_Phrase], read_json(self._file, most=MOST_JSON), self._file)
        sizes = parts["sizes of images"][0]
        listed = validated(list[_Listed], read_json(sizes, most=MOST_JSON), sizes)
        self._shapes = {str(one.image_id): (one.height, one.width) for one in listed}
        self._sizes = sizes
        self._phrases: dict[str, list[_Phrase]] = {}
        for one in phrases:
            if str(one.image_id) not in self._shapes:
                raise InputError(
                    f"{self._file}: phrase {one.task_id} is about image {one.image_id}, which "
                    f"{sizes.name} does not list."
                )
            self._phrases.setdefault(str(one.image_id), []).append(one)
        self.classes = check_classes(sorted({one.word for one in phrases}), self._file)
        self._places = {name: place for place, name in enumerate(self.classes)}
        folders = parts["images"]
        names = {file.name: file for folder in folders for file in folder.iterdir()}
        usual = folders[0]
        self._images = {key: names.get(f"{key}.jpg", usual / f"{key}.jpg") for key in self._phrases}
        check_there(list(self._images.values()), f"images of {split}", PHRASECUT.title)

    def keys(self) -> Sequence[str]:
        """Return the numbers of the images in Visual Genome."""
        return sorted(self._phrases, key=int)

    def content(self, key: str) -> str:
        """See `Dataset.content`."""
        return content_of(self._images[key], rows=[asdict(one) for one in self._phrases[key]])

    def read(self, key: str) -> Sample:
        """Read an image, the regions of its phrases, and the phrases."""
        image, shape = read_pixels(self._images[key], key), self._shapes[key]
        check_size(shape, image.shape, self._sizes, key)
        regions: list[Region] = []
        labels, expressions = [], []
        for number, one in enumerate(self._phrases[key], 1):
            polygons = [polygon for thing in one.Polygons for polygon in thing if len(polygon) >= 3]
            flat = [[at for corner in polygon for at in corner] for polygon in polygons]
            try:
                region = read_segmentation(number, flat, shape) if flat else None
            except ValueError as error:
                raise BadRecordError(
                    f"{key}: phrase {one.task_id} of {self._file} is broken: {error}."
                ) from None
            if region is not None:
                expressions.append((one.phrase, len(regions)))
                regions.append(region)
                labels.append(self._places[one.word])
        return Sample(
            image,
            Regions(shape, regions),
            np.array(labels, np.int64),
            expressions=tuple(expressions),
            small=len(self._phrases[key]) - len(regions),
        )
