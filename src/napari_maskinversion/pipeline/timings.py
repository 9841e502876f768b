"""Times of windows and regions on this machine, kept for estimates."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from ..base.atomic_files import write_whole
from ..base.cache_folder import cache_folder, make_folder

LEGRAD = "legrad"
_SHARE = 0.2  # weight of a new measurement in the running average


@dataclass(frozen=True, slots=True)
class Speed:
    """Seconds measured on this machine for one model, device and resolution.

    Attributes
    ----------
    encoding : float
        Per window.
    step : float
        Per region and step.
    """

    encoding: float
    step: float


_kept: dict[str, Speed] = {}


def known_speed(model: str, device: str, resolution: int, explainer: str = LEGRAD) -> Speed | None:
    """Return an earlier measurement, of this process or another."""
    key = _key(model, device, resolution, explainer)
    if key not in _kept:
        with suppress(OSError, ValueError, TypeError, KeyError):
            values = json.loads(_path(key).read_text("utf-8"))
            speed = Speed(float(values["encoding"]), float(values["step"]))
            if 0 < speed.encoding < 1e6 and 0 < speed.step < 1e6:
                _kept[key] = speed
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
) -> None:
    """Add the seconds of one window and one of its regions; written to disk after the last one.

    If the folder cannot be written to, only the next estimate is lost.
    """
    key = _key(model, device, resolution, explainer)
    new = Speed(max(encoding, 1e-6), max(region / (steps + 1), 1e-7))
    old = known_speed(model, device, resolution, explainer)
    if old is not None:
        new = Speed(
            old.encoding + _SHARE * (new.encoding - old.encoding),
            old.step + _SHARE * (new.step - old.step),
        )
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
