"""Building caption banks, in steps that can be stopped and resumed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from ...base.cache_folder import cache_folder, make_folder
from ...base.errors import InputError, ModelError
from ...base.locks import Lock
from ...base.progress import CAPTIONS, tick
from ...base.reading import is_of_macos
from ..text.embeddings import FittingEncoder
from .bank import CaptionBank, FloatArray, check_model
from .caption_files import Captions
from .store import BankRecord, CaptionStore, belongs

if TYPE_CHECKING:
    from ...engine.models.backbone import Backbone

# Captions between two ticks.
_BATCH: Final = 64
_LOCK: Final = ".lock"
_ANOTHER: Final = "(--out; for the cache NAPARI_MASKINVERSION_CACHE)"


def default_folder(model: Backbone, captions: Captions) -> Path:
    """Return the folder in the cache for the bank of these captions and this model."""
    return cache_folder() / "captions" / model.fingerprint / captions.sha256[:32]


def build_bank(
    model: Backbone, captions: Captions, folder: str | Path | None = None
) -> CaptionBank:
    """Embed captions and store them, or resume a build that was stopped.

    If memory runs out, fewer captions are embedded at once, then on the CPU. If another program is
    building this bank, it waits until that is done. The ticks note either.
    """
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
    with _locked(place), _explain_errors(place):
        store = _open_existing(place, record)
        if store is None or not store.has_texts(captions):
            store = CaptionStore.create(place, record, captions)
        return _fill(model, store, captions.texts)


def continue_bank(model: Backbone, folder: str | Path) -> CaptionBank:
    """Finish a half-built bank from its own captions."""
    place = Path(folder)
    store = CaptionStore.open(place)
    check_model(store, model)
    texts = tuple(store.read_texts().values())
    with _locked(place), _explain_errors(place):
        return _fill(model, CaptionStore.open(place), texts)


def _open_existing(folder: Path, record: BankRecord) -> CaptionStore | None:
    """Open the bank of these captions and this model; None in a new or empty folder."""
    if not CaptionStore.exists(folder):
        others = _other_files(folder, record) if folder.exists() else []
        if others:
            raise InputError(
                f"{folder} contains other files ({', '.join(others[:3])}); a caption bank needs a "
                "folder of its own: choose a new or an empty one."
            )
        return None
    store = CaptionStore.open(folder)
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


def _locked(folder: Path) -> Lock:
    """Take the lock of a bank; wait while another program builds it."""
    lock = Lock(folder / _LOCK)
    try:
        lock.wait(f"The caption bank in {folder}")
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


def _fill(model: Backbone, store: CaptionStore, texts: tuple[str, ...]) -> CaptionBank:
    """Embed missing captions; damaged ones count as missing."""
    encoder = FittingEncoder(model, _BATCH, "captions")
    store.drop_damaged()
    if not store.complete:
        tick(CAPTIONS, store.done, store.record.count)
    for first, last in list(store.missing()):
        _fill_block(encoder, store, first, texts[first:last])
    return CaptionBank(store)


def _fill_block(
    encoder: FittingEncoder, store: CaptionStore, first: int, texts: tuple[str, ...]
) -> None:
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
                note = encoder.fallback.now.note
                tick(CAPTIONS, before + start + len(vectors), total, note)
    finally:
        # Also if the work is stopped here, or the model fails.
        if unsaved:
            store.write(first, unsaved)
    tick(CAPTIONS, store.done, total, encoder.fallback.now.note)
