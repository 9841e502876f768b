"""COCO instances: photographs with masks of 80 classes of things, which may overlap."""

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
from .layouts import COCO
from .protocol import BadRecordError, Sample, check_classes
from .reading import check_size, check_there, read_pixels


@dataclass(frozen=True, slots=True)
class ListedImage:
    """One image of a COCO file."""

    id: int
    file_name: str
    height: int
    width: int

    @property
    def key(self) -> str:
        """Name of its file without suffix."""
        return Path(self.file_name).stem


@dataclass(frozen=True, slots=True)
class Instance:
    """One annotation of a COCO file; ``segmentation`` is checked when it is drawn."""

    id: int
    image_id: int
    category_id: int
    segmentation: Any
    iscrowd: int = 0


@dataclass(frozen=True, slots=True)
class _Category:
    id: int
    name: str


@dataclass(frozen=True, slots=True)
class _Page:
    images: list[ListedImage]
    annotations: list[Instance]
    categories: list[_Category]


class InstanceFile:
    """A COCO file of instances, read once."""

    def __init__(self, file: Path) -> None:
        self.file = file
        page = validated(_Page, read_json(file, most=MOST_JSON), file)
        categories = sorted(page.categories, key=lambda one: one.id)
        self.classes = check_classes([one.name for one in categories], file)
        self._places = {one.id: place for place, one in enumerate(categories)}
        self.images = {one.id: one for one in page.images}
        self.instances: dict[int, list[Instance]] = {number: [] for number in self.images}
        for one in page.annotations:
            for kind, number, listed in (
                ("category", one.category_id, self._places),
                ("image", one.image_id, self.images),
            ):
                if number not in listed:
                    raise InputError(
                        f"{file}: annotation {one.id} is of {kind} {number}, which is not listed."
                    )
            self.instances[one.image_id].append(one)

    def place(self, instance: Instance) -> int:
        """Return the place of an instance's class."""
        return self._places[instance.category_id]

    def region(self, instance: Instance, image: ListedImage) -> Region | None:
        """Draw an instance; None if it has no pixel."""
        drawn = instance.segmentation
        if isinstance(drawn, list):  # some polygons of COCO have two corners
            drawn = [part for part in drawn if not isinstance(part, list) or len(part) >= 6]
        if drawn == []:
            return None
        try:
            return read_segmentation(instance.id, drawn, (image.height, image.width))
        except (ValueError, TypeError, OverflowError) as error:
            raise BadRecordError(
                f"{image.key}: annotation {instance.id} of {self.file} is broken: {error}."
            ) from None


class CocoInstances:
    """``coco/annotations/instances_SPLIT.json`` and the images in ``coco/SPLIT``.

    Images without a region are left out; so are crowds.
    """

    template = "a photo of a {}"
    context: float | None = None

    def __init__(self, data: Path, split: str = "val2017") -> None:
        parts = COCO.locate(data, split)
        self.name = f"coco {split}"
        self._folder = parts["images"][0]
        self._file = InstanceFile(parts["annotations"][0])
        self.classes = self._file.classes
        self._images = {one.key: one for one in self._file.images.values() if self._instances(one)}
        check_there([self._image(key) for key in self._images], f"images of {split}", COCO.title)

    def _instances(self, image: ListedImage) -> list[Instance]:
        return [one for one in self._file.instances[image.id] if not one.iscrowd]

    def _image(self, key: str) -> Path:
        return self._folder / Path(self._images[key].file_name).name

    def keys(self) -> Sequence[str]:
        """Return the names of the images without suffix."""
        return sorted(self._images)

    def content(self, key: str) -> str:
        """See `Dataset.content`."""
        rows = [asdict(one) for one in self._instances(self._images[key])]
        return content_of(self._image(key), rows=rows)

    def read(self, key: str) -> Sample:
        """Read an image and its instances."""
        listed = self._images[key]
        image = read_pixels(self._image(key), key)
        shape = (listed.height, listed.width)
        check_size(shape, image.shape, self._file.file, key)
        drawn = [(one, self._file.region(one, listed)) for one in self._instances(listed)]
        regions = [region for _, region in drawn if region is not None]
        labels = [self._file.place(one) for one, region in drawn if region is not None]
        small = len(drawn) - len(regions)
        return Sample(image, Regions(shape, regions), np.array(labels, np.int64), small=small)
