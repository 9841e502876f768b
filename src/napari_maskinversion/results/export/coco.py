"""``coco.json``: masks, boxes, labels, scores and the table's columns as attributes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ...regions.annotations import coco_writing
from .annotations import to_annotations
from .bundle import Bundle
from .export_format import ExportFormat


def write_coco(bundle: Bundle, path: Path) -> None:
    """Write COCO instances, with run lengths or polygons as the bundle says."""
    coco_writing.write_coco(to_annotations(bundle), path, polygons=bundle.polygons)


FORMATS: Final = (ExportFormat("coco", "COCO (.json)", "coco.json", write_coco),)
