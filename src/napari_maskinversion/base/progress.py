"""One channel for the progress of work, and the way to stop it.

Work is plain functions. Between two steps they `tick`; whoever started them listens::

    with listening(bar.show):
        inverter.set_image(image)

A listener is called in the thread that works. It stops the work by raising an error: `Cancelled`
where the user asked for it. Work that holds what others may wait for gives it to them meanwhile:
see `engine.compute.compute_lock`. What a listener itself does is not told to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Any, Final, TypeVar

from . import progress_words as words

Listener = Callable[[Any], object]
Pause = Callable[[], AbstractContextManager[object]]

# Stages that several modules know.
READING: Final = "reading"
ENCODING: Final = "encoding"
MAPS: Final = "maps"
STEP: Final = "Step"
LABELS: Final = "Labels"
CAPTIONS: Final = "Captions"
BYTES: Final = "bytes"
WAITING: Final = "waiting"
CHECKING: Final = "checking"  # The bytes of a file, for its hash

BEAT: Final = 0.2  # seconds from one tick to the next while work waits
INTERVAL: Final = 0.1  # and while it goes through many small things: quick work tells nothing

Item = TypeVar("Item")


def _ignore(news: Any) -> None:
    """Tell nobody."""


# Who listens to the work at hand, and how it gives what it holds to others meanwhile.
_NOBODY: Final[tuple[Listener, Pause]] = (_ignore, nullcontext)
_channel: ContextVar[tuple[Listener, Pause]] = ContextVar("channel", default=_NOBODY)


@dataclass(frozen=True, slots=True)
class Tick:
    """How much of a stage is done."""

    stage: str  # "encoding" an image, or what is counted: "Labels", "Step"
    done: int
    total: int  # 0 if unknown
    note: str = ""  # What is done differently because memory ran out
    # The share of the whole work that is done, 0..1; None where the stage is the whole work
    share: float | None = None

    @property
    def text(self) -> str:
        """One line for users."""
        if self.stage == READING:
            return words.READING_IMAGE
        if self.stage == ENCODING:
            return words.encoding(self.done, self.total)
        if self.stage == MAPS:
            return words.MAKING_MAPS
        if self.stage == BYTES:
            return words.fetched("weights", self.done, self.total)
        if self.stage == CHECKING:
            return words.checking(self.done, self.total)
        if self.stage == WAITING:
            return self.note
        return words.counted(self.stage, self.done, self.total)

    @property
    def fraction(self) -> float:
        """Share of the work that is done, 0..1; 0 if unknown."""
        if self.share is not None:
            return self.share
        if self.total:
            return self.done / self.total
        return 0.0


def tick(stage: str, done: int, total: int, note: str = "") -> None:
    """Tell how much of a stage is done; others may compute meanwhile, and the work may end here."""
    tell(Tick(stage, done, total, note))


def tell(news: Any) -> None:
    """Tell the listener anything else, as `tick` does."""
    listener, pause = _channel.get()
    with _using(*_NOBODY), pause():
        listener(news)


def with_ticks(stage: str, items: Iterable[Item]) -> Iterator[Item]:
    """Yield items, and tick between two of them, at most ten times a second."""
    total = 0
    if isinstance(items, Sized):
        total = len(items)
    last_tick = monotonic()
    for number, item in enumerate(items):
        if monotonic() - last_tick > INTERVAL:
            tick(stage, number, total)
            last_tick = monotonic()
        yield item


def wait(seconds: float, note: str) -> None:
    """Wait, and tick about five times a second: the work may end here. The note says why."""
    end = monotonic() + seconds
    while (left := end - monotonic()) > 0:
        sleep(min(left, BEAT))
        tick(WAITING, 0, 0, note)


@contextmanager
def _using(listener: Listener, pause: Pause) -> Iterator[None]:
    before = _channel.set((listener, pause))
    try:
        yield
    finally:
        _channel.reset(before)


@contextmanager
def listening(listener: Listener | None) -> Iterator[None]:
    """Listen to the work in a block, and nobody else meanwhile; None changes nothing."""
    outer, pause = _channel.get()
    with _using(listener or outer, pause):
        yield


@contextmanager
def telling(
    change: Callable[[Any], Any], after: Callable[[], object] = lambda: None
) -> Iterator[None]:
    """Tell the listener ``change(news)`` in place of what the work in a block tells.

    ``after`` is called when the listener has heard it.
    """
    outer, _ = _channel.get()

    def listener(news: Any) -> None:
        outer(change(news))
        after()

    with listening(listener):
        yield


@contextmanager
def counting(stage: str, call: Callable[[int, int], object] | None) -> Iterator[None]:
    """Call ``call(done, total)`` too at the ticks of a stage of the work in a block."""
    outer, _ = _channel.get()

    def listener(news: Any) -> None:
        if call is not None and isinstance(news, Tick) and news.stage == stage:
            call(news.done, news.total)
        outer(news)

    with listening(listener):
        yield


@contextmanager
def pausing(pause: Pause) -> Iterator[Pause]:
    """Enter ``pause()`` while the work in a block tells something; yields the pause around it."""
    listener, outer = _channel.get()
    with _using(listener, pause):
        yield outer
