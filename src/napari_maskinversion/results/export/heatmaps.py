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
    """Refuse heatmaps that the disk cannot hold, before the work.

    Raises
    ------
    InputError
        If the stack, uncompressed, is larger than what is free at ``folder``.
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
    """Write the heatmaps as a TIFF (N, h, w) float32 in 0..1, one page a region.

    Of the plane's size where every region was seen on the whole of it. Where there are windows,
    each page is the region's window at the size of the model's input; result.json says where
    the window lies.
    """
    import tifffile

    results = bundle.results
    if not len(results):
        return
    height, width = heatmap_size(results)
    # One at a time: a thousand full-size heatmaps would not fit in memory.
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
    """Pixels (h, w) of each page of heatmaps.tif."""
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
