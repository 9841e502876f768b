"""Write files completely or not at all, also several together."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from .errors import InputError


class FileSet:
    """Written files that wait to be moved into place together; see `together`."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Path, Path]] = []

    def add(self, part: Path, path: Path) -> None:
        """Add a file that will be moved to ``path`` with the others."""
        self._waiting.append((part, path))

    def commit(self) -> None:
        """Move all of them.

        Raises
        ------
        InputError
            If one cannot be moved; names it. The previous files are restored.
        """
        backups: list[tuple[Path, Path]] = []
        moved: list[Path] = []
        try:
            for part, path in self._waiting:
                if path.is_dir():
                    raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
                if path.exists():
                    old = part.with_suffix(".old")
                    backups.append((old, path))
                    _back_up(path, old)
                part.replace(path)
                moved.append(path)
        except OSError as error:
            for done in moved:
                with suppress(OSError):
                    done.unlink()
            for old, before in backups:
                with suppress(OSError):
                    old.replace(before)
            raise InputError(_failed(path, error)) from error
        finally:
            for old, _ in backups:
                # Moving a hard link onto its own file does nothing, so it may still be here.
                with suppress(OSError):
                    old.unlink(missing_ok=True)

    def discard(self) -> None:
        """Delete the files that were not moved."""
        for part, _ in self._waiting:
            with suppress(OSError):
                part.unlink(missing_ok=True)


def _back_up(path: Path, backup: Path) -> None:
    """Link a file to a second name, or rename it if the disk has no hard links."""
    try:
        os.link(path, backup)
    except (OSError, NotImplementedError):
        path.replace(backup)


@contextmanager
def together() -> Generator[FileSet, None, None]:
    """Replace several files at once, or none of them; pass the `FileSet` to each `atomic_path`.

    Raises
    ------
    InputError
        As `FileSet.commit`.
    """
    files = FileSet()
    try:
        yield files
        files.commit()
    finally:
        files.discard()


@contextmanager
def replacing(
    path: Path, *, durable: bool = False, files: FileSet | None = None
) -> Generator[Path, None, None]:
    """Yield a temporary path in the same folder; it replaces ``path`` if the block succeeds.

    Parameters
    ----------
    path : Path
    durable : bool
        Flush the file to the disk before it is moved.
    files : FileSet, optional
        Moves it together with others.

    Raises
    ------
    OSError
        If writing or moving fails; no temporary file remains, and the previous file stays.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}.", suffix=".part")
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
            files.add(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


@contextmanager
def atomic_path(path: Path, files: FileSet | None = None) -> Generator[Path, None, None]:
    """Do the same as `replacing`, with errors written for users.

    Raises
    ------
    InputError
        If the folder is not writable, or writing fails (a full disk); names the path.
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
    """Write a file completely or not at all; raises OSError."""
    with replacing(path, durable=durable) as part:
        part.write_bytes(content)
