"""Where a model's weights are on disk, and the record written beside them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ...base.cache_folder import cache_folder
from .specs import WEIGHTS_FILE, ModelSpec, bundled_folder

RECORD: Final = "source.json"


def model_folder(spec: ModelSpec) -> Path:
    """Return where the weights of a model that is not bundled are, or would be, kept."""
    return cache_folder() / "models" / spec.name.replace("/", "--")


def weights_on_disk(spec: ModelSpec) -> Path | None:
    """Return the complete weights file of a model, or None. Quick: looks at sizes only."""
    if spec.bundled:
        return bundled_folder() / WEIGHTS_FILE
    record = read_record(spec)
    if record is None:
        return None
    path = model_folder(spec) / record.file
    try:
        return path if path.stat().st_size == record.size else None
    except OSError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What is known of a weights file: written beside it, and asked of the hub before."""

    repository: str
    file: str
    size: int
    sha256: str
    commit: str = ""


def read_record(spec: ModelSpec) -> Record | None:
    """Return what is written beside the weights of a model; None if there is nothing whole."""
    try:
        values = json.loads((model_folder(spec) / RECORD).read_text("utf-8"))
        return Record(**values)
    except (OSError, ValueError, TypeError):
        return None
