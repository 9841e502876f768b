"""OME-Zarr stores as another program (ome-zarr-py) writes them."""

import numpy as np
import zarr
from ome_zarr.format import FormatV04, FormatV05
from ome_zarr.writer import (
    write_image,
    write_labels,
    write_plate_metadata,
    write_well_metadata,
)

from .scenes import label_image, picture

FORMATS = {"0.4": FormatV04(), "0.5": FormatV05()}
SHAPE = (64, 64)


def group_at(path, version="0.4"):
    return zarr.open_group(str(path), mode="a", zarr_format=FORMATS[version].zarr_format)


def add_image(group, *, seed=0, labels=(), count=2, version="0.4"):
    """Write a grey image with a pyramid, and label images of these names."""
    fmt = FORMATS[version]
    pixels = picture(*SHAPE, seed)[:, :, 0]
    scale = [[{"type": "scale", "scale": [0.5 * 2**n, 0.5 * 2**n]}] for n in range(2)]
    axes = [{"name": a, "type": "space", "unit": "micrometer"} for a in "yx"]
    write_image(
        pixels,
        group,
        axes=axes,
        fmt=fmt,
        scale_factors=[2],
        coordinate_transformations=scale,
    )
    for number, name in enumerate(labels):
        array = label_image(count + number, *SHAPE).astype(np.int32)
        write_labels(array, group, name, axes=axes, fmt=fmt, scale_factors=[2])
    return pixels


def image_store(path, *, version="0.4", **more):
    return add_image(group_at(path, version), version=version, **more)


def plate(path, wells=("A/1", "B/2"), fields=2, *, version="0.4", **more):
    """Write a plate; return the pixels of its fields by place."""
    root = group_at(path, version)
    names = [str(n) for n in range(fields)]
    rows, columns = (sorted({well.split("/")[part] for well in wells}) for part in (0, 1))
    write_plate_metadata(root, rows, columns, list(wells), fmt=FORMATS[version])
    pixels = {}
    for well in wells:
        write_well_metadata(root.require_group(well), names, fmt=FORMATS[version])
        for field in names:
            place = f"{well}/{field}"
            group = root.require_group(place)
            pixels[place] = add_image(group, seed=len(pixels), version=version, **more)
    return pixels


def positions(path, count=3, *, version="0.4", **more):
    """Write a collection of images as bioformats2raw does."""
    root = group_at(path, version)
    about = {"bioformats2raw.layout": 3}
    root.attrs.update(about if version == "0.4" else {"ome": {"version": "0.5", **about}})
    return [
        add_image(root.require_group(str(n)), seed=n, version=version, **more) for n in range(count)
    ]
