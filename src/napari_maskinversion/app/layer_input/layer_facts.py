"""Reading layers on the main thread: copies for a run, and shapes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeGuard, overload

import numpy as np
import numpy.typing as npt

from ...base.errors import InputError
from ...base.identity import ImagePlace
from ...base.regions import as_array
from ...base.wording import one_line
from ...images.lazy_plane import ArrayLike
from ...images.opening import nodata_of, without_masked
from ...images.tiff import without_nodata
from ...regions.drawn_shapes import Shape
from .coordinates import Grid, Slice, ViewPoint, slice_of
from .label_layers import COVERED, Covered
from .viewer_protocols import (
    ImageLayer,
    Layer,
    RegionsLayer,
    ShapesLayer,
    has_pixels,
    has_pyramid,
)

# Marks layers of this plugin, which are not offered as input.
OURS: Final = "napari-maskinversion"
# Metadata of a layer whose file we opened ourselves: its path.
FILE: Final = "napari-maskinversion: file"
# Metadata of such a layer: which of several images in the file it is.
SERIES: Final = "napari-maskinversion: series"
# Metadata of a layer that is one channel of an image: the identity of the image.
IDENTITY: Final = "napari-maskinversion: image"
# Metadata of an image whose other levels are there to be drawn, and nothing else.
ONLY_FIRST: Final = "napari-maskinversion: only the first level"
# Events of a regions layer that tell of an edit; painting has its own.
EDITS: Final = ("data", "set_data", "paint", "labels_update")
MOVES: Final = ("scale", "translate", "rotate", "shear", "affine", "units")
# Arrays up to this size are copied before a run (30 ms); larger and lazy ones are read in place.
COPIED_BYTES: Final = 64 * 2**20
# Counting labels on a larger plane would slow down painting.
_COUNTED_PIXELS: Final = 4_000_000
_LOOKED_AT: Final = 300_000_000  # bytes of a plane, 60 ms: whether there is a region at all
_COARSE: Final = 32  # pixels; regions of that size are found at once
_TABLE: Final = 2**22  # largest label that is counted by a table


def is_ours(layer: object) -> bool:
    """Whether a layer was made by this plugin."""
    return OURS in getattr(layer, "metadata", {})


def is_image(layer: object) -> TypeGuard[ImageLayer]:
    """Whether a layer is an image of the user: only those have a brightness of surfaces."""
    return hasattr(layer, "iso_threshold") and not is_ours(layer)


def is_shapes(layer: object) -> TypeGuard[ShapesLayer]:
    """Whether a layer holds shapes."""
    return hasattr(layer, "shape_type")


def is_regions(layer: object) -> TypeGuard[RegionsLayer]:
    """Whether a layer can hold regions: Labels or Shapes, none of this plugin's own displays."""
    return (is_shapes(layer) or hasattr(layer, "selected_label")) and not is_ours(layer)


def vocabulary_of(*layers: object) -> list[str]:
    """Labels in the metadata of layers (our samples have some), from the first layer with any."""
    for layer in layers:
        words = getattr(layer, "metadata", {}).get("vocabulary")
        if words:
            return [str(word) for word in words]
    return []


def path_of(layer: object) -> str | None:
    """Return the path that a layer was opened with, by us or by napari; None without one."""
    ours = getattr(layer, "metadata", {}).get(FILE)
    return ours or getattr(getattr(layer, "source", None), "path", None)


def file_of(image: object) -> Path | None:
    """Return the file or folder that a layer was opened from; None if this machine has none."""
    path = path_of(image)
    if not path:
        return None
    source = Path(path)
    try:
        return source if source.exists() else None
    except (OSError, ValueError):  # a share on the network that is down
        return None


def place_of_image(image: Layer | None) -> ImagePlace | None:
    """Return where the image of a layer is, as libraries have it; None without a file."""
    from ...library.adding import place_of

    file = file_of(image)
    if image is None or file is None:
        return None
    return place_of(file, image.metadata.get(SERIES))


class OtherArray:
    """An array of torch, tensorstore, JAX, CuPy and others; its parts are NumPy's."""

    def __init__(self, array: ArrayLike, name: str) -> None:
        self.held, self._name = array, name
        self.shape = tuple(int(side) for side in array.shape)
        # torch.uint8, dtype("uint8"), <dtype: 'uint8'>
        kind = re.search(r"bool|(u?int|float|complex)\d+", str(getattr(array, "dtype", "")))
        if kind is None:
            raise self._refusal("its values are of no type that NumPy knows")
        self.dtype = np.dtype(kind[0])

    def __getitem__(self, key: object) -> npt.NDArray[Any]:
        try:
            return as_array(self.held[key])
        except Exception as error:
            raise self._refusal(one_line(error)) from error

    def _refusal(self, why: str) -> InputError:
        return InputError(
            f"Layer '{self._name}' has an array of {type(self.held).__module__} that cannot be "
            f"read ({why}); give the layer numpy.asarray(data)."
        )


def levels_of(layer: Layer) -> list[ArrayLike]:
    """Return a layer's arrays, finest first; one for a plain layer."""
    if not has_pixels(layer):
        raise InputError(f"Layer '{layer.name}' holds no array of pixels.")
    if has_pyramid(layer):
        levels = list(layer.data)
    else:
        levels = [layer.data]
    if layer.metadata.get(ONLY_FIRST):
        del levels[1:]
    for place, data in enumerate(levels):
        # Other array types of plugins, and data that is not an image.
        if len(getattr(data, "shape", ())) not in (layer.ndim, layer.ndim + 1):
            raise InputError(f"Layer '{layer.name}' holds no array of pixels.")
        lazy = hasattr(data, "chunks") and isinstance(data.dtype, np.dtype)  # dask, zarr, xarray
        if not (isinstance(data, np.ndarray) or lazy):
            levels[place] = OtherArray(data, layer.name)
    return levels


@overload
def copied(
    data: npt.NDArray[Any], cut: Slice | None = None, *, snapshot: bool = True
) -> npt.NDArray[Any]: ...
@overload
def copied(data: ArrayLike, cut: Slice | None = None, *, snapshot: bool = True) -> ArrayLike: ...
def copied(data: ArrayLike, cut: Slice | None = None, *, snapshot: bool = True) -> ArrayLike:
    """Copy an array, or one plane with all axes; without ``snapshot`` only slice it.

    Lazy arrays are not read.
    """
    if not isinstance(data, np.ndarray):
        return data
    part = data
    if cut is not None:
        key = [slice(None)] * data.ndim
        for axis in cut.others:
            key[axis] = slice(cut.index[axis], cut.index[axis] + 1)
        part = data[tuple(key)]
    if not snapshot or part.nbytes > COPIED_BYTES:
        return part
    return part.copy()


def count_regions(layer: RegionsLayer, view: ViewPoint, planes: str = "shown") -> int | None:
    """Count the regions of a run (see `Scope`); None where counting would take too long."""
    grid = Grid.of(layer, view)
    if is_shapes(layer):
        return len(shapes_on_plane(layer, grid, view))
    cut = slice_of(grid, view)
    cut.check(grid)
    data = levels_of(layer)[0]
    if not isinstance(data, np.ndarray):
        return None
    part = copied(data, cut, snapshot=False) if planes == "shown" else data
    if part.size > _COUNTED_PIXELS:
        coarse = part[(slice(None, None, _COARSE),) * part.ndim]
        return None if part.nbytes > _LOOKED_AT or coarse.any() or part.max() else 0
    file = file_of(layer)
    seen = without_masked(part, file, grid.shape, labels=True)
    part = np.asarray(seen[(slice(None),) * grid.ndim])
    part = without_nodata(part, nodata_of(file, grid.shape))
    all_covered = layer.metadata.get(COVERED, {})
    if planes != "each":
        return _count_values(part) + _count_hidden(all_covered.get(cut.index_of_others, {}))
    sides = tuple(part.shape[axis] for axis in cut.axes)
    planes_of_labels = np.moveaxis(part, cut.axes, (-2, -1)).reshape(-1, *sides)
    count = sum(map(_count_values, planes_of_labels))
    return count + sum(map(_count_hidden, all_covered.values()))


def _count_hidden(covered: Mapping[int, Covered]) -> int:
    return sum(region.seen is None for region in covered.values())


def _count_values(plane: npt.NDArray[Any]) -> int:
    """Count the values that are not 0, without pandas, which takes seconds to import."""
    values = plane.ravel()
    if values.size and values.dtype.kind in "iub" and values.min() >= 0:
        highest = int(values.max())
        if highest <= _TABLE:  # many times faster than sorting all pixels
            return int(np.count_nonzero(np.bincount(values, minlength=1)[1:]))
    return int(np.count_nonzero(np.unique(values)))


def shapes_on_plane(layer: ShapesLayer, grid: Grid, view: ViewPoint) -> tuple[Shape, ...]:
    """Return the shapes that lie in the plane shown, without those that cross it, in row order."""
    cut = slice_of(grid, view)
    across = list(cut.others)
    index = np.asarray(cut.index)[across]
    shapes = []
    rows = zip(layer.data, layer.shape_type, layer.edge_width, strict=True)
    for row, (vertices, kind, width) in enumerate(rows):
        corners = np.asarray(vertices, dtype=float)
        # Rounded as napari does when it decides what to draw.
        if across and not np.all(np.round(corners[:, across]) == index):
            continue
        shapes.append(
            Shape(
                id=row,
                kind=str(kind),
                vertices=corners[:, list(cut.axes)].copy(),
                width=float(width),
            )
        )
    return tuple(shapes)
