"""``heatmaps.tif``: one page a region."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import numpy as np

from ...base.atomic_files import atomic_path
from ...base.errors import InputError
from ..results import MOST_PIXELS, Results
from .bundle import Bundle
from .export_format import ExportFormat


def check_room(folder: Path, regions: int, shape: tuple[int, int]) -> None:
    """Refuse heatmaps that do not fit on the disk, before computing them.

    Raises
    ------
    InputError
        If the uncompressed stack is larger than the free space of ``folder``.
    """
    needed = 4 * regions * shape[0] * shape[1]
    place = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    free = shutil.disk_usage(place).free
    if needed > free:
        raise InputError(
            f"heatmaps.tif may take {needed / 1e9:.1f} GB ({regions} regions of {shape[0]} x "
            f"{shape[1]} px) and {folder} has {free / 1e9:.1f} GB free; leave it out with "
            "--format npy,csv,json."
        )


def write_heatmaps(bundle: Bundle, path: Path) -> None:
    """Write a TIFF (N, h, w), float32 in 0..1, one page per region.

    Pages have the size of the plane if the model saw the whole plane for every region. Otherwise
    each page is the region's window at the size of the model's input; result.json has the
    position of the window.
    """
    import tifffile

    results = bundle.results
    if not len(results):
        return
    height, width = heatmap_size(results)
    # A generator: a thousand full-size heatmaps would not fit in memory.
    whole = (height, width) == results.info.image_shape
    pages = (
        results.heatmap(index) if whole else results.window_heatmap(index, (height, width)).values
        for index in range(len(results))
    )
    with atomic_path(path) as part:
        tifffile.imwrite(
            part,
            pages,
            shape=(len(results), height, width),
            dtype=np.float32,
            photometric="minisblack",
            compression="zlib",
            bigtiff=len(results) * height * width * 4 > 2**32 - 2**25,
            metadata={"axes": "ZYX", "Labels": [f"region {i}" for i in results.ids]},
        )


def heatmap_size(results: Results) -> tuple[int, int]:
    """Return the size (h, w) in pixels of the pages of heatmaps.tif."""
    height, width = results.info.image_shape
    if all(region.window.whole for region in results.regions) and height * width <= MOST_PIXELS:
        return height, width
    sizes = [region.window.input_size for region in results.regions]
    return max(size[0] for size in sizes), max(size[1] for size in sizes)


FORMATS: Final = (
    ExportFormat(
        "tif",
        "Heatmaps (.tif)",
        "heatmaps.tif",
        write_heatmaps,
        applies=lambda results: results.info.method.inverts,
    ),
)
