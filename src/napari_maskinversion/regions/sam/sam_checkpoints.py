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
    announced_file,
    download,
    fetch_small_files,
    recorded_weights,
    size_text,
)
from ...base.errors import ModelError
from .folders import CONFIG, SAM2, WEIGHTS, check_folder, check_transformers, folder_of

_SERVER: Final = "https://dl.fbaipublicfiles.com/segment_anything/"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSpec:
    """A published checkpoint: a file, or a repository of the model hub."""

    name: str  # What users type: "vit_b"
    title: str  # One short line for a list
    size: int  # Bytes; approximate for a repository
    url: str = ""
    sha256: str = ""  # 64 hexadecimal digits
    repository: str = ""
    license: str = "Apache-2.0"

    @property
    def folder(self) -> Path:
        """Folder of the downloaded files."""
        folder = cache_folder() / "sam"
        if self.repository:
            return folder / self.name
        return folder

    @property
    def file(self) -> str:
        """File name."""
        if self.repository:
            return WEIGHTS
        return self.url.rpartition("/")[2]

    @property
    def path(self) -> Path:
        """Path of the downloaded weights, which may not exist yet."""
        return self.folder / self.file

    def local_file(self) -> RemoteFile | None:
        """Return the file for `download` as far as it is known without a request."""
        if not self.repository:
            return self.remote_file()
        whole = (self.folder / CONFIG).is_file()
        if whole:
            return recorded_weights(self.folder)
        return None

    def remote_file(self) -> RemoteFile:
        """Return the file for `download` as the server announces it; fetches what goes with it."""
        if not self.repository:
            return RemoteFile(url=self.url, path=self.path, size=self.size, sha256=self.sha256)
        fetch_small_files(self.repository, (CONFIG,), self.folder)
        return announced_file(self.repository, (WEIGHTS,), self.folder)

    @property
    def size_text(self) -> str:
        """Size as text."""
        return size_text(self.size)

    @property
    def is_on_disk(self) -> bool:
        """Whether the file is on this machine. Fast: only verified files have this name."""
        file = self.local_file()
        return file is not None and file.is_complete

    @property
    def state(self) -> Literal["on disk", "to fetch"]:
        """Whether the file must be downloaded."""
        if self.is_on_disk:
            return "on disk"
        return "to fetch"


def _hiera(size: str, title: str, megabytes: int) -> CheckpointSpec:
    name = f"sam2.1-hiera-{size}"
    return CheckpointSpec(
        name=name, title=title, size=megabytes * 1_000_000, repository=f"facebook/{name}"
    )


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
    _hiera("tiny", "SAM 2.1 tiny: faster than vit_b", 156),
    _hiera("small", "SAM 2.1 small", 184),
    _hiera("base-plus", "SAM 2.1 base plus", 323),
    _hiera("large", "SAM 2.1 large: the best outlines of SAM 2", 898),
)

CHECKPOINTS: Mapping[str, CheckpointSpec] = MappingProxyType({spec.name: spec for spec in _TABLE})


def get_checkpoint(name: str) -> CheckpointSpec:
    """Return a published checkpoint by name."""
    plain = _plain(name)
    if plain == "sam3":
        raise ModelError(
            "SAM 3 is not fetched: accept its licence on the page of facebook/sam3, download the "
            f"folder and copy it to {sam3_folder()}, or name it: find ... --checkpoint FOLDER."
        )
    for spec in CHECKPOINTS.values():
        if _plain(spec.name) == plain:
            if spec.repository:
                check_transformers(SAM2)
            return spec
    raise ModelError(
        f"There is no SAM checkpoint called {name!r}; pass the path of a file or folder, or one of "
        f"{', '.join(CHECKPOINTS)}."
    )


def is_checkpoint(name: str) -> bool:
    """Return whether this is the name of a SAM, and not that of a model."""
    return _plain(name) in {"sam3", *map(_plain, CHECKPOINTS)}


def _plain(name: str) -> str:
    return name.lower().removeprefix("facebook/").replace("-", "_")


def file_or_checkpoint(text: str, *, words: bool = False) -> Path | CheckpointSpec:
    """Return the file or folder of that path, or the published checkpoint of that name.

    ``words`` allows SAM 3, which takes nothing else.
    """
    path = Path(text).expanduser()
    if _plain(text) == "sam3" and not path.exists() and sam3_folder().is_dir():
        path = sam3_folder()
    if not path.exists():
        return get_checkpoint(text)
    folder = folder_of(path)
    if folder is not None:
        check_folder(folder, None if words else SAM2)
    return path


def sam3_folder() -> Path:
    """Return where SAM 3 is looked for."""
    return cache_folder() / "sam" / "sam3"


def on_disk(words: str | None = None) -> Path | None:
    """Return the first SAM on this machine, for words SAM 3 if it is there; None without any."""
    if words and sam3_folder().is_dir():
        return sam3_folder()
    return next((spec.path for spec in _TABLE if spec.is_on_disk), None)


def fetch_checkpoint(spec: CheckpointSpec) -> Path:
    """Make sure that a published checkpoint is on this machine and intact; return its path."""
    return download(
        Download(
            name=spec.name if spec.repository else spec.file,
            size=spec.size,
            lock=spec.path.with_name(f".{spec.file}.lock"),
            alternative="use a checkpoint file of your own, or none: each box is then a region",
            local=spec.local_file,
            remote=spec.remote_file,
        ),
    )
