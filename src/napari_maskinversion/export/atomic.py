"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from ..core.errors import InputError


@contextmanager
def atomic_path(path: Path) -> Generator[Path, None, None]:
    """Give a path beside ``path`` to write to; moved into place if the block succeeds.

    Raises
    ------
    InputError
        If the folder cannot be written to; names it.
    """
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}.", suffix=".part")
        os.close(handle)
    except OSError as error:
        raise InputError(
            f"{path.parent} cannot be written to ({error.strerror}); choose another folder."
        ) from None
    part = Path(name)
    try:
        yield part
        # mkstemp's files are for their owner alone; results get what the user's umask gives.
        mask = os.umask(0)
        os.umask(mask)
        part.chmod(0o666 & ~mask)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def check_folder(folder: Path, names: list[str], *, overwrite: bool) -> None:
    """Make a folder for results and refuse it before the work if it will not do.

    Raises
    ------
    InputError
        If the folder cannot be made or written to, or holds one of ``names`` already and
        ``overwrite`` is False; names what stands in the way.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InputError(
            f"{folder} cannot be written to ({error.strerror}); choose another folder."
        ) from None
    existing = [name for name in names if (folder / name).exists()]
    if existing and not overwrite:
        raise InputError(
            f"{folder} already has {', '.join(existing)}; choose another folder, "
            "or say --overwrite to replace them."
        )
