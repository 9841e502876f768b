"""The paper's figure and ours, cell by cell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..measures.retrieval import READINGS, Ties, figures, retrieval_figures
from ..measures.statistics import share
from .running import PaperBench, part_of
from .tables import MEAN, WITH_SENTENCES, Row, Table

Figure = dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One figure of a table."""

    table: str
    row: str
    backbone: str
    model: str
    data: str  # The column
    metric: str
    reading: str = ""  # "mask" or "sentence" where sentences and regions are compared, else ""
    paper: float | None = None  # As printed
    ours: Figure | None = None  # ``value``, ``low``, ``high``, in the paper's unit
    count: int = 0  # Regions, sentences or repetitions
    note: str = ""  # Why there is no figure of ours, or only one of some images

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's."""
        if self.ours is None or self.paper is None:
            return None
        return self.ours["value"] - self.paper


def cells_of(bench: PaperBench, table: Table, ties: Ties = "last") -> list[Cell]:
    """Return all cells of a table, row by row; those of ties as asked for."""
    return [cell for row in table.rows for cell in _row(bench, table, row, ties)]


def _row(bench: PaperBench, table: Table, row: Row, ties: Ties) -> Iterator[Cell]:
    model = bench.plan.backbones.models.get(row.backbone, "") if row.method else ""
    for reading in _readings(table):
        done: list[Cell] = []
        for data, metric in table.columns:
            of_sentences = data in WITH_SENTENCES and table.name != "6"
            cell = Cell(
                table=table.name,
                row=row.title,
                backbone=row.backbone,
                model=model,
                data=data,
                metric=metric,
                reading=reading if of_sentences or data == MEAN else "",
                paper=row.values.get((data, metric)),
            )
            if data == MEAN:
                more = _mean(done)
            elif table.sets:
                more = _measured(bench, table, row, cell, ties)
            else:
                more = _timed(bench, table, row, cell)
            done.append(replace(cell, **more))
        # Columns without sentences are the same in both readings.
        yield from (c for c in done if c.reading or reading == _readings(table)[0])


def _readings(table: Table) -> tuple[str, ...]:
    both = table.name != "6" and any(data in WITH_SENTENCES for data in table.sets)
    return tuple(READINGS) if both else ("",)


def _why_not(bench: PaperBench, row: Row, model: str) -> str:
    if row.lacks:
        return row.lacks
    return "" if model else bench.plan.backbones.lacks.get(row.backbone, "not measured")


def _measured(bench: PaperBench, table: Table, row: Row, cell: Cell, ties: Ties) -> dict[str, Any]:
    if not row.method:
        return {"note": row.lacks}
    model, data = cell.model, cell.data
    entry = bench.plan.entry(table, row, data)
    why = entry.lacks or _why_not(bench, row, model) or bench.plan.sets.lacks.get(data, "")
    if why:
        return {"note": why}
    why = bench.lacks.get((data, model, entry.key)) or bench.failures.get((data, model), "")
    records = bench.records(data, model, entry.key)
    if not records:
        return {"note": why or "not measured yet"}
    images = len(bench.keys(data))
    note = "" if len(records) == images else f"{len(records)} of {images} images"
    if table.name == "6":
        summary = retrieval_figures(records, "caption", ties)
    elif data in WITH_SENTENCES:
        summary = retrieval_figures(records, cell.reading, ties)
    elif row.point is not None:
        summary = _point(records, row.point)
    else:
        summary = figures(records, len(bench.plan.sets.opened[data].classes))
    if cell.metric not in summary:
        return {"note": "fewer candidates" if summary else "nothing to rank"}
    ours = {end: 100 * value for end, value in summary[cell.metric].items()}
    count = summary.get("count", summary.get("regions", 0))
    note = f"{note}: {why}" if note and why else note
    return {"ours": ours, "count": count, "note": note}


def _point(records: Sequence[tuple[str, dict[str, Any]]], step: int) -> dict[str, Any]:
    """Return Acc@1 after a step."""
    curves = ((image, one.get("curve", {})) for image, one in records)  # none without a region
    ranks = [(image, rank) for image, curve in curves for rank in curve.get(str(step), [])]
    places = np.array([rank for _, rank in ranks])
    return {"acc1": share(places < 1, [image for image, _ in ranks]), "regions": len(ranks)}


def _timed(bench: PaperBench, table: Table, row: Row, cell: Cell) -> dict[str, Any]:
    why = _why_not(bench, row, cell.model)
    if why:
        return {"note": why}
    part = bench.timed(cell.model, part_of(table, row.title, (cell.data, cell.metric)))
    if part is None:
        return {"note": bench.failures.get(("", cell.model)) or "not measured yet"}
    if cell.metric not in part["route"]:
        return {"note": f"memory allows {part['route']} alone"}
    return {"ours": {end: part[end] for end in ("value", "low", "high")}, "count": 3}


def _mean(cells: Sequence[Cell]) -> dict[str, Any]:
    """Return the mean of a row's figures; their errors are independent."""
    ours = [cell.ours for cell in cells if cell.ours is not None]
    if len(ours) < len(cells):
        return {"note": "a data set is missing"}
    value = float(np.mean([figure["value"] for figure in ours]))
    ends = {}
    for end in ("low", "high"):
        apart = np.array([figure[end] - figure["value"] for figure in ours])
        ends[end] = value + np.sign(apart.sum()) * float(np.sqrt((apart**2).sum())) / len(ours)
    return {"ours": {"value": value, **ends}, "count": sum(cell.count for cell in cells)}
