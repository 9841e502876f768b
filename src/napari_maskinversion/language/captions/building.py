"""Building caption banks, in steps that can be stopped and resumed."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from ...base.cache_folder import cache_folder
from ...base.errors import InputError, ModelError
from ...base.locks import Lock
from ...base.steps import drive
from ..text.oom_batches import FittingEncoder
from .bank import CaptionBank, FloatArray, check_model
from .bank_folder import check_folder, explain_write_errors, lock_steps, open_existing
from .caption_files import Captions
from .store import BLOCK, TEXTS, BankRecord, CaptionStore

if TYPE_CHECKING:
    from ...engine.models.backbone import Backbone

Building = Generator[tuple[int, int], None, CaptionBank]
# Captions between two chances to stop.
_BATCH: Final = 64


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
    check_folder(place, record, captions)
    with (yield from _locked(place, len(captions.texts), on_note)), explain_write_errors(place):
        store = open_existing(place, record)
        if store is None:
            store = CaptionStore.create(place, record, captions)
        else:
            try:
                store.read_starts()
            except InputError:
                store.write_texts(captions)  # the embeddings belong to these captions and stay
        return (yield from _fill(model, store, captions.texts, on_note))


def continue_bank_steps(
    model: Backbone, folder: str | Path, on_note: Callable[[str], None] = _ignore
) -> Building:
    """Finish a half-built bank from its own captions; yields as `build_bank_steps` does."""
    place = Path(folder)
    store = CaptionStore.open(place)
    check_model(store, model)
    store.read_starts()
    with (yield from _locked(place, store.record.count, on_note)), explain_write_errors(place):
        store = CaptionStore.open(place)
        texts = (place / TEXTS).read_bytes().decode("utf-8", "surrogatepass").split("\n")[:-1]
        return (yield from _fill(model, store, tuple(texts), on_note))


def _locked(
    folder: Path, total: int, on_note: Callable[[str], None]
) -> Generator[tuple[int, int], None, Lock]:
    """Take the lock of a bank; yields what is done while another program builds it."""
    waiting = lock_steps(folder, on_note)
    while True:
        try:
            next(waiting)
        except StopIteration as stop:
            lock: Lock = stop.value
            return lock
        yield 0, total


def _fill(
    model: Backbone, store: CaptionStore, texts: tuple[str, ...], on_note: Callable[[str], None]
) -> Building:
    """Embed missing captions; blocks whose checksum is wrong count as missing."""
    encoder = FittingEncoder(model, _BATCH, "captions", on_note)
    store.lay_out()
    with store.reading() as file:
        for block in range(store.blocks):
            if store.finished(block) and not file.intact(block):
                store.forget(block)
    if not store.complete:
        yield store.done, store.record.count
    for block in range(store.blocks):
        first, last = block * BLOCK + store.finished(block), block * BLOCK + store.rows(block)
        if first < last:
            yield from _fill_block(encoder, store, block, texts[first:last])
    return CaptionBank(store)


def _fill_block(
    encoder: FittingEncoder, store: CaptionStore, block: int, texts: tuple[str, ...]
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
            store.commit(block, unsaved)
    yield store.done, total
