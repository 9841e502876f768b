"""Label files with several planes, matched to the planes of an image."""

from __future__ import annotations

from collections.abc import Container, Mapping
from itertools import combinations
from pathlib import Path
from typing import Literal

from ...base.errors import EmptyMaskError, InputError
from ...images.decoding import TIFF
from ...images.ome_zarr import is_zarr, label_images
from ...images.opening import open_labels
from ...images.stack import Stack
from ...images.tiff import is_tiff
from .label_images import PlaneRegions, plane_of_labels, regions_by_plane, regions_of_labels
from .reading import check_size

Mode = Literal["largest", "each"]


def has_planes(path: Path, image: Stack, series: int = 0) -> bool:
    """Return whether the planes of a label file are those of the image.

    For a flat image, or if the number differs, pages are binary masks.
    """
    if not image.plane_axes or not (path.suffix.lower() in {*TIFF, ".npy"} or is_zarr(path)):
        return False
    if not path.exists() or (path.is_dir() and not is_zarr(path)):
        return False
    with open_labels(path, series) as labels:
        return bool(labels.pages) and bool(_matched(labels, image))


def series_of(path: Path, image: Stack) -> int:
    """Return which image of a label file belongs to an image: that of the same number."""
    if len(image.images) < 2 or not (is_tiff(path) or is_zarr(path)):
        return 0
    if is_zarr(path) and label_images(path, image.series):
        return image.series
    with open_labels(path) as labels:
        count = len(labels.images)
    if count > 1 and count != len(image.images):
        raise InputError(
            f"{path} holds {count} label images and {image.name} {len(image.images)} images; save "
            "as many, or one file of regions for each."
        )
    return image.series if count > 1 else 0


def read_plane_regions(
    path: Path,
    image: Stack,
    position: Mapping[str, int],
    *,
    mode: Mode | None,
    only: Container[int] | None = None,
    series: int = 0,
) -> list[PlaneRegions]:
    """Read a label file of three or more dimensions, each region on its plane of the image."""
    with open_labels(path, series) as labels:
        axes = labels.axes.index("y"), labels.axes.index("x")
        check_size(labels.shape, str(path), image.shape)
        matched = _matched(labels, image)
        if matched is None:
            raise InputError(
                f"{path} has planes {_named(labels.pages)} and {image.name} has "
                f"{_named(image.plane_axes)}; labels need the planes of the image."
            )
        missing = [name for name in image.pages if name not in ("c", *position)]
        left = [name for name in missing if mode is None or name not in matched.values()]
        if left:
            raise InputError(
                f"{image.name} has {image.plane_axes[left[0]]} planes along {left[0]}; choose one "
                f"({left[0]}=0 to {left[0]}={image.plane_axes[left[0]] - 1}, --plane)"
                + ("." if mode else ", or use all of them (--planes).")
            )
        names = tuple(matched.get(name, name) for name in labels.axes)
        chosen = {name: place for name, place in position.items() if name in matched.values()}
        if mode is not None and chosen:
            raise InputError(
                f"--planes uses all planes of the labels and --plane one of them "
                f"({', '.join(chosen)}); use only one of the two options."
            )
        array = labels.levels[0]
        try:
            if mode is not None:
                planes = regions_by_plane(array, names=names, axes=axes, mode=mode, only=only)
            else:
                index = [chosen.get(name, 0) for name in names]
                flat = plane_of_labels(array, axes=axes, index=index)
                regions = regions_of_labels(flat, only=only)
                planes = [PlaneRegions(tuple(chosen.items()), regions)] if len(regions) else []
        except EmptyMaskError as error:
            raise EmptyMaskError(f"{path}: {error}") from None
    if not planes:
        chosen_text = ",".join(f"{name}={place}" for name, place in chosen.items())
        raise EmptyMaskError(f"{path} has no region on plane {chosen_text}.")
    placed = []
    for plane in planes:
        # Drop axes of length 1 that only the labels have; add the chosen ones.
        places = {**position, **dict(plane.position)}
        where = tuple((name, places[name]) for name in image.plane_axes if name in places)
        placed.append(PlaneRegions(where, plane.regions))
    return placed


def _matched(labels: Stack, image: Stack) -> dict[str, str] | None:
    return matched_axes(labels, image.plane_axes, guessed=image.guessed)


def matched_axes(
    labels: Stack, image: Mapping[str, int], *, guessed: bool = False
) -> dict[str, str] | None:
    """Map the labels' axes to those of the image (names to sizes); None if they do not fit.

    Axes of the same names may come in another order; if names are ``guessed``, only if their sizes
    differ. The labels may lack axes if sizes and order identify which.
    """
    pages = labels.pages
    if "s" in labels.axes:
        return None
    in_order = [name for name in image if name in pages] == list(pages)
    alike = len(set(pages.values())) < len(pages)
    swapped = alike and not in_order and (guessed or labels.guessed)
    if pages.items() <= image.items() and not swapped:
        return {name: name for name in pages}
    planes = [name for name, size in image.items() if size > 1]
    fitting = [
        names
        for names in combinations(planes, len(pages))
        if [image[name] for name in names] == list(pages.values())
    ]
    return dict(zip(pages, fitting[0], strict=True)) if len(fitting) == 1 else None


def _named(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name} ({size})" for name, size in sizes.items()) or "none"
