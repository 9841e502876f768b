"""Label images: which region, and which name, each pixel belongs to."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..core.atomic import atomic_path
from .annotations import Annotation, Annotations, Position, color_of, solid
from .json_files import plain, write_json

TILE: Final = 512
Array = npt.NDArray[Any]


def write_label_maps(annotations: Annotations, instances: Path) -> None:
    """Write which region each pixel belongs to, which label, and a list of both.

    These are ``NAME.tif``, ``NAME_classes.tif`` and ``NAME.json``. Where regions overlap the
    smaller one lies above. Planes are pages, in the list's order. Both images are tiled and made
    tile by tile.

    Raises
    ------
    InputError
        If they cannot be written; what was there before stays.
    """
    classes, sidecar = map_files(instances)[1:]
    values = instance_values(annotations.items)
    labels = {label: number for number, label in enumerate(annotations.labels, 1)}
    kinds = [labels.get(item.label, 0) for item in annotations.items]
    names = {
        str(value): f"{item.region.id} {item.label}".strip()
        for value, item in zip(values, annotations.items, strict=True)
    }
    about = {"coordinates": "pixels", "value 0": "no region"}
    _write_map(annotations, values, instances, {**about, "names": names})
    named = {str(number): label for label, number in labels.items()}
    _write_map(annotations, kinds, classes, {**about, "names": named})
    record = {
        "instances": instances.name,
        "classes": classes.name,
        "image": annotations.image,
        "height": annotations.shape[0],
        "width": annotations.shape[1],
        "planes": [dict(position) for position in annotations.planes],
        "labels": [
            {"value": number, "name": label, "color": list(color_of(annotations, label))}
            for label, number in labels.items()
        ],
        "regions": [
            {
                "value": value,
                "region": item.region.id,
                "plane": dict(item.position),
                "label": item.label,
                "score": item.score,
                **plain(item.values),
            }
            for value, item in zip(values, annotations.items, strict=True)
        ],
        **annotations.about,
    }
    write_json(record, sidecar)


def map_files(instances: Path) -> tuple[Path, Path, Path]:
    """Files that `write_label_maps` writes."""
    classes = instances.with_name(f"{instances.stem}_classes{instances.suffix}")
    return instances, classes, instances.with_suffix(".json")


def instance_values(items: Sequence[Annotation]) -> list[int]:
    """Value of each region: its id where all are whole numbers above 0, else counted from 1.

    On several planes an id may be there several times: it is the same object.
    """
    seen = {(item.position, item.region.id) for item in items}
    if len(seen) == len(items) and all(0 < item.region.id < 2**32 for item in items):
        return [item.region.id for item in items]
    return list(range(1, len(items) + 1))


def _write_map(
    annotations: Annotations, values: Sequence[int], path: Path, metadata: dict[str, Any]
) -> None:
    import tifffile

    top = max(values, default=0)
    size = 1 if top < 2**8 else 2 if top < 2**16 else 4
    kind = np.dtype(f"<u{size}")
    height, width = annotations.shape
    planes = list(annotations.planes)
    shape = (height, width) if len(planes) == 1 else (len(planes), height, width)
    with atomic_path(path) as part:
        tifffile.imwrite(
            part,
            _tiles(annotations, values, planes, kind),
            shape=shape,
            dtype=kind,
            tile=(TILE, TILE),
            photometric="minisblack",
            compression="zlib",
            byteorder="<",
            bigtiff=int(np.prod(shape)) * kind.itemsize > 2**32 - 2**25,
            metadata={"axes": "YX" if len(planes) == 1 else "QYX", **metadata},
        )


def _tiles(
    annotations: Annotations,
    values: Sequence[int],
    planes: Sequence[Position],
    kind: np.dtype[Any],
) -> Iterator[bytes]:
    """Make compressed tiles; those without a region, of which there may be many, once."""
    height, width = annotations.shape
    empty = zlib.compress(bytes(TILE * TILE * kind.itemsize))
    for position in planes:
        # The largest first, so that what lies within it is seen.
        here = sorted(
            (
                (value, item.region)
                for value, item in zip(values, annotations.items, strict=True)
                if item.position == position
            ),
            key=lambda pair: (-pair[1].area, pair[1].bbox),
        )
        boxes = np.array([region.bbox for _, region in here])
        for y in range(0, height, TILE):
            for x in range(0, width, TILE):
                low, high = boxes[:, :2] < (y + TILE, x + TILE), boxes[:, 2:] > (y, x)
                inside = np.flatnonzero(low.all(1) & high.all(1))
                if not len(inside):
                    yield empty
                    continue
                tile = np.zeros((TILE, TILE), kind)
                for place in inside:
                    value, region = here[place]
                    _draw(tile, y, x, region.bbox, solid(region), value)
                yield zlib.compress(tile.tobytes())


def _draw(
    tile: Array, y: int, x: int, box: tuple[int, int, int, int], mask: Array, value: int
) -> None:
    y0, x0, y1, x1 = box
    top, left, bottom, right = max(y0, y), max(x0, x), min(y1, y + TILE), min(x1, x + TILE)
    part = mask[top - y0 : bottom - y0, left - x0 : right - x0]
    tile[top - y : bottom - y, left - x : right - x][part] = value
