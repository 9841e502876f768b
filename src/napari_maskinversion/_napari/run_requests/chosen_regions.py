"""The regions that a limited run uses."""

from __future__ import annotations

import re
from typing import Any

from ...base.errors import InputError
from ..layers.layers import is_shapes
from ..session import Scope


def chosen_ids(scope: Scope, layer: Any) -> frozenset[int] | None:
    """Return the ids of the chosen regions of a layer; None for all."""
    if not scope.limited:
        return None
    if scope.ids.strip():
        return parse_ids(scope.ids)
    if is_shapes(layer):
        rows = frozenset(int(row) for row in layer.selected_data)
        if not rows:
            raise InputError(
                "No shape is selected; select some with the arrow tool, or choose 'all "
                "regions' under Use."
            )
        return rows
    label = int(getattr(layer, "selected_label", 0))
    if label == 0:
        raise InputError(
            "The selected label is 0, the background; select another one, or type numbers."
        )
    return frozenset({label})


def parse_ids(text: str) -> frozenset[int]:
    """Read ``"3, 7-9"``."""
    ids: set[int] = set()
    for part in re.split(r"[,;\s]+", re.sub(r"(?<=\d)\s*-\s*(?=\d)", "-", text.strip())):
        match = re.fullmatch(r"(-?\d+)(?:-(\d+))?", part)
        if match is None:
            raise InputError(f"Regions are chosen by number, such as 3, 7-9; got '{part}'.")
        first = int(match[1])
        last = int(match[2]) if match[2] else first
        if last < first or last - first > 100_000:
            raise InputError(f"'{part}' is not a range of regions; the lower number comes first.")
        ids.update(range(first, last + 1))
    return frozenset(ids)
