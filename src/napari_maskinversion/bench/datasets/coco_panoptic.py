"""COCO panoptic: photographs in which every pixel has a class."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...base.errors import InputError
from ...base.reading import MOST_JSON, read_json
from ...base.regions import Region, Regions
from ..content import content_of
from .protocol import BadRecordError, Sample, check_classes
from .reading import check_size, existing_folder, read_labels, read_pixels


class CocoPanoptic:
    """A folder with ``images/``, ``panoptic/`` and ``panoptic.json``."""

    name = "coco-panoptic"
    template = "a photo of a {}"

    def __init__(self, folder: Path, *, context: float | None = None) -> None:
        self.context = context
        self._folder = existing_folder(folder, "COCO panoptic")
        file = folder / "panoptic.json"
        try:
            page = read_json(file, most=MOST_JSON)
        except InputError as error:
            raise InputError(
                f"{folder} is not a folder of COCO panoptic: {file.name} cannot be read ({error})."
            ) from None
        images = _records(page, "images", file, file_name=str, id=int)
        self._images = {Path(one["file_name"]).stem: one for one in images}
        rows = _records(page, "annotations", file, image_id=int)
        self._annotations = {one["image_id"]: one for one in rows}
        categories = _records(page, "categories", file, id=int, name=str)
        self._categories = {one["id"]: one["name"] for one in categories}
        self._file = file
        self._places = {number: place for place, number in enumerate(sorted(self._categories))}
        names = [readable(self._categories[number]) for number in self._places]
        self.classes = check_classes(names, file)

    def keys(self) -> Sequence[str]:
        """Return the image names without suffix."""
        return sorted(self._images)

    def content(self, key: str) -> str:
        """See `Dataset.content`."""
        about = self._images[key]
        annotation = self._annotations.get(about["id"])
        files = [self._folder / "images" / about["file_name"]]
        if annotation is not None and isinstance(annotation.get("file_name"), str):
            files.append(self._folder / "panoptic" / annotation["file_name"])
        return content_of(*files, annotation=annotation)

    def read(self, key: str) -> Sample:
        """Read an image and its segments without crowds."""
        about = self._images[key]
        image = read_pixels(self._folder / "images" / about["file_name"], key)
        annotation = self._annotations.get(about["id"])
        if annotation is None:
            raise BadRecordError(f"{key}: panoptic.json has no annotation of this image.")
        try:
            _check(annotation, f"{self._file}, annotation of {key}", file_name=str)
            of = f"{self._file}, annotation of {key}: segment"
            segments = _list(annotation, "segments_info", f"{self._file}, annotation of {key}")
            for place, segment in enumerate(segments):
                _check(segment, f"{of} {place + 1}", id=int, category_id=int)
        except InputError as error:
            raise BadRecordError(f"{key}: {error}") from None
        file = self._folder / "panoptic" / annotation["file_name"]
        colours = read_labels(file, key)
        if colours.ndim != 3:
            raise BadRecordError(f"{key}: {file} has no colours, which number the segments.")
        check_size(colours.shape, image.shape, file, key)
        numbers = colours[..., :3].astype(np.int64) @ np.array([1, 256, 65536])
        regions, labels = [], []
        for segment in segments:
            if segment.get("iscrowd"):
                continue
            if segment["category_id"] not in self._places:
                raise BadRecordError(
                    f"{key}: segment {segment['id']} is of category {segment['category_id']}, "
                    "which panoptic.json does not list."
                )
            regions.append(_region(numbers, int(segment["id"]), file, key))
            labels.append(self._places[segment["category_id"]])
        if not regions:
            raise BadRecordError(f"{key}: panoptic.json lists no segment of this image.")
        shape = (int(numbers.shape[0]), int(numbers.shape[1]))
        return Sample(image, Regions(shape, regions), np.array(labels))


def _records(page: Any, part: str, file: Path, **fields: type) -> list[dict[str, Any]]:
    """Return a list of the file after checking that its records have these fields."""
    rows = _list(page, part, str(file))
    for place, row in enumerate(rows):
        _check(row, f"{file}, {part}[{place}]", **fields)
    return rows


def _list(record: Any, name: str, where: str) -> list[Any]:
    entries = record.get(name) if isinstance(record, dict) else None
    if not isinstance(entries, list):
        raise InputError(f"{where} has no list {name!r}, as COCO panoptic has.")
    return entries


def _check(record: Any, where: str, **fields: type) -> None:
    """Refuse a record that lacks a field, or has a value of another type."""
    for name, kind in fields.items():
        entry = record.get(name) if isinstance(record, dict) else None
        if not isinstance(entry, kind) or isinstance(entry, bool):
            what = "a number" if kind is int else "a text"
            raise InputError(f"{where} has no {name!r} that is {what}.")


def _region(numbers: NDArray[Any], value: int, file: Path, key: str) -> Region:
    region = Region.from_mask(value, numbers == value)
    if region is None:
        raise BadRecordError(f"{key}: segment {value} has no pixel in {file}.")
    return region


def readable(category: str) -> str:
    """Return a category in words: ``"wall-brick"`` is a brick wall, ``"tree-merged"`` a tree."""
    parts = [part for part in category.split("-") if part not in ("merged", "other", "stuff")]
    return " ".join(reversed(parts))
