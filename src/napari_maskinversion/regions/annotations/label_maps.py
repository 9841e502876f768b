"""Label images of regions and of classes, of any size, with a list of names."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...base.atomic_files import atomic_path, together
from ...base.errors import InputError
from ...base.identity import Position
from ...base.regions import Region
from ...images.tiff import PROGRAM
from .annotation import Annotation, Annotations, binary_mask, color_of
from .json_files import as_score, read_json, to_json_types, write_json

TILE: Final = 512
Array = npt.NDArray[Any]
Box = tuple[int, int, int, int]
Pairs = Sequence[tuple[int, Region]]


def write_label_maps(annotations: Annotations, instances: Path) -> None:
    """Write a label image of regions, one of classes, and a JSON file that describes both.

    The files are ``NAME.tif``, ``NAME_classes.tif`` and ``NAME.json``. Where regions overlap, the
    smaller one is on top. Planes are pages, in the order of the JSON file.
    """
    classes, sidecar = map_files(instances)[1:]
    values = instance_values(annotations.items)
    labels = annotations.class_ids
    kinds = [labels.get(item.label, 0) for item in annotations.items]
    pairs = list(zip(values, annotations.items, strict=True))
    regions = []
    for value, item in pairs:
        regions.append(
            {
                "value": value,
                "region": item.region.id,
                "plane": dict(item.position),
                "label": item.label,
                "score": item.score,
                **to_json_types(item.attributes),
            }
        )
    listed_labels = []
    for label, number in labels.items():
        color = list(color_of(annotations, label))
        listed_labels.append({"value": number, "name": label, "color": color})
    record = {
        "instances": instances.name,
        "classes": classes.name,
        "image": annotations.image,
        "height": annotations.shape[0],
        "width": annotations.shape[1],
        "planes": [dict(position) for position in annotations.planes],
        "labels": listed_labels,
        "regions": regions,
        **annotations.about,
    }
    names = {}
    for value, item in pairs:
        names[str(value)] = f"{item.region.id} {item.label}".strip()
    named = {str(number): label for label, number in labels.items()}
    with together(instances.parent):
        for path, drawn, words in ((instances, values, names), (classes, kinds, named)):
            pages: dict[Position, list[tuple[int, Region]]]
            pages = {position: [] for position in annotations.planes}
            for value, item in zip(drawn, annotations.items, strict=True):
                pages[item.position].append((value, item.region))
            about = {"coordinates": "pixels", "value 0": "no region", "names": words}
            with atomic_path(path) as part:
                kind = label_type(drawn)
                _write_tiles(part, [*pages.values()], annotations.shape, kind, about, PROGRAM)
        write_json(record, sidecar)


def map_files(instances: Path) -> tuple[Path, Path, Path]:
    """Return the files that `write_label_maps` writes."""
    classes = instances.with_name(f"{instances.stem}_classes{instances.suffix}")
    return instances, classes, instances.with_suffix(".json")


@dataclass(frozen=True, slots=True)
class LabelNames:
    """Content of the JSON file next to a label image."""

    planes: tuple[Position, ...] = ()  # Planes of the pages
    # Label and score of each region, by plane and value
    regions: Mapping[tuple[Position, int], tuple[str, float | None]] = field(default_factory=dict)


def read_names(instances: Path) -> LabelNames:
    """Read the JSON file next to a label image; empty if we did not write one."""
    sidecar = map_files(instances)[2]
    if not sidecar.is_file():
        return LabelNames()
    try:
        record = read_json(sidecar)
        if record["instances"] != instances.name:
            return LabelNames()
        planes = tuple(_position(place) for place in record["planes"])
        regions = {}
        for region in record["regions"]:
            regions[(_position(region["plane"]), int(region["value"]))] = (
                str(region["label"] or ""),
                as_score(region["score"]),
            )
    except (InputError, KeyError, TypeError, ValueError, AttributeError):
        return LabelNames()
    return LabelNames(planes, regions)


def _position(place: Mapping[str, Any]) -> Position:
    return tuple((str(axis), int(number)) for axis, number in place.items())


def instance_values(items: Sequence[Annotation]) -> list[int]:
    """Return pixel values of regions: their ids if unique and positive, else 1, 2, ...

    The same id on several planes is the same object.
    """
    seen = {(item.position, item.region.id) for item in items}
    if len(seen) == len(items) and all(0 < item.region.id < 2**32 for item in items):
        return [item.region.id for item in items]
    return list(range(1, len(items) + 1))


def label_type(values: Iterable[int]) -> np.dtype[Any]:
    """Return the smallest type of unsigned numbers that holds pixel values."""
    top = max(values, default=0)
    if top < 2**8:
        return np.dtype("<u1")
    if top < 2**16:
        return np.dtype("<u2")
    return np.dtype("<u4")


class DrawnLabels:
    """A label image of regions that is drawn where it is read; the smaller region is on top."""

    ndim = 2

    def __init__(self, pairs: Pairs, shape: tuple[int, int], kind: np.dtype[Any]) -> None:
        self.shape = shape
        self.dtype = kind
        # Largest first, so that regions inside it stay visible.
        self._pairs = sorted(pairs, key=lambda pair: (-pair[1].area, pair[1].bbox))
        self._boxes = np.array([region.bbox for _, region in self._pairs]).reshape(-1, 4)

    def __getitem__(self, key: tuple[slice, slice]) -> Array:
        rows, columns = (part.indices(side) for part, side in zip(key, self.shape, strict=True))
        box = (rows[0], columns[0], rows[1], columns[1])
        return self.draw(box)[:: rows[2], :: columns[2]]

    def _inside(self, box: Box) -> Array:
        low = self._boxes[:, :2] < box[2:]
        high = self._boxes[:, 2:] > box[:2]
        return np.flatnonzero(low.all(1) & high.all(1))

    def is_empty(self, box: Box) -> bool:
        """Return whether no region's box reaches into a box."""
        return not len(self._inside(box))

    def draw(self, box: Box) -> Array:
        """Draw a box ``(y0, x0, y1, x1)``, which may extend beyond the plane."""
        y, x, stop, end = box
        tile = np.zeros((stop - y, end - x), self.dtype)
        for place in self._inside(box):
            value, region = self._pairs[place]
            y0, x0, y1, x1 = region.bbox
            top = max(y0, y)
            left = max(x0, x)
            bottom = min(y1, stop)
            right = min(x1, end)
            part = binary_mask(region)[top - y0 : bottom - y0, left - x0 : right - x0]
            tile[top - y : bottom - y, left - x : right - x][part] = value
        return tile


def _write_tiles(
    path: Path,
    pages: Sequence[Pairs],
    shape: tuple[int, int],
    kind: np.dtype[Any],
    metadata: Mapping[str, Any] | None = None,
    software: str | None = None,
) -> set[int]:
    """Write a TIFF of regions, drawn tile by tile; return the values that are visible.

    Does not use a memory map: a full disk would kill the process.
    """
    import tifffile

    seen: set[int] = set()
    size = shape if len(pages) == 1 else (len(pages), *shape)
    tifffile.imwrite(
        path,
        _tiles(pages, shape, kind, seen),
        shape=size,
        dtype=kind,
        tile=(TILE, TILE),
        photometric="minisblack",
        compression="zlib",
        byteorder="<",
        bigtiff=int(np.prod(size)) * kind.itemsize > 2**32 - 2**25,
        software=software,
        metadata={"axes": "YX" if len(pages) == 1 else "QYX", **(metadata or {})},
    )
    return seen


def _tiles(
    pages: Sequence[Pairs], shape: tuple[int, int], kind: np.dtype[Any], seen: set[int]
) -> Iterator[bytes]:
    """Yield compressed tiles; empty tiles, often the majority, are compressed once."""
    empty = zlib.compress(bytes(TILE * TILE * kind.itemsize))
    for page in pages:
        drawn = DrawnLabels(page, shape, kind)
        for y in range(0, shape[0], TILE):
            for x in range(0, shape[1], TILE):
                if drawn.is_empty((y, x, y + TILE, x + TILE)):
                    yield empty
                    continue
                tile = drawn.draw((y, x, y + TILE, x + TILE))
                seen.update(map(int, np.unique(tile)))
                yield zlib.compress(tile.tobytes())


def draw_labels(regions: Sequence[Region], shape: tuple[int, int]) -> tuple[Array, list[int]]:
    """Return a label image (H, W) of the regions' ids, and the ids that others hide."""
    pairs = [(region.id, region) for region in regions]
    labels = DrawnLabels(pairs, shape, _kind_for(regions)).draw((0, 0, *shape))
    hidden = []
    for region in regions:  # not by np.unique, which takes seconds on large planes
        y0, x0, y1, x1 = region.bbox
        if not (labels[y0:y1, x0:x1] == region.id).any():
            hidden.append(region.id)
    return labels, hidden


def write_labels(path: Path, regions: Sequence[Region], shape: tuple[int, int]) -> list[int]:
    """Write the label image that `draw_labels` returns as a TIFF; return the ids that it hides."""
    pairs = [(region.id, region) for region in regions]
    with atomic_path(path) as part:
        visible = _write_tiles(part, [pairs], shape, _kind_for(regions))
    return [region.id for region in regions if region.id not in visible]


def _kind_for(regions: Sequence[Region]) -> np.dtype[Any]:
    return np.dtype("<u2" if all(region.id < 2**16 for region in regions) else "<u4")
