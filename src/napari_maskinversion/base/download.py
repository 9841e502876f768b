"""Download a file: resumable, cancellable, verified, complete or not at all.

No client does all of this: pooch cannot resume or be cancelled; huggingface_hub 2.4 deletes what a
download that was cancelled has got so far, and reports and can be stopped only every 10 MB.
open_clip queries the hub at every load; here it is queried once, and a record of what it announced
lies next to the file: afterwards a model loads without a network.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field, NonNegativeInt

from .atomic_files import write_whole
from .cache_folder import VARIABLE, is_offline, make_folder
from .errors import InputError, ModelError, OfflineError
from .locks import Lock
from .progress import BYTES, tick, wait
from .reading import read_json, sha256_of, validated
from .wording import one_line

_log = logging.getLogger(__name__)

TIMEOUT: Final = 30.0  # seconds without a byte
_INTERVAL: Final = 0.1  # seconds from one tick to the next
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
        size = ""
        if wanted.size:
            size = f" ({size_text(wanted.size)})"
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
        done = 0
        if part.exists():
            done = part.stat().st_size
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
            raise ModelError(f"The server refuses {name}: {one_line(error)[:200]}") from error
        except requests.RequestException as error:
            _log.info("attempt %d to download %s failed: %s", attempt, file.url, error)
            wait(0.2 * attempt, f"The connection for {name} broke off; trying again.")
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
        last_tick = 0.0
        for chunk in answer.iter_content(_CHUNK):
            done += output.write(chunk)
            if time.monotonic() - last_tick > _INTERVAL or done >= file.size:
                tick(BYTES, done, file.size)
                last_tick = time.monotonic()
            if done >= file.size:  # what the server sends beyond that, the checksum refuses
                return


def size_text(size: int) -> str:
    """Return a size in bytes as text: ``"599 MB"``, ``"2.6 GB"``."""
    if size < 1e9:
        return f"{size / 1e6:.0f} MB"
    return f"{size / 1e9:.1f} GB"


# -- the model hub ----------------------------------------------------------------------------

RECORD: Final = "source.json"  # lies next to the file


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsRecord:
    """Source, size and checksum of a weights file, as the hub announced them."""

    repository: str
    file: Annotated[str, Field(pattern=r"^[\w.-]+$")]
    size: NonNegativeInt
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    commit: str = ""

    def remote_file(self, folder: Path, url: str = "") -> RemoteFile:
        """Return the file in a folder for `download`."""
        content = json.dumps(asdict(self), indent=2) + "\n"
        return RemoteFile(
            url=url,
            path=folder / self.file,
            size=self.size,
            sha256=self.sha256,
            record=(folder / RECORD, content.encode()),
        )


def recorded_weights(folder: Path) -> RemoteFile | None:
    """Read the record next to downloaded weights; None if there is none or it is damaged."""
    try:
        path = folder / RECORD
        return validated(WeightsRecord, read_json(path), path).remote_file(folder)
    except InputError:
        return None


def hub_url(repository: str, file: str) -> str:
    """Return the address of a file on the model hub."""
    from huggingface_hub import hf_hub_url

    endpoint = os.environ.get("HF_ENDPOINT", "").rstrip("/") or None
    return hf_hub_url(repository, file, endpoint=endpoint)


def announced_file(repository: str, files: Sequence[str], folder: Path) -> RemoteFile:
    """Query the hub for the first of these files that a repository has; it goes into ``folder``."""
    for file in files:
        metadata = _metadata(repository, file)
        if metadata is None:
            continue
        if metadata.size is None or not re.fullmatch("[0-9a-f]{64}", metadata.etag or ""):
            raise ModelError(
                f"The model hub announces no checksum for {file} of {repository}; "
                "weights that cannot be verified are not loaded."
            )
        record = WeightsRecord(
            repository=repository,
            file=Path(file).name,
            size=metadata.size,
            sha256=str(metadata.etag),
            commit=metadata.commit_hash or "",
        )
        return record.remote_file(folder, hub_url(repository, file))
    raise ModelError(f"{repository} has no weights ({' or '.join(files)}).")


def fetch_small_files(repository: str, files: Sequence[str], folder: Path) -> None:
    """Download those of these files that a repository has and a folder lacks, each one verified.

    They are read whole: configurations and tokenizers, not weights.
    """
    import requests

    for file in files:
        if (folder / file).exists():
            continue
        if is_offline():
            raise Unreachable("offline mode is on")
        metadata = _metadata(repository, file)
        if metadata is None:
            continue
        try:
            answer = requests.get(hub_url(repository, file), timeout=TIMEOUT)
            answer.raise_for_status()
        except requests.RequestException as error:
            raise Unreachable("the connection broke off") from error
        content = answer.content
        # Large files are announced by SHA-256, others by git's name for their content.
        blob = f"blob {len(content)}\0".encode() + content
        checksums = {hashlib.sha256(content).hexdigest(), hashlib.sha1(blob).hexdigest()}
        if metadata.etag not in checksums:
            raise ModelError(
                f"The checksum of {file} of {repository} differs from the published one; try again."
            )
        make_folder(folder)
        write_whole(folder / file, content)


def _metadata(repository: str, file: str) -> Any:
    """Return what the hub announces about a file; None if the repository does not have it."""
    from huggingface_hub import get_hf_file_metadata
    from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError

    try:
        # No token: these files are public, and a stale token would be refused.
        return get_hf_file_metadata(hub_url(repository, file), token=False, timeout=TIMEOUT)
    except EntryNotFoundError:
        return None
    except HfHubHTTPError as error:
        way = ""
        if error.response is not None and error.response.status_code in (401, 403):
            way = (
                "; if its licence must be accepted first, do so on its page, download the files "
                "yourself and name the file or folder as the model"
            )
        why = one_line(error)[:200]
        raise ModelError(f"The model hub refuses {repository}{way} ({why}).") from error
    except Exception as error:  # its type depends on the version of the hub client
        raise Unreachable("the model hub cannot be reached") from error
