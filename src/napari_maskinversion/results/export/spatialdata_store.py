"""``regions.h5ad`` holds the table and embeddings, ``spatialdata.zarr`` the regions, too."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ...base.atomic_files import atomic_path
from ...regions.annotations.annotation import Annotations, color_of
from ...regions.annotations.json_files import to_json_types
from ...regions.annotations.polygons import outline
from .annotations import to_annotations
from .bundle import Bundle, ExportFormat
from .label_pyramid import NAME, Element, elements_of, store_at, write_levels

if TYPE_CHECKING:
    import anndata as ad
    import pandas as pd


PIXELS = "global"
PHYSICAL = "physical"
"""Coordinate systems."""
REGION_KEY = "region"
INSTANCE_KEY = "instance_id"
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
    names = [element.name for element in elements]
    table = to_anndata(bundle, annotations)
    del table.uns["spatialdata_attrs"]  # made again, and checked
    data = sd.SpatialData(
        shapes={
            element.name.replace(NAME, "outlines", 1): _outlines(element, pixel)
            for element in elements
        },
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
        for element in elements:
            _write_labels(labels.create_group(element.name), element, annotations, pixel)
        zarr.consolidate_metadata(root.store)


def _write_labels(
    group: Any, element: Element, annotations: Annotations, pixel: tuple[float, float] | None
) -> None:
    # Its own writer of label images does not work with all versions of the libraries below it.
    sizes = write_levels(group, annotations, [element], ("y", "x"), "0.5")
    axes = [{"name": name, "type": "space"} for name in "yx"]
    places: dict[str, Any] = {PIXELS: {"type": "identity"}}
    if pixel is not None:
        places[PHYSICAL] = {"type": "scale", "scale": list(pixel)}
    transformations = []
    for name, step in places.items():
        transformations.append({**step, "input": _system("yx"), "output": _system(name)})
    datasets = []
    for number in range(len(sizes)):
        datasets.append(
            {
                "path": str(number),
                "coordinateTransformations": [
                    {"type": "scale", "scale": [float(2**number)] * 2},
                    {"type": "translation", "translation": [0.0, 0.0]},
                ],
            }
        )
    about = {
        "name": element.name,
        "axes": axes,
        "datasets": datasets,
        "coordinateTransformations": transformations,
    }
    ome = {"version": _NGFF, "multiscales": [about], "image-label": {"version": "0.5"}}
    group.attrs.update({"ome": ome, **_RASTER})


def _system(name: str) -> dict[str, Any]:
    axes = [{"name": axis, "type": "space", "unit": "unit"} for axis in "yx"]
    return {"name": name, "axes": axes}


def _outlines(element: Element, pixel: tuple[float, float] | None) -> Any:
    import geopandas as gpd
    from spatialdata.models import ShapesModel
    from spatialdata.transformations import Identity, Scale

    places: dict[str, Any] = {PIXELS: Identity()}
    if pixel is not None:
        places[PHYSICAL] = Scale(list(pixel), axes=("y", "x"))
    labels = []
    outlines = []
    values = []
    for value, item in element.items:
        labels.append(item.label)
        outlines.append(outline(item.region))
        values.append(value)
    shapes = gpd.GeoDataFrame({"label": labels}, geometry=outlines, index=values)
    return ShapesModel.parse(shapes, transformations=places)


def write_anndata(bundle: Bundle, path: Path) -> None:
    """Write a table with an observation for each region, see `to_anndata`."""
    table = to_anndata(bundle, to_annotations(bundle))
    with atomic_path(path) as part:
        try:
            table.write_h5ad(part, compression="gzip")
        except OSError as error:  # of HDF5, in several lines
            raise OSError(str(error).partition(" (")[0]) from error


def to_anndata(bundle: Bundle, annotations: Annotations) -> ad.AnnData:
    """Return results as AnnData.

    ``X`` holds unit embeddings, ``obs`` the columns of the table, ``obsm["spatial"]`` the centroids
    (x, y) in pixels from the outer corner of the first one. ``uns["spatialdata_attrs"]`` names
    ``region``, ``region_key`` and ``instance_key``: the label image that a region is in, and its
    pixel value there.
    """
    import anndata as ad

    results = bundle.results
    elements = elements_of(annotations)
    place = {}
    for element in elements:
        for value, item in element.items:
            place[id(item)] = (element.name, value)
    table = _table(bundle.table(), annotations, [place[id(item)] for item in annotations.items])
    table["norm"] = [region.norm for region in results.regions]
    centroids = [(region.centroid[1] + 0.5, region.centroid[0] + 0.5) for region in results.regions]
    table_with_embeddings = ad.AnnData(
        X=np.asarray(results.embeddings, np.float32),
        obs=table,
        obsm={"spatial": np.array(centroids, np.float64).reshape(-1, 2)},
    )
    table_with_embeddings.var_names = [
        f"embedding_{number}" for number in range(table_with_embeddings.n_vars)
    ]
    names = [element.name for element in elements]
    table_with_embeddings.uns["spatialdata_attrs"] = {
        "region": names[0] if len(names) == 1 else names,
        "region_key": REGION_KEY,
        "instance_key": INSTANCE_KEY,
    }
    colors = []
    for label in table["label"].cat.categories:
        colors.append("#{:02x}{:02x}{:02x}".format(*color_of(annotations, label)))
    table_with_embeddings.uns["label_colors"] = colors
    table_with_embeddings.uns["napari-maskinversion"] = json.dumps(
        to_json_types(bundle.provenance())
    )
    return table_with_embeddings


def _table(
    columns: pd.DataFrame, annotations: Annotations, places: list[tuple[str, int]]
) -> pd.DataFrame:
    """Return the columns in types that AnnData stores: numbers, or texts as categories."""
    import pandas as pd

    table = columns.rename(columns={"region": "id"})
    for name in table.columns:
        values = table[name]
        if values.isna().all():
            table[name] = values.astype(float)
        elif not pd.api.types.is_numeric_dtype(values):
            table[name] = values.where(values.isna(), values.astype(str)).astype("category")
    labels = [label for label in annotations.labels if label]
    table["label"] = pd.Categorical([item.label or None for item in annotations.items], labels)
    table[REGION_KEY] = pd.Categorical([name for name, _ in places])
    table[INSTANCE_KEY] = [value for _, value in places]
    table.index = pd.Index([f"{name}_{value}" for name, value in places])
    return table


FORMATS: Final = (
    ExportFormat(
        "anndata",
        "Table and embeddings, AnnData (.h5ad)",
        "regions.h5ad",
        write_anndata,
        needs=("anndata",),
    ),
    ExportFormat(
        "spatialdata",
        "SpatialData (.zarr)",
        "spatialdata.zarr",
        write_spatialdata,
        needs=("spatialdata", "pkg_resources", "anndata", "geopandas"),
    ),
)
