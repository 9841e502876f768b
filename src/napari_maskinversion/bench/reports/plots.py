"""Plots of figures as SVG files, for light and for dark pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from ...base.atomic_files import atomic_path
from ...base.errors import InputError
from ...base.targets import check_folder
from ..measures.scene_methods import SCENE_METHODS
from ..measures.statistics import READINGS
from ..paper.tables import METRICS, SETS, Cell, Table
from .tables import KINDS

LOOKS: Final = {
    "light": {"ink": "#24292f", "grid": "#d0d7de", "lines": ("#0550ae", "#bc4c00")},
    "dark": {"ink": "#e6edf3", "grid": "#3d444d", "lines": ("#79c0ff", "#ffa657")},
}
METADATA: Final = {"Date": None, "Creator": "napari-maskinversion"}
SHADES: Final = (0.9, 0.6, 0.35, 0.25, 0.15)  # opacity of bars for more and more objects
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
    """Draw the figures of a bench command."""
    kind, draw = page["kind"], _methods
    if kind in ("steps", "alpha"):
        draw = _curves
    elif kind == "scenes":
        draw = _scenes
    elif "models" not in page["settings"]:
        raise InputError(f"'bench {kind}' draws no plots.")
    return in_both_looks(kind, folder, lambda colours: draw(page, colours["lines"]))


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


def _bars(
    frame: Any,
    places: Sequence[float],
    figures: Sequence[dict[str, float]],
    thickness: float,
    *,
    ecolor: str,
    **style: Any,
) -> None:
    """Draw shares in per cent as bars with their intervals."""
    values, low, high = (
        100 * np.array([figure[end] for figure in figures]) for end in ("value", "low", "high")
    )
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
        own = {part["title"]: part["acc1"] for part in parts if part["model"] == model}
        places = [titles.index(title) + thick * (number - (len(models) - 1) / 2) for title in own]
        colour = colours[number % len(colours)]
        style = {"color": colour, "alpha": 0.55, "label": model}
        _bars(frame, places, list(own.values()), thick, ecolor=colour, **style)
    frame.axvline(100 / len(page["settings"]["classes"]), lw=1, ls=":", color=colours[-1])
    frame.set_yticks(range(len(titles)), titles)
    frame.invert_yaxis()
    frame.set(xlabel=f"{page['settings']['data']}: Acc@1, % (dotted: guessing)", xlim=(0, None))
    frame.grid(True, axis="x", linewidth=0.6)
    if len(models) > 1:
        frame.legend(frameon=False)
    return figure


def _band(
    frame: Any, x: Sequence[float], figures: Sequence[Any], scale: float, **style: Any
) -> None:
    """Draw figures as a line; with their intervals, where they have any."""
    if isinstance(figures[0], dict):
        low, high = ([scale * figure[end] for figure in figures] for end in ("low", "high"))
        frame.fill_between(x, low, high, color=style["color"], alpha=0.18, linewidth=0)
        figures = [scale * figure["value"] for figure in figures]
    frame.plot(x, figures, **style)


def _curves(page: Page, colours: Any) -> Any:
    """Draw accuracy, overlap and loss over the steps, or over alpha."""
    figure = new_figure(9.6, 3.2)
    frames = figure.subplots(1, 3)
    panels = (("top1", "region top-1, %"), ("iou", "heatmap-to-mask IoU"), ("dice", "Dice loss"))
    for frame, (key, title) in zip(frames, panels, strict=True):
        for (kind, part), colour in zip(page["parts"].items(), colours, strict=False):
            style = {"marker": "o", "ms": 2.5, "lw": 1.4, "color": colour, "label": KINDS[kind]}
            _band(frame, part["values"], part[key], 100 if key == "top1" else 1, **style)
        if page["kind"] == "alpha":
            frame.set_xscale("symlog", linthresh=1)
            ticks = (0, 1, 2, 5, 10, 30)
            frame.set_xticks(ticks, [str(t) for t in ticks])
        frame.set(title=title, xlabel="step" if page["kind"] == "steps" else "alpha")
        frame.grid(True, linewidth=0.6)
    frames[0].legend(frameon=False)
    return figure


def _panels(page: Page) -> Iterator[tuple[str, dict[str, Page], float]]:
    """Yield title, figures by group and method, and the share of guessing."""
    parts = page["parts"]
    for kind, title in KINDS.items():
        shares = {n.split("/")[2]: p for n, p in parts.items() if n.startswith(f"regions/{kind}/")}
        bars = {
            f"{count} objects": {method: figure["top1"] for method, figure in part["ways"].items()}
            for count, part in shares.items()
        }
        if bars:
            yield title, bars, 1 / page["settings"]["names"]
    for name, part in parts.items():
        if name.startswith("real/"):
            yield name.split("/")[1], {"": part["ways"]}, part["majority"]


def _scenes(page: Page, colours: Any) -> Any:
    """Draw region top-1 of every method on scenes of each kind and on each kind of real images."""
    panels = list(_panels(page))
    if not panels:
        raise InputError("No part with regions is finished; run 'bench scenes' to its end.")
    lacks = page["settings"].get("lacks", {})
    methods = [method for method in SCENE_METHODS if method not in lacks]
    figure = new_figure(2.0 + 2.2 * len(panels), 1.4 + 0.42 * len(methods))
    frames = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for frame, (title, bars, guessing) in zip(frames, panels, strict=True):
        thick = 0.8 / len(bars)
        for number, (group, shares) in enumerate(bars.items()):
            shown = [method for method in methods if method in shares]
            middle = thick * (number - (len(bars) - 1) / 2)
            places = [methods.index(method) + middle for method in shown]
            style = {"color": colours[0], "alpha": SHADES[number], "label": group}
            figures = [shares[method] for method in shown]
            _bars(frame, places, figures, thick, ecolor=colours[1], **style)
        frame.axvline(100 * guessing, lw=1, ls=":", color=colours[1])
        frame.set(title=title, xlabel="region top-1, %", xlim=(0, 100))
        frame.set_yticks(range(len(methods)), [SCENE_METHODS[method].title for method in methods])
        frame.grid(True, axis="x", linewidth=0.6)
    frames[0].invert_yaxis()
    if len(panels[0][1]) > 1:
        style = {"loc": "outside lower center", "ncols": 5, "frameon": False}
        figure.legend(*frames[0].get_legend_handles_labels(), **style)
    return figure


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
    for column, own in zip(frames.T, columns.values(), strict=True):
        for frame in column[len(own) :]:
            frame.axis("off")
        for frame, (data, reading, metric) in zip(column, own, strict=False):
            shown = [c for c in cells if (c.data, c.reading, c.metric) == (data, reading, metric)]
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
    drawn = {name: line for pairs in labelled for line, name in pairs}
    if drawn:
        style = {"loc": "outside lower center", "ncols": 2, "frameon": False, "fontsize": 7}
        figure.legend(drawn.values(), drawn, **style)
    return figure


def _dots(frame: Any, cells: Sequence[Cell], ours: str, paper: str) -> None:
    """Draw one figure a row: ours with its interval, the paper's as a ring."""
    rows = list(enumerate(cells))
    _rings(frame, [(c.paper, place) for place, c in rows if c.paper is not None], "", paper)
    measured = [(c.ours, place) for place, c in rows if c.ours is not None]
    if measured:
        values = [one["value"] for one, _ in measured]
        ends = [[abs(one["value"] - one[end]) for one, _ in measured] for end in ("low", "high")]
        style = {"fmt": ".", "color": ours, "lw": 1.2, "label": "measured"}
        frame.errorbar(values, [place for _, place in measured], xerr=ends, **style)


def _line(frame: Any, cells: Sequence[Cell], ours: str, paper: str) -> None:
    """Draw figures by the numbers that rows are named after."""
    _rings(frame, [(float(c.row), c.paper) for c in cells if c.paper is not None], ":", paper)
    measured = [(float(c.row), c.ours) for c in cells if c.ours is not None]
    if measured:
        x, figures = zip(*measured, strict=True)
        style = {"marker": ".", "color": ours, "label": "measured"}
        _band(frame, x, figures, 1, **style)


def _rings(frame: Any, points: Sequence[tuple[float, float]], line: str, colour: str) -> None:
    if points:
        style = {"ls": line, "marker": "o", "mfc": "none", "color": colour, "label": "paper"}
        frame.plot(*zip(*points, strict=True), **style)
