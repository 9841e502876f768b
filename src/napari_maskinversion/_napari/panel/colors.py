"""Colours of the panel in napari's themes."""

from __future__ import annotations

from typing import Any


def colors_of(theme: Any) -> dict[str, str]:
    """Return the colours of head and foot by name, readable on the theme's background."""
    dark = sum(theme.background.as_rgb_tuple()[:3]) < 3 * 128
    return {
        "accent": theme.current.as_hex(),
        "text": theme.text.as_hex(),
        "line": theme.primary.as_hex(),
        "error": "#ff9d8f" if dark else "#a80010",
        "warning": "#ffcf66" if dark else "#7a4b00",
        "amber": "#5a4200" if dark else "#ffdf94",
        "on amber": "#ffe2a0" if dark else "#3d2900",
    }
