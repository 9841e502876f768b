"""Seconds of an inversion, without and with decomposition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from time import perf_counter
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from ...engine.invert.inverter import MaskInverter
from ...engine.models.backbone import Backbone
from ...engine.settings import InversionConfig
from .backbones import Backbones
from .quoted import GRID_STEPS, Column
from .tables import Table

Route = Literal["direct", "decomposed"]
ROUTES: Final[tuple[Route, ...]] = ("direct", "decomposed")
TIMES: Final = 3
_SHAPE: Final = (480, 640)
_TABLE_SIDE: Final = 224  # pixels of the paper's table of seconds, which names none
_MASKS: Final = 10  # of the curve over resolutions


@dataclass(frozen=True, slots=True)
class TimedPart:
    """One inversion to time."""

    masks: int  # Masks; pixels of the model's input
    side: int
    route: Route
    steps: int | None = None  # None takes those of the inversion

    @property
    def about(self) -> str:
        """Description for progress."""
        steps = "" if self.steps is None else f", K = {self.steps}"
        return f"{self.masks} masks at {self.side} px, {self.route}{steps}"

    def key(self, model: Backbone) -> str:
        """Return its name in the records, with model and device."""
        return f"{model.name} {model.fingerprint} on {model.device.type}: {self.about}"


def part_of(table: Table, title: str, column: Column) -> TimedPart:
    """Return what a cell of a table of seconds measures."""
    number = int(title)
    what, metric = column
    route = next(one for one in ROUTES if one == metric)
    if table.name == "resolution":
        return TimedPart(_MASKS, number, route)
    steps = GRID_STEPS.get(what)
    return TimedPart(number, _TABLE_SIDE, route, steps)


def timed_parts(tables: Sequence[Table], backbones: Backbones, model: str) -> list[TimedPart]:
    """Return everything to time with a model, each once."""
    parts = [
        part_of(table, row.title, column)
        for table in tables
        if not table.sets
        for row in table.rows
        if backbones.models.get(row.backbone) == model
        for column in table.columns
    ]
    return list(dict.fromkeys(parts))


def time_part(model: Backbone, part: TimedPart, inversion: InversionConfig) -> dict[str, Any]:
    """Invert masks of a random image several times.

    A model of another native resolution than 224 px is timed at a side in proportion.
    """
    side = max(2, round(part.side * model.native_resolution / _TABLE_SIDE / model.patch_size))
    side *= model.patch_size
    image, masks = _scene(part.masks)
    steps = inversion.steps if part.steps is None else part.steps
    config = replace(inversion, route=part.route, alpha=0.0, steps=steps)
    inverter = MaskInverter(model)
    encoded, inverted, route = [], [], ""
    for number in range(TIMES + 1):  # the first is not counted: it prepares weights
        began = perf_counter()
        inverter.set_image(image, resolution=side, keep_aspect=False)
        between = perf_counter()
        route = inverter.invert(masks, config).route
        if number:
            encoded.append(between - began)
            inverted.append(perf_counter() - between)
    return {
        "value": median(inverted),
        "low": min(inverted),
        "high": max(inverted),
        "encoding": median(encoded),
        "route": route,
        "side": side,
    }


def _scene(count: int) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    rng = np.random.default_rng(0)
    masks = np.zeros((count, *_SHAPE), bool)
    for mask in masks:
        height, width = rng.integers(40, 200, 2)
        y, x = rng.integers(0, _SHAPE[0] - height), rng.integers(0, _SHAPE[1] - width)
        mask[y : y + height, x : x + width] = True
    return rng.integers(0, 255, (*_SHAPE, 3)).astype(np.uint8), masks
