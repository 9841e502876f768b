"""Accuracies of methods as bars with their intervals, for light and for dark pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .plots import in_both_looks


def plot_methods(page: dict[str, Any], folder: Path) -> list[Path]:
    """Draw Acc@1 of every entry and model of a record.

    Returns
    -------
    list of Path
        ``KIND-light.svg`` and ``KIND-dark.svg``.

    Raises
    ------
    InputError
        If matplotlib is not installed.
    """
    return in_both_looks(page["kind"], folder, lambda colours: _draw(page, colours))


def _draw(page: dict[str, Any], colours: Any) -> Any:
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    models = page["settings"]["models"]
    parts = [part for part in page["parts"].values() if "lacks" not in part]
    titles = list(dict.fromkeys(part["title"] for part in parts))
    height = 0.9 + 0.26 * len(titles) * max(1.0, 0.6 * len(models))
    figure = Figure(figsize=(7.2, height), layout="constrained")
    FigureCanvasSVG(figure)
    frame = figure.subplots()
    thick = 0.8 / len(models)
    for number, model in enumerate(models):
        own = {part["title"]: part["acc1"] for part in parts if part["model"] == model}
        places = [titles.index(title) + thick * (number - (len(models) - 1) / 2) for title in own]
        values = [100 * one["value"] for one in own.values()]
        ends = [
            [100 * (one["value"] - one["low"]) for one in own.values()],
            [100 * (one["high"] - one["value"]) for one in own.values()],
        ]
        colour = colours[number % len(colours)]
        frame.barh(places, values, height=0.9 * thick, color=colour, alpha=0.55, label=model)
        frame.errorbar(values, places, xerr=ends, fmt="none", ecolor=colour, lw=1.2)
    frame.axvline(100 / len(page["settings"]["classes"]), lw=1, ls=":", color=colours[-1])
    frame.set_yticks(range(len(titles)), titles)
    frame.invert_yaxis()
    frame.set(xlabel=f"{page['settings']['data']}: Acc@1, % (dotted: guessing)", xlim=(0, None))
    frame.grid(True, axis="x", linewidth=0.6)
    if len(models) > 1:
        frame.legend(frameon=False)
    return figure
