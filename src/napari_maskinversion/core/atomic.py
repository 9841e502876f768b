"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from .errors import InputError


@contextmanager
def replacing(path: Path, *, durable: bool = False) -> Generator[Path, None, None]:
    """Give a path beside ``path`` to write to; moved into place if the block succeeds.

    Parameters
    ----------
    path : Path
    durable : bool
        Wait until the disk has it before it is moved.

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
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


@contextmanager
def atomic_path(path: Path) -> Generator[Path, None, None]:
    """Do the same, with errors written for users.

    Raises
    ------
    InputError
        If the folder cannot be written to, or writing fails (a full disk); names the place.
    """
    begun = False
    try:
        with replacing(path) as part:
            begun = True
            yield part
    except OSError as error:
        reason = error.strerror or error
        if not begun:
            raise InputError(
                f"{path.parent} cannot be written to ({reason}); choose another folder."
            ) from None
        raise InputError(
            f"{path} could not be written ({reason}); choose another folder."
        ) from error


def write_whole(path: Path, content: bytes, *, durable: bool = False) -> None:
    """Write a file's bytes, whole or not at all; OSError as they come."""
    with replacing(path, durable=durable) as part:
        part.write_bytes(content)
