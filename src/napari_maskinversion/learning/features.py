"""What a classifier may learn from besides embeddings: size, shape, intensity, if asked to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from ..base.errors import InputError
from ..base.wording import counted
from ..regions.measures import SHAPE, VALUES

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]

SIZE: Final = ("area", "height", "width", "fill")  # Known of every region
KINDS: Final = ("size", "shape", "intensity")
_LOGARITHMS: Final = ("area", "height", "width", "axis_major", "axis_minor")
MEASURE: Final = "run their images with --measure ('Measure regions' in the panel's settings)"


class HasMeasures(Protocol):
    """A region of results, or of a run."""

    @property
    def area(self) -> float:
        """Covered pixels."""

    @property
    def bbox(self) -> tuple[int, int, int, int]:
        """``(y0, x0, y1, x1)`` in pixels, end exclusive."""

    @property
    def measures(self) -> Mapping[str, float]:
        """See `regions.measures.measure`; empty if it was not measured."""


class Measured(NamedTuple):
    """A region whose results are not there yet, or not any more."""

    area: float
    bbox: tuple[int, int, int, int]
    measures: Mapping[str, float]


UNKNOWN: Final = Measured(0, (0, 0, 0, 0), {})  # A region of which the embedding alone is known


def kinds_of(text: str) -> tuple[str, ...]:
    """Return the kinds of features that a user names: "size,intensity"."""
    kinds = tuple(part.strip() for part in text.split(",") if part.strip())
    if unknown_kinds := [kind for kind in kinds if kind not in KINDS]:
        raise InputError(f"Features are {', '.join(KINDS)}; got {unknown_kinds[0]!r}.")
    return kinds


def names_of(kinds: Sequence[str], regions: Sequence[HasMeasures]) -> tuple[str, ...]:
    """Return the features of these kinds; intensities are of the channels of most regions."""
    counts = Counter(tuple(region.measures) for region in regions if region.measures)
    if not counts and {*kinds} - {"size"}:
        raise InputError(
            f"None of the {len(regions)} decided regions was measured, so there is no shape or "
            f"intensity to learn from; {MEASURE}, and add the results again."
        )
    names: list[str] = []
    if "size" in kinds:
        names += SIZE
    for measures, _ in counts.most_common(1):
        for name in measures:
            kind = "shape" if name in SHAPE else "intensity"
            if kind in kinds:
                names.append(name)
    return tuple(names)


def measured(
    kinds: Sequence[str], regions: Sequence[HasMeasures]
) -> tuple[tuple[str, ...], IntArray, FloatArray | None, tuple[str, ...]]:
    """Return names of features, the regions that have them, (N, names), and what is left out."""
    names = names_of(kinds, regions)
    kept = [row for row, region in enumerate(regions) if has_all(region, names)]
    features = None
    if names:
        features = features_of([regions[row] for row in kept], names)
    left = len(regions) - len(kept)
    notes: tuple[str, ...] = ()
    if left:
        notes = (
            f"Left out {counted(left, 'region')} without {', '.join(kinds)}; {MEASURE}, and add "
            "the results again.",
        )
    return names, np.array(kept, np.intp), features, notes


def needs_measures(names: Iterable[str]) -> tuple[str, ...]:
    """Return those of a classifier's features that have to be measured."""
    return tuple(name for name in names if name not in SIZE)


def has_all(region: HasMeasures, names: Iterable[str]) -> bool:
    """Return whether a region has what these features take."""
    return all(name in region.measures for name in needs_measures(names))


def features_of(regions: Iterable[HasMeasures], names: Sequence[str]) -> FloatArray:
    """Return features (N, names): lengths and areas as logarithms; NaN where one is missing."""

    def numbers(region: HasMeasures) -> list[float]:
        y0, x0, y1, x1 = region.bbox
        area = max(float(region.area), 1.0)
        height = max(float(y1 - y0), 1.0)
        width = max(float(x1 - x0), 1.0)
        size = {"area": area, "height": height, "width": width, "fill": area / (height * width)}
        measures = {**region.measures, **size}
        return [measures.get(name, np.nan) for name in names]

    table = np.array([numbers(region) for region in regions], np.float64).reshape(-1, len(names))
    for column, name in enumerate(names):
        if name in _LOGARITHMS:
            table[:, column] = np.log(table[:, column] + (name not in SIZE))  # an axis may be 0
    return table


def check_features(names: Iterable[str], where: object) -> None:
    """Refuse a classifier that takes what this version cannot compute."""
    computed = {*SIZE, *SHAPE}
    not_computed = []
    for name in names:
        if name not in computed and name.split("_")[0] not in VALUES:
            not_computed.append(name)
    if not_computed:
        raise InputError(
            f"{where} learned from {', '.join(not_computed)}; this version computes "
            f"{', '.join(KINDS)}. Update the plugin."
        )
