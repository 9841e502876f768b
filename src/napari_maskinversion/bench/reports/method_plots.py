"""Accuracies of methods as bars with their intervals, for light and for dark pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .plots import draw_bars, in_both_looks, new_figure


def plot_methods(page: dict[str, Any], folder: Path) -> list[Path]:
    """Draw Acc@1 of every entry and model of a record."""
    return in_both_looks(page["kind"], folder, lambda colours: _draw(page, colours["lines"]))


def _draw(page: dict[str, Any], colours: Any) -> Any:
    models = page["settings"]["models"]
    parts = [part for part in page["parts"].values() if "lacks" not in part]
    titles = list(dict.fromkeys(part["title"] for part in parts))
    height = 0.9 + 0.26 * len(titles) * max(1.0, 0.6 * len(models))
    figure = new_figure(7.2, height)
    frame = figure.subplots()
    thick = 0.8 / len(models)
    for number, model in enumerate(models):
        own = {part["title"]: part["acc1"] for part in parts if part["model"] == model}
        places = [titles.index(title) + thick * (number - (len(models) - 1) / 2) for title in own]
        colour = colours[number % len(colours)]
        style = {"color": colour, "alpha": 0.55, "label": model}
        draw_bars(frame, places, list(own.values()), thick, ecolor=colour, **style)
    frame.axvline(100 / len(page["settings"]["classes"]), lw=1, ls=":", color=colours[-1])
    frame.set_yticks(range(len(titles)), titles)
    frame.invert_yaxis()
    frame.set(xlabel=f"{page['settings']['data']}: Acc@1, % (dotted: guessing)", xlim=(0, None))
    frame.grid(True, axis="x", linewidth=0.6)
    if len(models) > 1:
        frame.legend(frameon=False)
    return figure
