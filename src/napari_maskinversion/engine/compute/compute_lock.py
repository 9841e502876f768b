"""One piece of the engine's work at a time."""

from __future__ import annotations

import threading
from collections.abc import Generator
from typing import TypeVar

State = TypeVar("State")
Result = TypeVar("Result")

# Each Python thread that computes gets a full set of torch's threads. Two at once would be more
# threads than processors, and slower than one after the other.
_COMPUTE_LOCK = threading.RLock()


def locked_steps(work: Generator[State, None, Result]) -> Generator[State, None, Result]:
    """Hold the compute lock while ``work`` runs from one yield to the next, and free it between."""
    try:
        while True:
            with _COMPUTE_LOCK:
                try:
                    state = next(work)
                except StopIteration as stop:
                    result: Result = stop.value
                    return result
            yield state
    finally:
        work.close()
