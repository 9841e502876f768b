"""Folders of caption banks: what is in one, who may write to it, and errors while writing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ...base.cache_folder import make_folder
from ...base.errors import InputError
from ...base.locks import Lock
from ...base.reading import is_of_macos
from .caption_files import Captions
from .store import RECORD, TEXTS, VECTORS, BankRecord, CaptionStore, NewerBankError, size_on_disk

_LOCK: Final = ".lock"
_ANOTHER: Final = "(--out; for the cache NAPARI_MASKINVERSION_CACHE)"


def open_existing(folder: Path, record: BankRecord) -> CaptionStore | None:
    """Open the bank of these captions and this model; None if it has yet to be created."""
    path = folder / RECORD
    if not path.exists():
        if path.is_symlink():
            raise InputError(f"{path} is a link to nothing; delete it, or choose another folder.")
        return None
    try:
        store = CaptionStore.open(folder)
    except NewerBankError:
        raise
    except InputError:
        # A damaged bank can be built again, unless other files or missing ones make the folder look
        # like the user's own.
        if _other_files(folder) or not all((folder / name).exists() for name in (TEXTS, VECTORS)):
            raise
        return None
    same = (store.record.sha256, store.record.fingerprint) == (record.sha256, record.fingerprint)
    if not same:
        raise InputError(
            f"{folder} contains the caption bank of other captions or of another model "
            f"({store.record.count:,} captions of {store.record.source or 'a list'}, model "
            f"{store.record.model}); choose another folder."
        )
    return store


def check_folder(folder: Path, record: BankRecord, captions: Captions) -> None:
    """Create a folder, or refuse one that will not do, before the work."""
    try:
        if folder.exists() and open_existing(folder, record) is None and _other_files(folder):
            raise InputError(
                f"{folder} contains other files ({', '.join(_other_files(folder)[:3])}); a caption "
                "bank needs a folder of its own: choose a new or an empty one."
            )
        begun = (folder / RECORD).exists()
        make_folder(folder)
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise _cannot_write(folder, error) from None
    size = size_on_disk(record, captions)
    if not begun and size > free:
        raise InputError(
            f"The caption bank takes {size / 1e9:.1f} GB and {folder} has {free / 1e9:.1f} GB "
            f"free; choose another folder {_ANOTHER}."
        )


def lock_steps(folder: Path, on_note: Callable[[str], None]) -> Generator[None, None, Lock]:
    """Keep other programs from building the same bank; wait for one that is building it."""
    lock = Lock(folder / _LOCK)
    try:
        yield from lock.wait_steps(f"The caption bank in {folder}", on_note)
    except OSError as error:
        raise _cannot_write(folder, error) from None
    return lock


@contextmanager
def explain_write_errors(folder: Path) -> Iterator[None]:
    """Turn errors of the disk into one sentence for the user."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"The caption bank in {folder} could not be written ({_reason(error)}); embedded "
            f"captions are kept. Make room, or choose another folder {_ANOTHER}."
        ) from error


def _other_files(folder: Path) -> list[str]:
    """Names in a folder that are not part of a bank."""
    ours = {RECORD, _LOCK, f"{_LOCK}.by"}
    if (folder / RECORD).exists():  # else these may be the user's captions and embeddings
        ours |= {TEXTS, VECTORS}
    return sorted(
        entry.name
        for entry in folder.iterdir()
        if not (entry.name in ours or entry.name.endswith(".part") or is_of_macos(entry))
    )


def _cannot_write(folder: Path, error: OSError) -> InputError:
    return InputError(
        f"{folder} cannot be written to ({_reason(error)}); choose another folder {_ANOTHER}."
    )


def _reason(error: OSError) -> str:
    if error.errno:
        return error.strerror or os.strerror(error.errno)
    return str(error)
