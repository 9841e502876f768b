"""Follows the list of a viewer's layers, and the layers in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from napari.components import LayerList, ViewerModel
    from napari.layers import Layer
    from napari.utils.events import Event


class LayerEvents:
    """Calls functions after some events of the list of layers, or of any layer in it.

    napari tells of the layers' events by the list, too, so that nobody has to follow each layer.
    """

    def __init__(self, viewer: ViewerModel, slots: Mapping[str, Callable[[Event], object]]) -> None:
        self._events, self._slots = viewer.layers.events, slots

    def connect(self) -> None:
        """Begin to follow."""
        self._events.connect(self._heard)

    def disconnect(self) -> None:
        """Follow no more."""
        self._events.disconnect(self._heard)

    def _heard(self, event: Event) -> None:
        slot = self._slots.get(event.type)
        if slot is not None:
            slot(event)


def layer_of(event: Event) -> Layer | LayerList:
    """Return the layer that an event is of; the list of layers for its own events."""
    return event.sources[0]


class LayerListWatch(LayerEvents):
    """Calls a function when layers are added, removed, moved or renamed, with the one added."""

    def __init__(self, viewer: ViewerModel, changed: Callable[[Layer | None], object]) -> None:
        slots: dict[str, Callable[[Event], object]] = {
            "inserted": lambda event: changed(event.value)
        }
        for name in ("removed", "reordered", "changed", "name"):
            slots[name] = lambda _: changed(None)
        super().__init__(viewer, slots)
