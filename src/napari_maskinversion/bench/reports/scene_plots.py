"""Accuracies of ``bench scenes`` as bars with their intervals, for light and for dark pages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...base.errors import InputError
from ..measures.scene_methods import SCENE_METHODS
from .plots import draw_bars, in_both_looks, new_figure
from .tables import KINDS

SHADES = (0.9, 0.6, 0.35, 0.25, 0.15)  # opacity of bars for more and more objects
Bars = dict[str, dict[str, Any]]  # by group, then by method


def plot_scenes(page: dict[str, Any], folder: Path) -> list[Path]:
    """Draw region top-1 of every method on scenes of each kind and on each kind of real images."""
    panels = list(_panels(page))
    if not panels:
        raise InputError("No part with regions is finished; run 'bench scenes' to its end.")
    return in_both_looks("scenes", folder, lambda colours: _draw(page, panels, colours["lines"]))


def _panels(page: dict[str, Any]) -> Iterator[tuple[str, Bars, float]]:
    """Yield title, bars and the share of guessing."""
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


def _draw(page: dict[str, Any], panels: list[tuple[str, Bars, float]], colours: Any) -> Any:
    methods = [
        method for method in SCENE_METHODS if method not in page["settings"].get("lacks", {})
    ]
    figure = new_figure(2.0 + 2.2 * len(panels), 1.4 + 0.42 * len(methods))
    frames = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for frame, (title, bars, guessing) in zip(frames, panels, strict=True):
        thick = 0.8 / len(bars)
        for number, (group, shares) in enumerate(bars.items()):
            shown = [method for method in methods if method in shares]
            places = [
                methods.index(method) + thick * (number - (len(bars) - 1) / 2) for method in shown
            ]
            style = {"color": colours[0], "alpha": SHADES[number], "label": group}
            figures = [shares[method] for method in shown]
            draw_bars(frame, places, figures, thick, ecolor=colours[1], **style)
        frame.axvline(100 * guessing, lw=1, ls=":", color=colours[1])
        frame.set(title=title, xlabel="region top-1, %", xlim=(0, 100))
        frame.set_yticks(range(len(methods)), [SCENE_METHODS[method].title for method in methods])
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
