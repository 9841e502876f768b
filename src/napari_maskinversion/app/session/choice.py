"""Which image and regions are chosen as layers come and go."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar
from weakref import WeakKeyDictionary

from ..layer_input.viewer_protocols import ImageLayer, Layer, RegionsLayer
from .records import (
    NOTHING,
    ChosenLayers,
    ImageReference,
    KeptRecords,
    LayerReference,
    RegionsReference,
    reference,
)

LayerType = TypeVar("LayerType", bound=Layer)


def among(layer: object, layers: Iterable[object]) -> bool:
    """Return whether a layer is one of some."""
    return layer is not None and any(layer is other for other in layers)


def _alive(references: Iterable[Callable[[], LayerType | None]]) -> list[LayerType]:
    layers = (layer_reference() for layer_reference in references)
    return [layer for layer in layers if layer is not None]


class Choice:
    """The layers of the viewer: whose they are, and which of them the user has chosen.

    It returns what is to be chosen; the session holds that. All references to layers are weak, also
    those of the results that come back with them.
    """

    def __init__(self) -> None:
        self.records = KeptRecords()
        self.by_user: set[str] = set()  # "image", "regions": others that are added change nothing
        self.is_kept = False  # layers are added for the user
        self.added: LayerReference = NOTHING  # the last one, while another one stayed chosen
        # Images and regions layers that are in the viewer, the lowest first.
        self._images: Sequence[ImageReference] = ()
        self._regions: Sequence[RegionsReference] = ()
        # The image that a regions layer was last chosen with: regions are not taken to another one.
        self._owners: WeakKeyDictionary[Layer, ImageReference] = WeakKeyDictionary()
        # Layers that the panel made for an image, with that image or its channels.
        self._made: WeakKeyDictionary[Layer, list[ImageReference]] = WeakKeyDictionary()

    def choose(
        self, chosen: ChosenLayers, image: ImageLayer | None, regions: RegionsLayer | None
    ) -> ChosenLayers:
        """Return the layers after the user has chosen some; an image brings back its regions."""
        chosen_image, chosen_regions = chosen
        if image is not None:
            self.by_user.add("image")
        if regions is not None:
            self.by_user.add("regions")
        elif image is not None and image is not chosen_image:
            regions = self._regions_of(image)
            if regions is None:  # the next ones to be added are taken
                self.by_user.discard("regions")
        else:
            regions = chosen_regions
        return image or chosen_image, regions

    def offer(
        self,
        chosen: ChosenLayers,
        images: Sequence[ImageLayer],
        regions: Sequence[RegionsLayer],
        added: Layer | None,
        *,
        asked: bool,
    ) -> ChosenLayers:
        """Return the layers to choose of those of the viewer.

        A choice stays while its layer is there. Otherwise the layer that was ``added`` is taken, or
        the last image, or regions of the image. While the user is ``asked`` about an image, regions
        wait: they may be those of it.
        """
        chosen_image, chosen_regions = chosen
        before = _alive(self._regions)
        self._images = [weakref.ref(layer) for layer in images]
        self._regions = [weakref.ref(layer) for layer in regions]
        if among(added, images) and chosen_image is not None and not self.is_kept:
            # Regions that were there before another image came belong to the one chosen until now.
            for layer in before:
                self._owners.setdefault(layer, reference(chosen_image))
        image = self._still("image", chosen_image, images, added)
        if image is None and images:
            image = images[-1]
        waits = asked and self.added_image is not None and among(chosen_regions, regions)
        layer_of_regions = self._still("regions", chosen_regions, regions, None if waits else added)
        is_of_earlier_image = image is not chosen_image and layer_of_regions is chosen_regions
        if layer_of_regions is None or is_of_earlier_image:
            layer_of_regions = self._regions_of(image)
        return image, layer_of_regions

    def _still(
        self,
        name: str,
        chosen: LayerType | None,
        layers: Sequence[LayerType],
        added: Layer | None,
    ) -> LayerType | None:
        """Return the layer that was added, unless the user chose one that is still there."""
        is_there = among(chosen, layers)
        if not is_there and not self.is_kept:
            self.by_user.discard(name)
        if name not in self.by_user:
            for layer in layers:
                if layer is added:
                    return layer
        return chosen if is_there else None

    @property
    def added_image(self) -> ImageLayer | None:
        """What was added last, and not chosen, if it is an image."""
        added = self.added()
        return next((image for image in _alive(self._images) if image is added), None)

    @property
    def added_regions(self) -> RegionsLayer | None:
        """What was added last, and not chosen, if it holds regions."""
        added = self.added()
        return next((layer for layer in _alive(self._regions) if layer is added), None)

    def own(self, image: ImageLayer | None, regions: RegionsLayer | None) -> None:
        """Remember that regions are chosen with an image."""
        if image is not None and regions is not None:
            self._owners[regions] = reference(image)

    def made_for(self, image: ImageLayer, *layers: Layer) -> None:
        """Remember for which image the panel has made layers: they belong to it."""
        for layer in layers:
            self._made.setdefault(layer, []).append(reference(image))
            self._owners.setdefault(layer, reference(image))

    def is_made_for(self, layer: Layer, images: Sequence[ImageLayer | None]) -> bool:
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

    def _regions_of(self, image: ImageLayer | None) -> RegionsLayer | None:
        """Return the last layer with results on an image, else the last one made for it, ..."""
        in_viewer = _alive(self._regions)
        computed = self.records.regions_of(image)
        made_for_image = [layer for layer in self._made if self.is_made_for(layer, [image])]
        free = [layer for layer in in_viewer if self._may_lie_on(layer, image)]
        best_last: list[Layer] = [*free, *made_for_image, *computed]
        for candidate in reversed(best_last):
            for layer in in_viewer:
                if layer is candidate:
                    return layer
        return None

    def _may_lie_on(self, regions: RegionsLayer, image: ImageLayer | None) -> bool:
        """Return whether regions belong to an image, to no other one, or to another channel."""
        owner, images = self._owners.get(regions, NOTHING)(), _alive(self._images)
        if owner is image or not among(owner, images):
            return True
        upper = [layer for layer in images if layer is owner or layer is image][-1]
        return bool(getattr(upper, "blending", "") == "additive")  # napari adds up channels
