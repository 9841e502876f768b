"""Retry work that does not fit the memory: with less at once, a smaller input, or on the CPU.

Work on a GPU whose driver fails goes on on the CPU. Whoever runs such work lists its attempts;
`OomFallback` goes through them. Imports torch only when memory has run out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from .errors import NotEnoughMemoryError

Result = TypeVar("Result")

_FAILED: Final = ("cuda error", "cuda driver error", "cudnn error", "mps backend")
_OUT_OF_MEMORY: Final = ("out of memory", "can't allocate memory", "alloc_failed")


@dataclass(frozen=True, slots=True)
class Attempt:
    """How much to ask of the memory."""

    at_once: int  # Items processed together: regions, maps, sentences
    device: str  # As torch writes it
    resolution: int = 0  # Side of the model's input in pixels; 0 if it never changes
    note: str = ""  # What to tell the user; empty for the first attempt


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an exception means that memory ran out; torch raises several types."""
    import torch

    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    # The allocators of the CPU and of Apple, and CUDA's libraries raise plain RuntimeErrors.
    message = str(error).lower()
    return isinstance(error, RuntimeError) and any(words in message for words in _OUT_OF_MEMORY)


def is_device_failure(error: BaseException) -> bool:
    """Return whether an exception means that a GPU or its driver has failed."""
    import torch

    failed = str(error).lower().startswith(_FAILED) and isinstance(error, RuntimeError)
    return isinstance(error, torch.AcceleratorError) or failed


def then_on_cpu(attempts: Sequence[Attempt], note: str) -> list[Attempt]:
    """Add the same attempts on the CPU, the first with this note, unless they run there already."""
    if attempts[0].device == "cpu":
        return list(attempts)
    first, *later = (replace(attempt, device="cpu") for attempt in attempts)
    return [*attempts, replace(first, note=note), *later]


class OomFallback:
    """Runs work, and runs it again with the next attempt each time memory runs out.

    Later work starts with the attempt that fitted last. After an attempt that nothing can follow,
    later work starts with the first attempt on the same device.
    """

    def __init__(
        self, attempts: Sequence[Attempt], failure: str, *, also: tuple[type[Exception], ...] = ()
    ) -> None:
        self._attempts = list(attempts)
        self._failure = failure
        self._also = also
        self._errors: tuple[type[Exception], ...] = (MemoryError, RuntimeError, *also)
        self._place = 0

    @property
    def now(self) -> Attempt:
        """The attempt that work runs with."""
        return self._attempts[self._place]

    def run(
        self,
        work: Callable[[], Result],
        use_less: Callable[[Attempt], object] = lambda _: None,
        *,
        items: int | None = None,
    ) -> Result:
        """Call ``work``, which reads `now`, until it fits, and return its result.

        ``use_less`` is called with the attempt that failed, before the next one; `now` is the next.
        ``items`` is the number of items to process if there may be fewer than ``now.at_once``, and
        0 for work that takes the same memory for any number at once.
        """
        while True:
            try:
                return work()
            except self._errors as error:
                # Ends: each attempt asks for less, and after the last one this raises.
                before = self._next(error, items)
            # Outside of the handler: the traceback of its error holds what is to be freed.
            try:
                use_less(before)
            finally:
                _free(before)

    def _next(self, error: Exception, items: int | None) -> Attempt:
        """Go to the next attempt that asks for less and return the one that failed."""
        before = self.now
        if not isinstance(error, self._also) and not is_out_of_memory(error):
            devices = [attempt.device for attempt in self._attempts]
            if before.device == "cpu" or "cpu" not in devices or not is_device_failure(error):
                raise error
            reason = str(error).partition("\n")[0]
            self._place = devices.index("cpu")
            note = f"{before.device} failed ({reason}): going on on the CPU"
            self._attempts[self._place] = replace(self.now, note=note)
            return before
        if items is None:
            tried = before.at_once
        else:
            tried = min(items, before.at_once)
        for place, attempt in enumerate(self._attempts):
            smaller = (attempt.resolution, attempt.device) != (before.resolution, before.device)
            if place > self._place and (smaller or attempt.at_once <= tried // 2):
                self._place = place
                return before
        self._place = [attempt.device for attempt in self._attempts].index(before.device)
        raise NotEnoughMemoryError(self._failure) from error


def _free(attempt: Attempt) -> None:
    # What the error held is free only after its `except` block.
    import torch

    kind = torch.device(attempt.device).type
    if kind != "cpu":
        with suppress(RuntimeError):  # of a driver that has failed
            getattr(torch, kind).empty_cache()
