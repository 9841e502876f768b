"""Follows the list of a viewer's layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class LayerListWatch:
    """Calls a function when layers are added, removed, moved or renamed."""

    def __init__(self, viewer: Any, changed: Callable[[Any], object]) -> None:
        self._viewer, self._changed = viewer, changed
        events = viewer.layers.events
        self._connections = (
            (events.inserted, self._inserted),
            (events.removed, self._removed),
            (events.reordered, self._other),
            (events.changed, self._other),
        )

    def connect(self) -> None:
        """Begin to follow."""
        for emitter, slot in self._connections:
            emitter.connect(slot)
        for layer in self._viewer.layers:
            layer.events.name.connect(self._other)

    def disconnect(self) -> None:
        """Follow no more."""
        for emitter, slot in self._connections:
            emitter.disconnect(slot)
        for layer in self._viewer.layers:
            layer.events.name.disconnect(self._other)

    def _inserted(self, event: Any) -> None:
        event.value.events.name.connect(self._other)
        self._changed(event.value)

    def _removed(self, event: Any) -> None:
        event.value.events.name.disconnect(self._other)
        self._changed(None)

    def _other(self, event: Any = None) -> None:
        self._changed(None)
