"""Generators that yield their progress and return a result."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Generic, TypeVar

Step = TypeVar("Step")
NewStep = TypeVar("NewStep")
Result = TypeVar("Result")


class Steps(Generic[Step, Result]):
    """Iterate over a generator and keep what it returns.

    Leaving the ``with`` block closes the generator, also after an error or a ``break``.
    """

    result: Result  # What the generator returned; set when the loop over it has ended

    def __init__(self, work: Generator[Step, None, Result]) -> None:
        self._work = work

    def __enter__(self) -> Steps[Step, Result]:
        return self

    def __exit__(self, *_: object) -> None:
        self._work.close()

    def __iter__(self) -> Iterator[Step]:
        self.result = yield from self._work


def drive(
    work: Generator[Step, None, Result], on_step: Callable[[Step], object] | None = None
) -> Result:
    """Run a generator to its end and return its result."""
    with Steps(work) as steps:
        for step in steps:
            if on_step is not None:
                on_step(step)
    return steps.result


def map_steps(
    change: Callable[[Step], NewStep], work: Generator[Step, None, Result]
) -> Generator[NewStep, None, Result]:
    """Yield ``change(step)`` for each step of a generator and return its result."""
    with Steps(work) as steps:
        for step in steps:
            yield change(step)
    return steps.result
