"""``regions.csv``: the results table."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ...base.atomic_files import atomic_path
from .bundle import Bundle
from .export_format import ExportFormat


def write_csv(bundle: Bundle, path: Path) -> None:
    """Write the table as CSV in UTF-8 with every digit."""
    with atomic_path(path) as part:
        bundle.table().to_csv(part, index=False, lineterminator="\n")


FORMATS: Final = (ExportFormat("csv", "Table (.csv)", "regions.csv", write_csv),)
