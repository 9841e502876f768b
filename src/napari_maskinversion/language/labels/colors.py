"""Distinct colours, one per label."""

from __future__ import annotations

import colorsys
from collections.abc import Sequence
from typing import Final

from ...base.preferences import SAFE, load

# Multiples of irrational steps never coincide, and neighbours are far apart.
_HUE: Final = (5**0.5 - 1) / 2
_SATURATION: Final = 0.754878
_VALUE: Final = 0.569840

# Distinct with every common kind of colour blindness (Okabe and Ito, 2008), without black.
SAFE_COLORS: Final = (
    "#e69f00",
    "#56b4e9",
    "#009e73",
    "#f0e442",
    "#0072b2",
    "#d55e00",
    "#cc79a7",
)


def distinct_color(place: int) -> str:
    """Return the default colour ``#rrggbb`` of label number ``place`` (0, 1, ...)."""
    hue = (0.02 + place * _HUE) % 1
    # Saturated enough for a white background, bright enough for a black one.
    saturation = 0.95 - 0.5 * (place * _SATURATION % 1)
    value = 0.95 - 0.35 * (place * _VALUE % 1)
    rgb = colorsys.hsv_to_rgb(hue, saturation, value)
    return "#" + "".join(f"{round(255 * part):02x}" for part in rgb)


def colors_of(words: Sequence[str], own: Sequence[str]) -> dict[str, str]:
    """Return a colour for each word, in the palette that the user prefers."""
    first = SAFE_COLORS if load().palette == SAFE else ()
    filled = fill_colors([*own, *[""] * (len(words) - len(own))], first)
    return dict(zip(words, filled, strict=True))


def fill_colors(colors: Sequence[str], first: Sequence[str] = ()) -> tuple[str, ...]:
    """Fill in an unused colour for each label without one (""); the others stay.

    A label keeps its default when labels are added after it.
    """
    used, filled, step = set(colors), [], 0
    for place, color in enumerate(colors):
        step = max(step, place)
        while not color:
            candidate = first[step] if step < len(first) else distinct_color(step)
            step += 1
            if candidate not in used:
                used.add(candidate)
                color = candidate
        filled.append(color)
    return tuple(filled)
