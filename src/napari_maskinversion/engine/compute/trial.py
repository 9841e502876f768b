"""Faster ways to compute that may fail on some GPU: tried, told once, and given up then."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from ...base.oom_fallback import is_out_of_memory
from ...base.wording import one_line

Result = TypeVar("Result")


def fitting(work: Callable[[], Result]) -> Result | None:
    """Return what work returns; None if memory has run out: callers continue without it."""
    try:
        return work()
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        return None


class Trial:
    """A faster way.

    ``subject`` says what failed, ``instead`` what is done then and what it costs.
    """

    def __init__(self, subject: str, instead: str) -> None:
        self._subject = subject
        self._instead = instead
        self.works = True  # in this process, as far as is known

    def attempt(self, work: Callable[[], Result]) -> Result | None:
        """Return what work returns; None after a failure, which is reported once."""
        if not self.works:
            return None
        try:
            return work()
        except Exception as error:  # of Triton, the compilers that it calls, or the driver
            if is_out_of_memory(error):
                raise
            self.works = False
            reason = f"{type(error).__name__}: {one_line(error)}"[:200]
            warnings.warn(
                f"{self._subject} failed on this GPU ({reason}); {self._instead}.", stacklevel=2
            )
            return None

    @contextmanager
    def off(self) -> Iterator[None]:
        """Do without in a block, to measure what it brings."""
        before = self.works
        self.works = False
        try:
            yield
        finally:
            self.works = before
