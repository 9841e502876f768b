"""Whether a folder will do for results, before the work."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path

from ..core.errors import InputError


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
