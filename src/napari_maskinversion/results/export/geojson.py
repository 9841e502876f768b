"""``regions.geojson``: outlines, in the world and in pixels."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ...regions.annotations.geojson import write_geojson
from .annotations import to_annotations
from .bundle import Bundle
from .export_format import ExportFormat


def write_world(bundle: Bundle, path: Path) -> None:
    """Write outlines in world coordinates; in pixels where the image has no georeference."""
    annotations = to_annotations(bundle)
    write_geojson(annotations, path, world=annotations.geo is not None)


def write_pixels(bundle: Bundle, path: Path) -> None:
    """Write outlines in pixels."""
    write_geojson(to_annotations(bundle), path)


FORMATS: Final = (
    ExportFormat("geojson", "GeoJSON (.geojson)", "regions.geojson", write_world),
    ExportFormat(
        "qupath",
        "GeoJSON in pixels, for QuPath (.geojson)",
        "regions_pixels.geojson",
        write_pixels,
    ),
)
