"""The paper's figures beside ours: the Markdown, CSV and plots of ``bench paper``."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from ...base.atomic_files import atomic_path
from ...base.errors import InputError
from ...base.targets import check_targets, mentions_us
from ...results.export.table_export import without_formula
from ..measures.figures_file import typed_command
from ..measures.statistics import READINGS, Ties, figures, retrieval_figures, share
from ..paper.choices import inversion_of
from ..paper.paper_running import PaperBench, part_of
from ..paper.tables import MEAN, METRICS, SETS, WITH_SENTENCES, Cell, Row, Table
from .plots import check_plots, draw_table, in_both_looks, plot_files
from .report_tables import markdown_table

MARK: Final = "<!-- napari-maskinversion bench paper -->"
_SECONDS: Final = ("direct", "decomposed")  # metrics
COLUMNS: Final = (
    *("table", "row", "backbone", "model", "data", "metric", "reading", "ties", "paper"),
    *("ours", "low", "high", "difference", "count", "note"),
)


def files_of(table: Table, folder: Path, *, plots: bool = True) -> list[Path]:
    """Return the files that `write_files` makes."""
    named = [folder / f"{table.file}{ending}" for ending in (".md", ".csv")]
    return named + (plot_files(table.file, folder) if plots else [])


def check_files(
    tables: Sequence[Table],
    folder: Path,
    *,
    overwrite: bool,
    inputs: Iterable[Path] = (),
    plots: bool = True,
) -> None:
    """Refuse files that must not be written, such as ``inputs``, and plots that cannot be drawn."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; --out names a folder.")
    if plots:
        check_plots(folder)
    targets = []
    for table in tables:
        targets.extend(files_of(table, folder, plots=plots))
    check_targets(targets, overwrite=overwrite, inputs=inputs, is_ours=_is_ours)


def _is_ours(file: Path) -> bool:
    """Return whether `write_files` wrote a file; a CSV file is known by its page."""
    return mentions_us(file.with_suffix(".md") if file.suffix == ".csv" else file)


def write_files(
    table: Table,
    cells: Sequence[Cell],
    text: str,
    folder: Path,
    ties: Ties = "last",
    *,
    plots: bool = True,
) -> None:
    """Write a table's Markdown, which is ``text``, its CSV and its plots."""
    folder.mkdir(parents=True, exist_ok=True)
    page, values = files_of(table, folder, plots=False)
    with atomic_path(page) as part:
        part.write_text(f"{MARK}\n\n{text}", encoding="utf-8")
    with atomic_path(values) as part:
        part.write_text(csv_text(cells, ties), encoding="utf-8")
    if plots:
        in_both_looks(table.file, folder, lambda colours: draw_table(table, cells, colours))


def csv_text(cells: Sequence[Cell], ties: Ties) -> str:
    """Return all cells as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for c in cells:
        if c.ours is None:
            ours = ["", "", ""]
        else:
            ours = [f"{value:.4g}" for value in c.ours.values()]
        place = [c.table, c.row, c.backbone, c.model, c.data, c.metric, c.reading]
        ties_told = ""
        if c.reading or c.table == "6":
            ties_told = ties
        figures = ["" if c.paper is None else c.paper, *ours]
        figures += ["" if c.difference is None else f"{c.difference:.4g}", c.count or ""]
        writer.writerow(
            [*map(without_formula, place), ties_told, *figures, without_formula(c.note)]
        )
    return text.getvalue()


# -- the paper's figure and ours, cell by cell -------------------------------------------------


def cells_of(bench: PaperBench, table: Table, ties: Ties = "last") -> list[Cell]:
    """Return all cells of a table, row by row; those of ties as asked for."""
    both = table.name != "6" and any(data in WITH_SENTENCES for data in table.sets)
    readings = tuple(READINGS) if both else ("",)
    cells = []
    for row in table.rows:
        for reading in readings:
            done = _row(bench, table, row, reading, ties)
            # Columns without sentences are the same in both readings.
            cells += [cell for cell in done if cell.reading or reading == readings[0]]
    return cells


def _row(bench: PaperBench, table: Table, row: Row, reading: str, ties: Ties) -> list[Cell]:
    model = ""
    if row.method:
        model = bench.plan.backbones.models.get(row.backbone, "")
    done: list[Cell] = []
    for data, metric in table.columns:
        read = data == MEAN or (data in WITH_SENTENCES and table.name != "6")
        cell = Cell(
            table=table.name,
            row=row.title,
            backbone=row.backbone,
            model=model,
            data=data,
            metric=metric,
            reading=reading if read else "",
            paper=row.values.get((data, metric)),
        )
        if data == MEAN:
            more = _mean(done)
        elif table.sets:
            more = _measured(bench, table, row, cell, ties)
        else:
            more = _timed(bench, table, row, cell)
        done.append(replace(cell, **more))
    return done


def _why_not(bench: PaperBench, row: Row, model: str) -> str:
    return row.lacks or (
        "" if model else bench.plan.backbones.lacks.get(row.backbone, "not measured")
    )


def _measured(bench: PaperBench, table: Table, row: Row, cell: Cell, ties: Ties) -> dict[str, Any]:
    if not row.method:
        return {"note": row.lacks}
    model = cell.model
    data = cell.data
    entry = bench.plan.entry(table, row, data)
    why = entry.lacks or _why_not(bench, row, model) or bench.plan.sets.lacks.get(data, "")
    if why:
        return {"note": why}
    why = bench.lacks.get((data, model, entry.key)) or bench.failures.get((data, model), "")
    records = bench.records(data, model, entry.key)
    if not records:
        return {"note": why or "not measured yet"}
    images = len(bench.keys(data))
    if len(records) == images:
        note = ""
    else:
        note = f"{len(records)} of {images} images"
    if table.name == "6" or data in WITH_SENTENCES:
        summary = retrieval_figures(records, cell.reading or "caption", ties)
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
    images = []
    ranks = []
    for image, record in records:
        # An image without a region has no curve.
        ranks_of_image = record.get("curve", {}).get(str(step), [])
        ranks += ranks_of_image
        images += [image] * len(ranks_of_image)
    return {"acc1": share(np.array(ranks) < 1, images), "regions": len(ranks)}


def _timed(bench: PaperBench, table: Table, row: Row, cell: Cell) -> dict[str, Any]:
    why = _why_not(bench, row, cell.model)
    if why:
        return {"note": why}
    part = bench.seconds_of(cell.model, part_of(table, row.title, (cell.data, cell.metric)))
    if part is None:
        return {"note": bench.failures.get(("", cell.model)) or "not measured yet"}
    if cell.metric not in part["route"]:
        return {"note": f"memory allows {part['route']} alone"}
    return {"ours": {end: part[end] for end in ("value", "low", "high")}, "count": 3}


def _mean(cells: Sequence[Cell]) -> dict[str, Any]:
    """Return the mean of a row's figures; their errors are independent."""
    ours = []
    for cell in cells:
        if cell.ours is not None:
            ours.append(cell.ours)
    if len(ours) < len(cells):
        return {"note": "a data set is missing"}
    value = float(np.mean([figure["value"] for figure in ours]))
    ends = {}
    for end in ("low", "high"):
        apart = np.array([figure[end] - figure["value"] for figure in ours])
        ends[end] = value + np.sign(apart.sum()) * float(np.sqrt((apart**2).sum())) / len(ours)
    return {"ours": {"value": value, **ends}, "count": sum(cell.count for cell in cells)}


# -- text -------------------------------------------------------------------------------------


def markdown(bench: PaperBench, table: Table, cells: Sequence[Cell], ties: Ties) -> str:
    """Return a table as Markdown: one part for each data set and reading."""
    if table.name.isdigit():
        head = f"Table {table.name}"
    else:
        head = f"Curve {table.name}"
    blocks = [f"## {head}: {table.title}", _about(bench, table, ties)]
    parts = dict.fromkeys((cell.data, cell.reading) for cell in cells)
    for data, reading in parts:
        shown = []
        for cell in cells:
            if (cell.data, cell.reading) == (data, reading):
                shown.append(cell)
        blocks.append(_part(table, data, reading, shown))
    skipped: list[str] = []
    for name in table.sets:
        skipped.extend(bench.skipped.get(name, {}).values())
    if skipped:
        blocks.append("Left out:\n\n" + "\n".join(f"- {why}" for why in skipped))
    return "\n\n".join(blocks) + "\n"


def _about(bench: PaperBench, table: Table, ties: Ties) -> str:
    plan = bench.plan
    said = []
    if table.note:
        said = [table.note]
    if table.sets:
        opened = plan.sets.opened
        opened_names = [name for name in table.sets if name in opened]
        names = []
        for name in opened_names:
            names.append(f"{opened[name].name} ({len(bench.keys(name))} images)")
        said.append(f"Measured on {', '.join(names)}." if names else "Nothing is measured.")
    if table.sets and opened_names:
        alphas = []
        for name in opened_names:
            alphas.append(f"{inversion_of(name, plan.inversion).alpha:g} ({SETS[name]})")
        if any("alpha" in row.changes for row in table.rows):
            alphas = ["as named"]
        points = next((row.points for row in table.rows if row.points), ())
        if points:
            steps = f"K to {points[-1]}"
        else:
            steps = f"K = {plan.inversion.steps}"
        said.append(
            f"A square of {plan.resolution} px, {steps}, learning rate "
            f"{plan.inversion.learning_rate:g}, alpha {', '.join(alphas)}. In brackets: 95 % "
            "interval, from 2,000 resamplings of whole images."
        )
        if any(data in table.sets for data in WITH_SENTENCES):
            counted = "by the first of the tied ones"
            if ties == "last":
                counted = "against the answer"
            said.append(f"Ties are decided {counted}.")
    elif not table.sets:
        said.append("Seconds, the median of three; in brackets the quickest and the slowest.")
    strangers = {}
    for model in plan.backbones.names:
        strangers[model] = plan.backbones.backbones_of(model)
    for model, stands in strangers.items():
        if len(stands) > 1:
            said.append(f"{model} stands in for {', '.join(stands)}: no figure can be compared.")
    said.append(f"`{typed_command()}`")
    return " ".join(said)


def _part(table: Table, data: str, reading: str, cells: Sequence[Cell]) -> str:
    metrics = list(dict.fromkeys(cell.metric for cell in cells))
    title = _title(table, data)
    title += f": {READINGS[reading]}" if reading else ""
    head = [f"{title}{', %' if table.sets else ''}", "backbone"]
    for metric in metrics:
        head += [METRICS[metric], "paper", "difference"]
    rows = []
    for row, backbone in dict.fromkeys((cell.row, cell.backbone) for cell in cells):
        cells_by_metric = {}
        for c in cells:
            if (c.row, c.backbone) == (row, backbone):
                cells_by_metric[c.metric] = c
        named = f"{table.axis} {row}" if table.axis else row
        line = [named, backbone]
        last_note = ""
        for metric in metrics:
            cell = cells_by_metric[metric]
            note = "" if cell.note == last_note else cell.note
            last_note = cell.note
            shown = "; ".join(part for part in (_ours(cell), note) if part)
            line += [shown.replace("|", "/"), _printed(cell), _signed(cell.difference)]
        rows.append(line)
    return markdown_table(head, rows)


def _title(table: Table, data: str) -> str:
    if table.sets:
        return SETS.get(data, data)
    if len({name for name, _ in table.columns}) > 1:
        return f"seconds, {data}"
    return "seconds"


def _ours(cell: Cell) -> str:
    if cell.ours is None:
        return ""
    value, low, high = (cell.ours[end] for end in ("value", "low", "high"))
    if cell.metric in _SECONDS:
        return f"{value:.2f} ({low:.2f}–{high:.2f})"
    if low == high:  # one image: nothing to resample
        return f"{value:.1f}"
    return f"{value:.1f} ({low:.1f}–{high:.1f})"


def _printed(cell: Cell) -> str:
    """Return the paper's figure with the decimals that it has there."""
    if cell.paper is None:
        return ""
    if cell.metric in _SECONDS:
        few = f"{cell.paper:.2f}"
    else:
        few = f"{cell.paper:.1f}"
    if float(few) == cell.paper:
        return few
    return f"{cell.paper:g}"


def _signed(value: float | None) -> str:
    if value is None:
        return ""
    if abs(value) >= 0.05:
        return f"{value:+.1f}"
    return "0"
