"""What a run would be like, said before it starts. Needs neither torch nor a loaded model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..engine.methods.registry import Method
from ..engine.settings import InversionConfig
from ..images.windows import WindowConfig, plan_windows
from .run import PlaneTask
from .timings import known_speed


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Size of a run.

    Parameters
    ----------
    regions, planes, windows : int
        How many there are of each.
    seconds : float or None
        What the run should take here; None where this model was never run on this device.
    """

    regions: int
    planes: int
    windows: int
    seconds: float | None

    @property
    def text(self) -> str:
        """One line for people: ``"212 regions in 40 windows, about 1 min 20 s"``."""
        what = _count(self.regions, "region")
        if self.planes > 1:
            what += f" on {_count(self.planes, 'plane')}"
        what += f" in {_count(self.windows, 'window')}"
        return what if self.seconds is None else f"{what}, {in_words(self.seconds)}"


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
) -> Estimate:
    """Say how large a run is and how long it should take.

    Parameters
    ----------
    tasks : sequence of PlaneTask
        As `pipeline.run_planes` takes them; no pixel is read.
    model, device : str
        Name of the model and of what it computes on, as `Backbone` has them.
    resolution, patch : int
        Side of the model's input and of its patches, in pixels.
    config : InversionConfig
    window : WindowConfig, optional
        The whole plane unless given, as in the pipeline.
    method : Method, optional
        MaskInversion unless given. Others are counted in passes of the model, at the time that
        encoding took.

    Returns
    -------
    Estimate
        Its seconds come from what earlier runs took on this machine.
    """
    window = window or WindowConfig(mode="whole")
    windows = sum(
        len(
            plan_windows(
                task.regions,
                task.source.levels,
                resolution=resolution,
                patch=patch,
                config=window,
            )
        )
        for task in tasks
    )
    regions = sum(len(task.regions) for task in tasks)
    seconds = seconds_of(
        windows,
        regions,
        model=model,
        device=device,
        resolution=resolution,
        config=config,
        method=method,
    )
    planes = sum(1 for task in tasks if len(task.regions))
    return Estimate(regions=regions, planes=planes, windows=windows, seconds=seconds)


def seconds_of(
    windows: int,
    regions: int,
    *,
    model: str,
    device: str,
    resolution: int,
    config: InversionConfig,
    method: Method | None = None,
) -> float | None:
    """Say how long so many windows and regions should take; None where nothing like it was run."""
    speed = known_speed(model, device, resolution, config.explainer)
    if speed is None:
        return None
    if method is not None and not method.inverts:
        passes = sum(windows * part.image + regions * part.region for part in method.parts)
        return passes * speed.encoding
    # The maps of the returned embeddings cost one step more.
    return windows * speed.encoding + regions * (config.steps + 1) * speed.step


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def in_words(seconds: float) -> str:
    """Say a time as exactly as an estimate can: whole seconds, tens, minutes, five minutes."""
    if seconds < 1.5:
        return "about a second"
    if seconds < 15:
        return f"about {round(seconds)} s"
    if seconds < 595:
        minutes, rest = divmod(10 * round(seconds / 10), 60)
        parts = [f"{minutes} min"] * (minutes > 0) + [f"{rest} s"] * (rest > 0)
        return "about " + " ".join(parts)
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"about {minutes} min"
    hours, rest = divmod(5 * round(minutes / 5), 60)
    return f"about {hours} h" + (f" {rest} min" if rest else "")
