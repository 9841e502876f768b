"""Write files and folders completely or not at all, also several together.

Files are written under a hidden name in the same folder and renamed. The hidden name tells the
process that made it, so what a killed one left behind is found and cleared by `recover`.
"""

from __future__ import annotations

import errno
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

from .errors import InputError

PART = ".part"
COMMIT = ".commit"
COMMIT_NEW = ".commit-new"
_STEM: Final = 40  # characters of a file's name in its hidden one, which systems limit
_HIDDEN: Final = re.compile(
    r"\..*\.(?P<host>[0-9a-f]{6})-(?P<process>\d+)-(?P<start>\d+)\.\w+(?P<kind>\.part|\.commit"
    r"|\.commit-new)"
)
_OLD: Final = "old"
_TRIES: Final = 20  # to delete a folder into which threads still write
_PAUSE: Final = 0.05  # seconds between them


class FileSet:
    """Files of one folder that are written to a hidden folder and moved into place together.

    They are committed by renaming the hidden folder. From then on the set is complete: what a
    killed process has not moved yet, `recover` moves.
    """

    def __init__(self, folder: Path, *, overwrite: bool) -> None:
        self.folder = folder
        self._overwrite = overwrite
        self.place = Path(tempfile.mkdtemp(dir=folder, prefix=_prefix("set"), suffix=PART))
        self._paths: list[Path] = []

    def add(self, part: Path, name: str) -> None:
        """Add a finished file that will get this name."""
        part.replace(self.place / name)
        self._paths.append(self.folder / name)

    def commit(self) -> None:
        """Move all of them."""
        for path in self._paths:
            if path.is_dir() and not (self.place / path.name).is_dir():
                raise InputError(_failed(path, OSError(errno.EISDIR, os.strerror(errno.EISDIR))))
            if path.exists() and not self._overwrite:
                raise InputError(_taken(path))
        written = self.place
        ending = COMMIT if self._overwrite else COMMIT_NEW
        self.place = written.with_suffix(ending)
        written.rename(self.place)
        (self.place / _OLD).mkdir()
        path = self.folder
        try:
            for path in self._paths:
                self._move(path)
        except OSError as error:
            self._undo()
            self.place = self.place.rename(written)
            taken = isinstance(error, FileExistsError) and not self._overwrite
            raise InputError(_taken(path) if taken else _failed(path, error)) from error
        shutil.rmtree(self.place, ignore_errors=True)

    def _move(self, path: Path) -> None:
        new = self.place / path.name
        old = self.place / _OLD / path.name
        if not self._overwrite:
            _move_to_free_name(new, path)
            return
        if path.exists():
            _back_up(path, old)
        new.replace(path)

    def _undo(self) -> None:
        for path in self._paths:
            new = self.place / path.name
            old = self.place / _OLD / path.name
            # The new file is kept, so that the set stays complete if the process ends here.
            with suppress(OSError):
                if not new.exists():
                    path.replace(new)
                if old.exists():
                    old.replace(path)

    def keep(self) -> Path:
        """Rename the hidden folder to a visible one; return it."""
        number = self.place.name.split(".")[-2]
        return self.place.rename(self.folder / f"unmoved-{number}")

    def discard(self) -> None:
        """Delete what was neither moved nor kept."""
        shutil.rmtree(self.place, ignore_errors=True)


_current: ContextVar[FileSet | None] = ContextVar("current file set", default=None)


def _joined(folder: Path) -> FileSet | None:
    """Return the set that is being written to a folder, if any."""
    files = _current.get()
    if files is not None and files.folder == folder:
        return files
    return None


@contextmanager
def together(
    folder: Path, *, overwrite: bool = True, keep: bool = False
) -> Generator[FileSet, None, None]:
    """Let all files that are written to a folder in this block appear together, or none.

    `replacing` and `atomic_path` take part by themselves. A block within a block joins it.
    """
    if (outer := _joined(folder)) is not None:
        yield outer
        return
    recover(folder)
    try:
        files = FileSet(folder, overwrite=overwrite)
    except OSError as error:
        raise InputError(_refused(folder, error)) from None
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
        files.discard()


@contextmanager
def replacing(path: Path, *, durable: bool = False) -> Generator[Path, None, None]:
    """Yield a temporary path in the same folder; it replaces ``path`` if the block succeeds.

    Within `together`, it does so with the others. Otherwise what killed processes left in the
    folder is cleared first.
    """
    files = _joined(path.parent)
    if files is None:
        recover(path.parent)
    folder = path.parent if files is None else files.place
    handle, name = tempfile.mkstemp(dir=folder, prefix=_prefix(path.stem), suffix=PART)
    os.close(handle)
    part = Path(name)
    try:
        yield part
        # Files of mkstemp are readable by their owner only; results follow the user's umask.
        part.chmod(0o666 & ~_mask())
        if durable:
            with part.open("rb+") as file:
                os.fsync(file.fileno())
        if files is None:
            part.replace(path)
        else:
            files.add(part, path.name)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


@contextmanager
def atomic_folder(path: Path) -> Generator[Path, None, None]:
    """Do the same as `atomic_path` for a folder; an earlier one is replaced as a whole."""
    files = _joined(path.parent)
    try:
        if files is None:
            recover(path.parent)
        folder = path.parent if files is None else files.place
        part = Path(tempfile.mkdtemp(dir=folder, prefix=_prefix(path.stem), suffix=PART))
    except OSError as error:
        raise InputError(_refused(path.parent, error)) from None
    try:
        yield part
        part.chmod(0o777 & ~_mask())
        if files is not None:
            files.add(part, path.name)
            return
        with together(path.parent) as alone:
            alone.add(part, path.name)
    except OSError as error:
        raise InputError(_failed(path, error)) from error
    finally:
        # Threads of a writer (zarr's) may go on for a moment after its first error.
        tries = _TRIES
        while part.exists() and tries:
            shutil.rmtree(part, ignore_errors=True)
            time.sleep(_PAUSE)
            tries -= 1


@contextmanager
def atomic_path(path: Path, *, durable: bool = False) -> Generator[Path, None, None]:
    """Do the same as `replacing`, with errors written for users."""
    if path.exists() and not (path.is_file() or path.is_dir()):  # a pipe or a device
        raise InputError(f"{path} is not a file; choose another name for what is written.")
    has_begun = False
    try:
        with replacing(path, durable=durable) as part:
            has_begun = True
            yield part
    except OSError as error:
        if not has_begun:
            raise InputError(_refused(path.parent, error)) from None
        raise InputError(_failed(path, error)) from error


def write_whole(path: Path, content: bytes) -> None:
    """Write a file completely or not at all; raises OSError."""
    with replacing(path) as part:
        part.write_bytes(content)


def sync_folder(folder: Path) -> None:
    """Write new names of files to the disk, where the system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def recover(folder: Path) -> None:
    """Clear what killed processes left in a folder.

    Sets that were complete are moved into place, what was half written is deleted. Nothing
    happens to files of running processes and of other machines, or if the folder cannot be read.
    """
    with suppress(OSError):
        for entry in list(folder.iterdir()):
            parts = _HIDDEN.fullmatch(entry.name)
            if parts is None or not _is_gone(parts["host"], int(parts["process"]), parts["start"]):
                continue
            if entry.is_symlink():  # none of ours
                continue
            with suppress(OSError):
                if parts["kind"] == PART:
                    _remove(entry)
                else:
                    _finish(entry, folder, overwrite=parts["kind"] == COMMIT)


def _finish(place: Path, folder: Path, *, overwrite: bool) -> None:
    for new in sorted(place.iterdir()):
        if new.name == _OLD:
            continue
        path = folder / new.name
        if overwrite:
            if path.is_dir():
                _remove(path)
            new.replace(path)
        elif path.exists() and path.samefile(new):
            new.unlink()
        else:
            _move_to_free_name(new, path)
    _remove(place)


def _remove(entry: Path) -> None:
    if entry.is_dir():
        shutil.rmtree(entry, ignore_errors=True)
    else:
        entry.unlink(missing_ok=True)


def _mask() -> int:
    """Return the rights that the user keeps from others."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _move_to_free_name(part: Path, path: Path) -> None:
    """Rename a file or folder, but never onto another one; raises FileExistsError."""
    if part.is_dir():
        if path.exists() or path.is_symlink():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        part.rename(path)
        return
    try:
        os.link(part, path)
    except FileExistsError:
        raise
    except (OSError, NotImplementedError):  # a disk without hard links
        path.touch(exist_ok=False)
        part.replace(path)
    else:
        part.unlink()


def _back_up(path: Path, backup: Path) -> None:
    """Link a file to a second name; rename it if it is a folder, or the disk has no hard links."""
    if path.is_dir():
        path.replace(backup)
        return
    try:
        os.link(path, backup)
    except (OSError, NotImplementedError):
        path.replace(backup)


def _prefix(stem: str) -> str:
    process = os.getpid()
    return f".{stem[:_STEM]}.{_host()}-{process}-{_start(process)}."


@cache
def _host() -> str:
    return sha256(platform.node().encode()).hexdigest()[:6]


def _start(process: int) -> int:
    """Return when a process started, which tells it from a later one of the same number.

    On Linux in ticks of a start of the system, since setting the clock changes psutil's answer.
    """
    import psutil

    try:
        about = Path(f"/proc/{process}/stat").read_text()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
    except OSError:
        return int(psutil.Process(process).create_time())
    ticks = about.rpartition(")")[2].split()[19]
    return int(sha256(f"{boot} {ticks}".encode()).hexdigest()[:12], 16)


def _is_gone(host: str, process: int, start: str) -> bool:
    import psutil

    if host != _host():
        return False
    try:
        return str(_start(process)) != start
    except psutil.NoSuchProcess:
        return True
    except psutil.Error:
        return False


def _taken(path: Path) -> str:
    return (
        f"{path} has appeared since the start and was left as it is; choose another folder, or "
        "use --overwrite to replace it."
    )


def _refused(folder: Path, error: OSError) -> str:
    return f"{folder} cannot be written to ({_reason(error)}); choose another folder."


def _failed(path: Path, error: OSError) -> str:
    return f"{path} could not be written ({_reason(error)}); choose another folder."


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
