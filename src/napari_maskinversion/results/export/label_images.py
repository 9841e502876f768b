"""``labels.tif``: label images of regions and of classes, and the list of both."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ...regions.annotations.label_maps import map_files, write_label_maps
from .annotations import to_annotations
from .bundle import Bundle
from .export_format import ExportFormat


def write_label_images(bundle: Bundle, path: Path) -> None:
    """Write the label images and their JSON list."""
    write_label_maps(to_annotations(bundle), path)


FORMATS: Final = (
    ExportFormat(
        "masks",
        "Label images: regions and classes (.tif)",
        "labels.tif",
        write_label_images,
        more_files=lambda path: map_files(path)[1:],
    ),
)
