"""Which image and regions are chosen as layers come and go."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .records import NOTHING, KeptRecords, reference


def among(layer: Any, layers: Iterable[Any]) -> bool:
    """Return whether a layer is one of some."""
    return layer is not None and any(layer is one for one in layers)


def _alive(references: Iterable[Callable[[], Any]]) -> list[Any]:
    return [layer for one in references if (layer := one()) is not None]


class Choice:
    """The layers of the viewer: whose they are, and which of them the user has chosen.

    It returns what is to be chosen; the session holds that. All references to layers are weak, also
    those of the results that come back with them.
    """

    def __init__(self) -> None:
        self.records = KeptRecords()
        self.by_user: set[str] = set()  # "image", "regions": others that are added change nothing
        self.is_kept = False  # layers are added for the user
        self.added: Callable[[], Any] = NOTHING  # the last one, while another one stayed chosen
        # Images and regions layers that are in the viewer, the lowest first.
        self._images: Sequence[Callable[[], Any]] = ()
        self._regions: Sequence[Callable[[], Any]] = ()
        # The image that a regions layer was last chosen with: regions are not taken to another one.
        self._owners: weakref.WeakKeyDictionary[Any, Callable[[], Any]] = (
            weakref.WeakKeyDictionary()
        )
        # Layers that the panel made for an image, with that image or its channels.
        self._made: weakref.WeakKeyDictionary[Any, list[Callable[[], Any]]] = (
            weakref.WeakKeyDictionary()
        )

    def choose(self, now: tuple[Any, Any], image: Any, regions: Any) -> tuple[Any, Any]:
        """Return the layers after the user has chosen some; an image brings back its regions."""
        if image is not None:
            self.by_user.add("image")
        if regions is not None:
            self.by_user.add("regions")
        elif image is not None and image is not now[0]:
            regions = self._regions_of(image)
            if regions is None:  # the next ones to be added are taken
                self.by_user.discard("regions")
        else:
            regions = now[1]
        return image or now[0], regions

    def offer(
        self,
        now: tuple[Any, Any],
        images: Sequence[Any],
        regions: Sequence[Any],
        added: Any,
        *,
        asked: bool,
    ) -> tuple[Any, Any]:
        """Return the layers to choose of those of the viewer.

        A choice stays while its layer is there. Otherwise the layer that was ``added`` is taken, or
        the last image, or regions of the image. While the user is ``asked`` about an image, regions
        wait: they may be those of it.
        """
        before = _alive(self._regions)
        self._images = [weakref.ref(layer) for layer in images]
        self._regions = [weakref.ref(layer) for layer in regions]
        if among(added, images) and now[0] is not None and not self.is_kept:
            for layer in before:
                self._owners.setdefault(layer, reference(now[0]))
        waits = asked and self.has_added_image and among(now[1], regions)
        image = self._still("image", now[0], images, added)
        if image is None and images:
            image = images[-1]
        layer = self._still("regions", now[1], regions, None if waits else added)
        if layer is None or (image is not now[0] and layer is now[1]):
            layer = self._regions_of(image)
        return image, layer

    def _still(self, name: str, now: Any, layers: Sequence[Any], added: Any) -> Any:
        there = among(now, layers)
        if not there and not self.is_kept:
            self.by_user.discard(name)
        if among(added, layers) and name not in self.by_user:
            return added
        return now if there else None

    @property
    def has_added_image(self) -> bool:
        """Whether what was added last, and not chosen, is an image."""
        return among(self.added(), _alive(self._images))

    def own(self, image: Any, regions: Any) -> None:
        """Remember that regions are chosen with an image."""
        if image is not None and regions is not None:
            self._owners[regions] = reference(image)

    def made_for(self, image: Any, *layers: Any) -> None:
        """Remember for which image the panel has made layers: they belong to it."""
        for layer in layers:
            self._made.setdefault(layer, []).append(reference(image))
            self._owners.setdefault(layer, reference(image))

    def is_made_for(self, layer: Any, images: Sequence[Any]) -> bool:
        """Return whether the panel has made a layer for one of some images."""
        return any(among(image(), images) for image in self._made.get(layer, ()))

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keep image and regions: layers that are added meanwhile do not take their place."""
        before, kept = set(self.by_user), self.is_kept
        self.by_user |= {"image", "regions"}
        self.is_kept = True
        try:
            yield
        finally:
            self.by_user, self.is_kept = before, kept

    def _regions_of(self, image: Any) -> Any:
        """Return the last layer with results on an image, else the last one made for it, ..."""
        there = _alive(self._regions)
        computed = self.records.regions_of(image)
        made = [layer for layer in self._made if self.is_made_for(layer, [image])]
        free = [layer for layer in there if self._may_lie_on(layer, image)]
        return next((one for one in reversed(free + made + computed) if among(one, there)), None)

    def _may_lie_on(self, regions: Any, image: Any) -> bool:
        """Return whether regions belong to an image, to no other one, or to another channel."""
        owner, images = self._owners.get(regions, NOTHING)(), _alive(self._images)
        if owner is image or not among(owner, images):
            return True
        upper = [one for one in images if one is owner or one is image][-1]
        return bool(getattr(upper, "blending", "") == "additive")  # napari adds up channels
