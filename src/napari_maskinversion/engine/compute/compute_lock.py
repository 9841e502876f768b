"""One piece of the engine's work at a time, in torch's own modes."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import TypeVar

from .guest import isolated

State = TypeVar("State")
Result = TypeVar("Result")

# Each Python thread that computes gets a full set of torch's threads. Two at once would be more
# threads than processors, and slower than one after the other.
_COMPUTE_LOCK = threading.RLock()


@contextmanager
def computing(*, tf32: bool = False) -> Iterator[None]:
    """Hold the compute lock and keep the host's modes away; also a decorator of functions.

    Do not hold it across a ``yield``; `locked_steps` is for generators. ``tf32``: see `isolated`.
    """
    with _COMPUTE_LOCK, isolated(tf32=tf32):
        yield


def locked_steps(
    work: Generator[State, None, Result], *, tf32: bool = False
) -> Generator[State, None, Result]:
    """Run ``work`` as `computing` from one yield to the next, and as the host's code in between."""
    try:
        while True:
            with computing(tf32=tf32):
                try:
                    state = next(work)
                except StopIteration as stop:
                    result: Result = stop.value
                    return result
            yield state
    finally:
        work.close()
