"""One at a time: work on a folder or file that only one program can do, and who is doing it."""

from __future__ import annotations

import math
import os
import platform
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from time import monotonic
from typing import Final, Self

from .cache_folder import cache_folder, make_folder
from .errors import InUseError
from .progress import wait

_POLL: Final = 0.05  # seconds between two attempts
_PATIENCE: Final = 10.0  # seconds to wait for somebody who changes a small file


class Lock:
    """A lock of this program; the system releases it when the process ends, however it ends."""

    def __init__(self, path: Path, *, shared: bool = False) -> None:
        from filelock import FileLock

        # Taken in a worker thread, released in the GUI thread.
        self._lock = FileLock(path, thread_local=False, is_singleton=shared)
        self._holder = path.with_name(path.name + ".by")

    def acquire(self) -> bool:
        """Take the lock if nobody has it; return whether it is ours now."""
        from filelock import Timeout

        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            return False
        with suppress(OSError):  # a disk that is full
            self._holder.write_text(_myself(), encoding="utf-8")
        return True

    def wait(
        self,
        wanted: str,
        on_note: Callable[[str], object] | None = None,
        *,
        patience: float = math.inf,
    ) -> bool:
        """Take the lock; as long as another program has it, ask again and tick.

        The note of the ticks says who is waited for; ``on_note`` is called with it once. Returns
        whether the lock is ours now: False after ``patience`` seconds.
        """
        end = monotonic() + patience
        note = ""
        while not self.acquire():
            if monotonic() >= end:
                return False
            if not note:
                note = f"{wanted} is in use by {self.holder}; waiting until it is done."
                if on_note is not None:
                    on_note(note)
            wait(_POLL, note)
        return True

    @property
    def holder(self) -> str:
        """Who has the lock, in words."""
        try:
            return self._holder.read_text("utf-8").strip() or "another program"
        except (OSError, ValueError):
            return "another program"

    def release(self) -> None:
        """Let others have it."""
        with suppress(OSError):
            self._holder.unlink(missing_ok=True)
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def hold(path: Path, patience: float = 0.0, *, shared: bool = True) -> Lock | None:
    """Take the right to write to a file or folder; leaves nothing in its folder.

    Within this program several may have it, if it is ``shared``. None if the cache folder cannot be
    written to.
    """
    try:
        folder = cache_folder() / "locks"
        make_folder(folder)
        name = sha256(str(path.resolve()).encode("utf-8", "surrogatepass")).hexdigest()[:32]
        lock = Lock(folder / f"{name}.lock", shared=shared)
        taken = lock.wait(str(path), patience=patience)
    except OSError:
        return None
    if not taken:
        raise InUseError(
            f"{path} is being written by {lock.holder}; wait until it is done, or choose another "
            "place."
        )
    return lock


@contextmanager
def hold_alone(path: Path) -> Generator[None, None, None]:
    """Hold a file during a short change; wait for others, also for other threads."""
    lock = hold(path, _PATIENCE, shared=False)
    try:
        yield
    finally:
        if lock is not None:
            lock.release()


def _myself() -> str:
    command = "a program"
    if sys.argv:
        command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:2]])
    since = datetime.now().strftime("%H:%M")
    return f"process {os.getpid()} on {platform.node()} ({command[:60]}, since {since})"
