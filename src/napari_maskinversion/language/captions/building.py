"""Building caption banks, in steps that can be stopped and resumed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from ...base.cache_folder import cache_folder, make_folder
from ...base.errors import InputError, ModelError
from ...base.locks import Lock
from ...base.reading import is_of_macos
from ...base.steps import drive, map_steps
from ..text import FittingEncoder
from .bank import BankRecord, CaptionBank, FloatArray, belongs
from .caption_files import Captions

if TYPE_CHECKING:
    from ...engine.models.backbone import Backbone

Building = Generator[tuple[int, int], None, CaptionBank]
# Captions between two chances to stop.
_BATCH: Final = 64
_LOCK: Final = ".lock"
_ANOTHER: Final = "(--out; for the cache NAPARI_MASKINVERSION_CACHE)"


def _ignore(note: str) -> None:
    """Ignore a note."""


def default_folder(model: Backbone, captions: Captions) -> Path:
    """Return the folder in the cache for the bank of these captions and this model."""
    return cache_folder() / "captions" / model.fingerprint / captions.sha256[:32]


def build_bank(
    model: Backbone,
    captions: Captions,
    folder: str | Path | None = None,
    *,
    on_batch: Callable[[int, int], None] | None = None,
    on_note: Callable[[str], None] = _ignore,
) -> CaptionBank:
    """Embed captions and store them, or resume a build that was stopped.

    If memory runs out, fewer captions are embedded at once, then on the CPU. If another program is
    building this bank, it waits until that is done.
    """
    steps = build_bank_steps(model, captions, folder, on_note)
    return drive(steps, None if on_batch is None else lambda step: on_batch(*step))


def build_bank_steps(
    model: Backbone,
    captions: Captions,
    folder: str | Path | None = None,
    on_note: Callable[[str], None] = _ignore,
) -> Building:
    """`build_bank` as a generator that yields (captions done, captions) and may be closed."""
    place = default_folder(model, captions) if folder is None else Path(folder)
    record = BankRecord(
        model=model.name,
        fingerprint=model.fingerprint,
        embed_dim=model.embed_dim,
        count=len(captions.texts),
        sha256=captions.sha256,
        source=captions.source,
        blank=captions.blank,
        repeated=captions.repeated,
    )
    _check_folder(place, record)
    with (yield from _locked(place, len(captions.texts), on_note)), _explain_errors(place):
        store = _open_existing(place, record)
        if store is None or not store.has_texts(captions):
            store = CaptionBank.create(place, record, captions)
        return (yield from _fill(model, store, captions.texts, on_note))


def continue_bank_steps(
    model: Backbone, folder: str | Path, on_note: Callable[[str], None] = _ignore
) -> Building:
    """Finish a half-built bank from its own captions; yields as `build_bank_steps` does."""
    place = Path(folder)
    store = CaptionBank.open(place)
    store.check(model)
    texts = tuple(store.read_texts().values())
    with (yield from _locked(place, store.record.count, on_note)), _explain_errors(place):
        return (yield from _fill(model, CaptionBank.open(place), texts, on_note))


def _open_existing(folder: Path, record: BankRecord) -> CaptionBank | None:
    """Open the bank of these captions and this model; None in a new or empty folder."""
    if not CaptionBank.exists(folder):
        others = _other_files(folder, record) if folder.exists() else []
        if others:
            raise InputError(
                f"{folder} contains other files ({', '.join(others[:3])}); a caption bank needs a "
                "folder of its own: choose a new or an empty one."
            )
        return None
    store = CaptionBank.open(folder)
    if (store.record.sha256, store.record.fingerprint) != (record.sha256, record.fingerprint):
        raise InputError(
            f"{folder} contains the caption bank of other captions or of another model "
            f"({store.record.count:,} captions of {store.record.source or 'a list'}, model "
            f"{store.record.model}); choose another folder."
        )
    return store


def _other_files(folder: Path, record: BankRecord) -> list[str]:
    """List the names in a folder that are not part of this bank."""
    return sorted(
        path.name
        for path in folder.iterdir()
        if not (
            path.name in (_LOCK, f"{_LOCK}.by")
            or path.name.endswith(".part")
            or is_of_macos(path)
            or belongs(path, record)  # vectors of a bank that has lost its captions
        )
    )


def _check_folder(folder: Path, record: BankRecord) -> None:
    """Create a folder, or refuse one that will not do, before the work."""
    try:
        begun = _open_existing(folder, record) is not None
        make_folder(folder)
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise _cannot_write(folder, error) from None
    size = 2 * record.embed_dim * record.count
    if size > free and not begun:
        raise InputError(
            f"The caption bank takes {size / 1e9:.1f} GB and {folder} has {free / 1e9:.1f} GB "
            f"free; choose another folder {_ANOTHER}."
        )


def _locked(
    folder: Path, total: int, on_note: Callable[[str], None]
) -> Generator[tuple[int, int], None, Lock]:
    """Take the lock of a bank; yields what is done while another program builds it."""
    lock = Lock(folder / _LOCK)
    try:
        yield from map_steps(
            lambda _: (0, total), lock.wait_steps(f"The caption bank in {folder}", on_note)
        )
    except OSError as error:
        raise _cannot_write(folder, error) from None
    return lock


@contextmanager
def _explain_errors(folder: Path) -> Iterator[None]:
    """Turn errors of the disk into one sentence for the user."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"The caption bank in {folder} could not be written ({error.strerror or error}); "
            f"embedded captions are kept. Make room, or choose another folder {_ANOTHER}."
        ) from error


def _cannot_write(folder: Path, error: OSError) -> InputError:
    return InputError(
        f"{folder} cannot be written to ({error.strerror or error}); choose another folder "
        f"{_ANOTHER}."
    )


def _fill(
    model: Backbone, store: CaptionBank, texts: tuple[str, ...], on_note: Callable[[str], None]
) -> Building:
    """Embed missing captions; damaged ones count as missing."""
    encoder = FittingEncoder(model, _BATCH, "captions", on_note)
    store.drop_damaged()
    if not store.complete:
        yield store.done, store.record.count
    for first, last in list(store.missing()):
        yield from _fill_block(encoder, store, first, texts[first:last])
    return store


def _fill_block(
    encoder: FittingEncoder, store: CaptionBank, first: int, texts: tuple[str, ...]
) -> Iterator[tuple[int, int]]:
    unsaved: list[FloatArray] = []
    before, total = store.done, store.record.count
    try:
        for start in range(0, len(texts), _BATCH):
            vectors = encoder.encode(texts[start : start + _BATCH])
            if not np.isfinite(vectors).all():
                name = store.record.model
                raise ModelError(
                    f"{name} returned embeddings that are not finite; check it with: "
                    f"models check {name}."
                )
            unsaved.append(vectors)
            if start + _BATCH < len(texts):
                yield before + start + len(vectors), total
    finally:
        # Also if the caller stops here, or the model fails.
        if unsaved:
            store.write(first, unsaved)
    yield store.done, total
