"""Estimate size, time and device of a run before it starts, without torch or a loaded model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ..base.wording import counted
from ..engine.compute.lazy_torch import device_name, likely_gpu, torch_if_loaded
from ..engine.methods.registry import Method
from ..engine.settings import InversionConfig
from ..images.windows import Window, WindowConfig, plan_windows
from .run import PlaneTask
from .timings import known_speed

_PATCH: Final = 16  # if the name of an architecture does not contain it: ViTamin, MobileCLIP
# Not in the name, or named after the text tower.
_PATCHES: Final = {
    "demo": 8,
    "coca_base": 18,
    "nllb-clip-base": 32,
    "nllb-clip-large": 14,
    "nllb-clip-large-siglip": 14,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Size of a run."""

    regions: int  # Their numbers
    planes: int
    windows: int
    seconds: float | None  # Expected on this machine; None if the model never ran on this device

    @property
    def text(self) -> str:
        """One line for people: ``"212 regions in 40 parts of the image, about 1 min 20 s"``."""
        text = counted(self.regions, "region")
        if self.planes > 1:
            text += f" on {counted(self.planes, 'plane')}"
        if self.windows > self.planes:
            text += f" in {counted(self.windows, 'part')} of the image"
        if self.seconds is None:
            return text
        return f"{text}, {in_words(self.seconds)}"


def estimate(
    tasks: Sequence[PlaneTask],
    *,
    model: str,
    device: str,
    resolution: int,
    patch: int,
    config: InversionConfig,
    window: WindowConfig | None = None,
    method: Method | None = None,
    native: int | None = None,
) -> Estimate:
    """Estimate size and time of a run."""
    windows: list[Window] = []
    for task in tasks:
        windows.extend(
            plan_windows(
                task.regions,
                task.source.levels,
                resolution=resolution,
                patch=patch,
                config=window or WindowConfig(mode="whole"),
                native=native,
            )
        )
    shares = []
    for planned in windows:
        shares.append((planned.resolution / resolution) ** 2)  # of the tokens
    regions = sum(len(task.regions) for task in tasks)
    seconds = seconds_of(
        sum(shares),
        sum(len(planned.members) * share for planned, share in zip(windows, shares, strict=True)),
        model=model,
        device=device,
        resolution=resolution,
        config=config,
        method=method,
    )
    planes = sum(1 for task in tasks if len(task.regions))
    return Estimate(regions=regions, planes=planes, windows=len(windows), seconds=seconds)


def seconds_of(
    windows: float,
    regions: float,
    *,
    model: str,
    device: str,
    resolution: int,
    config: InversionConfig,
    method: Method | None = None,
) -> float | None:
    """Estimate seconds for windows and regions; None without an earlier run like this."""
    speed = known_speed(model, device, resolution, config.explainer)
    if method is not None and not method.inverts:
        # A pass takes about as long as an encoding, until the method has been measured.
        speed = known_speed(model, device, resolution, method.name) or speed
        passes = sum(windows * part.image + regions * part.region for part in method.parts)
        if speed is None:
            return None
        return passes * speed.encoding
    if speed is None:
        return None
    # The maps of the returned embeddings cost one more step.
    return windows * speed.encoding + regions * (config.steps + 1) * speed.step


def in_words(seconds: float) -> str:
    """Return a time in words, rounded to seconds, ten seconds, minutes or five minutes."""
    if seconds < 1.5:
        return "about a second"
    if seconds < 15:
        return f"about {round(seconds)} s"
    if seconds < 595:
        minutes, seconds_left = divmod(10 * round(seconds / 10), 60)
        parts = []
        if minutes:
            parts.append(f"{minutes} min")
        if seconds_left:
            parts.append(f"{seconds_left} s")
        return f"about {' '.join(parts)}"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"about {minutes} min"
    hours, minutes_left = divmod(5 * round(minutes / 5), 60)
    if minutes_left:
        return f"about {hours} h {minutes_left} min"
    return f"about {hours} h"


def patch_of(architecture: str) -> int:
    """Return the side of a model's patches in pixels: 14 for ``"ViT-L-14-336"``."""
    match = re.search(r"(?:-|patch)(\d{1,2})(?!\d)", architecture)
    return _PATCHES.get(architecture) or (int(match[1]) if match else _PATCH)


def likely_device(chosen: str, model: str, resolution: int) -> str:
    """Return the device that a choice will probably lead to.

    Without torch, "auto" is the device of earlier runs of the model, or a guess from the system's
    hardware: importing torch takes seconds, too long for a line of text.
    """
    if chosen != "auto":
        return {"cuda": "cuda:0"}.get(chosen, chosen)
    if torch_if_loaded() is not None:
        from ..engine.compute.devices import choose_device

        return str(choose_device("auto"))
    for device in ("cuda:0", "mps"):
        if known_speed(model, device, resolution) is not None:
            return device
    return likely_gpu() or "cpu"


def place_text(device: str) -> str:
    """Return one line about the device of a run."""
    line = f"On {device_name(device)}"
    torch = torch_if_loaded()
    if not device.startswith("cuda") or torch is None or not torch.cuda.is_available():
        return line
    from ..engine.compute.devices import kernels_text

    return f"{line}, {kernels_text(torch.device(device))}"
