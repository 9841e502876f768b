"""The file beside an image that holds the decisions about its regions; see docs/review.md."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from heapq import merge
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..base.atomic_files import atomic_path
from ..base.cache_folder import cache_folder
from ..base.errors import InputError, InUseError, NotSavedError
from ..base.identity import ImageIdentity
from .decision_log import Contents, Entry, Run, read, write_entries, write_line

if TYPE_CHECKING:
    from filelock import BaseFileLock

ENDING: Final = ".maskinversion.jsonl"
_FLAGS: Final = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)


def sidecar_beside(image: Path) -> Path:
    """Return where decisions about an image file or zarr folder lie: IMAGE.maskinversion.jsonl."""
    return image.with_name(image.name + ENDING)


def sidecar_in_cache(image: Path | None, identity: ImageIdentity) -> Path:
    """Return where they lie if the image's folder cannot be written to, or there is no file.

    ``review/NAME-DIGITS.maskinversion.jsonl`` under the cache folder; the digits are of the full
    path, or of the pixels where there is no file.
    """
    if image is None:
        name, digits = identity.name, identity.content
    else:
        name = image.name
        digits = hashlib.blake2b(str(image.absolute()).encode("utf-8", "surrogatepass")).hexdigest()
    plain = "".join(c if c.isalnum() or c in "-_. " else "_" for c in name)[:80] or "image"
    return cache_folder() / "review" / f"{plain}-{digits[:12]}{ENDING}"


class DecisionFile:
    """One file of decisions, open for this program alone.

    Parameters
    ----------
    image : Path or None
        The image file; None for pixels without one.
    identity : ImageIdentity

    Attributes
    ----------
    path : Path
        Where decisions are written; made with the first of them.
    runs : tuple of Run
        What was there at the start, by time: beside the image and in the cache folder.
    notes : list of str
        What the user should know about the file.

    Raises
    ------
    InUseError
        If another window or program has it open.
    InputError
        If the file is none of ours, or of a newer version. It is left as it is.
    """

    def __init__(self, image: Path | None, identity: ImageIdentity) -> None:
        cached = sidecar_in_cache(image, identity)
        beside = None if image is None else sidecar_beside(image)
        self.notes: list[str] = []
        self.path = cached
        if beside is not None:
            refusal = _refusal(beside)
            if refusal:
                self.notes.append(f"{beside.parent} cannot be written to ({refusal}).")
            else:
                self.path = beside
        if self.path == cached:
            self.notes.append(f"Decisions are saved in {cached}.")
        self._lock = _lock(self.path)
        try:
            found = []
            for path in (beside, cached):
                if path is not None:
                    contents = self._look(path)
                    found.append(contents.runs)
                    if path == self.path:
                        self._end(contents)
            # Each file's own order stands, whatever the clock did meanwhile.
            self.runs = tuple(merge(*found, key=lambda run: run.time))
            self._left = _state(self.path)
        except BaseException:
            self._lock.release()
            raise
        self._header = b""
        self._doubtful = False

    def begin(self, header: bytes) -> None:
        """Put a header before what is appended next."""
        self._header = header

    def append(self, lines: bytes, everything: Callable[[], bytes]) -> None:
        """Write lines to the disk; they are safe when this returns.

        Parameters
        ----------
        lines : bytes
        everything : callable
            Gives a header and all that is known, for a file that is no longer as we left it:
            deleted, or changed by someone else.

        Raises
        ------
        NotSavedError
            If that fails; names the file. Nothing of the lines is left in it.
        """
        try:
            self._write(lines, everything)
        except OSError as error:
            raise NotSavedError(
                f"The decision is not saved yet: {self.path} could not be written "
                f"({error.strerror or error}). It is kept, and written with the next one; make "
                "room, or export the results elsewhere."
            ) from error
        except InputError as error:
            raise NotSavedError(f"The decision is not saved yet: {error}") from error

    def compact(self) -> int:
        """Rewrite the file with the last state of each region alone; whole or not at all.

        What was decided before and undone is forgotten. Returns the lines that went.

        Raises
        ------
        InputError
            If the file cannot be written, or holds lines that cannot be read.
        """
        if not self.path.exists():
            return 0
        contents = read(self.path.read_bytes(), str(self.path))
        if contents.damaged:
            raise InputError(
                f"{self.path} holds {contents.damaged} lines that cannot be read; "
                "it was left as it is."
            )
        kept = _last_states(contents.runs)
        with atomic_path(self.path) as part, part.open("wb") as file:
            for number, run in enumerate(contents.runs):
                if kept[number] or number == len(contents.runs) - 1:
                    file.write(write_line(run.header) + write_entries(kept[number]))
            file.flush()
            os.fsync(file.fileno())
        _sync_folder(self.path.parent)
        self._left, self._doubtful = _state(self.path), False
        self._end(read(self.path.read_bytes(), str(self.path)))
        return sum(len(run.entries) for run in contents.runs) - sum(map(len, kept))

    def close(self) -> None:
        """Let others open the file."""
        self._lock.release()

    def _look(self, path: Path) -> Contents:
        try:
            contents = read(path.read_bytes(), str(path))
        except FileNotFoundError:
            return Contents()
        except OSError as error:
            raise InputError(f"{path} cannot be read ({error.strerror}).") from error
        if contents.torn:
            self.notes.append(f"The last line of {path.name} was cut off and dropped.")
        if contents.damaged:
            count = contents.damaged
            self.notes.append(
                f"{count} line{'s' * (count > 1)} of {path.name} could not be read; "
                "the others were used, the file was left as it is."
            )
        return contents

    def _end(self, contents: Contents) -> None:
        """Remember where whole lines end, and what has to come before the next."""
        self._whole = contents.end
        self._break = b"" if contents.ended else b"\n"

    def _write(self, lines: bytes, everything: Callable[[], bytes]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        made = not self.path.exists()
        file = os.open(self.path, _FLAGS, 0o666)
        try:
            about = os.fstat(file)
            # After a failure the size alone says nothing: some of the lines may be there.
            as_left = self._left is None if made else self._left == (about.st_ino, about.st_size)
            ours = self._doubtful and self._left is not None and self._left[0] == about.st_ino
            if as_left or ours:
                data = self._header + lines
            else:
                self._end(read(self.path.read_bytes(), str(self.path)))
                data = everything()
            if about.st_size > self._whole:
                os.ftruncate(file, self._whole)
            data = self._break + data
            try:
                _write_all(file, data)
                os.fsync(file)
            except OSError:
                self._doubtful, self._left = True, (about.st_ino, self._whole)
                with suppress(OSError):
                    os.ftruncate(file, self._whole)
                raise
            self._whole += len(data)
            self._left, self._doubtful = (about.st_ino, self._whole), False
            self._header = self._break = b""
        finally:
            os.close(file)
        if made:
            _sync_folder(self.path.parent)


def _last_states(runs: tuple[Run, ...]) -> list[list[Entry]]:
    last: dict[Any, tuple[int, Entry]] = {}
    for number, run in enumerate(runs):
        image = (run.image.shape, run.image.dtype, run.image.content)
        for entry in run.entries:
            last.pop(name := (image, entry.region.mask, entry.region.key), None)
            last[name] = (number, Entry("keep", entry.step, entry.region, entry.state))
    kept: list[list[Entry]] = [[] for _ in runs]
    for number, entry in last.values():
        kept[number].append(entry)
    return kept


def _refusal(path: Path) -> str:
    """Say why a file cannot be written; empty if it can. Leaves nothing behind."""
    try:
        # Also where the file is there: the lock is a file beside it.
        with tempfile.TemporaryFile(dir=path.parent):
            pass
        if path.exists():
            os.close(os.open(path, os.O_RDWR | os.O_APPEND))
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _lock(path: Path) -> BaseFileLock:
    from filelock import FileLock, Timeout

    # Opened in a worker, closed by the window.
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path.with_name(f".{path.name}.lock"), timeout=0, thread_local=False)
        lock.acquire()
    except Timeout:
        raise InUseError(
            f"Decisions about this image are being made in another window or program: {path} is "
            "in use. Close the review there first."
        ) from None
    except OSError as error:
        raise InputError(
            f"{path.parent} cannot be written to ({error.strerror}); decisions have no place."
        ) from None
    return lock


def _state(path: Path) -> tuple[int, int] | None:
    try:
        about = path.stat()
    except OSError:
        return None
    return about.st_ino, about.st_size


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def _sync_folder(folder: Path) -> None:
    """Make a new name in a folder survive a power cut; not every system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
