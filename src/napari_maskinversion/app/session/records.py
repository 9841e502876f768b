"""Results with what they were made from, and the records of all layers."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from ...base.identity import Position, RegionIdentity
from ...base.wording import counted
from ...language.labels.vocabulary import Vocabulary
from ...results.recipe import Recipe
from ...results.results import Results
from ...results.settings import RunSettings
from ..layer_input.viewer_protocols import ImageLayer, Layer, RegionsLayer

if TYPE_CHECKING:
    import pandas as pd

    from ...regions.label_images import PlaneRegions
    from ...results.export.bundle import CompressedRegion
    from ..layer_input.run_input import PlaneFinder

# Weak references
LayerReference = Callable[[], Layer | None]
ImageReference = Callable[[], ImageLayer | None]
RegionsReference = Callable[[], RegionsLayer | None]
ChosenLayers = tuple[ImageLayer | None, RegionsLayer | None]

LayerType = TypeVar("LayerType", bound=Layer)


def NOTHING() -> None:  # noqa: N802
    """Stand in for a weak reference."""


def reference(layer: LayerType | None) -> Callable[[], LayerType | None]:
    """Return a weak reference to a layer; `NOTHING` without one."""
    return NOTHING if layer is None else weakref.ref(getattr(layer, "__wrapped__", layer))


@dataclass(frozen=True, slots=True)
class Scope:
    """Which regions and pixels a run uses."""

    planes: Literal["shown", "largest", "each"] = "shown"
    channels: Literal["layer", "displayed"] = "layer"
    limited: bool = False  # Only some regions: the numbered ones, else those selected in the layer
    ids: str = ""  # Their numbers as typed, such as "3, 7-9"
    merge: bool = False  # The chosen regions become one

    @property
    def chosen(self) -> tuple[str, tuple[str, bool] | None]:
        """What decides about the regions of a run; equal for two scopes that choose the same."""
        return self.planes, (self.ids.strip(), self.merge) if self.limited else None


@dataclass(frozen=True, slots=True)
class Staleness:
    """What has changed since the results shown were made."""

    words: bool = False  # The scope is the choice of regions and planes
    settings: bool = False
    image: bool = False
    scope: bool = False
    regions: int = 0  # Number of regions that were changed, added or removed

    def __bool__(self) -> bool:
        return self.words or self.settings or self.image or self.scope or self.regions > 0

    @property
    def text(self) -> str:
        """The mark beside the results, such as "3 regions changed: update"; "" if up to date."""
        changes = []
        if self.image:
            changes.append("image")
        if self.words:
            changes.append("words")
        if self.settings:
            changes.append("settings")
        if self.scope:
            changes.append("choice of regions")
        if self.regions:
            changes.append(counted(self.regions, "region"))
        if not changes:
            return ""
        return f"{', '.join(changes)} changed: update"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, weakref_slot=True)
class Snapshot:
    """What a worker works on; it does not change when the session does.

    It holds no results: results hold the snapshot of their run, and would keep all runs before.
    """

    settings: RunSettings
    scope: Scope
    vocabulary: Vocabulary | None
    image_ref: ImageReference
    regions_ref: RegionsReference

    @property
    def recipe(self) -> Recipe:
        """What was chosen to make results from."""
        scope = Recipe(
            image={"channels of layers": self.scope.channels},
            regions={"choice": self.scope.chosen},
        )
        return Recipe.of_settings(self.settings).joined(Recipe.of_words(self.vocabulary), scope)

    @property
    def image(self) -> ImageLayer | None:
        """The image layer."""
        return self.image_ref()

    @property
    def has_regions(self) -> bool:
        """Whether there was a regions layer; it may be gone."""
        return self.regions_ref is not NOTHING

    @property
    def regions(self) -> RegionsLayer | None:
        """The regions layer."""
        return self.regions_ref()


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ResultRecord:
    """Results and what they were made from. Compared by identity."""

    results: Results
    snapshot: Snapshot  # Of the start of the run: records with the same one are of the same run
    table: pd.DataFrame | None = None  # ``results.to_frame()``, if already computed
    total: int = 0  # Regions of the run; more than there are results after Cancel
    only: frozenset[int] | None = None  # Ids of the regions that were chosen; None for all
    finder: PlaneFinder | None = None  # Finds the plane of a region
    source: Mapping[str, Any] = field(default_factory=dict)  # For the exported record
    identities: tuple[RegionIdentity, ...] = ()  # The regions as they were when the run began
    # As the layer shows them, where that is something else; empty otherwise
    painted_as: tuple[RegionIdentity, ...] = ()
    # Their pixels, compressed, by plane and id; in live mode as they are; None while a run goes on
    masks: dict[tuple[Position, int], CompressedRegion] | tuple[PlaneRegions, ...] | None = None
    shown: Recipe | None = None  # What the model was shown of the image; None if unknown
    decisions: bytes = b""  # Decisions that came with reopened results
    live: bool = False  # Whether live mode made them, or they come from a file
    reopened: bool = False
    settled: bool = False  # Whether they can be reviewed: no other ones follow at once

    @property
    def recipe(self) -> Recipe:
        """What the results were computed from."""
        shown = self.shown or Recipe(image={"pixels": None})
        regions = Recipe(regions={"regions": self.identities})
        return self.results.info.recipe.joined(shown, regions)

    @property
    def plane(self) -> Position | None:
        """The plane of the image that they are of; None for all planes, or if it is unknown."""
        if self.finder is None or self.finder.all_planes:
            return None
        return self.finder.plane(()).position

    def changed(self, **values: Any) -> ResultRecord:
        """Return a record of the same run with other values."""
        return replace(self, **values)


class _NoLayer:
    """Key of results whose regions have no layer."""


_NO_LAYER: Final = _NoLayer()


class KeptRecords:
    """The records of all layers, by plane: choosing an image again brings its results back."""

    def __init__(self) -> None:
        # By image, then by regions layer; of each plane the last one, and the last of all at last.
        self._records: weakref.WeakKeyDictionary[
            ImageLayer,
            weakref.WeakKeyDictionary[
                RegionsLayer | _NoLayer, dict[tuple[int, ...] | None, ResultRecord]
            ],
        ] = weakref.WeakKeyDictionary()

    def keep(self, record: ResultRecord) -> None:
        """Keep a record for its layers, unless they were removed meanwhile."""
        image, regions = record.snapshot.image, record.snapshot.regions
        if image is None or (regions is None and record.snapshot.has_regions):
            return
        by_regions = self._records.setdefault(image, weakref.WeakKeyDictionary())
        planes = by_regions.setdefault(regions or _NO_LAYER, {})
        planes.pop(_plane(record), None)
        planes[_plane(record)] = record

    def of(self, image: ImageLayer | None, regions: RegionsLayer | None) -> ResultRecord | None:
        """Return the last record of an image and a regions layer, or without one."""
        return next(reversed(self._planes(image, regions).values()), None)

    def at(
        self, image: ImageLayer | None, regions: RegionsLayer | None, plane: Position
    ) -> ResultRecord | None:
        """Return the record of a plane."""
        return self._planes(image, regions).get(indices(plane))

    def regions_of(self, image: ImageLayer | None) -> list[RegionsLayer]:
        """Return the regions layers that have records on an image."""
        by_regions = None if image is None else self._records.get(image)
        layers: list[RegionsLayer] = []
        if by_regions is not None:
            for layer, planes in by_regions.items():
                if planes and not isinstance(layer, _NoLayer):
                    layers.append(layer)
        return layers

    def forget(self, record: ResultRecord) -> None:
        """Drop a record."""
        self._planes(record.snapshot.image, record.snapshot.regions).pop(_plane(record), None)

    def _planes(
        self, image: ImageLayer | None, regions: RegionsLayer | None
    ) -> dict[tuple[int, ...] | None, ResultRecord]:
        by_regions = None if image is None else self._records.get(image)
        return {} if by_regions is None else by_regions.get(regions or _NO_LAYER, {})


def _plane(record: ResultRecord) -> tuple[int, ...] | None:
    return None if record.plane is None else indices(record.plane)


def same_run(record: ResultRecord | None, other: ResultRecord | None) -> bool:
    """Return whether two records are of one run, finished or not."""
    return record is not None and other is not None and record.snapshot is other.snapshot


def same_regions(results: Results | None, other: Results | None) -> bool:
    """Return whether two results are of one run; limits and captions may differ."""
    if results is None or other is None or len(results) != len(other):
        return False
    pairs = zip(results.regions, other.regions, strict=True)
    return all(region.raw_embedding is twin.raw_embedding for region, twin in pairs)


def only_ranked_again(one: ResultRecord | None, other: ResultRecord | None) -> bool:
    """Return whether two records differ by what decisions have taught at most."""
    if one is None or other is None or not same_run(one, other):
        return False
    same_words = one.results.info.without_decisions == other.results.info.without_decisions
    same_state = one.settled == other.settled and one.identities is other.identities
    return same_state and same_words and same_regions(one.results, other.results)


def indices(position: Position) -> tuple[int, ...]:
    """Return a plane without the names of its axes, which change as layers are added."""
    return tuple(index for _, index in position)
