"""Files that are there whole or not at all; several of them together."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from .errors import InputError


class FileSet:
    """Files that are written already and wait for the last of them; see `together`."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Path, Path]] = []

    def add(self, part: Path, path: Path) -> None:
        """Take a file that shall be moved to ``path`` with the others."""
        self._waiting.append((part, path))

    def settle(self) -> None:
        """Move all of them.

        Raises
        ------
        InputError
            If one cannot be moved; names it. All that were there before are there again.
        """
        kept: list[tuple[Path, Path]] = []
        moved: list[Path] = []
        try:
            for part, path in self._waiting:
                if path.is_dir():
                    raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
                if path.exists():
                    old = part.with_suffix(".old")
                    kept.append((old, path))
                    _keep(path, old)
                part.replace(path)
                moved.append(path)
        except OSError as error:
            for done in moved:
                with suppress(OSError):
                    done.unlink()
            for old, before in kept:
                with suppress(OSError):
                    old.replace(before)
            raise InputError(_failed(path, error)) from error
        finally:
            for old, _ in kept:
                # Where it is the file that is there again, moving it did nothing.
                with suppress(OSError):
                    old.unlink(missing_ok=True)

    def drop(self) -> None:
        """Delete what was not moved."""
        for part, _ in self._waiting:
            with suppress(OSError):
                part.unlink(missing_ok=True)


def _keep(path: Path, name: Path) -> None:
    """Give a file another name; where the disk can, beside its own."""
    try:
        os.link(path, name)
    except (OSError, NotImplementedError):
        path.replace(name)


@contextmanager
def together() -> Generator[FileSet, None, None]:
    """Let several files replace what was there all at once, or none of them.

    Give what comes of it to `atomic_path` for each.

    Raises
    ------
    InputError
        As `FileSet.settle`.
    """
    files = FileSet()
    try:
        yield files
        files.settle()
    finally:
        files.drop()


@contextmanager
def replacing(
    path: Path, *, durable: bool = False, files: FileSet | None = None
) -> Generator[Path, None, None]:
    """Give a path beside ``path`` to write to; moved into place if the block succeeds.

    Parameters
    ----------
    path : Path
    durable : bool
        Wait until the disk has it before it is moved.
    files : FileSet, optional
        Moves it, with others.

    Raises
    ------
    OSError
        If that fails; nothing is left behind, and what was there before stays.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}.", suffix=".part")
    os.close(handle)
    part = Path(name)
    try:
        yield part
        # mkstemp's files are for their owner alone; results get what the user's umask gives.
        mask = os.umask(0)
        os.umask(mask)
        part.chmod(0o666 & ~mask)
        if durable:
            with part.open("rb+") as file:
                os.fsync(file.fileno())
        if files is None:
            part.replace(path)
        else:
            files.add(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


@contextmanager
def atomic_path(path: Path, files: FileSet | None = None) -> Generator[Path, None, None]:
    """Do the same, with errors written for users.

    Raises
    ------
    InputError
        If the folder cannot be written to, or writing fails (a full disk); names the place.
    """
    begun = False
    try:
        with replacing(path, files=files) as part:
            begun = True
            yield part
    except OSError as error:
        if not begun:
            raise InputError(
                f"{path.parent} cannot be written to ({_reason(error)}); choose another folder."
            ) from None
        raise InputError(_failed(path, error)) from error


def _failed(path: Path, error: OSError) -> str:
    return f"{path} could not be written ({_reason(error)}); choose another folder."


def _reason(error: OSError) -> str:
    return error.strerror or str(error)


def write_whole(path: Path, content: bytes, *, durable: bool = False) -> None:
    """Write a file's bytes, whole or not at all; OSError as they come."""
    with replacing(path, durable=durable) as part:
        part.write_bytes(content)
