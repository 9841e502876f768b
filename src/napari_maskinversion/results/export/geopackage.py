"""``regions.gpkg``: outlines for maps, with the image's reference system."""

from __future__ import annotations

import json
import tempfile
import warnings
from contextvars import copy_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ...base.atomic_files import atomic_path
from ...regions.annotations.annotation import Annotations
from ...regions.annotations.json_files import to_json_types
from ...regions.annotations.polygons import outline
from ...regions.crs import PROJ_THREAD, to_world
from .annotations import to_annotations
from .bundle import Bundle, ExportFormat
from .label_pyramid import NAME

if TYPE_CHECKING:
    import geopandas as gpd
    import pandas as pd


def write_geopackage(bundle: Bundle, path: Path) -> None:
    """Write a layer ``regions``: outlines, labels, and the columns of the table.

    In world coordinates where the image has a georeference; else in pixels, without a reference
    system.
    """
    # With the context, which knows the set of files that the file belongs to.
    PROJ_THREAD.submit(copy_context().run, _write, bundle, path).result()


def _write(bundle: Bundle, path: Path) -> None:
    annotations = to_annotations(bundle)
    table = _outlines(annotations, bundle.table())
    about = json.dumps(to_json_types(bundle.provenance()))
    # Its writer asks for the ending and keeps a journal beside the file.
    with (
        atomic_path(path) as part,
        tempfile.TemporaryDirectory(dir=part.parent) as folder,
        warnings.catch_warnings(),
    ):
        # Pixels have no reference system.
        warnings.filterwarnings("ignore", "'crs' was not provided")
        file = Path(folder) / "regions.gpkg"
        try:
            table.to_file(
                file,
                layer=NAME,
                driver="GPKG",
                engine="pyogrio",
                layer_metadata={"napari-maskinversion": about},
            )
        except RuntimeError as error:  # of GDAL, which says what failed last, not why
            raise OSError("GDAL could not write it; the disk may be full") from error
        file.replace(part)


def _outlines(annotations: Annotations, table: pd.DataFrame) -> gpd.GeoDataFrame:
    """Return the outlines of regions with their columns."""
    import geopandas as gpd

    geo = annotations.geo
    shapes: list[Any] = [outline(item.region) for item in annotations.items]
    table.insert(1, "label", [item.label for item in annotations.items])
    table.insert(2, "score", [item.score for item in annotations.items])
    return gpd.GeoDataFrame(
        table,
        geometry=[to_world(shape, geo) for shape in shapes] if geo else shapes,
        crs=f"EPSG:{geo.epsg}" if geo and geo.epsg else None,
    )


FORMATS: Final = (
    ExportFormat(
        "geopackage",
        "GeoPackage, for QGIS (.gpkg)",
        "regions.gpkg",
        write_geopackage,
        needs=("geopandas", "pyogrio"),
    ),
)
