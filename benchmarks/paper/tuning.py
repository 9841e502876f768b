"""``bench tune``: learning rate and steps on VOC, and which of them the paper's curve agrees with.

The paper names no learning rate. Its curve on VOC rises to 85.4 % at step 10 and is flat to 100.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from napari_maskinversion.bench.measures.entries import Entry
from napari_maskinversion.bench.measures.figures_file import RecordStore
from napari_maskinversion.bench.measures.measuring import MeasuringPlan
from napari_maskinversion.bench.measures.statistics import share
from napari_maskinversion.bench.paper.tables import TABLES, Cell, Figure, Table
from napari_maskinversion.bench.reports.report_tables import joined, markdown_table
from napari_maskinversion.engine.settings import InversionConfig

CONVERGED: Final = 10  # the step from which the paper's curve on VOC is flat
LAST_STEP: Final = 100
_STEPS: Final = {row.point: row.values for row in TABLES["steps"].rows if row.point is not None}
PAPER_ACCURACY: Final = _STEPS[CONVERGED]["voc", "acc1"]
TUNING: Final = Table(
    name="tune",
    title="Learning rate and steps",
    columns=(("voc", "acc1"),),
    rows=(),  # as many as there are steps
    axis="step",
)
FLAT: Final = 2.0  # points by which a flat curve may change
CLOSE: Final = 0.5  # points: fewer steps are preferred to so little
TIED: Final = 0.05  # points, which the report does not show


def points_to(last: int) -> tuple[int, ...]:
    """Return the steps that are measured, up to the last one."""
    return tuple(sorted({*(step for step in _STEPS if step < last), last}))


def tuning_plan(model: str, rates: Sequence[float], last: int, **more: Any) -> MeasuringPlan:
    """Return one entry for each learning rate, each measured after many steps."""
    config = InversionConfig(steps=last)
    entries = [
        Entry(
            key=f"rate={rate:g}",
            title=f"{rate:g}",
            inversion=config.changed(learning_rate=rate),
            points=points_to(last),
        )
        for rate in rates
    ]
    return MeasuringPlan.as_in_paper((model,), entries, **more)


@dataclass(frozen=True, slots=True)
class Curve:
    """Acc@1 in per cent after each step, with one learning rate."""

    rate: float
    points: dict[int, Figure]  # ``value``, ``low``, ``high`` by step
    # From step 10 to the last one, with its interval; None where there is no such step
    drift: Figure | None

    @property
    def distance(self) -> float:
        """Points from the paper's accuracy at step 10, or at the last step before it."""
        step = CONVERGED if CONVERGED in self.points else max(self.points)
        return abs(self.points[step]["value"] - PAPER_ACCURACY)

    @property
    def agrees(self) -> bool:
        """Whether the paper's figure lies in the interval at step 10, and the curve is flat."""
        if self.drift is None:
            return False
        at = self.points[CONVERGED]
        return at["low"] <= PAPER_ACCURACY <= at["high"] and abs(self.drift["value"]) <= FLAT


def curve_of(store: RecordStore, plan: MeasuringPlan, entry: Entry, keys: Sequence[str]) -> Curve:
    """Compute the curve of one learning rate from its records."""
    kept = {key: store.records.get((plan.models[0], entry.key, key), {}) for key in keys}
    records = [(key, record) for key, record in kept.items() if record.get("curve")]
    images = [image for image, one in records for _ in one["labels"]]

    def right(step: int) -> list[float]:
        return [float(rank < 1) for _, one in records for rank in one["curve"][str(step)]]

    points = {step: _per_cent(share(right(step), images)) for step in entry.points}
    drift = None
    if CONVERGED in entry.points and entry.points[-1] > CONVERGED:
        pairs = zip(right(entry.points[-1]), right(CONVERGED), strict=True)
        # From -1 to 1; as shares, since those of 0 and 1 have an interval of their own.
        shares = share([(1 + last - first) / 2 for last, first in pairs], images)
        drift = _per_cent({end: 2 * value - 1 for end, value in shares.items()})
    return Curve(entry.inversion.learning_rate, points, drift)


def _per_cent(figure: Figure) -> Figure:
    return {end: 100 * value for end, value in figure.items()}


@dataclass(frozen=True, slots=True)
class Best:
    """The best setting: ``steps`` with any of ``rates``, which name as many regions right."""

    rates: tuple[float, ...]
    steps: int
    point: Figure


def best_of(curves: Sequence[Curve]) -> Best | None:
    """Return the best setting; fewer steps where it hardly matters.

    None where no point names a single region right.
    """
    most = max(point["value"] for curve in curves for point in curve.points.values())
    if not most:
        return None
    near = [
        (step, -point["value"], curve.rate, point)
        for curve in curves
        for step, point in curve.points.items()
        if step and point["value"] >= most - CLOSE
    ]
    if not near:  # the embedding of the whole image is best
        near = [(0, -most, curve.rate, curve.points[0]) for curve in curves]
    first = min(one[:2] for one in near)
    equal = [one for one in near if one[:2] == first]
    return Best(tuple(rate for _, _, rate, _ in equal), first[0], equal[0][3])


def rates_text(rates: Sequence[float]) -> str:
    """Return ``"learning rate 0.1"``, or ``"learning rates 0.1 and 0.5"``."""
    *others, last = (f"{rate:g}" for rate in rates)
    return f"learning rates {', '.join(others)} and {last}" if others else f"learning rate {last}"


def verdict(curves: Sequence[Curve]) -> str:
    """Say which learning rates the paper's convergence figure agrees with."""
    paper = f"The paper's curve ({PAPER_ACCURACY:g} % at step {CONVERGED}, flat to {LAST_STEP})"
    if all(curve.drift is None for curve in curves):
        return f"{paper} cannot be compared: it needs --steps above {CONVERGED}."
    last = max(curves[0].points)
    so_far = f", as far as step {last}" if last < LAST_STEP else ""
    if agreeing := [curve.rate for curve in curves if curve.agrees]:
        return f"{paper} agrees with {rates_text(agreeing)}{so_far}."
    least = min(curve.distance for curve in curves)
    nearest = [f"{curve.rate:g}" for curve in curves if curve.distance < least + TIED]
    which = f"nearest {'is' if len(nearest) == 1 else 'are'} {' and '.join(nearest)},"
    if len(nearest) == len(curves):
        which = "all are"
    return (
        f"{paper} agrees with none of these learning rates; {which} {least:.1f} points away at "
        f"step {CONVERGED}."
    )


def cells_of(curves: Sequence[Curve], model: str) -> list[Cell]:
    """Return the points of all curves beside the paper's, one column for each learning rate."""
    return [
        Cell(
            table=TUNING.name,
            row=str(step),
            backbone="B/16",
            model=model,
            data=f"rate {curve.rate:g}",
            metric="acc1",
            paper=PAPER_ACCURACY if step in (CONVERGED, LAST_STEP) else None,
            ours={end: point[end] for end in ("value", "low", "high")},
        )
        for curve in curves
        for step, point in curve.points.items()
    ]


def tuning_markdown(curves: Sequence[Curve], settings: dict[str, Any], command: str) -> str:
    """Return the curves and what they say as Markdown."""
    rows = []
    for step in curves[0].points:
        cells = [curve.points[step] for curve in curves]
        shown = [f"{c['value']:.1f} ({c['low']:.1f}–{c['high']:.1f})" for c in cells]
        printed = f"{PAPER_ACCURACY:g}" if step in (CONVERGED, LAST_STEP) else ""
        rows.append([str(step), *shown, printed])
    drifts = [curve.drift for curve in curves if curve.drift is not None]
    if len(drifts) == len(curves):
        words = [f"{d['value']:+.1f} ({d['low']:+.1f}–{d['high']:+.1f})" for d in drifts]
        rows.append([f"change from {CONVERGED}", *words, "0"])
    head = ["step: Acc@1, %", *(f"rate {curve.rate:g}" for curve in curves), "paper, B/16"]
    chosen = best_of(curves)
    best = "No setting names a region right: there is nothing to choose."
    if chosen is not None:
        count, value = f"{chosen.steps} step{'s' * (chosen.steps != 1)}", chosen.point["value"]
        best = f"Best here: {count} ({value:.1f} %) with {rates_text(chosen.rates)}."
    about = ", ".join(f"{name} {value}" for name, value in settings.items())
    return joined([f"{about}; `{command}`.", markdown_table(head, rows), best, verdict(curves)])
