"""SAM's published checkpoints: what they are, whether they are here, fetching them. No torch."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal

from ...base.cache_folder import cache_folder, is_offline
from ...base.download import IsCancelled, OnProgress, Transfer, Wanted, sha256_of, take_turn
from ...base.errors import Cancelled, ModelError, OfflineError

_log = logging.getLogger(__name__)

_SERVER: Final = "https://dl.fbaipublicfiles.com/segment_anything/"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSpec:
    """A published checkpoint.

    Parameters
    ----------
    name : str
        What the user types: "vit_b".
    title : str
        One short line for a list.
    url : str
    size : int
        Bytes.
    sha256 : str
        64 hexadecimal digits.
    license : str
    """

    name: str
    title: str
    url: str
    size: int
    sha256: str
    license: str = "Apache-2.0"

    @property
    def file(self) -> str:
        """Name of the file."""
        return self.url.rpartition("/")[2]

    @property
    def path(self) -> Path:
        """Where it is, or would be, kept."""
        return checkpoint_folder() / self.file

    @property
    def size_text(self) -> str:
        """Size for people."""
        return f"{self.size / 1e6:.0f} MB" if self.size < 1e9 else f"{self.size / 1e9:.1f} GB"

    @property
    def here(self) -> bool:
        """Whether it is on this machine, complete. Quick: files get this name once verified."""
        try:
            return self.path.stat().st_size == self.size
        except OSError:
            return False

    @property
    def state(self) -> Literal["on disk", "to fetch"]:
        """Where it is."""
        return "on disk" if self.here else "to fetch"


_TABLE: Final = (
    CheckpointSpec(
        name="vit_b",
        title="SAM ViT-B: quickest, needs the least memory",
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
        title="SAM ViT-H: the authors' default; wants a GPU",
        url=f"{_SERVER}sam_vit_h_4b8939.pth",
        size=2_564_550_879,
        sha256="a7bf3b02f3ebf1267aba913ff637d9a2d5c33d3173bb679e46d9f338c26f262e",
    ),
)

CHECKPOINTS: Mapping[str, CheckpointSpec] = MappingProxyType({spec.name: spec for spec in _TABLE})


def checkpoint_folder() -> Path:
    """Return where fetched checkpoints are kept."""
    return cache_folder() / "sam"


def get_checkpoint(name: str) -> CheckpointSpec:
    """Return a published checkpoint by name.

    Raises
    ------
    ModelError
        If there is none of that name.
    """
    try:
        return CHECKPOINTS[name.lower().replace("-", "_")]
    except KeyError:
        raise ModelError(
            f"There is no SAM checkpoint called {name!r}; name a file, or one of "
            f"{', '.join(CHECKPOINTS)}."
        ) from None


def fetch_checkpoint(
    spec: CheckpointSpec,
    *,
    on_progress: OnProgress | None = None,
    cancelled: IsCancelled | None = None,
) -> Path:
    """Make sure that a published checkpoint is on this machine, and verified.

    What is there already is checked against its checksum and fetched again only if damaged. A
    download that was cancelled or broken off goes on where it stopped.

    Parameters
    ----------
    spec : CheckpointSpec
    on_progress : callable, optional
        Called with (bytes on disk, bytes in all), at most ten times a second and at the end.
    cancelled : callable, optional
        Asked many times a second; True stops the fetch.

    Raises
    ------
    ModelError
        If the server refuses, the disk is full or cannot be written, or what arrived is not the
        published file.
    OfflineError
        If it is not here and the network cannot or must not be used.
    Cancelled
        If `cancelled` said so.
    """
    report = on_progress or (lambda done, total: None)
    if _intact(spec):
        report(spec.size, spec.size)
        return spec.path
    if is_offline():
        raise _offline(spec, "offline mode is on")

    def check() -> None:
        if cancelled is not None and cancelled():
            raise Cancelled(
                f"Fetching {spec.file} was cancelled; what has arrived is kept, "
                "and the next fetch goes on from there."
            )

    folder = checkpoint_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with take_turn(folder / f".{spec.file}.lock", check):
            if not _intact(spec):  # another process may just have fetched it
                part = folder / f".{spec.file}.{spec.sha256[:16]}.part"
                _transfer(spec, report, check).fetch(part)
                part.replace(spec.path)
    except OSError as error:
        raise ModelError(
            f"Cannot write {spec.file} to {folder} ({error}); "
            "set NAPARI_MASKINVERSION_CACHE to a folder with room."
        ) from error
    report(spec.size, spec.size)
    return spec.path


def _transfer(spec: CheckpointSpec, report: OnProgress, check: Callable[[], None]) -> Transfer:
    wanted = Wanted(
        name=spec.file,
        url=spec.url,
        size=spec.size,
        sha256=spec.sha256,
        place=spec.file,
        server="The server",
        promised="the published file",
    )
    return Transfer(
        wanted, on_progress=report, check=check, offline=lambda why: _offline(spec, why)
    )


def _intact(spec: CheckpointSpec) -> bool:
    if not spec.here:
        return False
    if sha256_of(spec.path) == spec.sha256:
        return True
    _log.warning("%s is damaged and will be fetched again", spec.path)
    return False


def _offline(spec: CheckpointSpec, why: str) -> OfflineError:
    return OfflineError(
        f"{spec.file} ({spec.size_text}) is not complete on this machine and {why}; use a "
        "checkpoint file of your own, or none: boxes are then regions as they are."
    )
