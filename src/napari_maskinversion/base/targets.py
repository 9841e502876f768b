"""Check the files that a command will write, before its work."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from .atomic_files import recover
from .errors import InputError

_PROBE: Final = bytes(2**16)  # a disk without room for it is full


def check_targets(
    files: Iterable[Path],
    *,
    overwrite: bool,
    inputs: Iterable[Path] = (),
    is_ours: Callable[[Path], bool] = lambda _: False,
    is_our_folder: Callable[[Path], bool] | None = None,
    replaceable: bool = True,
) -> None:
    """Refuse files that must not or cannot be written; leaves nothing behind.

    Also finishes or removes what a killed command left in their folders.
    """
    targets = [file.absolute() for file in files]
    read = list(inputs)
    places = [target.resolve() for target in targets]
    if twice := [place for place in places if places.count(place) > 1]:
        raise InputError(f"Two outputs are to be written to {twice[0]}; give each its own name.")
    for folder in dict.fromkeys(target.parent for target in targets):
        check_folder(folder)
    # A link to nothing is there, too.
    there = [target for target in targets if target.exists() or target.is_symlink()]
    for target in there:
        if target.is_dir():
            fits = (is_our_folder or is_our_store)(target)
        else:
            fits = target.is_file()
        if target.exists() and not fits:
            fault = "is a folder" if target.is_dir() else "is not a file"
            raise InputError(f"{target} {fault}; choose another name for what is written.")
        for file in read:
            inside = file.is_dir() and target.resolve().is_relative_to(file.resolve())
            if (inside and not is_ours(target)) or (
                target.exists() and file.exists() and target.samefile(file)
            ):
                input_text = f"a file of {file}" if file.is_dir() else file
                raise InputError(
                    f"Writing {target} would replace {input_text}, which is an input; choose "
                    "another place (--overwrite does not replace inputs)."
                )
    foreign = [target for target in there if not is_ours(target)]
    if foreign and not overwrite:
        folder = foreign[0].parent
        names = ", ".join(target.name for target in foreign if target.parent == folder)
        advice = ""
        if replaceable:
            advice = ", or use --overwrite to replace them"
        raise InputError(f"{folder} already has {names}; choose another folder{advice}.")


def mentions_us(file: Path) -> bool:
    """Return whether the beginning of a file names this program, as in what it wrote."""
    try:
        with file.open("rb") as opened:
            return b"napari-maskinversion" in opened.read(4096)
    except OSError:
        return False


def is_our_store(folder: Path) -> bool:
    """Return whether a folder is a zarr store that this program wrote."""
    return any(mentions_us(folder / name) for name in ("zarr.json", ".zattrs"))


def check_folder(folder: Path) -> None:
    """Refuse a folder that cannot be created or written to, or is full; leaves nothing behind."""
    new = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(_PROBE)
    except OSError as error:
        raise InputError(
            f"{folder} cannot be written to ({error.strerror}); choose another folder."
        ) from None
    finally:
        for parent in new:
            with suppress(OSError):
                parent.rmdir()
    recover(folder)
