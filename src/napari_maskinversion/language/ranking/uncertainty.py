"""Flag suggestions: is the word sure, does the heatmap fit, and why not; limits by calibration."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
import numpy.typing as npt

from ...base.errors import InputError
from ...base.validation import Config, setting
from .ranking import Ranking

USUAL_ODDS: Final = 1.5
"""Least ratio of the first two confidences where no limit of the margin is known."""


KEEP: Final = 0.85
"""Least share of right answers without a flag."""
LEAST_MISFITS: Final = 0.01
"""Least share of right answers whose heatmap counts as not fitting."""
LEAST_RIGHT: Final = 20
"""Right answers that a calibration needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Limits of a model, and how they did on the regions they were chosen on."""

    margin: float | None  # Least margin of a sure word; None if no region has one
    overlap: float | None  # Least overlap of a heatmap that fits; None if no region has one
    right: int  # Regions whose suggestion was right, and wrong
    wrong: int
    right_kept: float  # Share of the right ones without a flag
    wrong_flagged: float | None  # Share of the wrong ones with a flag; None if there are none
    source: str = ""  # Where the regions come from


class UncertaintyConfig(Config):
    """Limits below which a suggestion is flagged; 0 turns a rule off."""

    # Regions that cover fewer tokens of the model's input are doubtful. Below one token, a region
    # is always "low resolution".
    tokens: float = setting(
        2.0,
        "Least tokens",
        "A region that covers fewer tokens of the model's input is marked doubtful; 0: off.",
        ge=0,
        cli="least-tokens",
        unit="tokens",
        ui_max=100,
    )
    # Least difference of the best two similarities (the column ``margin``); below it the word is
    # doubtful. None is the limit calibrated for the model; without one, a word is doubtful if it is
    # less than 1.5 times as probable as the next.
    margin: float | None = setting(
        None,
        "Least margin",
        "If the best word beats the second by less similarity, it is marked doubtful; 0: off "
        "(default: as calibrated for the model).",
        ge=0,
        le=2,
        cli="least-margin",
        decimals=4,
    )
    # Least overlap (IoU) of heatmap and mask (the column ``iou``); below it the heatmap does not
    # fit. None is the limit calibrated for the model; without one, nothing is said.
    overlap: float | None = setting(
        None,
        "Least overlap",
        "If heatmap and region overlap less (IoU), the answer is marked 'does not fit'; 0: off "
        "(default: as calibrated for the model).",
        ge=0,
        le=1,
        cli="least-overlap",
    )

    def filled(self, calibration: Calibration | None) -> Self:
        """Return the same limits, where they are None with those calibrated for the model."""
        if calibration is None:
            return self
        if self.margin is None:
            margin = calibration.margin
        else:
            margin = self.margin
        if self.overlap is None:
            overlap = calibration.overlap
        else:
            overlap = self.overlap
        return self.changed(margin=margin, overlap=overlap)


@dataclass(frozen=True, slots=True)
class Uncertainty:
    """Both parts of a suggestion's flag: the word, and the heatmap."""

    # Why the word is doubtful: "image unknown to the model", "word unknown to the model", "small
    # region 1.3 tokens", "low margin 0.002", "below threshold 0.18"; empty if it is sure
    doubts: tuple[str, ...]
    misfits: tuple[str, ...]  # Why the heatmap does not fit: "low overlap 0.21"; empty if it fits
    # Whether the heatmap fits the region; None without a heatmap, or without a limit for it
    fits: bool | None
    # Entropy of the label probabilities in nats (`Ranking.entropy`); NaN without labels
    entropy: float

    @property
    def sure(self) -> bool:
        """Whether the word is sure."""
        return not self.doubts

    @property
    def reasons(self) -> tuple[str, ...]:
        """The reasons of both parts."""
        return self.doubts + self.misfits

    @property
    def text(self) -> str:
        """Summary, "doubtful, does not fit: low margin 0.002, low overlap 0.21"; "" if neither."""
        parts = [*["doubtful"][: len(self.doubts)], *["does not fit"][: len(self.misfits)]]
        if parts:
            return f"{', '.join(parts)}: {', '.join(self.reasons)}"
        return ""


def judge(
    *,
    tokens: float,
    overlap: float,
    ranking: Ranking | None,
    config: UncertaintyConfig | None = None,
    image_unknown: bool = False,
) -> Uncertainty:
    """Check the suggestion for one region against the limits."""
    limits = config or UncertaintyConfig()
    doubts = []
    misfits = []
    if image_unknown:
        doubts.append("image unknown to the model")
    if ranking is not None and ranking.word_unknown:
        doubts.append("word unknown to the model")
    if tokens < limits.tokens:
        doubts.append(f"small region {tokens:.1f} tokens")
    if ranking is not None:
        if ranking.below_threshold:
            cosines = (ranking.before or ranking).similarities
            doubts.append(f"below threshold {float(cosines[0]):.2f}")
        if _is_close(ranking, limits):
            doubts.append(f"low margin {ranking.margin:.3f}")
    fits = None
    if limits.overlap and not math.isnan(overlap):
        fits = overlap >= limits.overlap
    if fits is False:
        misfits.append(f"low overlap {overlap:.2f}")
    entropy = math.nan if ranking is None else ranking.entropy
    return Uncertainty(tuple(doubts), tuple(misfits), fits, entropy)


def _is_close(ranking: Ranking, limits: UncertaintyConfig) -> bool:
    """Whether the best two labels are too close to each other."""
    if len(ranking.labels) < 2:
        return False
    if limits.margin is not None:
        return ranking.margin < limits.margin
    first, second = ranking.probabilities[:2].tolist()
    return bool(first < USUAL_ODDS * second)


def calibrate(
    margins: npt.ArrayLike,
    overlaps: npt.ArrayLike,
    right: npt.ArrayLike,
    *,
    source: str = "",
) -> Calibration:
    """Choose both limits together: flag most wrong answers, and at most 15 % of the right ones.

    One free choice is how the 15 % are divided between the two limits; the division
    that flags most wrong answers is taken, the one with the lower limit of overlap among equals. At
    least 1 % of the right answers lie below the limit of overlap, so that a heatmap beside its
    region is seen where overlaps say nothing about words.

    Shapes: margins, overlaps (N,); right (N,), bool.
    """
    # What there is none of is never below a limit.
    margin = np.nan_to_num(np.asarray(margins, np.float64), nan=math.inf)
    overlap = np.nan_to_num(np.asarray(overlaps, np.float64), nan=math.inf)
    correct = np.asarray(right, bool)
    count = int(correct.sum())
    if count < LEAST_RIGHT:
        raise InputError(
            f"A calibration needs {LEAST_RIGHT} regions whose suggestion was right; there are "
            f"{count}. Review more regions."
        )
    spare = int((1 - KEEP) * count + 1e-9)
    ordered = np.sort(overlap[correct])
    best: tuple[float, float, float] | None = None
    for place in range(int(LEAST_MISFITS * count), spare + 1):
        lowest = float(ordered[place])
        fitting = np.sort(margin[correct & (overlap >= lowest)])
        closest = float(fitting[spare - (count - len(fitting))])
        hit = float(((margin < closest) | (overlap < lowest))[~correct].sum())
        if best is None or hit > best[0]:
            best = (hit, closest, lowest)
    assert best is not None  # 1 % is less than 15 %
    _, closest, lowest = best
    flagged = (margin < closest) | (overlap < lowest)
    wrong_count = len(correct) - count
    return Calibration(
        margin=closest if math.isfinite(closest) else None,
        overlap=lowest if math.isfinite(lowest) else None,
        right=count,
        wrong=wrong_count,
        right_kept=float((~flagged)[correct].mean()),
        wrong_flagged=float(flagged[~correct].mean()) if wrong_count else None,
        source=source,
    )
