"""Find where nobody drew regions: the work, hits on the canvas, and regions made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
from napari.layers import Labels
from napari.utils.colormaps import DirectLabelColormap

from ...base.errors import InputError
from ...base.regions import Region
from ...language.ranking.query import direction, embed_query, wanted_and_not
from ...regions.sam.checkpoints import on_disk
from ...results.export.bundle import Masks, compress_masks
from ...results.region_result import RegionResult
from ...results.results import Results
from ...results.run_info import RunInfo
from ...results.settings import RunSettings
from ...results.spaces import Space
from ..layers.coordinates import Plane, ViewPoint, plane_of
from ..layers.label_layers import layer_of_regions, with_index, with_labels
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
    from ...regions.sam.sam3 import Concepts
    from ...regions.sam.segmenter import Segmenter
    from ..session import Session

_CONTOUR: Final = 2  # pixels of an outline


@dataclass(frozen=True, slots=True, eq=False)
class Proposed:
    """Proposals of a plane, and what they were made from."""

    candidates: Candidates
    pixels: PictureDigest
    plane: Plane
    words: str | None = None
    checkpoint: Path | None = None
    sam: Segmenter | Concepts | None = None  # Kept: SAM 3 is loaded for more than one word


@dataclass(frozen=True, slots=True, eq=False)
class Example:
    """Regions of one image, and how they were embedded."""

    regions: tuple[RegionResult, ...]
    info: RunInfo
    space: Space

    @classmethod
    def of(cls, results: Results, rows: Sequence[int]) -> Example:
        """Return rows of results."""
        regions = tuple(results.regions[row] for row in rows)
        return cls(regions, results.info, Space.of(results))

    @property
    def embedding(self) -> FloatArray:
        """The unit vector of their mean."""
        return direction([region.embedding for region in self.regions])


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
    from ...pipeline.finding import ANSWERED, EXAMPLE, WORD

    query: FloatArray
    if search.like is None:
        query, usual = embed_query(model, search.words), WORD
    elif search.like.info.fingerprint != model.fingerprint:
        raise InputError("The example was embedded by another model; run again.")
    else:
        query, usual = search.like.embedding, EXAMPLE
    proposed = _proposed(search, model)
    if proposed.candidates.asked:
        usual = ANSWERED
    ranked = proposed.candidates.search(model, query)
    hits = proposed.candidates.found(ranked, -1.0)
    task = replace(proposed.candidates.task, regions=hits.regions)
    return Anywhere(search, proposed, hits, compress_masks([task]), usual)


def _proposed(search: Search, model: Backbone) -> Proposed:
    from ...pipeline.finding import propose

    pixels, before = picture_digest(search.picture), search.before
    words = search.words if search.like is None else None
    wanted, loaded = on_disk(words), None
    if before is not None and before.checkpoint == wanted:
        loaded, made = before.sam, before.candidates
        same = before.pixels == pixels and before.plane == search.plane
        same = same and made.crops.info.fingerprint == model.fingerprint
        same = same and (not made.asked or before.words == words)
        if same and made.settings.same_embeddings(search.settings):
            return before
    if loaded is None and wanted is not None:
        from ...regions.sam.loading import load_proposer

        loaded = load_proposer(wanted, search.settings.device)
    source = search.picture.source(search.plane, search.view)
    asked = None if words is None else wanted_and_not(words)[0]
    proposer = None if loaded is None else loaded.asked(asked)
    candidates = propose(model, source, search.settings, proposer)
    return Proposed(candidates, pixels, search.plane, words, wanted, loaded)


class HitsLayer(LayerHolder[Labels]):
    """Shows the outlines of hits in a Labels layer of our own."""

    kind = "found"
    _ranks: Any = None  # Outlines of all hits, which are numbered from the best

    def show(self, image: Any, plane: Plane, regions: Sequence[Region]) -> None:
        """Draw hits, best first, on an image's plane; `cut` shows the best of them."""
        pixels, _, placed = _layer_of(image, plane)
        on_plane = np.moveaxis(pixels, plane.cut.axes, (-2, -1))[(0,) * (pixels.ndim - 2)]
        # The best on top: what is cut off lies below what is shown.
        for rank, region in reversed(list(enumerate(regions, 1))):
            y0, x0, y1, x1 = region.bbox
            on_plane[y0:y1, x0:x1][_outline(region.mask > 0)] = rank
        layer = self.fitting(image)
        if layer is not None and layer.data.shape == pixels.shape:
            self.follow(placed)
        else:
            self.remove()
            layer = Labels(
                np.zeros_like(pixels),
                name=f"found: {image.name}",
                colormap=DirectLabelColormap(color_dict={None: COLOR, 0: "transparent"}),
                opacity=1.0,
                metadata={OURS: self.kind},
                **placed,
            )
            layer.editable = False
            self.insert(layer, image)
        self._ranks = pixels

    def cut(self, count: int) -> None:
        """Show so many of the hits."""
        if self.layer is not None:
            self.layer.data = np.where(self._ranks <= count, self._ranks, 0)

    def forget(self) -> None:
        """Leave the layer, and let go of the outlines."""
        super().forget()
        self._ranks = None


def _outline(mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return the pixels near the edge; napari's own contours of a large image take a second."""
    wide, far = np.pad(mask, _CONTOUR), 2 * _CONTOUR
    rows, columns = wide[:, _CONTOUR:-_CONTOUR], wide[_CONTOUR:-_CONTOUR]
    inside = rows[:-far] & rows[far:] & columns[:, :-far] & columns[:, far:]
    return np.asarray(mask & ~inside)


def make_regions(
    viewer: Any, session: Session, image: Any, plane: Plane, regions: Sequence[Region]
) -> int:
    """Add regions to the image's Labels layer, else to a new one, in one step to undo.

    Pixels that belong to other regions stay as they are. Returns how many regions found room.
    """
    if image not in viewer.layers:
        raise InputError("The image of these hits was closed; search again.")
    layer = session.regions if session.image is image else None
    if layer is None or not _takes(layer, image, len(regions)):
        layer = _new_layer(viewer, session, image, plane, regions[0].name or "like one")
    highest, names = int(layer.data.max(initial=0)), dict[int, str]()
    rows, columns = plane.cut.axes
    with layer.block_history():
        for region in regions:
            y, x = np.nonzero(region.mask > 0)
            places = zip(plane.cut.index, layer.data.shape, strict=True)
            index: list[Any] = [np.full(len(y), min(at, side - 1)) for at, side in places]
            index[rows], index[columns] = y + region.bbox[0], x + region.bbox[1]
            free = layer.data[tuple(index)] == 0
            if free.any():
                number = highest + len(names) + 1
                names[number] = region.name
                layer.data_setitem(tuple(axis[free] for axis in index), number, refresh=False)
    if not names:
        raise InputError("All hits lie on regions that are there.")
    _name(layer, names)
    layer.refresh()
    session.choose_for(image, layer)
    return len(names)


def _new_layer(viewer: Any, session: Session, image: Any, plane: Plane, words: str) -> Labels:
    """Add a layer without regions: what is painted there later can be undone."""
    pixels, about, placed = _layer_of(image, plane)
    layer = Labels(pixels, name=f"{words} (found)", opacity=REGIONS_OPACITY, **about, **placed)
    session.choice.made_for(image, layer)
    with selection_kept(viewer), session.choice.kept():
        viewer.add_layer(layer)
    return layer


def _name(layer: Labels, names: dict[int, str]) -> None:
    """Set the words of labels; other features stay."""
    frame = with_labels(with_index(layer.features), names)
    for column in {"label", "source_id"} - set(frame):
        frame[column] = ""
    rows = zip(frame["index"], frame["label"], strict=True)
    frame["label"] = [names.get(index, label) for index, label in rows]
    layer.features = frame


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


def _layer_of(image: Any, plane: Plane) -> tuple[Any, Any, Any]:
    """Return empty pixels of a Labels layer of one plane, what else it has, and its place."""
    height, width = plane.shape
    shape = [1] * image.ndim
    for axis, side in zip(plane.cut.axes, plane.shape, strict=True):
        shape[axis] = side
    pixels, about = layer_of_regions([], tuple(shape), plane.cut.axes)
    box = (0.0, 0.0, float(height), float(width))
    return pixels, about, box_transform(image, plane, box, plane.shape)
