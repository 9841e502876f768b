"""The result of one region and its window."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveInt

from ..base.identity import RegionKey
from ..base.label_blocks import LARGEST
from ..base.units import Units
from ..base.validation import FiniteOrNull, PlainText
from ..engine.explain import interpolation
from ..images.windows import FloatBox
from ..language.captions.bank import CaptionMatches
from ..language.ranking.ranking import Ranking
from ..language.ranking.uncertainty import Uncertainty, UncertaintyConfig, judge

FloatArray = npt.NDArray[np.float32]
_Id = Annotated[int, Field(ge=0, le=LARGEST)]
_Side = Annotated[int, Field(gt=0, le=100_000)]  # of the model's input


SMALLER_INPUT: Final = "Not enough memory: input of"
"""How a memory note begins if the model saw fewer pixels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowRecord:
    """The part of a plane that the model sees as one image."""

    # ``(y0, x0, y1, x1)`` in plane pixels, counted at pixel edges: (0, 0, H, W) is the plane
    box: FloatBox
    level: int  # Level of the pyramid that was read
    pixels: tuple[PositiveInt, PositiveInt]  # Pixels (h, w) that were read
    input_size: tuple[_Side, _Side]  # Pixels (H, W) and tokens of the model's input
    grid: tuple[_Side, _Side]
    whole: bool  # Whether the window is the whole plane
    # Whether all its pixels have the same value, so that the answer means nothing
    flat: bool = False
    resolution: int = 0  # Side of the input in pixels; smaller than requested if memory ran out
    device: str = ""  # Device it was computed on
    # How LeGrad was computed: "direct", "decomposed", "fast, direct, 2 of 16 exact" (two regions of
    # the chunk failed the checks)...; empty for other maps
    route: str = ""
    memory_note: str = ""  # What was done because memory ran out; empty if it did not
    # Length of the model's embedding of the window as a whole; 0 if it was not computed
    image_norm: float = 0.0
    # Whether the model was trained on no image of this kind, where that can be told
    unknown: bool = False


@dataclass(frozen=True, kw_only=True)
class RegionFacts:
    """What a region and its result are besides arrays: these fields are saved as they stand."""

    id: _Id  # The label value, or the row of the shape
    # ``(y0, x0, y1, x1)`` in pixels of the plane, end exclusive
    bbox: tuple[NonNegativeInt, NonNegativeInt, NonNegativeInt, NonNegativeInt]
    area: NonNegativeFloat  # Covered pixels of the plane
    iou: FiniteOrNull  # Overlap of the mask and the heatmap above 0.5; NaN without a heatmap
    low_resolution: bool  # Whether the mask is smaller than one token
    index: NonNegativeInt  # Index among the input regions of all planes
    # Its plane, ``(("t", 3), ("z", 12))``; empty for a plain image
    position: tuple[tuple[str, NonNegativeInt], ...] = ()
    # ``(y, x)`` in plane pixels, whole numbers are pixel centres
    centroid: tuple[float, float] = (0.0, 0.0)
    # Ids of the regions merged into this one; empty if there are none
    members: tuple[_Id, ...] = ()
    source_label: PlainText = ""  # Name and id in the file that it came from; "" for none
    source_id: PlainText = ""
    source_values: Mapping[str, Any] = field(default_factory=dict)  # Its attributes there
    # What was measured, see `regions.measures`; empty unless a run was asked to
    measures: Mapping[str, float] = field(default_factory=dict)
    # Sentence that a decoder wrote from the embedding; "" for none
    generated_caption: PlainText = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionResult(RegionFacts):
    """The result of one region."""

    # (e,), float32. As optimised, not normalised. `embedding` has L2 norm 1.
    raw_embedding: FloatArray
    # (grid_h, grid_w), float32. Explainability map at token resolution; (0, 0) for methods without
    # one.
    grid_map: FloatArray
    losses: FloatArray  # (steps + 1,), float32. Empty for such methods.
    ranking: Ranking | None  # None without a vocabulary
    window: WindowRecord  # The part of the plane that the model saw
    # The best captions; None without a caption bank, or before it is searched
    captions: CaptionMatches | None = None
    # Limits below which the answer is flagged
    limits: UncertaintyConfig = field(default_factory=UncertaintyConfig)
    cut_out: bool = False  # Whether the method enlarged the region, so that it covers enough tokens
    _judged: Uncertainty | None = field(default=None, init=False, repr=False, compare=False)

    def __repr__(self) -> str:
        return f"<RegionResult: region {self.id}, {self.suggestion or 'no label'}, {self.status}>"

    @property
    def key(self) -> RegionKey:
        """What tells it from the others of its image."""
        return RegionKey(self.id, self.position)

    @property
    def has_heatmap(self) -> bool:
        """Whether there is a heatmap."""
        return self.grid_map.size > 0

    def heatmap(self, size: tuple[int, int] | None = None) -> FloatArray:
        """Return the heatmap (h, w), float32 in 0..1, over the window.

        Its pixels are those of the model's input, or as many as ``size`` says.
        """
        return interpolation.heatmap(self.grid_map, self.window.input_size, size)

    @property
    def norm(self) -> float:
        """Length of the embedding as optimised."""
        return float(np.linalg.norm(self.raw_embedding))

    @property
    def embedding(self) -> FloatArray:
        """The embedding (e,), float32, of L2 norm 1."""
        return np.asarray(self.raw_embedding / max(self.norm, 1e-12), dtype=np.float32)

    @property
    def tokens(self) -> float:
        """Number of tokens that the region covers in the model's input."""
        y0, x0, y1, x1 = self.window.box
        rows, columns = self.window.grid
        return self.area * rows * columns / ((y1 - y0) * (x1 - x0))

    @property
    def suggestion(self) -> str:
        """The best label, "none of these", or "" without a vocabulary."""
        if self.ranking is None:
            return ""
        return self.ranking.suggestion

    @property
    def margin(self) -> float:
        """Similarity of the best label minus that of the second; NaN without a vocabulary."""
        if self.ranking is None:
            return math.nan
        return self.ranking.margin

    @property
    def entropy(self) -> float:
        """Entropy of the label probabilities; NaN without a vocabulary."""
        return self.uncertainty.entropy

    @property
    def uncertainty(self) -> Uncertainty:
        """Whether the word is sure and the heatmap fits, why not, and the entropy."""
        if self._judged is None:  # several columns of a table ask for it
            tokens = math.inf if self.cut_out else self.tokens
            judged = judge(
                tokens=tokens,
                overlap=self.iou,
                ranking=self.ranking,
                config=self.limits,
                image_unknown=self.window.unknown,
            )
            object.__setattr__(self, "_judged", judged)
            return judged
        return self._judged

    @property
    def status(self) -> str:
        """Status: "ok", or why to check the answer: "doubtful: low margin 0.003".

        Without a suggestion there is nothing to be "ok": then it is "".
        """
        if self.window.flat:
            return "nothing to see"
        if self.low_resolution:
            return "low resolution"
        return self.uncertainty.text or ("" if self.ranking is None else "ok")

    @property
    def flagged(self) -> bool:
        """Whether there is a reason to check the answer."""
        return self.status not in ("ok", "")


class PhysicalSize(NamedTuple):
    """Sizes of a region in the image's unit; the area in the unit squared."""

    area: float
    diameter: float
    height: float
    width: float
    unit: str


def physical_size(region: RegionResult, units: Units | None) -> PhysicalSize | None:
    """Return the sizes of a region; None without a pixel size."""
    if units is None or units.pixel is None:
        return None
    high, wide = units.pixel
    y0, x0, y1, x1 = region.bbox
    area = region.area * high * wide
    return PhysicalSize(
        area=area,
        diameter=equivalent_diameter(area),
        height=(y1 - y0) * high,
        width=(x1 - x0) * wide,
        unit=units.unit,
    )


def equivalent_diameter(area: float) -> float:
    """Return the diameter of the circle of the same area."""
    return 2 * math.sqrt(area / math.pi)
