"""Times of windows and regions on this machine, kept for estimates."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated

from pydantic import Field

from ..base.atomic_files import write_whole
from ..base.cache_folder import cache_folder, make_folder
from ..base.errors import InputError
from ..base.reading import read_json, validated

_Seconds = Annotated[float, Field(gt=0, lt=1e6)]
_Count = Annotated[float, Field(gt=0, allow_inf_nan=False)]
LEGRAD = "legrad"
_WARM_UP = 0.05  # weight of the first window of a run, which takes longer
_OLDER = 0.5  # weight that a run keeps when another one ends


@dataclass(frozen=True, slots=True)
class Speed:
    """Seconds measured on this machine for one model, device, resolution and map or method."""

    encoding: _Seconds  # Per window; of methods other than MaskInversion, per pass of the model
    step: _Seconds  # Per region and step
    # How many windows (or passes), and regions times steps, they are the mean of; those of earlier
    # runs count less
    windows: _Count = field(default=1.0, compare=False)
    steps: _Count = field(default=1.0, compare=False)

    def joined(self, other: Speed) -> Speed:
        """Return the mean of both."""
        windows = self.windows + other.windows
        steps = self.steps + other.steps
        return Speed(
            (self.encoding * self.windows + other.encoding * other.windows) / windows,
            (self.step * self.steps + other.step * other.steps) / steps,
            windows,
            steps,
        )


_kept: dict[str, Speed] = {}


def known_speed(model: str, device: str, resolution: int, explainer: str = LEGRAD) -> Speed | None:
    """Return an earlier measurement, of this process or another."""
    key = _key(model, device, resolution, explainer)
    if key not in _kept:
        with suppress(InputError):
            _kept[key] = validated(Speed, read_json(_path(key)), _path(key))
    return _kept.get(key)


def remember(
    model: str,
    device: str,
    *,
    resolution: int,
    steps: int,
    encoding: float,
    region: float,
    last: bool,
    explainer: str = LEGRAD,
    passes: float = 1.0,
    regions: int = 1,
    warming_up: bool = False,
) -> None:
    """Add the seconds of one window; written to disk after the last one.

    If the folder cannot be written to, only the next estimate is lost.
    """
    key = _key(model, device, resolution, explainer)
    weight = 1.0
    if warming_up:
        weight = _WARM_UP
    rounds = steps + 1
    new = Speed(
        max(encoding, 1e-6),
        max(region / rounds, 1e-7),
        max(weight * passes, 1e-6),
        weight * max(regions, 1) * rounds,
    )
    old = known_speed(model, device, resolution, explainer)
    new = new if old is None else new.joined(old)
    if last:
        new = replace(new, windows=_OLDER * new.windows, steps=_OLDER * new.steps)
    _kept[key] = new
    if last:
        with suppress(OSError):
            path = _path(key)
            make_folder(path.parent)
            write_whole(path, json.dumps(asdict(new)).encode())


def forget() -> None:
    """Forget the measurements of this process; files stay."""
    _kept.clear()


def _key(model: str, device: str, resolution: int, explainer: str) -> str:
    # Steps of different maps take different times.
    kind = "" if explainer == LEGRAD else f" {explainer}"
    return f"{model} {device} {resolution}{kind}"


def _path(key: str) -> Path:
    return cache_folder() / "speed" / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"
