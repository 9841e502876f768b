"""``regions.h5ad``: embeddings and the table as AnnData, with the keys of SpatialData."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from ....base.atomic_files import atomic_path
from ....regions.annotations.annotation import Annotations, color_of
from ....regions.annotations.json_files import to_json_types
from ..annotations import to_annotations
from ..bundle import Bundle, ExportFormat
from .label_pyramid import elements_of

if TYPE_CHECKING:
    import anndata as ad
    import pandas as pd

REGION_KEY, INSTANCE_KEY = "region", "instance_id"


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
    place = {id(item): (one.name, value) for one in elements for value, item in one.items}
    table = _table(bundle.table(), annotations, [place[id(item)] for item in annotations.items])
    table["norm"] = [region.norm for region in results.regions]
    centroids = [(region.centroid[1] + 0.5, region.centroid[0] + 0.5) for region in results.regions]
    made = ad.AnnData(
        X=np.asarray(results.embeddings, np.float32),
        obs=table,
        obsm={"spatial": np.array(centroids, np.float64).reshape(-1, 2)},
    )
    made.var_names = [f"embedding_{number}" for number in range(made.n_vars)]
    names = [one.name for one in elements]
    made.uns["spatialdata_attrs"] = {
        "region": names[0] if len(names) == 1 else names,
        "region_key": REGION_KEY,
        "instance_key": INSTANCE_KEY,
    }
    made.uns["label_colors"] = [
        "#{:02x}{:02x}{:02x}".format(*color_of(annotations, label))
        for label in table["label"].cat.categories
    ]
    made.uns["napari-maskinversion"] = json.dumps(to_json_types(bundle.provenance()))
    return made


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
)
