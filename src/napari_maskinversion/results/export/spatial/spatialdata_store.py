"""``spatialdata.zarr``: label images, outlines and the table as SpatialData."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any, Final

from ....regions.annotations.annotation import Annotations
from ....regions.annotations.json_files import to_json_types
from ....regions.annotations.polygons import outline
from ..annotations import to_annotations
from ..bundle import Bundle, ExportFormat
from .anndata_table import INSTANCE_KEY, REGION_KEY, to_anndata
from .label_pyramid import NAME, Element, elements_of, store_at, write_levels

PIXELS, PHYSICAL = "global", "physical"
"""Coordinate systems."""
# Versions of SpatialData's metadata of a label image.
_RASTER: Final = {"spatialdata_attrs": {"version": "0.3"}}
_NGFF: Final = "0.5-dev-spatialdata"


def write_spatialdata(bundle: Bundle, path: Path) -> None:
    """Write labels and outlines of each plane, and the table that annotates the labels.

    They lie in the coordinate system ``global`` in pixels, and in ``physical`` where the size of a
    pixel is known. Label images are drawn chunk by chunk.
    """
    with warnings.catch_warnings():
        # Of its imports, of labels, which come last, and of how zarr keeps what others write.
        warnings.simplefilter("ignore")
        _write(bundle, path)


def _write(bundle: Bundle, path: Path) -> None:
    import spatialdata as sd
    import zarr
    from spatialdata.models import TableModel

    annotations = to_annotations(bundle)
    elements = elements_of(annotations)
    units = bundle.results.info.units
    pixel = None if units is None else units.pixel
    names = [one.name for one in elements]
    table = to_anndata(bundle, annotations)
    del table.uns["spatialdata_attrs"]  # made again, and checked
    data = sd.SpatialData(
        shapes={one.name.replace(NAME, "outlines", 1): _outlines(one, pixel) for one in elements},
        tables={
            "table": TableModel.parse(
                table, region=names, region_key=REGION_KEY, instance_key=INSTANCE_KEY
            )
        },
        attrs={"napari-maskinversion": json.dumps(to_json_types(bundle.provenance()))},
    )
    with store_at(path) as folder:
        folder.rmdir()  # it wants to make it
        data.write(folder, consolidate_metadata=False)
        root = zarr.open_group(str(folder), mode="r+")
        labels = root.require_group("labels")
        labels.attrs["ome"] = {"labels": names}
        for one in elements:
            _write_labels(labels.create_group(one.name), one, annotations, pixel)
        zarr.consolidate_metadata(root.store)


def _write_labels(
    group: Any, one: Element, annotations: Annotations, pixel: tuple[float, float] | None
) -> None:
    # Its own writer of label images does not work with all versions of the libraries below it.
    sizes = write_levels(group, annotations, [one], ("y", "x"), "0.5")
    axes = [{"name": name, "type": "space"} for name in "yx"]
    places: dict[str, Any] = {PIXELS: {"type": "identity"}}
    if pixel is not None:
        places[PHYSICAL] = {"type": "scale", "scale": list(pixel)}
    about = {
        "name": one.name,
        "axes": axes,
        "datasets": [
            {
                "path": str(number),
                "coordinateTransformations": [
                    {"type": "scale", "scale": [float(2**number)] * 2},
                    {"type": "translation", "translation": [0.0, 0.0]},
                ],
            }
            for number in range(len(sizes))
        ],
        "coordinateTransformations": [
            {**step, "input": _system("yx"), "output": _system(name)}
            for name, step in places.items()
        ],
    }
    ome = {"version": _NGFF, "multiscales": [about], "image-label": {"version": "0.5"}}
    group.attrs.update({"ome": ome, **_RASTER})


def _system(name: str) -> dict[str, Any]:
    axes = [{"name": axis, "type": "space", "unit": "unit"} for axis in "yx"]
    return {"name": name, "axes": axes}


def _outlines(one: Element, pixel: tuple[float, float] | None) -> Any:
    import geopandas as gpd
    from spatialdata.models import ShapesModel
    from spatialdata.transformations import Identity, Scale

    places: dict[str, Any] = {PIXELS: Identity()}
    if pixel is not None:
        places[PHYSICAL] = Scale(list(pixel), axes=("y", "x"))
    shapes = gpd.GeoDataFrame(
        {"label": [item.label for _, item in one.items]},
        geometry=[outline(item.region) for _, item in one.items],
        index=[value for value, _ in one.items],
    )
    return ShapesModel.parse(shapes, transformations=places)


FORMATS: Final = (
    ExportFormat(
        "spatialdata",
        "SpatialData (.zarr)",
        "spatialdata.zarr",
        write_spatialdata,
        needs=("spatialdata", "pkg_resources", "anndata", "geopandas"),
    ),
)
