"""Write files and folders completely or not at all, also several together.

Everything is written under a hidden name in the same folder and renamed. The hidden name tells the
process that made it, so what a killed one left behind is found and cleared by `recover`.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final

import psutil

from .errors import InputError

PART, COMMIT = ".part", ".commit"
_STEM: Final = 40  # characters of a file's name in its hidden one, which systems limit
# Version 0.2.0.dev0 also wrote when the process had started, and ".commit-new".
_HIDDEN: Final = re.compile(
    r"\..*\.(?P<host>[0-9a-f]{6})-(?P<process>\d+)(-\d+)?\.\w+(?P<kind>\.part|\.commit)(-new)?"
)
_OLD: Final = "old"
_HOUR: Final = 3600.0  # seconds; clocks are corrected by less
_TRIES: Final = 20  # to delete a folder into which threads still write
_PAUSE: Final = 0.05  # seconds between them


class FileSet:
    """Files of one folder that are written to a hidden folder and moved into place together.

    Renaming the hidden folder commits them: what a process that is killed now has not moved yet,
    `recover` moves.
    """

    def __init__(self, folder: Path, *, overwrite: bool) -> None:
        self.folder, self._overwrite = folder, overwrite
        self.place = Path(tempfile.mkdtemp(dir=folder, prefix=_prefix("set"), suffix=PART))
        self._names: list[str] = []

    def add(self, part: Path, name: str) -> None:
        """Add a finished file that will get this name."""
        part.replace(self.place / name)
        self._names.append(name)

    def commit(self) -> None:
        """Move all of them, in the order in which they were added."""
        written = self.place
        self.place = written.rename(written.with_suffix(COMMIT))
        if self._overwrite:
            (self.place / _OLD).mkdir()
        path = self.folder
        try:
            for path in (self.folder / name for name in self._names):
                self._move(path)
        except (OSError, InputError) as error:
            self._undo()
            self.place = self.place.rename(written)
            if isinstance(error, OSError):
                raise _failed(path, error) from error
            raise
        shutil.rmtree(self.place, ignore_errors=True)

    def _move(self, path: Path) -> None:
        new = self.place / path.name
        if path.exists():
            if not self._overwrite:
                raise InputError(
                    f"{path} has appeared since the start and was left as it is; choose another "
                    "folder, or use --overwrite to replace it."
                )
            _check_kind(path, folder=new.is_dir())
            path.replace(self.place / _OLD / path.name)
        new.replace(path)

    def _undo(self) -> None:
        for path in (self.folder / name for name in self._names):
            new, old = self.place / path.name, self.place / _OLD / path.name
            # The new file is kept, so that the set stays complete if the process ends here.
            with suppress(OSError):
                if not new.exists():
                    path.replace(new)
                if old.exists():
                    old.replace(path)

    def keep(self) -> Path:
        """Rename the hidden folder to a visible one; return it."""
        return self.place.rename(self.folder / f"unmoved-{self.place.name.split('.')[-2]}")


_current: ContextVar[FileSet | None] = ContextVar("current file set", default=None)


def _set_of(folder: Path) -> FileSet | None:
    """Return the set that is being written to a folder, if there is one."""
    files = _current.get()
    return files if files is not None and files.folder == folder else None


@contextmanager
def together(
    folder: Path, *, overwrite: bool = True, keep: bool = False
) -> Generator[FileSet, None, None]:
    """Let all files that are written to a folder in this block appear together, or none.

    `replacing` and `atomic_path` take part by themselves. A block within a block joins it.
    """
    outer = _set_of(folder)
    if outer is not None:
        yield outer
        return
    recover(folder)
    try:
        files = FileSet(folder, overwrite=overwrite)
    except OSError as error:
        raise _failed(folder, error) from None
    token = _current.set(files)
    try:
        yield files
        try:
            files.commit()
        except InputError as error:
            if not keep:
                raise
            raise InputError(f"{error} All files are in {files.keep()}.") from error
    finally:
        _current.reset(token)
        shutil.rmtree(files.place, ignore_errors=True)


@contextmanager
def replacing(path: Path, *, durable: bool = False) -> Generator[Path, None, None]:
    """Yield a temporary path in the same folder; it replaces ``path`` if the block succeeds.

    Within `together`, it does so with the others. Otherwise what killed processes left in the
    folder is cleared first.
    """
    files = _set_of(path.parent)
    if files is None:
        recover(path.parent)
        if path.exists():
            _check_kind(path, folder=False)
    folder = path.parent if files is None else files.place
    handle, name = tempfile.mkstemp(dir=folder, prefix=_prefix(path.stem), suffix=PART)
    os.close(handle)
    part = Path(name)
    try:
        yield part
        # Files of mkstemp are readable by their owner only; results follow the user's umask.
        mask = os.umask(0)
        os.umask(mask)
        part.chmod(0o666 & ~mask)
        if durable:
            with part.open("rb+") as file:
                os.fsync(file.fileno())
        if files is None:
            part.replace(path)
        else:
            files.add(part, path.name)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def atomic_path(path: Path) -> Generator[Path, None, None]:
    """Do the same as `replacing`, with errors written for users."""
    try:
        with replacing(path) as part:
            yield part
    except OSError as error:
        raise _failed(path, error) from error


@contextmanager
def atomic_folder(path: Path) -> Generator[Path, None, None]:
    """Do the same as `atomic_path` for a folder; an earlier one is replaced as a whole."""
    with together(path.parent) as files:
        part = files.place / f"{path.stem[:_STEM]}{PART}"
        try:
            part.mkdir()
            yield part
            files.add(part, path.name)
        except OSError as error:
            raise _failed(path, error) from error
        finally:
            # Threads of a writer (zarr's) may go on for a moment after its first error.
            tries = _TRIES
            while part.exists() and tries:
                shutil.rmtree(part, ignore_errors=True)
                time.sleep(_PAUSE)
                tries -= 1


def write_whole(path: Path, content: bytes) -> None:
    """Write a file completely or not at all; raises OSError."""
    with replacing(path) as part:
        part.write_bytes(content)


def recover(folder: Path) -> None:
    """Clear what killed processes left in a folder.

    Sets that were complete are moved into place, what was half written is deleted. Nothing
    happens to files of running processes and of other machines, or if the folder cannot be read.
    """
    with suppress(OSError):
        for entry in list(folder.iterdir()):
            parts = _HIDDEN.fullmatch(entry.name)
            if parts is None or entry.is_symlink():  # none of ours
                continue
            with suppress(OSError):
                if _is_gone(entry, parts["host"], int(parts["process"])):
                    if parts["kind"] == COMMIT:
                        _finish(entry)
                    _remove(entry)


def _finish(place: Path) -> None:
    """Move what is left of a set, but onto nothing that is newer or that was not to be replaced."""
    committed, replaces = place.stat().st_mtime, (place / _OLD).exists()
    for new in sorted(place.iterdir()):
        path = place.parent / new.name
        if path.exists() and not (replaces and path.stat().st_mtime <= committed):
            continue
        if new.name != _OLD:
            _remove(path)
            new.replace(path)


def _remove(entry: Path) -> None:
    if entry.is_dir():
        shutil.rmtree(entry, ignore_errors=True)
    else:
        entry.unlink(missing_ok=True)


def _prefix(stem: str) -> str:
    return f".{stem[:_STEM]}.{_host()}-{os.getpid()}."


@cache
def _host() -> str:
    return sha256(platform.node().encode()).hexdigest()[:6]


def _is_gone(entry: Path, host: str, process: int) -> bool:
    """Return whether the process has ended; a later one of its number is younger than the file."""
    if host != _host():
        return False
    try:
        return bool(psutil.Process(process).create_time() > entry.stat().st_mtime + _HOUR)
    except psutil.Error as error:
        return isinstance(error, psutil.NoSuchProcess)


def _check_kind(path: Path, *, folder: bool) -> None:
    if not (path.is_dir() if folder else path.is_file()):
        raise OSError(f"it is not a {'folder' if folder else 'file'}")


def _failed(path: Path, error: OSError) -> InputError:
    reason = error.strerror or str(error)
    return InputError(f"{path} could not be written ({reason}); choose another folder.")
