"""Captions for regions: a bank of them, embedded once and searched exactly."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from ...base.cache_folder import cache_folder
from ...base.errors import ConfigError, InputError, ModelError
from ...base.steps import drive
from ..text.oom_batches import FittingEncoder
from .files import Captions
from .store import (
    BLOCK,
    LOCK,
    RECORD,
    TEXTS,
    VECTORS,
    BankRecord,
    CaptionStore,
    HalfArray,
    NewerBankError,
    VectorFile,
    bytes_of,
)

if TYPE_CHECKING:
    import torch

    from ...engine.models.backbone import Backbone

FloatArray = npt.NDArray[np.float32]
Building = Generator[tuple[int, int], None, "CaptionBank"]

TOP: Final = 5  # captions of a region
# Captions between two chances to stop.
_BATCH: Final = 64
# Vectors, and likewise similarities, that a search holds at once.
_MOST_BYTES: Final = 32_000_000


def _nothing(note: str) -> None:
    """Do nothing with what is said."""


@dataclass(frozen=True, slots=True)
class CaptionMatches:
    """The captions of a bank that fit a region best, best first.

    Attributes
    ----------
    captions : tuple of str
    similarities : ndarray, shape (captions,), float32 in -1..1
        Cosine of region and caption.
    rows : tuple of int
        Their places in the bank.
    """

    captions: tuple[str, ...]
    similarities: FloatArray
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CaptionUse:
    """Which bank a run took captions from, and how many a region.

    Attributes
    ----------
    bank : BankRecord
    top : int
        Captions of a region; fewer where the bank has fewer.
    """

    bank: BankRecord
    top: int


class NamedModel(Protocol):
    """What tells one model from another: a `Backbone`, or what results say of theirs."""

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def fingerprint(self) -> str:
        """Hash of its weights and use."""


class CaptionBank:
    """A finished caption bank. Made by `open_bank`, `build_bank` or `continue_bank`.

    Attributes
    ----------
    folder : Path
    record : BankRecord
        Model, captions, and where they came from.
    """

    def __init__(self, store: CaptionStore) -> None:
        self.folder = store.folder
        self.record: BankRecord = store.record
        self._store = store
        # Eight bytes a caption; the captions themselves stay on the disk.
        self._starts = store.read_starts()
        self._sound: set[int] = set()

    def __len__(self) -> int:
        return self.record.count

    def __repr__(self) -> str:
        return f"<CaptionBank of {len(self):,} captions, model {self.record.model}>"

    def check(self, model: NamedModel) -> None:
        """Refuse a model that did not embed this bank.

        Raises
        ------
        InputError
            Names both models.
        """
        if model.fingerprint != self.record.fingerprint:
            raise _other_model(self._store, model)

    def search(
        self, unit_embeddings: FloatArray, k: int = TOP, *, device: torch.device | str = "cpu"
    ) -> list[CaptionMatches]:
        """Find the k best captions for each region, comparing it with every caption.

        The bank is read piece by piece from the disk: some 150 MB are held at once beside the
        regions' own embeddings, whatever the size of the bank. Vectors are stored in half
        precision, so similarities may differ by up to 0.0005, as a rule by 0.00002, from those of
        the captions embedded anew. The first search of a bank also checks what it reads.

        Parameters
        ----------
        unit_embeddings : ndarray, shape (regions, e), float32
            L2 norm 1, of the bank's model.
        k : int
            At least 1; all captions are given where there are fewer.
        device : torch.device or str
            Where to multiply.

        Raises
        ------
        ConfigError
            If `k` is below 1.
        InputError
            If the embeddings are of another size, or a part of the bank is damaged.
        """
        check_top(k)
        width = self.record.embed_dim
        if unit_embeddings.ndim != 2 or unit_embeddings.shape[1] != width:
            raise InputError(
                f"The caption bank needs embeddings of shape (regions, {width}); got "
                f"{unit_embeddings.shape}."
            )
        if not len(unit_embeddings):
            return []
        import torch

        # Torch's product: NumPy's threads would spin where the next inversion wants to compute.
        regions = torch.from_numpy(np.ascontiguousarray(unit_embeddings, np.float32)).to(device)
        step = max(1, _MOST_BYTES // (4 * width * BLOCK)) * BLOCK
        at_once = max(1, _MOST_BYTES // (4 * step))
        groups = [regions[i : i + at_once] for i in range(0, len(regions), at_once)]
        best: list[tuple[torch.Tensor, torch.Tensor] | None] = [None] * len(groups)
        with self._store.reading() as file:
            for first in range(0, len(self), step):
                rows = self._read(file, first, min(first + step, len(self)))
                vectors = torch.from_numpy(rows).to(device).float()
                for place, group in enumerate(groups):
                    best[place] = _better(best[place], group @ vectors.T, first, k)
        found = [pair for pair in best if pair is not None]
        values = torch.cat([pair[0] for pair in found]).clamp(-1, 1).numpy()
        places = torch.cat([pair[1] for pair in found]).tolist()
        return self._matches(values, places)

    def _read(self, file: VectorFile, first: int, last: int) -> HalfArray:
        """Rows first..last, which begin with a block, looked at once for damage."""
        rows = file.read(first, last)
        for start in range(first, last, BLOCK):
            block = start // BLOCK
            if block not in self._sound:
                if not file.sound(block, rows[start - first : start - first + BLOCK]):
                    raise InputError(
                        f"Captions {start + 1:,} to {start + self._store.rows(block):,} of the "
                        f"bank in {self.folder} are damaged; build it again (captions build): "
                        "the others are kept."
                    )
                self._sound.add(block)
        return rows

    def _matches(self, values: FloatArray, places: list[list[int]]) -> list[CaptionMatches]:
        texts = dict.fromkeys(sorted({row for some in places for row in some}), "")
        with (self.folder / TEXTS).open("rb") as file:
            for row in texts:
                start, stop = self._starts[row : row + 2].tolist()
                file.seek(start)
                texts[row] = file.read(stop - start - 1).decode("utf-8", "surrogatepass")
        return [
            CaptionMatches(tuple(texts[row] for row in some), similarities, tuple(some))
            for similarities, some in zip(values, places, strict=True)
        ]


def check_top(k: int) -> None:
    """Refuse a number of captions that cannot work.

    Raises
    ------
    ConfigError
        If it is below 1.
    """
    if k < 1:
        raise ConfigError(f"At least one caption a region has to be asked for; got {k}.")


def _better(
    best: tuple[torch.Tensor, torch.Tensor] | None, similarities: torch.Tensor, first: int, k: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Merge the k best so far with those of some more captions (regions, captions)."""
    import torch

    values, rows = similarities.topk(min(k, similarities.shape[1]), dim=1)
    values, rows = values.cpu(), rows.cpu() + first
    if best is None:
        return values, rows
    values, rows = torch.cat([best[0], values], 1), torch.cat([best[1], rows], 1)
    values, order = values.sort(dim=1, descending=True, stable=True)
    return values[:, :k], rows.gather(1, order)[:, :k]


def default_folder(model: Backbone, captions: Captions) -> Path:
    """Give the folder in the cache for the bank of these captions and this model."""
    return cache_folder() / "captions" / model.fingerprint / captions.sha256[:32]


def open_bank(folder: str | Path) -> CaptionBank:
    """Open a finished bank.

    Raises
    ------
    InputError
        If there is none, it is half built or damaged.
    """
    store = CaptionStore.open(Path(folder))
    if not store.complete:
        raise InputError(
            f"The caption bank in {folder} is half built ({store.done:,} of "
            f"{store.record.count:,} captions); go on with: captions build {folder}."
        )
    return CaptionBank(store)


def build_bank(
    model: Backbone,
    captions: Captions,
    folder: str | Path | None = None,
    *,
    on_batch: Callable[[int, int], None] | None = None,
    on_note: Callable[[str], None] = _nothing,
) -> CaptionBank:
    """Embed captions and keep them on disk; go on where an earlier build was stopped.

    Where memory runs short fewer captions are embedded at once, then on the CPU.

    Parameters
    ----------
    model : Backbone
    captions : Captions
        See `read_captions`.
    folder : str or Path, optional
        A folder for this bank alone; else one in the cache folder.
    on_batch : callable, optional
        Called with (captions done, captions) before the first batch and after each; not where the
        bank is finished. An exception raised in it stops; what is embedded is kept.
    on_note : callable, optional
        Called with what to tell the user where memory ran short.

    Raises
    ------
    NotEnoughMemoryError
        If not even one caption can be embedded; what is embedded is kept.
    InputError
        If the folder cannot be used, holds other things or another bank, the disk is full, or
        another program builds this bank.
    """
    work = build_bank_steps(model, captions, folder, on_note)
    return drive(work, None if on_batch is None else lambda step: on_batch(*step))


def build_bank_steps(
    model: Backbone,
    captions: Captions,
    folder: str | Path | None = None,
    on_note: Callable[[str], None] = _nothing,
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
    _check_folder(place, bytes_of(record, captions), record)
    with _alone(place), _errors_of(place):
        store = _begun(place, record)
        if store is None:
            store = CaptionStore.create(place, record, captions)
        else:
            try:
                store.read_starts()
            except InputError:
                store.write_texts(captions)  # the embeddings are of these captions, and stay
        return (yield from _fill(model, store, captions, on_note))


def continue_bank_steps(
    model: Backbone, folder: str | Path, on_note: Callable[[str], None] = _nothing
) -> Building:
    """Finish a half-built bank from its own captions; yields as `build_bank_steps` does.

    Raises
    ------
    InputError
        If there is no bank, it is of another model, or its captions are damaged.
    """
    place = Path(folder)
    store = CaptionStore.open(place)
    if store.record.fingerprint != model.fingerprint:
        raise _other_model(store, model)
    store.read_starts()
    with _alone(place), _errors_of(place):
        store = CaptionStore.open(place)
        texts = (place / TEXTS).read_bytes().decode("utf-8", "surrogatepass").split("\n")[:-1]
        record = store.record
        captions = Captions(
            texts=tuple(texts),
            source=record.source,
            blank=record.blank,
            repeated=record.repeated,
        )
        return (yield from _fill(model, store, captions, on_note))


def _fill(
    model: Backbone, store: CaptionStore, captions: Captions, on_note: Callable[[str], None]
) -> Building:
    """Embed what is missing; blocks whose bytes have changed count as missing."""
    encoder = FittingEncoder(model, _BATCH, "captions", on_note)
    store.lay_out()
    with store.reading() as file:
        for block in range(store.blocks):
            if store.finished(block) and not file.sound(block):
                store.forget(block)
    total = store.record.count
    if not store.complete:
        yield store.done, total
    for block in range(store.blocks):
        have = store.finished(block)
        if have < store.rows(block):
            start = block * BLOCK
            texts = captions.texts[start + have : start + store.rows(block)]
            yield from _fill_block(encoder, store, block, texts)
    return CaptionBank(store)


def _fill_block(
    encoder: FittingEncoder, store: CaptionStore, block: int, texts: tuple[str, ...]
) -> Iterator[tuple[int, int]]:
    waiting: list[FloatArray] = []
    before, total = store.done, store.record.count
    try:
        for start in range(0, len(texts), _BATCH):
            vectors = encoder.encode(texts[start : start + _BATCH])
            if not np.isfinite(vectors).all():
                name = store.record.model
                raise ModelError(
                    f"{name} gave embeddings that are not finite; check it with: models check "
                    f"{name}."
                )
            waiting.append(vectors)
            if start + _BATCH < len(texts):
                yield before + start + len(vectors), total
    finally:
        # Also where the caller stops here, or the model fails.
        if waiting:
            store.commit(block, waiting)
    yield store.done, total


def _begun(folder: Path, record: BankRecord) -> CaptionStore | None:
    """The bank of these captions and this model in a folder; None where it has to be begun."""
    if not (folder / RECORD).exists():
        return None
    try:
        store = CaptionStore.open(folder)
    except NewerBankError:
        raise
    except InputError:
        # What it held can be made again, and nothing in the folder is anybody else's.
        if _strange(folder):
            raise
        return None
    same = (store.record.sha256, store.record.fingerprint) == (record.sha256, record.fingerprint)
    if not same:
        raise InputError(
            f"{folder} holds the caption bank of other captions or of another model "
            f"({store.record.count:,} captions of {store.record.source or 'a list'}, model "
            f"{store.record.model}); choose another folder."
        )
    return store


def _strange(folder: Path) -> list[str]:
    """Names in a folder that are no part of a bank."""
    ours = {RECORD, TEXTS, VECTORS, LOCK}
    return sorted(
        entry.name
        for entry in folder.iterdir()
        if entry.name not in ours and not entry.name.endswith(".part")
    )


def _check_folder(folder: Path, size: int, record: BankRecord) -> None:
    """Refuse a folder that will not do, before the work."""
    try:
        if folder.exists() and _begun(folder, record) is None and _strange(folder):
            raise InputError(
                f"{folder} holds other files ({', '.join(_strange(folder)[:3])}); a caption bank "
                "needs a folder of its own: choose a new or an empty one."
            )
        begun = (folder / RECORD).exists()
        folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise _unwritable(folder, error) from None
    if not begun and size > free:
        raise InputError(
            f"The caption bank takes {size / 1e9:.1f} GB and {folder} has {free / 1e9:.1f} GB "
            "free; choose another folder with --out."
        )


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep other programs from building the same bank."""
    from filelock import FileLock, Timeout

    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise InputError(
            f"Another program is building the caption bank in {folder}; wait until it is done."
        ) from None
    except OSError as error:
        raise _unwritable(folder, error) from None
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _errors_of(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(
            f"The caption bank in {folder} could not be written ({_reason(error)}); what is "
            "embedded is kept. Make room, or choose another folder with --out."
        ) from error


def _unwritable(folder: Path, error: OSError) -> InputError:
    return InputError(
        f"{folder} cannot be written to ({_reason(error)}); choose another folder with --out."
    )


def _reason(error: OSError) -> Any:
    return error.strerror or os.strerror(error.errno) if error.errno else error


def _other_model(store: CaptionStore, model: NamedModel) -> InputError:
    same_name = store.record.model == model.name
    return InputError(
        f"The caption bank in {store.folder} was built with the model {store.record.model}"
        f"{' (other weights)' if same_name else ''}, not with {model.name}; build one for this "
        f"model, or use that one."
    )
