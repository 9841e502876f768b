"""Results of all regions of an image, as a table and arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from ..base.errors import InputError
from ..base.validation import encodable
from ..base.wording import counted
from ..engine.explain.interpolation import LinearWeights, interpolated, weights_at
from ..images.windows import FloatBox
from ..language.generation.settings import GenerationUse
from ..language.ranking.uncertainty import UncertaintyConfig
from .columns import columns_of
from .region_result import RegionResult, WindowRecord
from .run_info import RunInfo

if TYPE_CHECKING:
    import pandas as pd

    from ..language.labels.vocabulary import Vocabulary
    from ..language.ranking.ranking import Ranking

FloatArray = npt.NDArray[np.float32]
# Largest plane for a whole heatmap: 64 megapixels are 256 MB each.
MOST_PIXELS: Final = 64_000_000


@dataclass(frozen=True, slots=True)
class PlacedHeatmap:
    """A heatmap and its position."""

    values: FloatArray  # (h, w), float32
    # ``(y0, x0, y1, x1)`` in plane pixels, counted at pixel edges: pixel p along y is centred on
    # plane coordinate ``y0 + (p + 0.5) * (y1 - y0) / h - 0.5``
    box: FloatBox


@dataclass(frozen=True, slots=True)
class Results:
    """Results of the regions finished so far, in the order they finished. Immutable."""

    info: RunInfo
    regions: tuple[RegionResult, ...] = field(default=())

    def __len__(self) -> int:
        return len(self.regions)

    def __repr__(self) -> str:
        info = self.info
        return f"<Results: {self.count_text}, model {info.model}, method {info.method.name}>"

    @property
    def count_text(self) -> str:
        """The number of regions in words."""
        return counted(len(self), "region")

    def extended(self, more: Sequence[RegionResult]) -> Results:
        """Return these results and more."""
        return Results(self.info, (*self.regions, *more))

    def in_order(self) -> Results:
        """Return these results in the order of the input regions."""
        return Results(self.info, tuple(sorted(self.regions, key=lambda region: region.index)))

    def with_generated(self, sentences: Sequence[str], use: GenerationUse) -> Results:
        """Return these results with a sentence for each region, in order."""
        regions = []
        for region, sentence in zip(self.regions, sentences, strict=True):
            regions.append(replace(region, generated_caption=sentence))
        return Results(replace(self.info, generated=use), tuple(regions))

    def with_limits(self, limits: UncertaintyConfig) -> Results:
        """Return these results with other limits for their flags."""
        info = replace(self.info, settings=self.info.settings.changed({"unsure": limits}))
        return Results(info, tuple(replace(region, limits=info.limits) for region in self.regions))

    def with_threshold(self, threshold: float | None) -> Results:
        """Return these results with another threshold for "none of these".

        Raises
        ------
        InputError
            If the threshold is not a similarity.
        """
        vocabulary = self.info.vocabulary
        if vocabulary is None:
            return self
        vocabulary = replace(vocabulary, threshold=threshold)
        rankings = []
        for region in self.regions:
            ranking = region.ranking
            rankings.append(None if ranking is None else ranking.with_threshold(threshold))
        return self.ranked(vocabulary, rankings)

    def ranked(self, vocabulary: Vocabulary | None, rankings: Iterable[Ranking | None]) -> Results:
        """Return these results with other words and their ranking for each region."""
        regions = []
        for region, ranking in zip(self.regions, rankings, strict=True):
            regions.append(replace(region, ranking=ranking))
        return Results(replace(self.info, vocabulary=vocabulary), tuple(regions))

    @property
    def has_decisions(self) -> bool:
        """Whether decisions of a review changed their ranking, in a classifier of no file."""
        return self.info.without_decisions is not self.info

    def without_decisions(self) -> Results:
        """Return these results ranked without what a review learned, bit for bit."""
        if not self.has_decisions:
            return self
        rankings = [region.ranking and region.ranking.before for region in self.regions]
        return self.ranked(self.info.without_decisions.vocabulary, rankings)

    @property
    def windows(self) -> tuple[WindowRecord, ...]:
        """The windows of all regions and planes, without repeats."""
        return tuple(dict.fromkeys(region.window for region in self.regions))

    @property
    def ids(self) -> list[int]:
        """Ids of the regions, in order."""
        return [region.id for region in self.regions]

    @property
    def embeddings(self) -> FloatArray:
        """Embeddings (N, e), float32, of L2 norm 1."""
        return self._stack([region.embedding for region in self.regions])

    @property
    def raw_embeddings(self) -> FloatArray:
        """Embeddings (N, e), float32, as optimised."""
        return self._stack([region.raw_embedding for region in self.regions])

    def _stack(self, rows: list[FloatArray]) -> FloatArray:
        if rows:
            return np.stack(rows)
        return np.zeros((0, self.info.embed_dim), np.float32)

    def window_heatmap(self, index: int, size: tuple[int, int] | None = None) -> PlacedHeatmap:
        """Return the heatmap of one region in its window, at a size independent of the plane.

        Parameters
        ----------
        index : int
            Row of these results.
        size : tuple of int, optional
            Size (h, w) in pixels; default: the model's input size.

        Raises
        ------
        InputError
            If the method computes no heatmaps.
        """
        region = self._with_heatmap(index)
        return PlacedHeatmap(region.heatmap(size), region.window.box)

    def heatmap(self, index: int, size: tuple[int, int] | None = None) -> FloatArray:
        """Return the heatmap of one region on the whole plane, 0 outside its window.

        Parameters
        ----------
        index : int
            Row of these results.
        size : tuple of int, optional
            Size (H, W) in pixels; default: the plane's.

        Returns
        -------
        ndarray, shape (H, W), float32 in 0..1
            Over the whole plane.

        Raises
        ------
        InputError
            If it is larger than 64 megapixels (use `window_heatmap`), or the method computes no
            heatmaps.
        """
        self._with_heatmap(index)
        height, width = size or self.info.image_shape
        if height * width > MOST_PIXELS:
            raise InputError(
                f"A heatmap of {height} x {width} px is too large; use window_heatmap, "
                "or a smaller size."
            )
        return paste(self.window_heatmap(index), self.info.image_shape, (height, width))

    def _with_heatmap(self, index: int) -> RegionResult:
        region = self.regions[index]
        if not region.has_heatmap:
            raise InputError(self.info.method.lacks or "This result has no heatmap.")
        return region

    def to_frame(self) -> pd.DataFrame:
        """Return the results table, one row per region.

        `napari_maskinversion.results.columns` lists the columns, and so does
        ``napari-maskinversion export --columns``.
        """
        import pandas as pd

        info = self.info
        regions = self.regions
        cells: dict[str, Any] = {}
        for column in columns_of(info, regions):
            values = [encodable(column.value(region, info)) for region in regions]
            gaps = column.kind == "integer" and None in values  # which would make floats of all
            cells[column.name] = values
            if gaps:
                cells[column.name] = pd.array(values, dtype="Int64")
        return pd.DataFrame(cells)


def paste(placed: PlacedHeatmap, plane: tuple[int, int], size: tuple[int, int]) -> FloatArray:
    """Return a heatmap interpolated on the whole plane, 0 outside its box."""
    out = np.zeros(size, dtype=np.float32)
    targets: list[slice] = []
    weights: list[LinearWeights] = []
    for axis in (0, 1):
        low = placed.box[axis]
        high = placed.box[axis + 2]
        samples = placed.values.shape[axis]
        centres = (np.arange(size[axis]) + 0.5) * plane[axis] / size[axis]
        first, end = np.searchsorted(centres, (low, high))  # a window is one run of pixels
        places = (centres[first:end] - low) * samples / (high - low) - 0.5
        targets.append(slice(first, end))
        weights.append(weights_at(places, samples))
    rows, columns = weights
    interpolated(placed.values, rows, columns, out=out[targets[0], targets[1]])
    return out
