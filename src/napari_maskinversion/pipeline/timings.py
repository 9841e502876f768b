"""How long windows and regions took on this machine, kept for estimates."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from ..base.atomic_files import write_whole
from ..base.cache_folder import cache_folder, make_folder

LEGRAD = "legrad"
_SHARE = 0.2  # of a new measurement in the kept one


@dataclass(frozen=True, slots=True)
class Speed:
    """Seconds measured on this machine for one model, device and resolution.

    Attributes
    ----------
    encoding : float
        One window.
    step : float
        One region, for one step.
    """

    encoding: float
    step: float


_kept: dict[str, Speed] = {}


def known_speed(model: str, device: str, resolution: int, explainer: str = LEGRAD) -> Speed | None:
    """Give what was measured earlier, in this process or another."""
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
    """Note the seconds that one window and one of its regions took; written after the last one.

    A folder that cannot be written to costs the next estimate, nothing else.
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
    """Forget what this process has measured; what is on disk stays."""
    _kept.clear()


def _key(model: str, device: str, resolution: int, explainer: str) -> str:
    # A step of one map says nothing of a step of another.
    kind = "" if explainer == LEGRAD else f" {explainer}"
    return f"{model} {device} {resolution}{kind}"


def _path(key: str) -> Path:
    return cache_folder() / "speed" / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"
