"""``regions.ome.zarr``: a label image with a pyramid, as OME-Zarr keeps it (0.5 or 0.4).

Its pixel values are also those by which tables name regions.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Final, NamedTuple

from ...base.atomic_files import atomic_folder
from ...base.errors import InputError
from ...base.identity import Position
from ...base.progress import with_ticks
from ...base.targets import is_our_store
from ...base.units import Units, short_unit
from ...regions.annotations.annotation import Annotation, Annotations, color_of
from ...regions.annotations.json_files import to_json_types
from ...regions.annotations.label_maps import DrawnLabels, instance_values, label_type
from .annotations import to_annotations
from .bundle import Bundle, ExportFormat

NAME: Final = "regions"
CHUNK: Final = 1024
_SMALLEST: Final = 512  # pixels of the longer side of the coarsest level
_KINDS: Final = {"t": "time", "z": "space", "y": "space", "x": "space"}
_ORDER: Final = {"t": 0, "z": 2}  # OME-Zarr wants time first, and space last
# Names that OME-Zarr asks for, by symbol.
_METERS: Final = ("nanometer", "micrometer", "millimeter", "centimeter", "meter", "kilometer")
_UNITS: Final = {short_unit(name): name for name in (*_METERS, "angstrom", "inch", "foot")}


class Element(NamedTuple):
    """The regions of one plane."""

    name: str  # ``regions``, with the plane where there are several: ``regions_t0_z3``
    position: Position
    items: list[tuple[int, Annotation]]  # Regions with their pixel values


def elements_of(annotations: Annotations) -> list[Element]:
    """Return the regions by plane, with the pixel values of `instance_values`."""
    values = instance_values(annotations.items)
    planes: dict[Position, list[tuple[int, Annotation]]] = {}
    for value, item in zip(values, annotations.items, strict=True):
        planes.setdefault(item.position, []).append((value, item))
    elements = []
    for position, items_of_plane in planes.items():
        parts = [NAME]
        if len(planes) > 1:
            parts += [f"{axis}{number}" for axis, number in position]
        elements.append(Element("_".join(parts), position, items_of_plane))
    return elements


@contextmanager
def store_at(path: Path) -> Iterator[Path]:
    """Yield a folder that becomes a zarr store when the block succeeds."""
    if path.exists() and not is_our_store(path):
        raise InputError(f"{path} was not written by this program and stays; choose another name.")
    with atomic_folder(path) as folder:
        yield folder


def write_labels(bundle: Bundle, path: Path, *, version: str = "0.5") -> None:
    """Write a label image: pixel values are the regions' numbers.

    Colours are those of the words; properties hold the columns of the table. Where regions overlap,
    the smaller one is on top. Other axes than y and x are as long as the last plane with a region
    asks for. Drawn chunk by chunk.
    """
    import zarr

    annotations = to_annotations(bundle)
    elements = elements_of(annotations)
    page_axes: dict[str, int] = {}  # the order of a set differs from run to run
    for element in elements:
        page_axes |= dict(element.position)
    names = (*sorted(page_axes, key=lambda axis: _ORDER.get(axis, 1)), "y", "x")
    with store_at(path) as folder:
        image = zarr.open_group(str(folder), mode="w", zarr_format=2 if version == "0.4" else 3)
        # First: it tells whose store this is.
        image.attrs["napari-maskinversion"] = to_json_types(bundle.provenance())
        sizes = write_levels(image, annotations, elements, names, version)
        about = {
            "multiscales": [_multiscales(names, sizes, bundle.results.info.units, version)],
            "image-label": _image_label(annotations, elements, version),
        }
        image.attrs.update(about if version == "0.4" else {"ome": {"version": version, **about}})


def write_levels(
    group: Any,
    annotations: Annotations,
    elements: list[Element],
    names: tuple[str, ...],
    version: str,
) -> list[tuple[int, int]]:
    """Write the pyramid of a label image, drawn chunk by chunk."""
    values = []
    for element in elements:
        for value, _ in element.items:
            values.append(value)
    kind = label_type(values)
    places = [dict(element.position) for element in elements]
    pages = []
    for axis in names[:-2]:
        pages.append(max(place.get(axis, 0) for place in places) + 1)
    sizes = [annotations.shape]
    # Sides are rounded up: the last row of an odd number has a level above it, too.
    while max(sizes[-1]) > _SMALLEST:
        sizes.append((-(-sizes[-1][0] // 2), -(-sizes[-1][1] // 2)))
    separator = {"name": "v2" if version == "0.4" else "default", "separator": "/"}
    if version == "0.4":
        more = {}
    else:
        more = {"dimension_names": names}
    levels = []
    for number, size in enumerate(sizes):
        levels.append(
            group.create_array(
                str(number),
                shape=(*pages, *size),
                chunks=(*[1] * len(pages), min(CHUNK, size[0]), min(CHUNK, size[1])),
                dtype=kind,
                chunk_key_encoding=separator,
                **more,
            )
        )
    for element, place in zip(elements, places, strict=True):
        page = tuple(place.get(axis, 0) for axis in names[:-2])
        pairs = [(value, item.region) for value, item in element.items]
        drawn = DrawnLabels(pairs, annotations.shape, kind)
        for number, (level, size) in enumerate(zip(levels, sizes, strict=True)):
            corners = list(product(range(0, size[0], CHUNK), range(0, size[1], CHUNK)))
            for y, x in with_ticks("Tiles", corners):
                bottom = min(y + CHUNK, size[0])
                right = min(x + CHUNK, size[1])
                if not number:
                    if drawn.is_empty((y, x, bottom, right)):
                        continue
                    block = drawn.draw((y, x, bottom, right))
                else:  # every second pixel of the finer level
                    rows = slice(2 * y, 2 * bottom)
                    columns = slice(2 * x, 2 * right)
                    block = levels[number - 1][(*page, rows, columns)][::2, ::2]
                if block.any():
                    level[(*page, slice(y, bottom), slice(x, right))] = block
    return sizes


def _multiscales(
    names: tuple[str, ...], sizes: list[tuple[int, int]], units: Units | None, version: str
) -> dict[str, Any]:
    if units is None or units.pixel is None:
        pixel = (1.0, 1.0)
    else:
        pixel = units.pixel
    if units is None or units.pixel is None:
        unit = None
    else:
        unit = _UNITS.get(units.unit)
    axes = []
    for name in names:
        axis = {"name": name}
        if name in _KINDS:
            axis["type"] = _KINDS[name]
        if unit and name in ("y", "x"):
            axis["unit"] = unit
        axes.append(axis)
    datasets = []
    for number in range(len(sizes)):
        # Along pages each level has all of them.
        scale = [*[1.0] * (len(names) - 2), *(side * 2**number for side in pixel)]
        transformation = {"type": "scale", "scale": scale}
        datasets.append({"path": str(number), "coordinateTransformations": [transformation]})
    about = {"name": NAME, "axes": axes, "datasets": datasets}
    if version == "0.4":
        about["version"] = version
    return about


def _image_label(annotations: Annotations, elements: list[Element], version: str) -> dict[str, Any]:
    items = []
    for element in elements:
        items.extend(element.items)
    colors = {value: [*color_of(annotations, item.label), 255] for value, item in items}
    properties = []
    for value, item in items:
        properties.append(
            {"label-value": value, "label": item.label, "score": item.score}
            | to_json_types(item.attributes)
        )
    return {
        "version": version,
        "colors": [{"label-value": value, "rgba": rgba} for value, rgba in colors.items()],
        "properties": properties,
    }


FORMATS: Final = (
    ExportFormat(
        "ome-zarr", "Label image, OME-Zarr 0.5 (.ome.zarr)", "regions.ome.zarr", write_labels
    ),
    ExportFormat(
        "ome-zarr-0.4",
        "Label image, OME-Zarr 0.4 (.ome.zarr)",
        "regions_v04.ome.zarr",
        partial(write_labels, version="0.4"),
    ),
)
