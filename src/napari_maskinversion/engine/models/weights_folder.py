"""The folder of a model's weights, and the record written next to them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from ...base.cache_folder import cache_folder
from ...base.download import RemoteFile
from .specs import WEIGHTS_FILE, ModelSpec, bundled_folder

RECORD: Final = "source.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsRecord:
    """Source, size and checksum of a weights file, as the hub announced them."""

    repository: str
    file: str
    size: int
    sha256: str
    commit: str = ""

    def remote_file(self, spec: ModelSpec, url: str = "") -> RemoteFile:
        """Return the file for `download`."""
        folder = model_folder(spec)
        content = json.dumps(asdict(self), indent=2) + "\n"
        return RemoteFile(
            url=url,
            path=folder / self.file,
            size=self.size,
            sha256=self.sha256,
            record=(folder / RECORD, content.encode()),
        )


def model_folder(spec: ModelSpec) -> Path:
    """Return the folder for the weights of a model that is not bundled."""
    return cache_folder() / "models" / folder_name(spec)


def folder_name(spec: ModelSpec) -> str:
    """Return the name of that folder in the cache folder."""
    return spec.name.replace("/", "--")


def weights_on_disk(spec: ModelSpec) -> Path | None:
    """Return the complete weights file of a model, or None. Fast: checks sizes only."""
    if spec.bundled:
        return bundled_folder() / WEIGHTS_FILE
    record = read_record(spec)
    if record is None:
        return None
    file = record.remote_file(spec)
    return file.path if file.is_complete else None


def read_record(spec: ModelSpec) -> WeightsRecord | None:
    """Read the record next to the weights of a model; None if there is none or it is damaged."""
    try:
        values = json.loads((model_folder(spec) / RECORD).read_text("utf-8"))
        return WeightsRecord(**values)
    except (OSError, ValueError, TypeError):
        return None
