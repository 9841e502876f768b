"""One file from a server into a folder: resumed, cancellable, verified, or not there at all."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from .errors import ModelError, OfflineError

OnProgress = Callable[[int, int], None]
IsCancelled = Callable[[], bool]

_log = logging.getLogger(__name__)

TIMEOUT: Final = 30.0  # seconds without a byte
_CHUNK: Final = 1 << 16  # small, so that cancel is felt at once on a slow line
_ATTEMPTS: Final = 3
_INTERVAL: Final = 0.1  # seconds between progress reports


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A file that is known before it arrives, and what messages call it.

    Parameters
    ----------
    name : str
        "ViT-B-16/openai".
    url : str
    size : int
        Bytes.
    sha256 : str
        64 hexadecimal digits.
    place : str
        What the server is asked for.
    server : str
        Who may refuse it; begins a sentence.
    promised : str
        What has to arrive: "what the model hub announced".
    """

    name: str
    url: str
    size: int
    sha256: str
    place: str
    server: str
    promised: str


class Transfer:
    """One fetch of one file.

    Parameters
    ----------
    wanted : Wanted
    on_progress : callable
        Called with (bytes on disk, bytes in all), at most ten times a second.
    check : callable
        Asked many times a second; an exception raised in it stops.
    offline : callable
        Makes the error for a network that is not there, of the reason.
    """

    def __init__(
        self,
        wanted: Wanted,
        *,
        on_progress: OnProgress,
        check: Callable[[], None],
        offline: Callable[[str], OfflineError],
    ) -> None:
        self.wanted = wanted
        self.on_progress = on_progress
        self.check = check
        self._offline = offline

    def fetch(self, part: Path) -> None:
        """Fetch into ``part``, going on where an earlier try stopped, and verify it.

        Raises
        ------
        ModelError
            If the server refuses, there is no room, or another file arrived, which is deleted.
        OfflineError
            If the connection breaks off again and again.
        """
        self._download(part)
        if sha256_of(part) != self.wanted.sha256:
            part.unlink()
            raise ModelError(
                f"What arrived for {self.wanted.name} is not {self.wanted.promised} "
                "(its checksum differs); it was thrown away. Fetch again."
            )

    def _download(self, part: Path) -> None:
        import requests

        wanted = self.wanted
        for attempt in range(1, _ATTEMPTS + 1):
            self.check()
            have = part.stat().st_size if part.exists() else 0
            if have == wanted.size:
                return
            if have > wanted.size:
                part.unlink()
                have = 0
            self._check_room(wanted.size - have, part.parent)
            try:
                self._transfer(part, have)
            except requests.HTTPError as error:
                raise ModelError(
                    f"{wanted.server} refuses {wanted.place}: {one_line(error)}"
                ) from error
            except requests.RequestException as error:
                _log.info("attempt %d to fetch %s broke off: %s", attempt, wanted.url, error)
                if attempt == _ATTEMPTS:
                    raise self._offline("the connection broke off") from error
                time.sleep(0.2 * attempt)
        if part.stat().st_size < wanted.size:
            raise self._offline("the connection broke off")

    def _transfer(self, part: Path, have: int) -> None:
        import pooch

        headers = {"Accept-Encoding": "identity"}
        if have:
            headers["Range"] = f"bytes={have}-"
        with part.open("ab") as file:
            bar = _Bar(self, file)
            get = pooch.HTTPDownloader(
                progressbar=bar, chunk_size=_CHUNK, headers=headers, timeout=TIMEOUT
            )
            get(self.wanted.url, file, None)

    def _check_room(self, needed: int, folder: Path) -> None:
        free = shutil.disk_usage(folder).free
        if needed > free:
            raise ModelError(
                f"{self.wanted.name} needs {_mb(needed)} more but {folder} has {_mb(free)} "
                "free; make room, or set NAPARI_MASKINVERSION_CACHE to another folder."
            )


class _Bar:
    """What pooch takes for a progress bar: reports, stops on cancel, notices a full restart."""

    def __init__(self, transfer: Transfer, file: IO[bytes]) -> None:
        self.transfer, self.file, self.size = transfer, file, transfer.wanted.size
        self._last = 0.0

    @property
    def total(self) -> int:
        return self.size

    @total.setter
    def total(self, announced: int) -> None:
        # Set to the length of the answer before its first byte is written. The whole file in
        # spite of a request for the rest: the server ignores ranges, so start over.
        if announced == self.size:
            self.file.truncate(0)

    def update(self, _: int) -> None:
        self.transfer.check()
        now = time.monotonic()
        if now - self._last >= _INTERVAL:
            self._last = now
            self.transfer.on_progress(min(self.file.tell(), self.size), self.size)

    def reset(self) -> None:
        """Nothing: the position in the file is the truth."""

    def close(self) -> None:
        """Nothing to close."""


def take_turn(lock: Path, check: Callable[[], None]) -> Any:
    """Wait until no other process holds a lock; an exception raised in ``check`` stops waiting."""
    from filelock import FileLock, Timeout

    held = FileLock(lock)
    while True:
        try:
            return held.acquire(timeout=0.5)
        except Timeout:
            check()


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file as 64 hexadecimal digits."""
    import pooch

    return str(pooch.file_hash(str(path), alg="sha256"))


def one_line(error: Exception) -> str:
    """Return what an error says, short and without line breaks."""
    return " ".join(str(error).split())[:200]


def _mb(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"
