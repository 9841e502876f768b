"""Results of the regions of an image, as tables and arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from ..base.errors import InputError
from ..base.units import Units
from ..engine.methods.registry import Method
from ..engine.settings import InversionConfig
from ..images.windows import FloatBox, WindowConfig
from ..language.captions.bank import CaptionMatches, CaptionUse
from ..language.labels.vocabulary import Vocabulary
from ..language.ranking.ranking import Ranking
from ..language.ranking.uncertainty import Uncertainty, UncertaintyConfig, judge
from .table import to_frame

if TYPE_CHECKING:
    import pandas as pd

FloatArray = npt.NDArray[np.float32]
# Heatmaps of whole planes larger than this are refused: 64 megapixels are 256 MB each.
MOST_PIXELS: Final = 64_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowRecord:
    """The part of a plane that the model saw as one image.

    Attributes
    ----------
    box : tuple of float
        ``(y0, x0, y1, x1)`` in plane pixels, counted at pixel edges: (0, 0, H, W) is the plane.
    level : int
        Level of the pyramid that was read.
    pixels : tuple of int
        Pixels (h, w) that were read.
    input_size, grid : tuple of int
        Pixels (H, W) and tokens of what the model saw.
    whole : bool
        The window is the whole plane.
    flat : bool
        Every pixel in it has the same value: the answer means nothing.
    resolution : int
        What the input's size was made from; less than asked for where memory ran short.
    device : str
        What computed.
    """

    box: FloatBox
    level: int
    pixels: tuple[int, int]
    input_size: tuple[int, int]
    grid: tuple[int, int]
    whole: bool
    flat: bool = False
    resolution: int = 0
    device: str = ""


@dataclass(frozen=True, slots=True)
class PlacedHeatmap:
    """A heatmap and where it lies.

    Attributes
    ----------
    values : ndarray, shape (h, w), float32 in 0..1
    box : tuple of float
        ``(y0, x0, y1, x1)`` in plane pixels, counted at pixel edges: pixel p along y is centred on
        plane coordinate ``y0 + (p + 0.5) * (y1 - y0) / h - 0.5``.
    """

    values: FloatArray
    box: FloatBox


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
        Its explainability map at token resolution; (0, 0) from a method that gives none.
    losses : ndarray, shape (steps + 1,), float32
        Empty from such a method.
    ranking : Ranking or None
        None without a vocabulary.
    iou : float
        Of heatmap above 0.5 and mask; NaN where there is no heatmap.
    low_resolution : bool
        The mask is smaller than one token.
    window : WindowRecord
        What of the plane the model saw.
    index : int
        Place among the regions given, over all planes.
    position : tuple of (str, int)
        Its plane, ``(("t", 3), ("z", 12))``; empty for a plain image.
    centroid : tuple of float
        ``(y, x)`` in plane pixels, whole numbers are pixel centres.
    members : tuple of int
        Ids of the regions that were merged into it; empty for a plain one.
    captions : CaptionMatches or None
        The best captions; None without a bank, or before it was searched.
    limits : UncertaintyConfig
        When the answer counts as unsure.
    cut_out : bool
        The method cut the region out and enlarged it, so that it cannot be small.
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
    window: WindowRecord
    index: int
    position: tuple[tuple[str, int], ...] = ()
    centroid: tuple[float, float] = (0.0, 0.0)
    members: tuple[int, ...] = ()
    captions: CaptionMatches | None = None
    limits: UncertaintyConfig = field(default_factory=UncertaintyConfig)
    cut_out: bool = False

    @property
    def has_heatmap(self) -> bool:
        """Whether the method gave a heatmap."""
        return self.grid_map.size > 0

    @property
    def norm(self) -> float:
        """Length of the embedding."""
        return float(np.linalg.norm(self.embedding))

    @property
    def unit_embedding(self) -> FloatArray:
        """The embedding at L2 norm 1."""
        return np.asarray(self.embedding / max(self.norm, 1e-12), dtype=np.float32)

    @property
    def tokens(self) -> float:
        """How many tokens of what the model saw the region covers."""
        y0, x0, y1, x1 = self.window.box
        rows, columns = self.window.grid
        return self.area * rows * columns / ((y1 - y0) * (x1 - x0))

    @property
    def suggestion(self) -> str:
        """The best label, "none of these", or "" without a vocabulary."""
        return "" if self.ranking is None else self.ranking.suggestion

    @property
    def judgement(self) -> Uncertainty:
        """Whether the answer is unsure, why, and how spread the probabilities are."""
        tokens = math.inf if self.cut_out else self.tokens
        return judge(tokens=tokens, overlap=self.iou, ranking=self.ranking, config=self.limits)

    @property
    def status(self) -> str:
        """Say "ok", or why the answer deserves a second look: "unsure: low overlap 0.21"."""
        if self.window.flat:
            return "nothing to see"
        if self.low_resolution:
            return "low resolution"
        return self.judgement.text or "ok"


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
        Pixels (H, W) and tokens of what the model saw; of the first window, if there are more.
    embed_dim : int
    keep_aspect : bool
        False where the plane was squeezed into a square.
    device : str
        Of the first region; regions finished after memory ran out may have another.
    window : WindowConfig
        How regions were put into windows.
    units : Units or None
    axes : tuple of str
        Names of the axes in the regions' positions.
    captions : CaptionUse or None
        Where captions come from.
    unsure : UncertaintyConfig
        When an answer counts as unsure.
    method : Method
        How regions were embedded.
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
    window: WindowConfig = field(default_factory=lambda: WindowConfig(mode="whole"))
    units: Units | None = None
    axes: tuple[str, ...] = ()
    captions: CaptionUse | None = None
    unsure: UncertaintyConfig = field(default_factory=UncertaintyConfig)
    method: Method = field(default_factory=Method)

    @property
    def space(self) -> str:
        """Tells embeddings that may be compared from others: of one model and one method."""
        return self.fingerprint if self.method.inverts else f"{self.fingerprint}/{self.method.name}"


@dataclass(frozen=True, slots=True)
class Results:
    """The regions finished so far, in the order they came; never changed after it was made."""

    info: RunInfo
    regions: tuple[RegionResult, ...] = field(default=())

    def __len__(self) -> int:
        return len(self.regions)

    def extended(self, more: Sequence[RegionResult]) -> Results:
        """Give these results and more."""
        return Results(self.info, (*self.regions, *more))

    def in_order(self) -> Results:
        """Give the same results in the order in which the regions were given."""
        return Results(self.info, tuple(sorted(self.regions, key=lambda region: region.index)))

    def judged(self, limits: UncertaintyConfig) -> Results:
        """Give the same results with other limits of what is unsure."""
        info = replace(self.info, unsure=limits)
        return Results(info, tuple(replace(region, limits=limits) for region in self.regions))

    def with_threshold(self, threshold: float | None) -> Results:
        """Give the same results with another threshold of "none of these".

        Raises
        ------
        InputError
            If it is no similarity.
        """
        vocabulary = self.info.vocabulary
        if vocabulary is None:
            return self
        vocabulary = replace(vocabulary, threshold=threshold)
        return Results(
            replace(self.info, vocabulary=vocabulary),
            tuple(
                replace(
                    region, ranking=region.ranking and replace(region.ranking, threshold=threshold)
                )
                for region in self.regions
            ),
        )

    @property
    def windows(self) -> tuple[WindowRecord, ...]:
        """The windows that regions were seen in, each once; on all planes together."""
        return tuple(dict.fromkeys(region.window for region in self.regions))

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

    def window_heatmap(self, index: int, size: tuple[int, int] | None = None) -> PlacedHeatmap:
        """Heatmap of one region in its window: small, whatever the size of the plane.

        Parameters
        ----------
        index : int
            Row of these results.
        size : tuple of int, optional
            Pixels (h, w); the model's input size unless given.

        Raises
        ------
        InputError
            If the method gives no heatmaps.
        """
        from ..engine.invert.dice import upsample_heatmap

        region = self._with_heatmap(index)
        window = region.window
        values = upsample_heatmap(region.grid_map, window.input_size, size or window.input_size)
        return PlacedHeatmap(values, window.box)

    def heatmap(self, index: int, size: tuple[int, int] | None = None) -> FloatArray:
        """Heatmap (H, W) of one region on the whole plane, float32 in 0..1, 0 outside its window.

        At the plane's size unless given.

        Raises
        ------
        InputError
            If it were larger than 64 megapixels, where `window_heatmap` works; or if the method
            gives no heatmaps.
        """
        from ..engine.invert.dice import upsample_heatmap

        region = self._with_heatmap(index)
        height, width = size or self.info.image_shape
        if height * width > MOST_PIXELS:
            raise InputError(
                f"A heatmap of {height} x {width} px is too large; use window_heatmap, "
                "or give a smaller size."
            )
        if region.window.whole:
            return upsample_heatmap(region.grid_map, region.window.input_size, (height, width))
        placed = self.window_heatmap(index)
        return paste(placed, self.info.image_shape, (height, width))

    def _with_heatmap(self, index: int) -> RegionResult:
        region = self.regions[index]
        if not region.has_heatmap:
            raise InputError(self.info.method.lacks or "This result has no heatmap.")
        return region

    def to_frame(self) -> pd.DataFrame:
        """Give the one table that is shown, printed and exported.

        Columns: region, suggestion, similarity, probability, margin, iou, area_px, status, entropy,
        and label_1 (the best label, also where the suggestion is "none of these"), label_2,
        similarity_2 ... up to the fifth best label or the size of the vocabulary. With a caption
        bank caption, caption_similarity, caption_2, caption_similarity_2 ... Then the
        plane's place on each axis, where there are planes; diameter_px (of the circle of the
        same area), height_px and width_px (of the box); with a pixel size area (unit squared),
        diameter, height, width and unit; with a georeference world_x and world_y of the centre;
        and merged, the ids of merged regions.
        """
        return to_frame(self.regions, self.info)


def paste(placed: PlacedHeatmap, plane: tuple[int, int], size: tuple[int, int]) -> FloatArray:
    """Draw a heatmap on a plane of ``plane`` pixels, seen at ``size``; 0 elsewhere."""
    out = np.zeros(size, dtype=np.float32)
    values, targets = placed.values, []
    for axis in (0, 1):
        low, high = placed.box[axis], placed.box[axis + 2]
        count = placed.values.shape[axis]
        centres = (np.arange(size[axis]) + 0.5) * plane[axis] / size[axis]
        inside = np.flatnonzero((centres >= low) & (centres < high))
        where = np.clip((centres[inside] - low) * count / (high - low) - 0.5, 0, count - 1)
        first = np.minimum(where.astype(np.intp), max(count - 2, 0))
        part = (where - first).astype(np.float32)
        part = part[:, None] if axis == 0 else part
        second = np.minimum(first + 1, count - 1)
        values = (1 - part) * values.take(first, axis) + part * values.take(second, axis)
        targets.append(inside)
    out[np.ix_(targets[0], targets[1])] = values
    return out
