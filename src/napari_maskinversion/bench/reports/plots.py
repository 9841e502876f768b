"""Curves as SVG files, for light and for dark pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from ...base.atomic_files import atomic_path
from ...base.errors import InputError
from ...base.targets import check_folder
from .tables import KINDS

LOOKS: Final = {
    "light": {"ink": "#24292f", "grid": "#d0d7de", "lines": ("#0550ae", "#bc4c00")},
    "dark": {"ink": "#e6edf3", "grid": "#3d444d", "lines": ("#79c0ff", "#ffa657")},
}


METADATA: Final = {"Date": None, "Creator": "napari-maskinversion"}


def check_plots(folder: Path) -> None:
    """Refuse plots that cannot be drawn or written, before the work."""
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError:
        raise InputError(
            'Plots need matplotlib: pip install "napari-maskinversion[bench]", or no --plots.'
        ) from None
    check_folder(folder)


def plot_curves(page: dict[str, Any], folder: Path) -> list[Path]:
    """Draw accuracy, overlap and loss of a record of ``bench steps`` or ``bench alpha``."""
    if page["kind"] not in ("steps", "alpha"):
        raise InputError(f"'bench {page['kind']}' has no curves.")
    return in_both_looks(page["kind"], folder, lambda colours: _draw(page, colours["lines"]))


def plot_files(kind: str, folder: Path) -> list[Path]:
    """Return the files that `in_both_looks` writes."""
    return [folder / f"{kind}-{look}.svg" for look in LOOKS]


def in_both_looks(kind: str, folder: Path, draw: Callable[[Any], Any]) -> list[Path]:
    """Write a figure for light and for dark pages; ``draw`` receives the entry of `LOOKS`."""
    check_plots(folder)
    import matplotlib as mpl

    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for target, colours in zip(plot_files(kind, folder), LOOKS.values(), strict=True):
        settings: Any = {"svg.hashsalt": "curves", "font.size": 9}
        for key in ("text.color", "axes.labelcolor", "xtick.color", "ytick.color"):
            settings[key] = colours["ink"]
        settings |= {"axes.edgecolor": colours["grid"], "grid.color": colours["grid"]}
        with mpl.rc_context(settings), atomic_path(target) as part:
            figure = draw(colours)
            figure.savefig(part, format="svg", transparent=True, metadata=METADATA)
        written.append(target)
    return written


def new_figure(width: float, height: float) -> Any:
    """Return a figure of this size in inches, for SVG."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasSVG(figure)
    return figure


def draw_bars(
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


def _draw(page: dict[str, Any], colours: Any) -> Any:
    figure = new_figure(9.6, 3.2)
    frames = figure.subplots(1, 3)
    panels = (("top1", "region top-1, %"), ("iou", "heatmap-to-mask IoU"), ("dice", "Dice loss"))
    for frame, (key, title) in zip(frames, panels, strict=True):
        for (kind, part), colour in zip(page["parts"].items(), colours, strict=False):
            x, points, scale = part["values"], part[key], 100 if key == "top1" else 1
            if isinstance(points[0], dict):
                low, high = ([scale * p[end] for p in points] for end in ("low", "high"))
                frame.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0)
                points = [scale * p["value"] for p in points]
            frame.plot(x, points, "o-", ms=2.5, lw=1.4, color=colour, label=KINDS[kind])
        if page["kind"] == "alpha":
            frame.set_xscale("symlog", linthresh=1)
            ticks = (0, 1, 2, 5, 10, 30)
            frame.set_xticks(ticks, [str(t) for t in ticks])
        frame.set(title=title, xlabel="step" if page["kind"] == "steps" else "alpha")
        frame.grid(True, linewidth=0.6)
    frames[0].legend(frameon=False)
    return figure
