"""Calibrated limits of flags, kept by model: those of the user, and those that come with the demo.

Limits belong to what they were measured with: the weights, the method, and the map whose overlap
is judged.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from ..base.config_parts import ConfigPart
from ..base.preferences import FILE
from ..engine.models.specs import bundled_folder
from ..language.ranking.uncertainty import Calibration
from .settings import RunSettings

SHIPPED: Final = "flags.json"
"""File beside the bundled weights with their limits, by the key of the model."""


def key_of(fingerprint: str, settings: RunSettings) -> str:
    """Return the key of limits: the model's fingerprint, the method, the map."""
    method = settings.method.name.replace("/", "_")
    parts = [fingerprint, method]
    if settings.method.uses_inversion:
        parts.append(settings.inversion.explainer)
    return "-".join(parts)


def part_of(key: str) -> ConfigPart:
    """Return where the user's limits for a key are kept."""
    return ConfigPart(("limits", key), former=f"flags/{key}.json")


def calibration_of(fingerprint: str, settings: RunSettings) -> Calibration | None:
    """Return the limits of a model; the user's own come before those that come with it.

    None if they were not calibrated, or cannot be read.
    """
    key = key_of(fingerprint, settings)
    values, _ = part_of(key).read()
    if values:
        return _read(values)
    return shipped_calibrations().get(key)


def keep_calibration(fingerprint: str, settings: RunSettings, calibration: Calibration) -> Path:
    """Keep the limits of a model in the user's folder; returns the file."""
    part_of(key_of(fingerprint, settings)).write(asdict(calibration))
    return FILE.path


def _read(values: Mapping[str, Any]) -> Calibration | None:
    try:
        return TypeAdapter(Calibration).validate_python(dict(values))
    except ValidationError:
        return None


@cache
def shipped_calibrations() -> dict[str, Calibration]:
    """Return the limits that come with the package, by key."""
    try:
        entries = json.loads((bundled_folder() / SHIPPED).read_text("utf-8"))
    except (OSError, ValueError):  # a model that was just trained has no limits yet
        return {}
    limits = {key: _read(values) for key, values in entries.items()}
    return {key: calibration for key, calibration in limits.items() if calibration is not None}
