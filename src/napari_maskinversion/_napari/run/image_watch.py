"""Keeps a copy of the image until the image changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from psygnal import Signal

from ..layers.coordinates import ViewPoint
from ..run_requests.preparing import image_layers

if TYPE_CHECKING:
    from ..layers.pictures import Picture
    from ..run_requests.request import Request

_LOOKS: Final = (
    "data",
    "set_data",
    "contrast_limits",
    "gamma",
    "colormap",
    "blending",
    "opacity",
    "visible",
    "interpolation2d",
    "scale",
    "translate",
    "rotate",
    "shear",
    "affine",
    "units",
)


class ImageWatch:
    """Reuses one copy of the pixels while they do not change: copying blocks the GUI thread.

    Signals
    -------
    changed
        The copy is out of date.
    """

    changed = Signal()

    def __init__(self, viewer: Any) -> None:
        self._viewer = viewer
        self._watched: list[Any] = []
        self._all = False  # image layers are watched, also those to come
        self._kept: tuple[Picture, Any, ViewPoint, str] | None = None

    def picture(self, image: Any, channels: str) -> Picture | None:
        """Return the copy if it shows this image as it is displayed now."""
        now = (image, ViewPoint.of(self._viewer), channels)
        return self._kept[0] if self._kept is not None and self._kept[1:] == now else None

    def keep(self, request: Request, image: Any, channels: str) -> None:
        """Keep the copy of a request, and watch the layers in it."""
        self._kept = (request.input.picture, image, request.input.view, channels)
        self.watch(image, channels)

    def watch(self, image: Any, channels: str) -> None:
        """Watch an image, or with "displayed" channels all of them."""
        self._all = channels == "displayed"
        layers = image_layers(self._viewer) if self._all else [image]
        if layers != self._watched:
            self._watch(layers)

    def drop(self) -> None:
        """Release the copy and the layers."""
        self._kept = None
        self._watch([])

    def _watch(self, layers: list[Any]) -> None:
        listed = self._viewer.layers.events
        for connect, many in ((False, self._watched), (True, layers)):
            for layer in many:
                for name in _LOOKS:
                    emitter = getattr(layer.events, name, None)
                    if emitter is not None:
                        (emitter.connect if connect else emitter.disconnect)(self._touched)
            for emitter in (listed.inserted, listed.removed, listed.reordered) if many else ():
                (emitter.connect if connect else emitter.disconnect)(self._listed)
        self._watched = list(layers)

    def _listed(self, event: Any = None) -> None:
        if self._all and image_layers(self._viewer) != self._watched:
            self._touched()

    def _touched(self, event: Any = None) -> None:
        self._kept = None
        self.changed.emit()
