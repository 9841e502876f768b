"""Find where nobody drew regions: the work, hits on the canvas, and regions made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from napari.layers import Labels
from napari.utils.colormaps import DirectLabelColormap

from ...base.errors import InputError
from ...base.regions import Region
from ...regions.sam.checkpoints import on_disk
from ...results.export.bundle import compress_masks
from ..layers.coordinates import Plane, ViewPoint, plane_of
from ..layers.label_layers import layer_of_regions
from ..layers.layers import OURS, is_shapes
from ..layers.overlays import COLOR
from ..layers.pictures import Picture, copy_picture
from ..layers.placing import (
    REGIONS_OPACITY,
    LayerHolder,
    box_transform,
    same_transform,
    selection_kept,
)
from ..layers.tasks import PictureDigest, PlaneFinder, picture_digest
from ..run_requests.preparing import background_of, image_layers, usable_settings
from ..workers.model_store import ModelStore

if TYPE_CHECKING:
    from ...engine.models.backbone import Backbone
    from ...pipeline.finding import Candidates, FloatArray, Found
    from ...results.export.bundle import Masks
    from ...results.region_result import RegionResult
    from ...results.run_info import RunInfo
    from ...results.settings import RunSettings
    from ..session import Session

_CONTOUR: Final = 2  # pixels of an outline


@dataclass(frozen=True, slots=True, eq=False)
class Proposed:
    """Proposals of a plane, and what they were made from."""

    candidates: Candidates
    pixels: PictureDigest
    plane: Plane


@dataclass(frozen=True, slots=True, eq=False)
class Example:
    """A region of any image, and how it was embedded."""

    region: RegionResult
    info: RunInfo


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Search:
    """Everything that a search of a plane needs, copied on the GUI thread."""

    picture: Picture
    view: ViewPoint
    plane: Plane
    settings: RunSettings
    words: str = ""
    like: Example | None = None  # Instead of words
    before: Proposed | None = None

    @property
    def finder(self) -> PlaneFinder:
        """What finds the plane again."""
        grid = self.picture.grid
        return PlaneFinder(self.view, grid, grid, all_planes=False)


@dataclass(frozen=True, slots=True, eq=False)
class Anywhere:
    """All hits of a search, best first."""

    search: Search
    proposed: Proposed
    hits: Found
    masks: Masks
    usual: float  # The default threshold

    def count(self, threshold: float) -> int:
        """Return how many hits are similar enough."""
        return int(np.count_nonzero(self.hits.similarities >= threshold))


def search_of(
    viewer: Any, session: Session, words: str, like: Example | None, before: Proposed | None
) -> Search:
    """Copy what a search needs from the viewer and the session."""
    image = session.image
    if image is None:
        raise InputError("Open an image first.")
    view = ViewPoint.of(viewer)
    picture = copy_picture(
        image,
        view,
        channels=session.scope.channels,
        others=image_layers(viewer),
        background=background_of(viewer),
    )
    settings = usable_settings(session.settings)
    if like is not None and like.info.method != settings.method:
        raise InputError("The example was embedded by another method; run again.")
    return Search(
        picture=picture,
        view=view,
        plane=plane_of(picture.grid, view),
        settings=settings,
        words=words,
        like=like,
        before=before,
    )


def find_anywhere(search: Search, store: ModelStore) -> Anywhere:
    """Propose regions of a plane, unless that was done before, and rank them; for a worker."""
    settings = search.settings
    model = store.load(settings.model, settings.device)
    from ...language.ranking.ranking import embed_expression
    from ...pipeline.finding import EXAMPLE, WORD

    query: FloatArray
    if search.like is None:
        query, usual = embed_expression(model, search.words), WORD
    elif search.like.info.fingerprint != model.fingerprint:
        raise InputError("The example was embedded by another model; run again.")
    else:
        query, usual = search.like.region.embedding, EXAMPLE
    proposed = _proposed(search, model)
    ranked = proposed.candidates.search(model, query)
    hits = proposed.candidates.found(ranked, -1.0)
    task = replace(proposed.candidates.task, regions=hits.regions)
    return Anywhere(search, proposed, hits, compress_masks([task]), usual)


def _proposed(search: Search, model: Backbone) -> Proposed:
    from ...pipeline.finding import propose

    pixels, before = picture_digest(search.picture), search.before
    if before is not None and before.pixels == pixels and before.plane == search.plane:
        made = before.candidates
        same = made.crops.info.fingerprint == model.fingerprint
        if same and made.settings.same_embeddings(search.settings):
            return before
    segmenter, checkpoint = None, on_disk()
    if checkpoint is not None:
        from ...regions.sam.segmenter import load_segmenter

        segmenter = load_segmenter(checkpoint, search.settings.device)
    source = search.picture.source(search.plane, search.view)
    candidates = propose(model, source, search.settings, segmenter)
    return Proposed(candidates, pixels, search.plane)


class HitsLayer(LayerHolder[Labels]):
    """Shows the outlines of hits in a Labels layer of our own."""

    kind = "found"

    def show(self, image: Any, plane: Plane, regions: Sequence[Region]) -> None:
        """Draw regions on an image's plane."""
        pixels, _, placed = _layer_of(image, plane, regions)
        layer = self.fitting(image)
        if layer is not None and layer.data.shape == pixels.shape:
            self.follow(placed)
            layer.data = pixels
            return
        self.remove()
        layer = Labels(
            pixels,
            name=f"found: {image.name}",
            colormap=DirectLabelColormap(color_dict={None: COLOR, 0: "transparent"}),
            opacity=1.0,
            metadata={OURS: self.kind},
            **placed,
        )
        layer.contour, layer.editable = _CONTOUR, False
        self.insert(layer, image)


def make_regions(
    viewer: Any, session: Session, image: Any, plane: Plane, regions: Sequence[Region]
) -> None:
    """Add regions to the image's Labels layer in one step to undo, else as a new layer.

    Pixels that belong to other regions stay as they are.
    """
    layer = session.regions if session.image is image else None
    if layer is not None and _takes(layer, image, len(regions)):
        highest = int(layer.data.max(initial=0))
        rows, columns = plane.cut.axes
        with layer.block_history():
            for number, region in enumerate(regions, highest + 1):
                y, x = np.nonzero(region.mask > 0)
                index: list[Any] = [np.full(len(y), at) for at in plane.cut.index]
                index[rows], index[columns] = y + region.bbox[0], x + region.bbox[1]
                free = layer.data[tuple(index)] == 0
                layer.data_setitem(tuple(axis[free] for axis in index), number, refresh=False)
        layer.refresh()
        return
    pixels, about, placed = _layer_of(image, plane, regions)
    with selection_kept(viewer), session.kept_choice():
        layer = viewer.add_labels(
            pixels,
            name=f"{regions[0].name or 'like one'} (found)",
            opacity=REGIONS_OPACITY,
            **about,
            **placed,
        )
    session.made_for(image, layer)
    session.choose_for(image, layer)


def _takes(layer: Any, image: Any, count: int) -> bool:
    """Whether a layer has the pixels of an image, and room for more regions."""
    if is_shapes(layer) or layer.multiscale or not isinstance(layer.data, np.ndarray):
        return False
    shape = image.data.shape[: image.ndim]
    placed = all(
        same_transform(getattr(layer, name), getattr(image, name))
        for name in ("scale", "translate", "rotate", "shear", "affine")
    )
    room = int(layer.data.max(initial=0)) + count <= np.iinfo(layer.data.dtype).max
    return bool(layer.data.shape == shape and placed and layer.editable and room)


def _layer_of(image: Any, plane: Plane, regions: Sequence[Region]) -> tuple[Any, Any, Any]:
    """Return the pixels of a Labels layer of one plane, what else it has, and its place."""
    height, width = plane.shape
    shape = [1] * image.ndim
    for axis, side in zip(plane.cut.axes, plane.shape, strict=True):
        shape[axis] = side
    on_plane = [(plane.position, region) for region in regions]
    pixels, about = layer_of_regions(on_plane, tuple(shape), plane.cut.axes)
    box = (0.0, 0.0, float(height), float(width))
    return pixels, about, box_transform(image, plane, box, plane.shape)
