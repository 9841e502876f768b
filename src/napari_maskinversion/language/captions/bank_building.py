"""Building caption banks, which can be stopped and resumed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from ...base.cache_folder import cache_folder, make_folder
from ...base.errors import InputError, ModelError
from ...base.locks import Lock
from ...base.progress import CAPTIONS, tick
from ..text import FittingEncoder
from .bank import BankRecord, CaptionBank, FloatArray, belongs
from .caption_files import Captions

if TYPE_CHECKING:
    from ...engine.models.backbone import Backbone

# Captions between two ticks.
_BATCH: Final = 64
_LOCK: Final = ".lock"


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
    if folder is None:
        place = default_folder(model, captions)
    else:
        place = Path(folder)
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
    _existing(place, record)
    with _writing(place):
        bank = _existing(place, record)
        if bank is None or not bank.has_texts(captions):
            bank = CaptionBank.create(place, record, captions)
        return _fill(model, bank, captions.texts)


def continue_bank(model: Backbone, folder: str | Path) -> CaptionBank:
    """Finish a half-built bank from its own captions."""
    place = Path(folder)
    bank = CaptionBank.open(place)
    bank.check(model)
    texts = tuple(bank.read_texts().values())
    with _writing(place):
        return _fill(model, CaptionBank.open(place), texts)


def _existing(folder: Path, record: BankRecord) -> CaptionBank | None:
    """Open the bank of these captions and this model; None in a new or empty folder."""
    if not CaptionBank.exists(folder):
        # Hidden are the lock, files half written, and what macOS adds.
        names = folder.iterdir() if folder.is_dir() else ()
        visible = [path for path in names if not path.name.startswith(".")]
        # Vectors of a bank that has lost its captions are no others.
        other_files = sorted(path.name for path in visible if not belongs(path, record))
        if other_files:
            raise InputError(
                f"{folder} contains other files ({', '.join(other_files[:3])}); a caption bank "
                "needs a folder of its own: choose a new or an empty one."
            )
        return None
    bank = CaptionBank.open(folder)
    if (bank.record.sha256, bank.record.fingerprint) != (record.sha256, record.fingerprint):
        raise InputError(
            f"{folder} contains the caption bank of other captions or of another model "
            f"({len(bank):,} captions of {bank.record.source or 'a list'}, model "
            f"{bank.record.model}); choose another folder."
        )
    return bank


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Create a folder and hold its lock; wait while another program builds the bank."""
    try:
        make_folder(folder)
        lock = Lock(folder / _LOCK)
        lock.wait(f"The caption bank in {folder}")
        with lock:
            yield
    except OSError as error:
        raise InputError(
            f"The caption bank in {folder} could not be written ({error.strerror or error}); "
            "embedded captions are kept. Make room, or choose another folder (--out; for the cache "
            "NAPARI_MASKINVERSION_CACHE)."
        ) from error


def _fill(model: Backbone, bank: CaptionBank, texts: tuple[str, ...]) -> CaptionBank:
    """Embed missing captions; damaged ones count as missing."""
    encoder = FittingEncoder(model, _BATCH, "captions")
    bank.drop_damaged()
    if not bank.complete:
        tick(CAPTIONS, bank.done, len(bank))
    for first, last in list(bank.missing()):
        unsaved: list[FloatArray] = []
        done = bank.done
        try:
            for start in range(first, last, _BATCH):
                vectors = encoder.encode(texts[start : min(start + _BATCH, last)])
                if not np.isfinite(vectors).all():
                    name = bank.record.model
                    raise ModelError(
                        f"{name} returned embeddings that are not finite; check it with: "
                        f"models check {name}."
                    )
                unsaved.append(vectors)
                done += len(vectors)
                if start + _BATCH < last:
                    tick(CAPTIONS, done, len(bank), encoder.note)
        finally:
            # Also if the work is stopped here, or the model fails.
            if unsaved:
                bank.write(first, unsaved)
        tick(CAPTIONS, bank.done, len(bank), encoder.note)
    return bank
