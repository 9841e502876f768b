"""``heatmaps.tif``: one page a region."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

from ...base.atomic_files import atomic_path
from ...base.errors import InputError
from ...base.progress import with_ticks
from ...images.tiff import PROGRAM
from ..results import MOST_PIXELS, FloatArray, Results
from .bundle import Bundle, ExportFormat

_MOST_BYTES: Final = 4_000_000_000  # that a viewer may need for all pages


def check_room(folder: Path, regions: int, shape: tuple[int, int]) -> None:
    """Refuse heatmaps that do not fit on the disk, before computing them."""
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

    Pages are the plane, 0 outside a region's window, so that each lies on the image. Where that
    would be too large, pages are the windows at the size of the model's input. The description
    holds ``plane``, its size (H, W), and ``boxes_yxyx``, the place of each page on it.
    """
    import tifffile

    results = bundle.results
    if not len(results):
        return
    plane = results.info.image_shape
    boxes = [region.window.box for region in results.regions]
    height, width = heatmap_size(results)
    whole = (height, width) == plane

    # A generator: a thousand full-size heatmaps would not fit in memory.
    def pages() -> Iterator[FloatArray]:
        for index in with_ticks("Heatmaps", range(len(results))):
            if whole:
                yield results.heatmap(index)
            else:
                yield results.window_heatmap(index, (height, width)).values

    names = [f"region {number}" for number in results.ids]
    plane_boxes = [[0, 0, *plane] if whole else list(box) for box in boxes]
    with atomic_path(path) as part:
        tifffile.imwrite(
            part,
            pages(),
            shape=(len(results), height, width),
            dtype=np.float32,
            photometric="minisblack",
            compression="zlib",
            bigtiff=len(results) * height * width * 4 > 2**32 - 2**25,
            software=PROGRAM,
            metadata={
                "axes": "ZYX",
                "Labels": names,
                "plane": list(plane),
                "boxes_yxyx": plane_boxes,
            },
        )


def heatmap_size(results: Results) -> tuple[int, int]:
    """Return the size (h, w) in pixels of the pages of heatmaps.tif."""
    windows = [region.window for region in results.regions]
    plane = results.info.image_shape
    if pages_are_planes(plane, len(windows), whole=all(window.whole for window in windows)):
        return plane
    sizes = [window.input_size for window in windows]
    heights, widths = zip(*sizes, strict=True)
    return max(heights), max(widths)


def pages_are_planes(plane: tuple[int, int], regions: int, *, whole: bool) -> bool:
    """Return whether each page is the plane (H, W)."""
    pixels = plane[0] * plane[1]
    return pixels <= MOST_PIXELS and (whole or 4 * regions * pixels <= _MOST_BYTES)


FORMATS: Final = (
    ExportFormat(
        "tif",
        "Heatmaps (.tif)",
        "heatmaps.tif",
        write_heatmaps,
        applies=lambda results: results.info.method.inverts,
    ),
)
