"""Results of the regions of one image, as tables and arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from .core.config import InversionConfig
from .retrieval.ranking import Ranking
from .retrieval.vocabulary import Vocabulary

if TYPE_CHECKING:
    import pandas as pd

FloatArray = npt.NDArray[np.float32]
TOP: Final = 5  # labels of a region that the table shows


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionResult:
    """What is known of one region.

    Attributes
    ----------
    id : int
        The label value, or the row of the shape.
    bbox : tuple of int
        ``(y0, x0, y1, x1)`` in pixels of the plane, end exclusive.
    area : float
        Covered pixels of the plane.
    embedding : ndarray, shape (e,), float32
        As optimised, not normalised.
    grid_map : ndarray, shape (grid_h, grid_w), float32
        Its explainability map at token resolution.
    losses : ndarray, shape (steps + 1,), float32
    ranking : Ranking or None
        None without a vocabulary.
    iou : float
        Of heatmap above 0.5 and mask.
    low_resolution : bool
        The mask is smaller than one token.
    """

    id: int
    bbox: tuple[int, int, int, int]
    area: float
    embedding: FloatArray
    grid_map: FloatArray
    losses: FloatArray
    ranking: Ranking | None
    iou: float
    low_resolution: bool

    @property
    def norm(self) -> float:
        """Length of the embedding."""
        return float(np.linalg.norm(self.embedding))

    @property
    def unit_embedding(self) -> FloatArray:
        """The embedding at L2 norm 1."""
        return np.asarray(self.embedding / max(self.norm, 1e-12), dtype=np.float32)

    @property
    def status(self) -> str:
        """Say "ok", or why the answer deserves a second look."""
        return "low resolution" if self.low_resolution else "ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """How results came to be.

    Attributes
    ----------
    model, fingerprint : str
        Name of the model; hash of name, weights and use.
    config : InversionConfig
    vocabulary : Vocabulary or None
    image_shape : tuple of int
        Pixels (H, W) of the plane.
    input_size, grid : tuple of int
        Pixels (H, W) and tokens of what the model saw.
    embed_dim : int
    keep_aspect : bool
        False where the plane was squeezed into a square.
    device : str
    """

    model: str
    fingerprint: str
    config: InversionConfig
    vocabulary: Vocabulary | None
    image_shape: tuple[int, int]
    input_size: tuple[int, int]
    grid: tuple[int, int]
    embed_dim: int
    keep_aspect: bool
    device: str


@dataclass(frozen=True, slots=True)
class Results:
    """The regions finished so far, in order; never changed after it was made."""

    info: RunInfo
    regions: tuple[RegionResult, ...] = field(default=())

    def __len__(self) -> int:
        return len(self.regions)

    def extended(self, more: Sequence[RegionResult]) -> Results:
        """Give these results and more."""
        return Results(self.info, (*self.regions, *more))

    @property
    def ids(self) -> list[int]:
        """The regions' ids, in order."""
        return [region.id for region in self.regions]

    @property
    def embeddings(self) -> FloatArray:
        """Embeddings (N, e), float32, as optimised."""
        return self._stack([region.embedding for region in self.regions])

    @property
    def unit_embeddings(self) -> FloatArray:
        """Embeddings (N, e), float32, L2 norm 1."""
        return self._stack([region.unit_embedding for region in self.regions])

    def _stack(self, rows: list[FloatArray]) -> FloatArray:
        return np.stack(rows) if rows else np.zeros((0, self.info.embed_dim), np.float32)

    def heatmap(self, index: int, size: tuple[int, int] | None = None) -> FloatArray:
        """Heatmap (H, W) of one region, float32 in 0..1; at the plane's size unless given."""
        from .core.dice import upsample_heatmap

        return upsample_heatmap(
            self.regions[index].grid_map, self.info.input_size, size or self.info.image_shape
        )

    def to_frame(self) -> pd.DataFrame:
        """Give the one table that is shown, printed and exported.

        Columns: region, suggestion, similarity, probability, margin, iou, area_px, status, and
        label_2, similarity_2 ... up to the fifth best label or the size of the vocabulary.
        """
        import pandas as pd

        count = 0 if self.info.vocabulary is None else len(self.info.vocabulary.labels)
        others = range(2, min(TOP, count) + 1)
        columns = ["region", "suggestion", "similarity", "probability", "margin"]
        columns += ["iou", "area_px", "status"]
        columns += [f"{name}_{place}" for place in others for name in ("label", "similarity")]
        rows = [_row(region, others) for region in self.regions]
        return pd.DataFrame(rows, columns=columns)


def _row(region: RegionResult, others: range) -> dict[str, Any]:
    ranking = region.ranking
    row: dict[str, Any] = {
        "region": region.id,
        "suggestion": "" if ranking is None else ranking.labels[0],
        "similarity": np.nan if ranking is None else float(ranking.similarities[0]),
        "probability": np.nan if ranking is None else float(ranking.probabilities[0]),
        "margin": np.nan if ranking is None else ranking.margin,
        "iou": region.iou,
        "area_px": region.area,
        "status": region.status,
    }
    for place in others:
        if ranking is not None:
            row[f"label_{place}"] = ranking.labels[place - 1]
            row[f"similarity_{place}"] = float(ranking.similarities[place - 1])
    return row
