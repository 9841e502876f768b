"""Download a file: resumable, cancellable, verified, complete or not at all.

Neither ``pooch.retrieve`` nor ``huggingface_hub.hf_hub_download`` does all of this: pooch cannot
resume or be cancelled, and the hub client cannot be cancelled and does not verify checksums.
"""

from __future__ import annotations

import hashlib
import logging
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .atomic_files import write_whole
from .cache_folder import VARIABLE, is_offline, make_folder
from .errors import Cancelled, ModelError, OfflineError
from .locks import Lock

OnProgress = Callable[[int, int], None]
IsCancelled = Callable[[], bool]

_log = logging.getLogger(__name__)

TIMEOUT: Final = 30.0  # seconds without a byte
_CHUNK: Final = 1 << 16  # bytes; small, so that cancelling works at once on a slow connection
_ATTEMPTS: Final = 3
_INTERVAL: Final = 0.1  # seconds between progress reports


class Unreachable(Exception):
    """The server cannot be reached, or the connection broke; becomes an `OfflineError`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteFile:
    """A file whose size and checksum are known before it is downloaded."""

    url: str
    path: Path  # Where it is stored
    size: int  # Bytes
    sha256: str  # 64 hexadecimal digits
    # A second file, written once the first one is verified and before it gets its name
    record: tuple[Path, bytes] | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the file is on this machine in full size. Fast: does not read it."""
        try:
            return self.path.stat().st_size == self.size
        except OSError:
            return False

    def is_intact(self) -> bool:
        """Return whether the file is on this machine and its checksum is correct."""
        if not self.is_complete:
            return False
        if sha256_of(self.path) == self.sha256:
            return True
        _log.warning("%s is damaged and will be downloaded again", self.path)
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    """What to download, and how messages describe it."""

    name: str  # "ViT-B-16/openai"
    size: int  # Approximate size in bytes; 0 if unknown
    # Lock file: if two processes need the same file, the second one waits and does not download it
    # again
    lock: Path
    alternative: str  # What users can do without the file: "use the bundled model 'demo'"
    # Returns the file as recorded on this machine, or None; sends no request
    local: Callable[[], RemoteFile | None]
    # Returns the file as the server announces it; raises `Unreachable` or `ModelError`
    remote: Callable[[], RemoteFile]


def download(
    wanted: Download,
    *,
    on_progress: OnProgress | None = None,
    cancelled: IsCancelled | None = None,
) -> Path:
    """Make sure that a file is on this machine and intact, and return its path.

    An existing file is checked against its checksum and downloaded again only if it is damaged. A
    download that was cancelled or interrupted resumes where it stopped.
    """
    report = on_progress or (lambda done, total: None)

    def check_cancelled() -> None:
        if cancelled is not None and cancelled():
            raise Cancelled(
                f"The download of {wanted.name} was cancelled; the next one resumes from there."
            )

    try:
        file = wanted.local()
        if file is None or not file.is_intact():
            if is_offline():
                raise Unreachable("offline mode is on")
            file = _download_once(wanted, report, check_cancelled)
    except Unreachable as error:
        size = f" ({size_text(wanted.size)})" if wanted.size else ""
        raise OfflineError(
            f"{wanted.name}{size} is not complete on this machine and {error}; "
            f"{wanted.alternative}."
        ) from error
    except OSError as error:
        raise ModelError(
            f"Cannot write {wanted.name} to {wanted.lock.parent} ({error}); "
            f"set {VARIABLE} to a folder with free space."
        ) from error
    report(file.size, file.size)
    return file.path


def _download_once(
    wanted: Download, report: OnProgress, check_cancelled: Callable[[], None]
) -> RemoteFile:
    folder = wanted.lock.parent
    make_folder(folder)
    with Lock(wanted.lock) as lock:
        for _ in lock.wait_steps(wanted.name, _log.warning):
            check_cancelled()
        file = wanted.local()
        if file is not None and file.is_intact():
            return file  # another process has just downloaded it
        file = wanted.remote()
        part = folder / f".{file.path.name}.{file.sha256[:16]}.part"
        for stale in set(folder.glob(f".{file.path.name}.*.part")) - {part}:
            stale.unlink()  # of another version of the file
        _download_part(wanted.name, file, part, report, check_cancelled)
        if sha256_of(part) != file.sha256:
            part.unlink()
            raise ModelError(
                f"The checksum of {wanted.name} differs from the published one; the file was "
                "deleted. Download it again."
            )
        if file.record is not None:
            write_whole(*file.record)
        part.replace(file.path)
        return file


def _download_part(
    name: str, file: RemoteFile, part: Path, report: OnProgress, check_cancelled: Callable[[], None]
) -> None:
    """Complete ``part``, trying again after broken connections."""
    import requests

    for attempt in range(1, _ATTEMPTS + 1):
        check_cancelled()
        done = part.stat().st_size if part.exists() else 0
        if done > file.size:
            part.unlink()
            done = 0
        if done == file.size:
            return
        _check_room(name, file.size - done, part.parent)
        try:
            _append(name, file, part, done, report, check_cancelled)
        except requests.HTTPError as error:
            raise ModelError(f"The server refuses {name}: {one_line(error)}") from error
        except requests.RequestException as error:
            _log.info("attempt %d to download %s failed: %s", attempt, file.url, error)
            time.sleep(0.2 * attempt)
    if not part.exists() or part.stat().st_size < file.size:
        raise Unreachable("the connection broke off")


def _append(
    name: str,
    file: RemoteFile,
    part: Path,
    done: int,
    report: OnProgress,
    check_cancelled: Callable[[], None],
) -> None:
    """Request the missing bytes and append them to ``part``."""
    import requests

    headers = {"Accept-Encoding": "identity"}
    if done:
        headers["Range"] = f"bytes={done}-"
    reported = 0.0
    with (
        requests.get(file.url, headers=headers, timeout=TIMEOUT, stream=True) as answer,
        part.open("ab") as output,
    ):
        answer.raise_for_status()
        if done and answer.status_code != requests.codes.partial:
            # The server ignores ranges and sends the whole file.
            output.truncate(0)
            done = 0
        for chunk in answer.iter_content(_CHUNK):
            done += len(chunk)
            if done > file.size:
                raise ModelError(
                    f"The server sends more than the {size_text(file.size)} announced for {name}; "
                    "try again later."
                )
            output.write(chunk)
            check_cancelled()
            now = time.monotonic()
            if now - reported >= _INTERVAL:
                reported = now
                report(done, file.size)


def _check_room(name: str, needed: int, folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise ModelError(
            f"{name} needs {size_text(needed)} more but {folder} has {size_text(free)} free; free "
            f"some space, or set {VARIABLE} to another folder."
        )


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file as 64 hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def one_line(error: Exception) -> str:
    """Return the message of an error, short and without line breaks."""
    return " ".join(str(error).split())[:200]


def size_text(size: int) -> str:
    """Return a size in bytes as text: ``"599 MB"``, ``"2.6 GB"``."""
    return f"{size / 1e6:.0f} MB" if size < 1e9 else f"{size / 1e9:.1f} GB"
