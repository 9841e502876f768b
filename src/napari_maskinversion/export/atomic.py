"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..core.errors import InputError


@contextmanager
def atomic_path(path: Path) -> Generator[Path, None, None]:
    """Give a path beside ``path`` to write to; moved into place if the block succeeds.

    Raises
    ------
    InputError
        If the folder cannot be written to, or writing fails (a full disk); names the place.
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
    except OSError as error:
        part.unlink(missing_ok=True)
        raise InputError(
            f"{path} could not be written ({error.strerror or error}); choose another folder."
        ) from error
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def check_folder(folder: Path, names: list[str], *, overwrite: bool) -> None:
    """Refuse a folder for results before the work if it will not do; leaves nothing behind.

    Raises
    ------
    InputError
        If the folder cannot be made or written to, or holds one of ``names`` already and
        ``overwrite`` is False; names what stands in the way.
    """
    new = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InputError(
            f"{folder} cannot be written to ({error.strerror}); choose another folder."
        ) from None
    finally:
        for place in new:
            with suppress(OSError):
                place.rmdir()
    existing = [name for name in names if (folder / name).exists()]
    if existing and not overwrite:
        raise InputError(
            f"{folder} already has {', '.join(existing)}; choose another folder, "
            "or say --overwrite to replace them."
        )
