"""Whether a folder will do for results, before the work."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from ...base.errors import InputError


def check_folder(
    folder: Path, names: list[str], *, overwrite: bool, inputs: Iterable[Path] = ()
) -> None:
    """Refuse a folder for results before the work if it will not do; leaves nothing behind.

    Raises
    ------
    InputError
        If the folder cannot be made or written to, or holds one of ``names`` already and
        ``overwrite`` is False; names what stands in the way. If one of ``names`` there is one of
        ``inputs``, perhaps by a link, whatever ``overwrite`` says.
    """
    given = list(inputs)
    for target in (folder / name for name in names):
        for file in given:
            if _is_same(target, file):
                raise InputError(
                    f"Writing {target} would replace {file}, which is an input; choose another "
                    "place (--overwrite does not replace inputs)."
                )
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


def _is_same(target: Path, file: Path) -> bool:
    try:
        return target.samefile(file)
    except OSError:  # one of them is not there
        return False
