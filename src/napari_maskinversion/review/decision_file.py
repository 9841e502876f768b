"""The file next to an image with the decisions about its regions; see docs/reference/formats.md."""

from __future__ import annotations

import errno
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from heapq import merge
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..base.atomic_files import recover
from ..base.cache_folder import cache_folder
from ..base.errors import InputError, InUseError, NotSavedError
from ..base.identity import ImageIdentity
from ..base.reading import check_kind, is_address
from .decision_log import Contents, Run, read

if TYPE_CHECKING:
    from filelock import BaseFileLock

SUFFIX: Final = ".maskinversion.jsonl"
_DIGITS: Final = 12
_LONGEST: Final = 255 - len(f".-{'0' * _DIGITS}{SUFFIX}.lock")  # bytes, so that the lock has a name
_FLAGS: Final = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)


def path_next_to(image: Path) -> Path:
    """Return the decision file of an image file or zarr folder: IMAGE.maskinversion.jsonl."""
    return image.with_name(image.name + SUFFIX)


def path_in_cache(image: Path | None, identity: ImageIdentity) -> Path:
    """Return the decision file to use where the image has no file, or its folder is read-only.

    ``review/NAME-DIGITS.maskinversion.jsonl`` in the cache folder; the digits are a hash of the
    full path with its links followed, or of the pixels if there is no file.
    """
    if image is None:
        return _in_cache(identity.name, identity.content)
    return _in_cache(image.name, _digits(image if is_address(image) else image.resolve()))


def _digits(image: Path) -> str:
    return hashlib.blake2b(str(image).encode("utf-8", "surrogatepass")).hexdigest()


def _in_cache(name: str, digits: str) -> Path:
    safe_name = "".join(c if c.isalnum() or c in "-_. " else "_" for c in name)[:80] or "image"
    safe_name = safe_name.encode()[:_LONGEST].decode(errors="ignore")
    return cache_folder() / "review" / f"{safe_name}-{digits[:_DIGITS]}{SUFFIX}"


def _places(image: Path | None, identity: ImageIdentity) -> list[Path]:
    """Return where decisions about an image may be: first next to it, if it has a file."""
    cached = path_in_cache(image, identity)
    if image is None:
        return [cached]
    # Earlier versions hashed the path as it was written.
    earlier = _in_cache(image.name, _digits(image.absolute()))
    return list(dict.fromkeys([path_next_to(image), cached, earlier]))


def has_decisions(image: Path | None, identity: ImageIdentity) -> bool:
    """Return whether there is a decision file for an image, without opening it."""
    # Unlike Path.exists, it takes a name that is too long.
    return any(map(os.path.exists, _places(image, identity)))


def read_runs(image: Path, identity: ImageIdentity) -> tuple[Run, ...]:
    """Read what `DecisionFile.runs` holds, without locking a file."""
    return _by_time(_read(path).runs for path in _places(image, identity))


def _by_time(files: Iterable[Sequence[Run]]) -> tuple[Run, ...]:
    # Within a file the order of lines counts, even if the clock was set back.
    return tuple(merge(*files, key=lambda run: run.time))


class DecisionFile:
    """A decision file, locked for this program."""

    def __init__(self, image: Path | None, identity: ImageIdentity) -> None:
        cached = path_in_cache(image, identity)
        own = None if image is None else path_next_to(image)
        self.notes: list[str] = []
        self.path = cached
        if own is not None:
            refusal = _refusal(own)
            if refusal:
                self.notes.append(f"{own} cannot be written to ({refusal}).")
            else:
                self.path = own
        if self.path == cached:
            self.notes.append(f"Decisions are saved in {cached}.")
        self._lock = _lock(self.path)
        recover(self.path.parent)
        try:
            contents = {path: _read(path) for path in _places(image, identity)}
            for path, content in contents.items():
                self._note(path, content)
            self._set_end(contents[self.path])
            self.runs = _by_time(one.runs for one in contents.values())
            self._expected = _inode_and_size(self.path)
        except BaseException:
            self._lock.release()
            raise
        self._header = b""
        self._write_failed = False

    def set_header(self, header: bytes) -> None:
        """Write a header before the next lines."""
        self._header = header

    def append(self, lines: bytes, everything: Callable[[], bytes]) -> None:
        """Append lines; they are on the disk when this returns."""
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

    def close(self) -> None:
        """Unlock the file."""
        self._lock.release()

    def _note(self, path: Path, contents: Contents) -> None:
        if contents.torn:
            self.notes.append(f"The last line of {path.name} was cut off and dropped.")
        if contents.damaged:
            count = contents.damaged
            self.notes.append(
                f"{count} line{'s' * (count > 1)} of {path.name} could not be read; "
                "the others were used, the file was left as it is."
            )

    def _set_end(self, contents: Contents) -> None:
        """Remember where complete lines end, and what has to precede the next line."""
        self._end = contents.end
        self._line_break = b"" if contents.ended else b"\n"

    def _write(self, lines: bytes, everything: Callable[[], bytes]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        is_new = not self.path.exists()
        file = os.open(self.path, _FLAGS, 0o666)
        try:
            status = os.fstat(file)
            if self._is_unchanged(status, is_new=is_new):
                data = self._header + lines
            else:
                self._set_end(read(self.path.read_bytes(), str(self.path)))
                data = everything()
            if status.st_size > self._end:
                os.ftruncate(file, self._end)
            data = self._line_break + data
            try:
                _write_all(file, data)
                os.fsync(file)
            except OSError:
                self._write_failed, self._expected = True, (status.st_ino, self._end)
                with suppress(OSError):
                    os.ftruncate(file, self._end)
                raise
            self._end += len(data)
            self._expected, self._write_failed = (status.st_ino, self._end), False
            self._header = self._line_break = b""
        finally:
            os.close(file)
        if is_new:
            _sync_folder(self.path.parent)

    def _is_unchanged(self, status: os.stat_result, *, is_new: bool) -> bool:
        """Whether the open file is as this program left it."""
        if self._expected is None or is_new:
            return self._expected is None and is_new
        inode, size = self._expected
        # After a failed write the size may be wrong: part of the lines may be there.
        return status.st_ino == inode and (self._write_failed or status.st_size == size)


def _read(path: Path) -> Contents:
    check_kind(path)
    try:
        return read(path.read_bytes(), str(path))
    except FileNotFoundError:
        return Contents()
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return Contents()
        raise InputError(f"{path} cannot be read ({error.strerror}).") from error


def _refusal(path: Path) -> str:
    """Return why a file cannot be written, or ""; leaves nothing behind."""
    try:
        # The lock is a second file in the folder.
        with tempfile.TemporaryFile(dir=path.parent):
            pass
        with suppress(FileNotFoundError):
            _lock_of(path).lstat()  # its name may be too long
        if path.exists():
            os.close(os.open(path, os.O_RDWR | os.O_APPEND))
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _lock_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.lock")


def _lock(path: Path) -> BaseFileLock:
    from filelock import FileLock, Timeout

    # Locked in a worker thread, released in the GUI thread.
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(_lock_of(path), timeout=0, thread_local=False)
        lock.acquire()
    except Timeout:
        raise InUseError(
            f"Decisions about this image are being made in another window or program: {path} is "
            "in use. Close the review there first."
        ) from None
    except OSError as error:
        raise InputError(
            f"{path.parent} cannot be written to ({error.strerror}); decisions cannot be saved."
        ) from None
    return lock


def _inode_and_size(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def _sync_folder(folder: Path) -> None:
    """Write a new file name to the disk, where the system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
