"""Work done in batches, as a generator of its progress."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeVar

Result = TypeVar("Result")


def drive(
    work: Generator[tuple[int, int], None, Result], on_batch: Callable[[int, int], None] | None
) -> Result:
    """Run work that yields (done, in all) to its end and give its result.

    ``on_batch`` is called with what it yields; an exception raised in it closes the work.
    """
    try:
        while True:
            done, total = next(work)
            if on_batch is not None:
                on_batch(done, total)
    except StopIteration as stop:
        result: Result = stop.value
        return result
    finally:
        work.close()
