"""Caption banks: captions of one model, embedded once and searched exactly."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import numpy.typing as npt

from ...base.errors import ConfigError, InputError
from .store import BLOCK, TEXTS, BankRecord, CaptionStore, HalfArray, VectorFile

if TYPE_CHECKING:
    import torch

FloatArray = npt.NDArray[np.float32]

TOP: Final = 5  # captions per region
# Bytes of vectors, and of similarities, that a search keeps in memory at once.
_MAX_BYTES: Final = 32_000_000


@dataclass(frozen=True, slots=True)
class CaptionMatches:
    """The captions of a bank that fit a region best, best first."""

    captions: tuple[str, ...]
    similarities: FloatArray  # (captions,), float32. Cosine of region and caption.
    rows: tuple[int, ...]  # Their rows in the bank


@dataclass(frozen=True, slots=True)
class CaptionUse:
    """The bank that a run took captions from."""

    bank: BankRecord
    top: int  # Captions per region; fewer if the bank has fewer


class ModelIdentity(Protocol):
    """Identity of a model: a `Backbone`, or the record of one in results."""

    @property
    def name(self) -> str:
        """Name of the model."""

    @property
    def fingerprint(self) -> str:
        """Hash of its name, weights and preprocessing."""


class CaptionBank:
    """A finished caption bank. `open_bank` and `build_bank` return one."""

    def __init__(self, store: CaptionStore) -> None:
        self.folder = store.folder
        self.record: BankRecord = store.record
        self._store = store
        # Eight bytes per caption; the captions themselves stay on disk.
        self._starts = store.read_starts()
        self._checked: set[int] = set()

    def __len__(self) -> int:
        return self.record.count

    def __repr__(self) -> str:
        return f"<CaptionBank of {len(self):,} captions, model {self.record.model}>"

    def check(self, model: ModelIdentity) -> None:
        """Refuse a model that did not embed this bank."""
        check_model(self._store, model)

    def search(
        self, unit_embeddings: FloatArray, k: int = TOP, *, device: torch.device | str = "cpu"
    ) -> list[CaptionMatches]:
        """Find the k best captions for each region by comparing it with every caption.

        The bank is read in pieces: memory use stays near 150 MB plus the regions' embeddings
        for a bank of any size. Vectors are stored in half precision, so similarities differ
        by up to 0.0005 (typically 0.00002) from those of freshly embedded captions. The first
        search also checks the vectors for damage.

        Shapes: unit_embeddings (regions, e), float32.
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

        # Torch multiplies: NumPy's threads would keep spinning into the next inversion.
        regions = torch.from_numpy(np.ascontiguousarray(unit_embeddings, np.float32)).to(device)
        step = max(1, _MAX_BYTES // (4 * width * BLOCK)) * BLOCK
        size = max(1, _MAX_BYTES // (4 * step))
        groups = [regions[i : i + size] for i in range(0, len(regions), size)]
        best = [(torch.zeros(len(group), 0), torch.zeros(len(group), 0).long()) for group in groups]
        with self._store.reading() as file:
            for first in range(0, len(self), step):
                rows = self._read(file, first, min(first + step, len(self)))
                vectors = torch.from_numpy(rows).to(device).float()
                best = [
                    _merge(pair, group @ vectors.T, first, k)
                    for pair, group in zip(best, groups, strict=True)
                ]
        values = torch.cat([values for values, _ in best]).clamp(-1, 1).numpy()
        return self._matches(values, torch.cat([rows for _, rows in best]).tolist())

    def vectors(self) -> HalfArray:
        """Return the embeddings of all captions (captions, e), float16, of L2 norm 1."""
        with self._store.reading() as file:
            return self._read(file, 0, len(self))

    def _read(self, file: VectorFile, first: int, last: int) -> HalfArray:
        """Read rows first..last, which start at a block, and check each block once."""
        rows = file.read(first, last)
        for start in range(first, last, BLOCK):
            block = start // BLOCK
            if block in self._checked:
                continue
            if not file.intact(block, rows[start - first : start - first + BLOCK]):
                raise InputError(
                    f"Captions {start + 1:,} to {start + self._store.rows(block):,} of the bank "
                    f"in {self.folder} are damaged; build it again (captions build): the others "
                    "are kept."
                )
            self._checked.add(block)
        return rows

    def _matches(self, values: FloatArray, rows: list[list[int]]) -> list[CaptionMatches]:
        texts = dict.fromkeys(sorted({row for best in rows for row in best}), "")
        with (self.folder / TEXTS).open("rb") as file:
            for row in texts:
                start, stop = self._starts[row : row + 2].tolist()
                file.seek(start)
                texts[row] = file.read(stop - start - 1).decode("utf-8", "surrogatepass")
        return [
            CaptionMatches(tuple(texts[row] for row in best), similarities, tuple(best))
            for similarities, best in zip(values, rows, strict=True)
        ]


def open_bank(folder: str | Path) -> CaptionBank:
    """Open a finished bank."""
    store = CaptionStore.open(Path(folder))
    if not store.complete:
        raise InputError(
            f"The caption bank in {folder} is half built ({store.done:,} of "
            f"{store.record.count:,} captions); go on with: captions build {folder}."
        )
    return CaptionBank(store)


def check_top(k: int) -> None:
    """Refuse a number of captions per region that cannot work."""
    if k < 1:
        raise ConfigError(f"Ask for at least one caption per region; got {k}.")


def check_model(store: CaptionStore, model: ModelIdentity) -> None:
    """Refuse a model that did not embed the captions of a store."""
    if store.record.fingerprint == model.fingerprint:
        return
    same_name = " (other weights)" if store.record.model == model.name else ""
    raise InputError(
        f"The caption bank in {store.folder} was built with the model {store.record.model}"
        f"{same_name}, not with {model.name}; build one for this model, or use that one."
    )


def _merge(
    best: tuple[torch.Tensor, torch.Tensor], similarities: torch.Tensor, first: int, k: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Merge the k best so far, values and rows, with those of more captions from row `first` on."""
    import torch

    values, rows = similarities.topk(min(k, similarities.shape[1]), dim=1)
    values = torch.cat([best[0], values.cpu()], 1)
    rows = torch.cat([best[1], rows.cpu() + first], 1)
    values, order = values.sort(dim=1, descending=True, stable=True)
    return values[:, :k], rows.gather(1, order)[:, :k]
