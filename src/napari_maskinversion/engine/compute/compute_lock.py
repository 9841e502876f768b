"""One piece of the engine's work at a time."""

from __future__ import annotations

import threading
from collections.abc import Generator
from typing import TypeVar

State = TypeVar("State")
Result = TypeVar("Result")

# Each Python thread that computes gets a full set of torch's threads: two at once would be more
# threads than processors, and both slower than one after the other.
_TURN = threading.RLock()


def taking_turns(work: Generator[State, None, Result]) -> Generator[State, None, Result]:
    """Run each piece of ``work``, from one yield to the next, while no other thread's runs."""
    try:
        while True:
            with _TURN:
                try:
                    state = next(work)
                except StopIteration as stop:
                    result: Result = stop.value
                    return result
            yield state
    finally:
        work.close()
