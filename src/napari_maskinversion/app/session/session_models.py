"""The evented models of a session: run, review, project and explore, and the status line.

Widgets set fields when the user does something, and follow ``events`` to show them. Signals ask
another part of the panel for something, now.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from psygnal import EventedModel, Signal
from pydantic import ConfigDict, InstanceOf, PrivateAttr, computed_field

from ...base.errors import ConfigError
from ...base.identity import Position, RegionKey, place_text
from ...language.captions.bank import CaptionBank
from ...language.labels.files import LabelFile
from ...language.labels.vocabulary import Vocabulary
from ...library.library import Library
from ...results.region_result import RegionResult
from ...results.results import Results
from ...results.settings import RunSettings
from ..layer_input.viewer_protocols import ImageLayer, RegionsLayer
from ..review.region_place import RegionPlace
from ..review.review_state import ReviewState
from ..review.review_target import ReviewTarget
from ..work.driver import Job
from .records import (
    NOTHING,
    ChosenLayers,
    ImageReference,
    RegionsReference,
    ResultRecord,
    Scope,
    Snapshot,
    indices,
    reference,
)
from .region_order import RegionOrder
from .state import Notice, ProjectState, RunState


class Model(EventedModel):
    """Typed fields with an event each, which the GUI thread alone may set."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    _thread: int = PrivateAttr(default_factory=threading.get_ident)

    def __setattr__(self, name: str, value: object) -> None:
        # Qt would crash later, and far from the cause.
        if not name.startswith("_") and threading.get_ident() != self._thread:
            raise RuntimeError(f"Session: '{name}' was set outside the GUI thread.")
        super().__setattr__(name, value)


class StatusModel(Model):
    """What the window says and shows."""

    tab: str = ""  # The tab in view
    notice: Notice | None = None  # What the status line says
    many: InstanceOf[Job] | None = None  # The work on several images of the project


class RunModel(Model):
    """Image, regions, settings and words of the next run, and the results of the last one."""

    model_config = ConfigDict(  # type: ignore[typeddict-unknown-key]  # psygnal has more keys
        allow_property_setters=True,
        field_dependencies={
            "image": ["image_ref"],
            "regions": ["regions_ref"],
            "layers": ["image_ref", "regions_ref"],
            "running": ["progress"],
        },
    )

    image_ref: ImageReference = NOTHING
    regions_ref: RegionsReference = NOTHING
    region_count: int | None = None  # Regions of the next run; None where they are not counted
    plane: Position | None = None  # Of the image, in view; None without an image
    # Count changes of the regions or of the plane shown, and of the selection in the layer
    edits: int = 0
    picks: int = 0
    settings: RunSettings = RunSettings()  # Model, method, windows, limits
    settings_problem: str = ""  # Why what was chosen last cannot be used
    scope: Scope = Scope()
    outlined: bool = False  # Show the window of the selected region, and heatmaps while they form
    forming: bool = False
    features: bool = False  # Keep suggestions and decisions in the features of the regions' layer
    # The words; None without any, or while `words_problem` says why they cannot be used
    vocabulary: InstanceOf[Vocabulary] | None = None
    words_problem: str = ""
    # The caption bank of the next run and how many captions each region gets;
    # `captions_problem` says why it cannot be used
    captions: tuple[InstanceOf[CaptionBank], int] | None = None
    captions_problem: str = ""
    progress: InstanceOf[RunState] = RunState()
    record: InstanceOf[ResultRecord] | None = None  # The results shown: of the chosen layers
    # Regions that were changed, added or removed since the results were made
    changed_regions: frozenset[InstanceOf[RegionKey]] = frozenset()
    computing: frozenset[InstanceOf[RegionKey]] = frozenset()  # Regions that live mode computes
    # Whether the image, as it is displayed, has changed since then; and whether its pixels have
    image_changed: bool = False
    pixels_changed: bool = False
    comparing: bool = False  # Whether something was edited, and is still to be compared
    # Whether other regions are selected than those that a limited run had
    others_picked: bool = False
    live: bool = False  # Whether results follow every change
    georeferenced: bool = False  # Whether the file of the image has map coordinates
    # When a model was found not to know the image; see `image_unknown`
    doubt: InstanceOf[Snapshot] | None = None
    # The last image that was looked at, and a line; see `image_note`
    looked_at: tuple[InstanceOf[Snapshot] | None, str] | None = None

    open_regions: ClassVar[Signal] = Signal(Path)
    open_results: ClassVar[Signal] = Signal(Path)
    take_words: ClassVar[Signal] = Signal(LabelFile)
    take_settings: ClassVar[Signal] = Signal(RunSettings)
    write_features: ClassVar[Signal] = Signal()
    cancel: ClassVar[Signal] = Signal()

    @property
    def image(self) -> ImageLayer | None:
        """The chosen image layer, or None."""
        return self.image_ref()

    @image.setter
    def image(self, layer: ImageLayer | None) -> None:
        self.image_ref = reference(layer)

    @property
    def regions(self) -> RegionsLayer | None:
        """The chosen regions layer, or None."""
        return self.regions_ref()

    @regions.setter
    def regions(self, layer: RegionsLayer | None) -> None:
        self.regions_ref = reference(layer)

    @property
    def layers(self) -> ChosenLayers:
        """The chosen image and regions layers."""
        return self.image, self.regions

    @layers.setter
    def layers(self, layers: ChosenLayers) -> None:
        self.image, self.regions = layers

    @computed_field  # type: ignore[prop-decorator]  # so that it has an event
    @property
    def running(self) -> bool:
        """Whether a run is at work, also one that is being stopped."""
        return self.progress.running

    @property
    def results(self) -> Results | None:
        """The results shown."""
        return None if self.record is None else self.record.results

    @property
    def regions_with_results(self) -> tuple[RegionResult, ...]:
        """The regions of the results shown; none without results."""
        return () if self.record is None else self.record.results.regions

    @property
    def total(self) -> int:
        """Regions of the run shown; those that it has results of while they are not counted."""
        record = self.record
        return 0 if record is None else max(record.total, len(record.results))

    @property
    def missing(self) -> int:
        """Regions of the run shown that have no results: it was cancelled, or broke off."""
        return self.total - len(self.results or ())

    @property
    def elsewhere(self) -> str:
        """The plane of the results shown, if it is not the one in view; else ""."""
        plane_of_results = None if self.record is None or self.live else self.record.plane
        if plane_of_results is None or self.plane is None:
            return ""
        if indices(plane_of_results) == indices(self.plane):
            return ""
        return place_text(plane_of_results)

    @property
    def image_unknown(self) -> bool:
        """Whether the image is of a kind that the model was not trained on."""
        doubt = self.doubt
        return (
            doubt is not None
            and self.image is not None
            and doubt.image is self.image
            and doubt.settings.model == self.settings.model
        )

    @property
    def image_note(self) -> str:
        """What the model sees of the image, where that is next to nothing; else empty."""
        if self.looked_at is None:
            return ""
        snapshot, note = self.looked_at
        return note if snapshot is not None and snapshot.image is self.image else ""

    def change_settings(self, values: Mapping[str, Any]) -> None:
        """Change settings by key; where they cannot work, `settings_problem` says why."""
        try:
            self.settings = self.settings.changed(values)
        except ConfigError as error:
            self.settings_problem = str(error)
        else:
            self.settings_problem = ""

    def snapshot(self) -> Snapshot:
        """Return what a worker may work on."""
        return Snapshot(
            image_ref=self.image_ref,
            regions_ref=self.regions_ref,
            settings=self.settings,
            scope=self.scope,
            vocabulary=self.vocabulary,
        )

    def matches(self, snapshot: Snapshot, *names: str) -> bool:
        """Return whether fields are as they were in a snapshot.

        Settings, scope and vocabulary are compared by value, all else by identity.
        """
        for name in names or ("image", "regions"):
            current, earlier = getattr(self, name), getattr(snapshot, name)
            by_value = name in ("settings", "scope", "vocabulary")
            if current is not earlier and not (by_value and current == earlier):
                return False
        return True


class ReviewModel(Model):
    """The open review, and which regions are selected."""

    row: int = -1  # The selected region, as a row of the results; -1 for none
    rows: tuple[int, ...] = ()  # All selected rows, in order; setting this also selects them
    # Regions of other images that are selected together with `rows`, on the map or in the gallery
    marked: tuple[InstanceOf[RegionPlace], ...] = ()
    picked: bool = False  # Whether the user selected it; otherwise the view stays where it is
    place: int = -1  # The row at which the next review goes on; -1 for the first one in order
    state: InstanceOf[ReviewState] | None = None  # The review that is open
    # What a review can be opened of; None for nothing
    target: InstanceOf[ReviewTarget] | None = None
    reviewing: bool = False  # Whether keys decide everywhere in the window
    # Whether a review is being opened, or will be if there are decisions: none can be made about
    # the image yet, and its decisions may be locked
    opening: bool = False
    decided_count: int = 0  # Regions of the results that have a decision
    changes: int = 0  # Counts changes of decisions, and of suggestions learned from them

    begin: ClassVar[Signal] = Signal()
    # Somebody wants to decide: a `Request`; what comes of it, `Session.decisions` tells everybody
    decide: ClassVar[Signal] = Signal(object)

    @property
    def chosen_rows(self) -> tuple[int, ...]:
        """The selected rows, unless it is the first one because nobody has chosen any."""
        if len(self.rows) > 1 or (self.rows and self.picked):
            return self.rows
        return (self.row,) if self.picked and self.row >= 0 and not self.marked else ()


class ProjectModel(Model):
    """The images that are worked through, one after the other."""

    state: InstanceOf[ProjectState] | None = None
    computed: int = 0  # Counts images of the project that got other results

    open_images: ClassVar[Signal] = Signal(object)  # Paths of a project, a folder or images
    open_region: ClassVar[Signal] = Signal(RegionPlace)
    # Counts of images by name, while decisions about them are being saved
    counted: ClassVar[Signal] = Signal(dict)


class MappedResults(NamedTuple):
    """Results on the map of embeddings."""

    results: Results
    points: npt.NDArray[np.float32]  # (N, 2), a place for each region


class ExploreModel(Model):
    """The library in use, and the map."""

    mapped: InstanceOf[MappedResults] | None = None
    library: InstanceOf[Library] | None = None  # Of regions of many images; None without one
    library_changes: int = 0  # Counts what this panel added to it
    # The last search among stored regions, which table and gallery are sorted by; None: as usual
    order: InstanceOf[RegionOrder] | None = None

    show_gallery: ClassVar[Signal] = Signal(
        object
    )  # Keys of the results and `RegionPlace`s, or None


class Models(Protocol):
    """What a session has: its models."""

    run: RunModel
    review: ReviewModel
    project: ProjectModel
    explore: ExploreModel
