"""Download a file: resumable, cancellable, verified, complete or not at all.

No client does all of this: pooch cannot resume or be cancelled; huggingface_hub 2.4 deletes what a
download that was cancelled has got so far, and reports and can be stopped only every 10 MB.
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
from .errors import ModelError, OfflineError
from .locks import Lock
from .progress import BYTES, tick

_log = logging.getLogger(__name__)

TIMEOUT: Final = 30.0  # seconds without a byte
_CHUNK: Final = 1 << 16  # bytes; small, so that cancelling works at once on a slow connection
_ATTEMPTS: Final = 3


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


def download(wanted: Download) -> Path:
    """Make sure that a file is on this machine and intact, and return its path.

    An existing file is checked against its checksum and downloaded again only if it is damaged. A
    download that was cancelled or interrupted resumes where it stopped.
    """
    try:
        file = wanted.local()
        if file is None or not file.is_intact():
            if is_offline():
                raise Unreachable("offline mode is on")
            file = _download_once(wanted)
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
    return file.path


def _download_once(wanted: Download) -> RemoteFile:
    folder = wanted.lock.parent
    make_folder(folder)
    with Lock(wanted.lock) as lock:
        lock.wait(wanted.name, _log.warning)
        file = wanted.local()
        if file is not None and file.is_intact():
            return file  # another process has just downloaded it
        file = wanted.remote()
        part = folder / f".{file.path.name}.{file.sha256[:16]}.part"
        for stale in set(folder.glob(f".{file.path.name}.*.part")) - {part}:
            stale.unlink()  # of another version of the file
        _complete(wanted.name, file, part)
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


def _complete(name: str, file: RemoteFile, part: Path) -> None:
    """Complete ``part``, trying again after broken connections."""
    import requests

    for attempt in range(1, _ATTEMPTS + 2):
        done = part.stat().st_size if part.exists() else 0
        tick(BYTES, done, file.size)
        if done >= file.size:
            return
        free = shutil.disk_usage(part.parent).free
        if file.size - done > free:
            raise ModelError(
                f"{name} needs {size_text(file.size - done)} more but {part.parent} has "
                f"{size_text(free)} free; free some space, or set {VARIABLE} to another folder."
            )
        if attempt > _ATTEMPTS:
            break
        try:
            _append(file, part, done)
        except requests.HTTPError as error:
            raise ModelError(f"The server refuses {name}: {one_line(error)}") from error
        except requests.RequestException as error:
            _log.info("attempt %d to download %s failed: %s", attempt, file.url, error)
            time.sleep(0.2 * attempt)
    raise Unreachable("the connection broke off")


def _append(file: RemoteFile, part: Path, done: int) -> None:
    """Request the missing bytes and append them to ``part``."""
    import requests

    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={done}-"} if done else {})
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
            done += output.write(chunk)
            tick(BYTES, done, file.size)
            if done >= file.size:  # what the server sends beyond that, the checksum refuses
                return


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
