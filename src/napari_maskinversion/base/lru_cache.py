"""A cache with a limit: what was used least recently makes room."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class LruCache(Generic[Key, Value]):
    """Keeps values while their sizes together are at most ``limit``.

    ``size`` tells the size of a value, such as its bytes; without it each value counts as 1, so
    ``limit`` is their number. The newest value stays even if it alone is larger than the limit.
    A value must not be None, and must not change its size while it is kept.
    """

    def __init__(self, limit: int, size: Callable[[Value], int] | None = None) -> None:
        self.limit = limit
        self._size = size
        self._values: OrderedDict[Key, Value] = OrderedDict()  # the one used last comes last
        self._total = 0

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Key) -> Value | None:
        """Return a value and count it as used; None if it is not kept."""
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
        return value

    def put(self, key: Key, value: Value) -> None:
        """Keep a value, and drop those used least recently that do not fit any more."""
        self.remove(key)
        self._values[key] = value
        self._total += self._size_of(value)
        self._shrink(self.limit, fewest=1)

    def make_room(self) -> None:
        """Drop values until one of size 1 fits: for values that must not exist beside the rest."""
        self._shrink(self.limit - 1, fewest=0)

    def remove(self, key: Key) -> None:
        """Drop a value, if it is kept."""
        value = self._values.pop(key, None)
        if value is not None:
            self._total -= self._size_of(value)

    def clear(self) -> None:
        """Drop all values."""
        self._values.clear()
        self._total = 0

    def values(self) -> list[Value]:
        """Return all values, the one used last at the end; this does not count as use."""
        return list(self._values.values())

    def _size_of(self, value: Value) -> int:
        if self._size is None:
            return 1
        return self._size(value)

    def _shrink(self, limit: int, fewest: int) -> None:
        # At least `fewest` stay, however large they are.
        while self._total > limit and len(self._values) > fewest:
            _, oldest = self._values.popitem(last=False)
            self._total -= self._size_of(oldest)
