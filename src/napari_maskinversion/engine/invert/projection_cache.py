"""Decompositions cached for one image, within a memory limit."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

from ..explain.projections import DecomposedRoute, LowRankRoute

CachedRoute = DecomposedRoute | LowRankRoute


class ProjectionCache:
    """Decompositions of one image; the least recently used are dropped first.

    Parameters
    ----------
    max_bytes : int
        Memory for all of them.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max(0, max_bytes)
        self._routes: OrderedDict[Hashable, CachedRoute] = OrderedDict()
        self._in_use: set[Hashable] = set()

    @property
    def nbytes(self) -> int:
        """Bytes of all cached routes."""
        return sum(route.nbytes for route in self._routes.values())

    @property
    def room(self) -> int:
        """Bytes for another route; routes of the running inversion cannot be dropped."""
        return self._max_bytes - sum(self._routes[key].nbytes for key in self._in_use)

    def begin(self) -> None:
        """Start an inversion: no route is in use yet."""
        self._in_use.clear()

    def get(self, key: Hashable) -> CachedRoute | None:
        """Return a cached route, if there is one."""
        return self._routes.get(key)

    def use(self, key: Hashable, route: CachedRoute) -> None:
        """Cache a route, or mark it as used again."""
        if self._routes.get(key) is not route:
            # The old route of this key goes first, so that both need not fit at once.
            self._routes.pop(key, None)
            self._evict(route.nbytes)
            self._routes[key] = route
        self._routes.move_to_end(key)
        self._in_use.add(key)

    def clear(self) -> None:
        """Drop all routes."""
        self._routes.clear()
        self._in_use.clear()

    def _evict(self, wanted: int) -> None:
        """Drop unused routes until ``wanted`` bytes fit."""
        for key in list(self._routes):
            if self.nbytes + wanted <= self._max_bytes:
                return
            if key not in self._in_use:
                del self._routes[key]
