"""Decompositions kept with an image, within a bound."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

from ..explain.projections import DecomposedRoute, LowRankRoute

CachedRoute = DecomposedRoute | LowRankRoute


class ProjectionCache:
    """Decompositions of one image; the ones used longest ago go first.

    Parameters
    ----------
    most_bytes : int
        What all of them may take together.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most = max(0, most_bytes)
        self._routes: OrderedDict[Hashable, CachedRoute] = OrderedDict()
        self._in_use: set[Hashable] = set()

    @property
    def nbytes(self) -> int:
        """Memory that they take."""
        return sum(route.nbytes for route in self._routes.values())

    @property
    def room(self) -> int:
        """Bytes that a further one may take; what the running inversion uses cannot go."""
        return self._most - sum(self._routes[key].nbytes for key in self._in_use)

    def begin(self) -> None:
        """Note that an inversion begins: nothing is in use yet."""
        self._in_use.clear()

    def get(self, key: Hashable) -> CachedRoute | None:
        """Give a kept one."""
        return self._routes.get(key)

    def use(self, key: Hashable, route: CachedRoute) -> CachedRoute:
        """Keep one, or note that it is used again."""
        if self._routes.get(key) is not route:
            # The old route of this key goes first, so that both need not fit at once.
            self._routes.pop(key, None)
            self.evict(route.nbytes)
            self._routes[key] = route
        self._routes.move_to_end(key)
        self._in_use.add(key)
        return route

    def evict(self, wanted: int) -> None:
        """Let go of unused ones until ``wanted`` bytes fit beside the others."""
        for key in list(self._routes):
            if self.nbytes + wanted <= self._most:
                return
            if key not in self._in_use:
                del self._routes[key]

    def clear(self) -> None:
        """Let go of all."""
        self._routes.clear()
        self._in_use.clear()
