"""SAM's published checkpoints and their download. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal

from ...base.cache_folder import cache_folder
from ...base.download import (
    Download,
    RemoteFile,
    download,
    size_text,
)
from ...base.errors import ModelError

_SERVER: Final = "https://dl.fbaipublicfiles.com/segment_anything/"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSpec:
    """A published checkpoint."""

    name: str  # What users type: "vit_b"
    title: str  # One short line for a list
    url: str
    size: int  # Bytes
    sha256: str  # 64 hexadecimal digits
    license: str = "Apache-2.0"

    @property
    def file(self) -> str:
        """File name."""
        return self.url.rpartition("/")[2]

    @property
    def path(self) -> Path:
        """Path of the downloaded file, which may not exist yet."""
        return cache_folder() / "sam" / self.file

    @property
    def remote_file(self) -> RemoteFile:
        """The file for `download`."""
        return RemoteFile(url=self.url, path=self.path, size=self.size, sha256=self.sha256)

    @property
    def size_text(self) -> str:
        """Size as text."""
        return size_text(self.size)

    @property
    def is_on_disk(self) -> bool:
        """Whether the file is on this machine. Fast: only verified files have this name."""
        return self.remote_file.is_complete

    @property
    def state(self) -> Literal["on disk", "to fetch"]:
        """Whether the file has to be downloaded."""
        return "on disk" if self.is_on_disk else "to fetch"


_TABLE: Final = (
    CheckpointSpec(
        name="vit_b",
        title="SAM ViT-B: fastest, needs the least memory",
        url=f"{_SERVER}sam_vit_b_01ec64.pth",
        size=375_042_383,
        sha256="ec2df62732614e57411cdcf32a23ffdf28910380d03139ee0f4fcbe91eb8c912",
    ),
    CheckpointSpec(
        name="vit_l",
        title="SAM ViT-L: better outlines, slower",
        url=f"{_SERVER}sam_vit_l_0b3195.pth",
        size=1_249_524_607,
        sha256="3adcc4315b642a4d2101128f611684e8734c41232a17c648ed1693702a49a622",
    ),
    CheckpointSpec(
        name="vit_h",
        title="SAM ViT-H: the authors' default; needs a GPU",
        url=f"{_SERVER}sam_vit_h_4b8939.pth",
        size=2_564_550_879,
        sha256="a7bf3b02f3ebf1267aba913ff637d9a2d5c33d3173bb679e46d9f338c26f262e",
    ),
)

CHECKPOINTS: Mapping[str, CheckpointSpec] = MappingProxyType({spec.name: spec for spec in _TABLE})


def get_checkpoint(name: str) -> CheckpointSpec:
    """Return a published checkpoint by name."""
    try:
        return CHECKPOINTS[name.lower().replace("-", "_")]
    except KeyError:
        raise ModelError(
            f"There is no SAM checkpoint called {name!r}; pass the path of a file, or one of "
            f"{', '.join(CHECKPOINTS)}."
        ) from None


def file_or_checkpoint(text: str) -> Path | CheckpointSpec:
    """Return the file of that path, or the published checkpoint of that name."""
    path = Path(text).expanduser()
    return path if path.is_file() else get_checkpoint(text)


def on_disk() -> Path | None:
    """Return the file of the first published checkpoint on this machine; None without any."""
    return next((spec.path for spec in _TABLE if spec.is_on_disk), None)


def fetch_checkpoint(
    spec: CheckpointSpec,
) -> Path:
    """Make sure that a published checkpoint is on this machine and intact; return its path."""
    return download(
        Download(
            name=spec.file,
            size=spec.size,
            lock=spec.path.with_name(f".{spec.file}.lock"),
            alternative="use a checkpoint file of your own, or none: each box is then a region",
            local=lambda: spec.remote_file,
            remote=lambda: spec.remote_file,
        ),
    )
