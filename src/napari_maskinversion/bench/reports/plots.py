"""Plots of figures as SVG files, for light and for dark pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from ...base.atomic_files import atomic_path
from ...base.errors import InputError
from ...base.targets import check_folder
from ..measures.statistics import READINGS
from ..paper.tables import METRICS, SETS, Cell, Table

LOOKS: Final = {
    "light": {"ink": "#24292f", "grid": "#d0d7de", "lines": ("#0550ae", "#bc4c00")},
    "dark": {"ink": "#e6edf3", "grid": "#3d444d", "lines": ("#79c0ff", "#ffa657")},
}
METADATA: Final = {"Date": None, "Creator": "napari-maskinversion"}
Page = dict[str, Any]


def check_plots(folder: Path) -> None:
    """Refuse plots that cannot be drawn or written, before the work."""
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError:
        raise InputError(
            'Plots need matplotlib: pip install "napari-maskinversion[bench]", or no --plots.'
        ) from None
    check_folder(folder)


def plot(page: Page, folder: Path) -> list[Path]:
    """Draw the figures of a command on a data set."""
    kind = page["kind"]
    if "models" not in page["settings"]:
        raise InputError(f"'bench {kind}' draws no plots.")
    return in_both_looks(kind, folder, lambda colours: _methods(page, colours["lines"]))


def plot_files(kind: str, folder: Path) -> list[Path]:
    """Return the files that `in_both_looks` writes."""
    return [folder / f"{kind}-{look}.svg" for look in LOOKS]


def in_both_looks(kind: str, folder: Path, draw: Callable[[Any], Any]) -> list[Path]:
    """Write a figure for light and for dark pages; ``draw`` receives the entry of `LOOKS`."""
    check_plots(folder)
    import matplotlib as mpl

    folder.mkdir(parents=True, exist_ok=True)
    written = plot_files(kind, folder)
    for target, colours in zip(written, LOOKS.values(), strict=True):
        settings: Any = {"svg.hashsalt": "curves", "font.size": 9}
        for key in ("text.color", "axes.labelcolor", "xtick.color", "ytick.color"):
            settings[key] = colours["ink"]
        settings |= {"axes.edgecolor": colours["grid"], "grid.color": colours["grid"]}
        with mpl.rc_context(settings), atomic_path(target) as part:
            figure = draw(colours)
            figure.savefig(part, format="svg", transparent=True, metadata=METADATA)
    return written


def new_figure(width: float, height: float) -> Any:
    """Return a figure of this size in inches, for SVG."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasSVG(figure)
    return figure


def bars(
    frame: Any,
    places: Sequence[float],
    figures: Sequence[dict[str, float]],
    thickness: float,
    *,
    ecolor: str,
    **style: Any,
) -> None:
    """Draw shares in per cent as bars with their intervals."""
    values = 100 * np.array([figure["value"] for figure in figures])
    low = 100 * np.array([figure["low"] for figure in figures])
    high = 100 * np.array([figure["high"] for figure in figures])
    frame.barh(places, values, 0.9 * thickness, **style)
    ends = [values - low, high - values]
    frame.errorbar(values, places, xerr=ends, fmt="none", ecolor=ecolor, lw=1.2)


def _methods(page: Page, colours: Any) -> Any:
    """Draw Acc@1 of every entry and model as bars."""
    models = page["settings"]["models"]
    parts = [part for part in page["parts"].values() if "lacks" not in part]
    titles = list(dict.fromkeys(part["title"] for part in parts))
    figure = new_figure(7.2, 0.9 + 0.26 * len(titles) * max(1.0, 0.6 * len(models)))
    frame = figure.subplots()
    thick = 0.8 / len(models)
    for number, model in enumerate(models):
        figures_of_model = {}
        for part in parts:
            if part["model"] == model:
                figures_of_model[part["title"]] = part["acc1"]
        places = []
        for title in figures_of_model:
            places.append(titles.index(title) + thick * (number - (len(models) - 1) / 2))
        colour = colours[number % len(colours)]
        style = {"color": colour, "alpha": 0.55, "label": model}
        bars(frame, places, list(figures_of_model.values()), thick, ecolor=colour, **style)
    frame.axvline(100 / len(page["settings"]["classes"]), lw=1, ls=":", color=colours[-1])
    frame.set_yticks(range(len(titles)), titles)
    frame.invert_yaxis()
    frame.set(xlabel=f"{page['settings']['data']}: Acc@1, % (dotted: guessing)", xlim=(0, None))
    frame.grid(True, axis="x", linewidth=0.6)
    if len(models) > 1:
        frame.legend(frameon=False)
    return figure


def band(
    frame: Any, x: Sequence[float], figures: Sequence[Any], scale: float, **style: Any
) -> None:
    """Draw figures as a line; with their intervals, where they have any."""
    if isinstance(figures[0], dict):
        low = [scale * figure["low"] for figure in figures]
        high = [scale * figure["high"] for figure in figures]
        frame.fill_between(x, low, high, color=style["color"], alpha=0.18, linewidth=0)
        figures = [scale * figure["value"] for figure in figures]
    frame.plot(x, figures, **style)


# -- tables of the paper ----------------------------------------------------------------------


def draw_table(table: Table, cells: Sequence[Cell], colours: Any) -> Any:
    """Draw every figure: a column of panels for each data set, a row for each metric."""
    parts = dict.fromkeys((cell.data, cell.reading, cell.metric) for cell in cells)
    columns: dict[str, list[tuple[str, str, str]]] = {}
    for part in parts:
        columns.setdefault(part[0], []).append(part)
    rows = list(dict.fromkeys((cell.row, cell.backbone) for cell in cells))
    deep = max(map(len, columns.values()))
    height = deep * (3.0 if table.axis else 1.0 + 0.22 * len(rows))
    figure = new_figure(max(4.0, 2.9 * len(columns)), height)
    shared = "row" if table.axis else True
    frames = figure.subplots(deep, len(columns), squeeze=False, sharey=shared)
    ours, paper = colours["lines"]
    for column, parts_of_column in zip(frames.T, columns.values(), strict=True):
        for frame in column[len(parts_of_column) :]:
            frame.axis("off")
        for frame, (data, reading, metric) in zip(column, parts_of_column, strict=False):
            shown = []
            for c in cells:
                if (c.data, c.reading, c.metric) == (data, reading, metric):
                    shown.append(c)
            (_line if table.axis else _dots)(frame, shown, ours, paper)
            title = f"{SETS.get(data, data)}, {METRICS[metric]}"
            title += f"\n{READINGS[reading]}" if reading else ""
            frame.set_title(title, fontsize=8)
            frame.grid(True, linewidth=0.6)
            if table.axis:
                frame.set(xlabel=table.axis, ylabel="%" if table.sets else "seconds")
            else:
                frame.set_xlabel("%")
    if not table.axis:
        names = [f"{row}, {backbone}" for row, backbone in rows]
        frames[0, 0].set_yticks(range(len(rows)), names)
        frames[0, 0].invert_yaxis()  # of all panels, which share it
        for row in frames:
            next(frame for frame in row if frame.axison).tick_params(labelleft=True)
    labelled = (zip(*frame.get_legend_handles_labels(), strict=True) for frame in frames.flat)
    drawn = {}
    for pairs in labelled:
        for line, name in pairs:
            drawn[name] = line
    if drawn:
        style = {"loc": "outside lower center", "ncols": 2, "frameon": False, "fontsize": 7}
        figure.legend(drawn.values(), drawn, **style)
    return figure


def _dots(frame: Any, cells: Sequence[Cell], ours: str, paper: str) -> None:
    """Draw one figure a row: ours with its interval, the paper's as a ring."""
    rows = list(enumerate(cells))
    _rings(frame, [(c.paper, place) for place, c in rows if c.paper is not None], "", paper)
    measured = []
    for place, c in rows:
        if c.ours is not None:
            measured.append((c.ours, place))
    if measured:
        values = [figure["value"] for figure, _ in measured]
        ends = []
        for end in ("low", "high"):
            ends.append([abs(figure["value"] - figure[end]) for figure, _ in measured])
        style = {"fmt": ".", "color": ours, "lw": 1.2, "label": "measured"}
        frame.errorbar(values, [place for _, place in measured], xerr=ends, **style)


def _line(frame: Any, cells: Sequence[Cell], ours: str, paper: str) -> None:
    """Draw figures by the numbers that rows are named after."""
    _rings(frame, [(float(c.row), c.paper) for c in cells if c.paper is not None], ":", paper)
    measured = []
    for c in cells:
        if c.ours is not None:
            measured.append((float(c.row), c.ours))
    if measured:
        x, figures = zip(*measured, strict=True)
        style = {"marker": ".", "color": ours, "label": "measured"}
        band(frame, x, figures, 1, **style)


def _rings(frame: Any, points: Sequence[tuple[float, float]], line: str, colour: str) -> None:
    if points:
        style = {"ls": line, "marker": "o", "mfc": "none", "color": colour, "label": "paper"}
        frame.plot(*zip(*points, strict=True), **style)
