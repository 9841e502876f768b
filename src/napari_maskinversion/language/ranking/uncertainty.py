"""Decide which suggestions to flag as unsure, and why."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field

from ...base.validation import validate_fields
from .ranking import Ranking


@dataclass(frozen=True, slots=True, kw_only=True)
class UncertaintyConfig:
    """Limits below which a suggestion is unsure; 0 turns a rule off.

    Parameters
    ----------
    tokens : float
        Regions that cover fewer tokens of the model's input are small. Below one token, a region
        is always "low resolution".
    overlap : float
        Least overlap (IoU) of heatmap and mask. Below it, the embedding barely describes the
        region.
    odds : float
        Least ratio of the probabilities of the best and the second label. A ratio, because cosine
        margins differ between models: 1.5 is a margin of 0.004 with CLIP's scale of 100, and of
        0.03 with the demo model's 14.

    Raises
    ------
    ConfigError
        If a value cannot work.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    tokens: Annotated[
        float,
        Field(
            title="Least tokens",
            description="Regions that cover fewer tokens of the model's input are unsure; 0: off.",
            ge=0,
            allow_inf_nan=False,
            json_schema_extra={"cli": "unsure-tokens", "unit": "tokens", "ui_max": 100},
        ),
    ] = 2.0
    overlap: Annotated[
        float,
        Field(
            title="Least overlap",
            description="Regions whose heatmap overlaps their mask less (IoU) are unsure; 0: off.",
            ge=0,
            allow_inf_nan=False,
            le=1,
            json_schema_extra={"cli": "unsure-iou"},
        ),
    ] = 0.25
    odds: Annotated[
        float,
        Field(
            title="Least odds",
            description="Regions whose best label is not this many times as probable as the "
            "second are unsure; 0: off.",
            ge=0,
            allow_inf_nan=False,
            json_schema_extra={"cli": "unsure-margin", "ui_max": 100},
        ),
    ] = 1.5

    def __post_init__(self) -> None:
        validate_fields(self)


@dataclass(frozen=True, slots=True)
class Uncertainty:
    """Whether a suggestion is unsure, and why.

    Attributes
    ----------
    reasons : tuple of str
        "small region 1.3 tokens", "low overlap 0.21", "low margin 0.002", "below threshold 0.18";
        empty if it is sure.
    entropy : float
        Entropy of the label probabilities in nats (`Ranking.entropy`); NaN without labels.
    """

    reasons: tuple[str, ...]
    entropy: float

    @property
    def unsure(self) -> bool:
        """Whether there is any reason."""
        return bool(self.reasons)

    @property
    def text(self) -> str:
        """Summary, "unsure: low overlap 0.21, low margin 0.002"; "" if it is sure."""
        return f"unsure: {', '.join(self.reasons)}" if self.reasons else ""


def judge(
    *,
    tokens: float,
    overlap: float,
    ranking: Ranking | None,
    config: UncertaintyConfig | None = None,
) -> Uncertainty:
    """Check the suggestion for one region against the limits.

    Parameters
    ----------
    tokens : float
        Tokens that the region covers.
    overlap : float
        IoU of mask and heatmap above 0.5. NaN, like the margin of a single label, is ignored.
    ranking : Ranking or None
        With the threshold of "none of these".
    config : UncertaintyConfig, optional
    """
    limits = config or UncertaintyConfig()
    reasons = []
    if tokens < limits.tokens:
        reasons.append(f"small region {tokens:.1f} tokens")
    if overlap < limits.overlap:
        reasons.append(f"low overlap {overlap:.2f}")
    if ranking is not None:
        if ranking.below_threshold:
            reasons.append(f"below threshold {float(ranking.similarities[0]):.2f}")
        first, *others = ranking.probabilities[:2].tolist()
        if others and first < limits.odds * others[0]:
            reasons.append(f"low margin {ranking.margin:.3f}")
    return Uncertainty(tuple(reasons), math.nan if ranking is None else ranking.entropy)
