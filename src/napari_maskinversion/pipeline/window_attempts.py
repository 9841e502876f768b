"""Attempts to make when a window or its regions do not fit in memory."""

from __future__ import annotations

from typing import Final

from ..base.oom_fallback import Attempt, OomFallback, then_on_cpu

_HALVINGS: Final = 2  # of the input: below a quarter of its side a model sees too little
_MIN_TOKENS: Final = 4  # along a side of the smallest input


def window_attempts(at_once: int, resolution: int, device: str, *, patch: int) -> list[Attempt]:
    """List attempts: fewer regions at once, then a smaller input, then the CPU.

    A smaller input has room for all regions of a chunk again, and the CPU for the whole input.
    """
    attempts: list[Attempt] = []
    side, note = resolution, ""
    for _ in range(_HALVINGS + 1):
        count = at_once
        while count:
            attempts.append(Attempt(count, device, side, note))
            count //= 2
            note = f"Not enough memory: {count} region{'s' * (count != 1)} at once"
        side = patch * int(side / 2 / patch)
        if side < _MIN_TOKENS * patch:
            break
        note = f"Not enough memory: input of {side} px instead of {resolution}"
    return then_on_cpu(attempts, f"Not enough memory on {device}: going on on the CPU")


def window_fallback(attempts: list[Attempt]) -> OomFallback:
    """Return the fallback over these attempts, with the error of a run."""
    last = attempts[-1]
    return OomFallback(
        attempts,
        "There was not enough memory, not even for one region and an input of "
        f"{last.resolution} px on {last.device}. Close other programs, or choose a smaller model.",
    )
