"""Accuracies of ``bench scenes`` as bars with their intervals, for light and for dark pages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...base.errors import InputError
from ..measures.scene_methods import SCENE_METHODS
from .plots import in_both_looks
from .tables import KINDS

SHADES = (0.9, 0.6, 0.35, 0.25, 0.15)  # opacity of bars for more and more objects
Bars = dict[str, dict[str, Any]]  # by group, then by method


def plot_scenes(page: dict[str, Any], folder: Path) -> list[Path]:
    """Draw region top-1 of every method on scenes of each kind and on each kind of real images.

    Returns
    -------
    list of Path
        ``scenes-light.svg`` and ``scenes-dark.svg``.

    Raises
    ------
    InputError
        If no such part is finished, or matplotlib is not installed.
    """
    panels = list(_panels(page))
    if not panels:
        raise InputError("No part with regions is finished; run 'bench scenes' to its end.")
    return in_both_looks("scenes", folder, lambda colours: _draw(page, panels, colours))


def _panels(page: dict[str, Any]) -> Iterator[tuple[str, Bars, float]]:
    """Yield title, bars and the share of guessing."""
    parts = page["parts"]
    for kind, title in KINDS.items():
        shares = {n.split("/")[2]: p for n, p in parts.items() if n.startswith(f"regions/{kind}/")}
        bars = {
            f"{count} objects": {way: figure["top1"] for way, figure in part["ways"].items()}
            for count, part in shares.items()
        }
        if bars:
            yield title, bars, 1 / page["settings"]["names"]
    for name, part in parts.items():
        if name.startswith("real/"):
            yield name.split("/")[1], {"": part["ways"]}, part["majority"]


def _draw(page: dict[str, Any], panels: list[tuple[str, Bars, float]], colours: Any) -> Any:
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    ways = [way for way in SCENE_METHODS if way not in page["settings"].get("lacks", {})]
    figure = Figure(figsize=(2.0 + 2.2 * len(panels), 1.4 + 0.42 * len(ways)), layout="constrained")
    FigureCanvasSVG(figure)
    frames = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for frame, (title, bars, guessing) in zip(frames, panels, strict=True):
        thick = 0.8 / len(bars)
        for number, (group, shares) in enumerate(bars.items()):
            shown = [way for way in ways if way in shares]
            places = [ways.index(way) + thick * (number - (len(bars) - 1) / 2) for way in shown]
            values, low, high = (
                [100 * shares[way][end] for way in shown] for end in ("value", "low", "high")
            )
            ends = [
                [value - end for value, end in zip(values, low, strict=True)],
                [end - value for value, end in zip(values, high, strict=True)],
            ]
            shade = SHADES[number]
            frame.barh(places, values, 0.9 * thick, color=colours[0], alpha=shade, label=group)
            frame.errorbar(values, places, xerr=ends, fmt="none", ecolor=colours[1], lw=1.2)
        frame.axvline(100 * guessing, lw=1, ls=":", color=colours[1])
        frame.set(title=title, xlabel="region top-1, %", xlim=(0, 100))
        frame.set_yticks(range(len(ways)), [SCENE_METHODS[way].title for way in ways])
        frame.grid(True, axis="x", linewidth=0.6)
    frames[0].invert_yaxis()
    if len(panels[0][1]) > 1:
        figure.legend(
            *frames[0].get_legend_handles_labels(),
            loc="outside lower center",
            ncols=5,
            frameon=False,
        )
    return figure
