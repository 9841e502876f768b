"""Curves of ``bench tune`` as Markdown, CSV and plots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ..paper.cells import Cell
from ..paper.quoted import CONVERGED, LAST_STEP
from ..paper.tables import Table
from ..paper.tuning import PAPER_ACCURACY, Curve, best_of, rates_text, verdict
from .method_tables import table

TUNING: Final = Table(
    name="tune",
    title="Learning rate and steps",
    columns=(("voc", "acc1"),),
    rows=(),  # as many as there are steps
    axis="step",
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
    steps = list(curves[0].points)
    rows = []
    for step in steps:
        cells = [curve.points[step] for curve in curves]
        shown = [f"{c['value']:.1f} ({c['low']:.1f}–{c['high']:.1f})" for c in cells]
        printed = f"{PAPER_ACCURACY:g}" if step in (CONVERGED, LAST_STEP) else ""
        rows.append([str(step), *shown, printed])
    drifts = [curve.drift for curve in curves]
    if all(drift is not None for drift in drifts):
        words = [f"{d['value']:+.1f} ({d['low']:+.1f}–{d['high']:+.1f})" for d in drifts if d]
        rows.append([f"change from {CONVERGED}", *words, "0"])
    head = ["step: Acc@1, %", *(f"rate {curve.rate:g}" for curve in curves), "paper, B/16"]
    chosen = best_of(curves)
    best = "No setting names a region right: there is nothing to choose."
    if chosen is not None:
        count = f"{chosen.steps} step{'s' * (chosen.steps != 1)}"
        best = (
            f"Best here: {count} ({chosen.point['value']:.1f} %) with {rates_text(chosen.rates)}."
        )
    about = ", ".join(f"{name} {value}" for name, value in settings.items())
    return "\n\n".join([f"{about}; `{command}`.", table(head, rows), best, verdict(curves)]) + "\n"
