"""Check an output folder before the work."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from .errors import InputError


def check_folder(
    folder: Path, names: list[str], *, overwrite: bool, inputs: Iterable[Path] = ()
) -> None:
    """Refuse an output folder that cannot be used; leaves nothing behind.

    Raises
    ------
    InputError
        If the folder cannot be created or written to; if it has one of ``names`` and
        ``overwrite`` is False; or if one of these files is an input, also through a link.
    """
    input_files = list(inputs)
    for target in (folder / name for name in names):
        for file in input_files:
            if _is_same(target, file):
                raise InputError(
                    f"Writing {target} would replace {file}, which is an input; choose another "
                    "folder (--overwrite does not replace inputs)."
                )
    new = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InputError(
            f"{folder} cannot be written to ({error.strerror}); choose another folder."
        ) from None
    finally:
        for parent in new:
            with suppress(OSError):
                parent.rmdir()
    existing = [name for name in names if (folder / name).exists()]
    if existing and not overwrite:
        raise InputError(
            f"{folder} already has {', '.join(existing)}; choose another folder, "
            "or use --overwrite to replace them."
        )


def _is_same(target: Path, file: Path) -> bool:
    try:
        return target.samefile(file)
    except OSError:  # one of them does not exist
        return False
