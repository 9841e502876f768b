"""Caption banks: captions of one model, embedded once and searched exactly."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import numpy.typing as npt

from ...base.errors import ConfigError, InputError
from .store import BankRecord, CaptionStore, HalfArray

if TYPE_CHECKING:
    import torch

FloatArray = npt.NDArray[np.float32]

TOP: Final = 5  # captions per region
# Regions that are compared with a file of vectors at once: 32 MB of similarities.
_REGIONS: Final = 2000


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

        The bank is read file by file: memory use stays near 150 MB plus the regions' embeddings
        for a bank of any size. Vectors are stored in half precision, so similarities differ
        by up to 0.0005 (typically 0.00002) from those of freshly embedded captions.

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
        groups = regions.split(_REGIONS)  # type: ignore[no-untyped-call]
        best = [(torch.zeros(len(group), 0), torch.zeros(len(group), 0).long()) for group in groups]
        for first, rows in self._store.read_vectors():
            vectors = torch.tensor(rows, device=device).float()
            best = [
                _merge(pair, group @ vectors.T, first, k)
                for pair, group in zip(best, groups, strict=True)
            ]
        values = torch.cat([values for values, _ in best]).clamp(-1, 1).numpy()
        places = torch.cat([places for _, places in best]).tolist()
        texts = self._store.read_texts({row for own in places for row in own})
        return [
            CaptionMatches(tuple(texts[row] for row in own), similarities, tuple(own))
            for similarities, own in zip(values, places, strict=True)
        ]

    def vectors(self) -> HalfArray:
        """Return the embeddings of all captions (captions, e), float16, of L2 norm 1."""
        return np.concatenate([rows for _, rows in self._store.read_vectors()])


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
