"""The one observable state of the panel, for each viewer. It knows no Qt.

Widgets bind to its fields: they set them when the user does something, and follow ``events`` to
show them. Workers take `Session.snapshot` and hand results back with it; `Session.matches` says
whether they still count. Touch a session on the GUI thread only.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal

from psygnal import EventedModel
from pydantic import ConfigDict, PrivateAttr

from ..base.errors import ConfigError
from ..base.identity import Position, RegionKey, place_text
from ..results.settings import RunSettings

if TYPE_CHECKING:
    import pandas as pd

    from ..base.identity import RegionIdentity
    from ..language.labels.vocabulary import Vocabulary
    from ..results.results import Results

Severity = Literal["info", "warning", "error"]
Phase = Literal["idle", "running", "stopping", "done", "cancelled", "failed"]
Ask = Literal[
    "open regions",
    "open results",
    "open images",
    "take words",
    "take settings",
    "cancel run",
    "review",
    "accept word",
    "take back",
    "decide",
    "decided",
    "gallery",
    "show decisions",
    "write features",
    "open region",
]


class NextStep(Enum):
    """What the one button of the panel does next."""

    OPEN_SAMPLE = "open sample"
    DRAW_REGIONS = "draw regions"
    CHOOSE_WORDS = "choose words"
    SUGGEST = "suggest"
    WAIT = "wait"
    UPDATE = "update"
    CONTINUE = "continue"
    REVIEW = "review"
    DECIDE = "decide"
    EXPORT = "export"
    NEXT_IMAGE = "next image"
    EXPORT_ALL = "export all"


@dataclass(frozen=True, slots=True)
class Notice:
    """One message in the status line."""

    text: str  # Whole sentences, with what to do
    severity: Severity = "info"
    action: str = ""  # Name of the action that a button beside it offers; "" for no button
    source: str = ""  # The part of the panel that takes it back; see `Session.settle`


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """What one part of the panel asks of another; see `Session.ask`. Compared by identity."""

    what: Ask
    # "open regions", "open results": a path. "open images": paths of a project, a folder or images.
    # "take words": a `LabelFile`. "take settings": `RunSettings`. "accept word": a word and the
    # least confidence. "decide": a `Verdict`, by image ("" for the one shown). "decided": the
    # `Verdict` or `Decided` that was asked for, and what came of it. "take back": a `Decided`.
    # "open region": a `RegionPlace`. "gallery": which regions, or None. None otherwise.
    value: Any = None


@dataclass(frozen=True, slots=True)
class RegionPlace:
    """Where a region is, on this or another image."""

    image: str  # "" for the one shown; else its name in the project, or its path
    region: int
    position: Position = ()
    path: str = field(default="", compare=False)  # Of its file, as libraries have it; "" if unknown
    series: int = 0  # Of a file with several images
    # None: whichever region has the number
    box: tuple[int, int, int, int] | None = field(default=None, compare=False)

    @property
    def file(self) -> tuple[str, int]:
        """The path of its file, and which image of the file it is on."""
        return self.path or self.image, self.series


@dataclass(frozen=True, slots=True)
class RunState:
    """Progress of a run, or how the last one ended."""

    phase: Phase = "idle"
    done: int = 0  # Regions that are finished, and regions of the run; 0 while they are not counted
    total: int = 0
    text: str = ""  # What the run does now
    fraction: float = 0.0  # 0..1
    snapshot: Any = None  # What the run works on, or worked on
    note: str = ""  # What was changed because memory ran out

    @property
    def running(self) -> bool:
        """Whether a run is at work, also one that is being stopped."""
        return self.phase in ("running", "stopping")

    @property
    def summary(self) -> str:
        """How the run ended: "47 of 141 regions" after Cancel or an error."""
        total = max(self.total, self.done)
        several = "s" * (total != 1)
        if self.done < total:
            return f"{self.done:,} of {total:,} region{several}"
        return f"{total:,} region{several}"


@dataclass(frozen=True, slots=True)
class Download:
    """Progress of a download."""

    name: str
    done: int = 0  # Bytes; 0 while they are not known
    total: int = 0
    stopping: bool = False  # Cancel was pressed

    @property
    def fraction(self) -> float:
        """0..1."""
        return self.done / self.total if self.total else 0.0


@dataclass(frozen=True, slots=True)
class ManyImages:
    """Progress of work on the images of a project."""

    text: str  # What goes on now, with the image: "Image 4 of 10: cells-4.png, inverting"
    fraction: float = 0.0  # 0..1 of all images
    stopping: bool = False  # Cancel was pressed


@dataclass(frozen=True, slots=True)
class ProjectState:
    """The project that is worked through."""

    title: str
    names: tuple[str, ...] = ()  # Its images, in order
    done: frozenset[str] = frozenset()  # Those that somebody has decided about
    current: str = ""  # The image in the viewer; "" for none
    opening: str = ""  # The image that will follow it, while it is read
    file: str = ""

    @property
    def next_open(self) -> str:
        """The next image after the current one that is not done; "" if all others are."""
        at = self.names.index(self.current) + 1 if self.current in self.names else 0
        others = self.names[at:] + self.names[: max(at - 1, 0)]
        return next((name for name in others if name not in self.done), "")

    def beside(self, step: int) -> str:
        """Return the image so many places after the one opened last; "" beyond the ends."""
        at = self.opening or self.current
        if at not in self.names:
            return self.names[0] if self.names else ""
        place = self.names.index(at) + step
        return self.names[place] if 0 <= place < len(self.names) else ""

    @property
    def progress(self) -> str:
        """How many are done: "4 of 10"."""
        return f"{len(self.done):,} of {len(self.names):,}"


@dataclass(frozen=True, slots=True)
class Scope:
    """Which regions and pixels a run uses."""

    planes: Literal["shown", "largest", "each"] = "shown"
    channels: Literal["layer", "displayed"] = "layer"
    limited: bool = False  # Only some regions: the numbered ones, else those selected in the layer
    ids: str = ""  # Their numbers as typed, such as "3, 7-9"
    merge: bool = False  # The chosen regions become one

    @property
    def chosen(self) -> tuple[Any, ...]:
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
        changes = [
            name
            for name, changed in (
                ("image", self.image),
                ("words", self.words),
                ("settings", self.settings),
                ("choice of regions", self.scope),
                (f"{self.regions:,} region{'s' * (self.regions != 1)}", self.regions > 0),
            )
            if changed
        ]
        return f"{', '.join(changes)} changed: update" if changes else ""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, weakref_slot=True)
class Snapshot:
    """What a worker works on; it does not change when the session does.

    It holds no results: results hold the snapshot of their run, and would keep all runs before.
    """

    settings: RunSettings
    scope: Scope
    vocabulary: Vocabulary | None
    image_ref: Callable[[], Any]
    regions_ref: Callable[[], Any]

    @property
    def image(self) -> Any:
        """The image layer."""
        return self.image_ref()

    @property
    def regions(self) -> Any:
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
    finder: Any = None  # Finds the plane of a region
    source: Mapping[str, Any] = field(default_factory=dict)  # For the exported record
    identities: tuple[RegionIdentity, ...] = ()  # The regions as they were when the run began
    # As the layer shows them, where that is something else; empty otherwise
    painted_as: tuple[RegionIdentity, ...] = ()
    masks: Any = None  # Their pixels; None while a run goes on
    fingerprint: Any = None  # What the model was shown
    decisions: bytes = b""  # Decisions that came with reopened results
    live: bool = False  # Whether live mode made them, or they come from a file
    reopened: bool = False
    settled: bool = False  # Whether they can be reviewed: no other ones follow at once

    @property
    def plane(self) -> Position | None:
        """The plane of the image that they are of; None for all planes, or if it is unknown."""
        if self.finder is None or self.finder.all_planes:
            return None
        position: Position = self.finder.plane(()).position
        return position

    def changed(self, **values: Any) -> ResultRecord:
        """Return a record of the same run with other values."""
        return replace(self, **values)


SWITCH: Final = "switch"
"""Action of the notice about an image, or regions, that were added while others stay chosen."""
NOTHING: Final[Callable[[], Any]] = lambda: None  # noqa: E731 - stands in for a weak reference


class _NoLayer:
    """Key of results whose regions have no layer."""


_NO_LAYER: Final = _NoLayer()


class Session(EventedModel):
    """What the user sees and has chosen. One for each viewer; see `session_of`."""

    model_config = ConfigDict(  # type: ignore[typeddict-unknown-key]  # psygnal has more keys
        arbitrary_types_allowed=True,
        extra="forbid",
        allow_property_setters=True,
        field_dependencies={
            "image": ["image_ref"],
            "regions": ["regions_ref"],
            "layers": ["image_ref", "regions_ref"],
        },
    )

    image_ref: Any = NOTHING
    regions_ref: Any = NOTHING
    region_count: int | None = None  # Regions of the next run; None where they are not counted
    plane: Any = None  # Position of the image's plane in view; None without an image
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
    vocabulary: Any = None
    words_problem: str = ""
    # The caption bank of the next run; ``captions_problem`` says why it cannot be used
    captions: Any = None
    captions_problem: str = ""
    run: RunState = RunState()
    record: Any = None  # The results shown: always those of the chosen layers
    row: int = -1  # The selected region, as a row of the results; -1 for none
    rows: tuple[int, ...] = ()  # All rows that are selected, in order; who sets them, selects them
    # Regions of other images that are selected together with `rows`, on the map or in the gallery
    marked: tuple[RegionPlace, ...] = ()
    mapped: Any = None  # Results on the map of embeddings, and their places (N, 2) on it
    picked: bool = False  # Whether the user selected it; otherwise the view stays where it is
    place: int = -1  # The row at which the next review goes on; -1 for the first one in order
    review: Any = None  # The review that is open, and what one can be opened of; set by the review
    reviewable: Any = None
    reviewing: bool = False  # Whether keys decide everywhere in the window; set by the review
    # Whether a review is being opened, or will be if there are decisions: none can be made about
    # the image yet, and its decisions may be locked; set by the review
    review_opening: bool = False
    # Regions of the results that have a decision, and a count of changes of decisions and of
    # suggestions learned from them; set by the review
    decided: int = 0
    decisions: int = 0
    # Regions that were changed, added or removed since the results were made
    changed_regions: frozenset[Any] = frozenset()
    computing: frozenset[Any] = frozenset()  # Regions that live mode computes
    # Whether the image, as it is displayed, has changed since then; and whether its pixels have
    image_changed: bool = False
    pixels_changed: bool = False
    comparing: bool = False  # Whether something was edited, and is still to be compared
    # Whether other regions are selected than those that a limited run had
    others_picked: bool = False
    tab: str = ""  # The tab in view
    live: bool = False  # Whether results follow every change
    georeferenced: bool = False  # Whether the file of the image has map coordinates
    doubt: Any = None  # When a model was found not to know the image; see `image_unknown`
    looked_at: Any = None  # The last image that was looked at, and a line; see `image_note`
    download: Download | None = None  # The download of a model that goes on
    project: ProjectState | None = None  # The images that are worked through, one after the other
    library: Any = None  # The open `Library` of regions of many images; None without one
    library_changes: int = 0  # Counts what this panel changed in it
    computed: int = 0  # Counts images of the project that got other results
    many: ManyImages | None = None  # The work on several images of the project that goes on
    notice: Notice | None = None  # What the status line says
    asked: Asked | None = None  # What a part of the panel asks of another at this moment

    _thread: int = PrivateAttr(default_factory=threading.get_ident)
    # Choices of the user: a layer that is added does not take their place.
    _chosen: set[str] = PrivateAttr(default_factory=set)
    # Images and regions layers that are in the viewer, the lowest first.
    _images_there: Sequence[Callable[[], Any]] = PrivateAttr(default=())
    _there: Sequence[Callable[[], Any]] = PrivateAttr(default=())
    # The image that a regions layer was last chosen with: regions are not taken to another one.
    _owners: weakref.WeakKeyDictionary[Any, Callable[[], Any]] = PrivateAttr(
        default_factory=weakref.WeakKeyDictionary
    )
    # Layers that the panel made for an image, with that image or its channels.
    _made: weakref.WeakKeyDictionary[Any, list[Callable[[], Any]]] = PrivateAttr(
        default_factory=weakref.WeakKeyDictionary
    )
    # Of each regions layer those of single planes, which come back with their plane.
    _planes: weakref.WeakKeyDictionary[Any, dict[tuple[int, ...], ResultRecord]] = PrivateAttr(
        default_factory=weakref.WeakKeyDictionary
    )
    # Records of all images, by regions layer: choosing an image again brings its results back.
    _records: weakref.WeakKeyDictionary[Any, weakref.WeakKeyDictionary[Any, ResultRecord]] = (
        PrivateAttr(default_factory=weakref.WeakKeyDictionary)
    )
    _added: Callable[[], Any] = PrivateAttr(default_factory=lambda: NOTHING)
    _keeping: bool = PrivateAttr(default=False)  # layers are added for the user
    # What had changed since then when other results took their place, by the run's snapshot; and
    # the row that was selected.
    _changes: weakref.WeakKeyDictionary[Snapshot, dict[str, Any]] = PrivateAttr(
        default_factory=weakref.WeakKeyDictionary
    )

    def __setattr__(self, name: str, value: Any) -> None:
        # Qt would crash later, and far from the cause.
        if not name.startswith("_") and threading.get_ident() != self._thread:
            raise RuntimeError(f"Session.{name} was set outside the GUI thread.")
        super().__setattr__(name, value)

    # -- layers -------------------------------------------------------------------------------

    @property
    def image(self) -> Any:
        """The chosen image layer, or None."""
        return self.image_ref()

    @image.setter
    def image(self, layer: Any) -> None:
        self.image_ref = _reference(layer)

    @property
    def regions(self) -> Any:
        """The chosen regions layer, or None."""
        return self.regions_ref()

    @regions.setter
    def regions(self, layer: Any) -> None:
        self.regions_ref = _reference(layer)

    @property
    def layers(self) -> tuple[Any, Any]:
        """The chosen image and regions layers."""
        return self.image, self.regions

    @layers.setter
    def layers(self, layers: tuple[Any, Any]) -> None:
        self.image, self.regions = layers

    @property
    def _together(self) -> Mapping[str, Any]:
        return {}

    @_together.setter
    def _together(self, values: Mapping[str, Any]) -> None:
        """Set several fields in order; the events of row and layers come after the last one."""
        with self.events.row.paused(lambda _, now: now):  # a row is one of the record
            for name, value in values.items():
                setattr(self, name, value)

    def choose(self, *, image: Any = None, regions: Any = None) -> None:
        """Choose layers for the user: they stay when other layers are added.

        An image brings back its regions: those with results, else those made for it, else those
        that belong to no other image.
        """
        if image is not None:
            self._chosen.add("image")
        if regions is not None:
            self._chosen.add("regions")
        elif image is not None and image is not self.image:
            regions = self._regions_of(image)
            if regions is None:  # the next ones to be added are taken
                self._chosen.discard("regions")
        else:
            regions = self.regions
        self._take(image or self.image, regions)
        if self.notice is not None and self.notice.action == SWITCH:
            self.notice = None

    def choose_added(self) -> None:
        """Choose what was added last while another one stayed chosen."""
        added = self.added
        self.choose(**{"image" if _among(added, self._images) else "regions": added})

    def choose_for(self, image: Any, regions: Any) -> bool:
        """Choose regions that were made for an image, unless another one is chosen now."""
        if image is self.image:
            self.choose(regions=regions)
        return image is self.image

    def made_for(self, image: Any, *layers: Any) -> None:
        """Remember for which image the panel has made layers: they belong to it."""
        for layer in layers:
            self._made.setdefault(layer, []).append(_reference(image))
            self._owners.setdefault(layer, _reference(image))

    def is_made_for(self, layer: Any, images: Sequence[Any]) -> bool:
        """Return whether the panel has made a layer for one of some images."""
        return any(_among(image(), images) for image in self._made.get(layer, ()))

    @contextmanager
    def kept_choice(self) -> Iterator[None]:
        """Keep image and regions: layers that are added meanwhile do not take their place."""
        before, keeping = set(self._chosen), self._keeping
        self._chosen |= {"image", "regions"}
        self._keeping = True
        try:
            yield
        finally:
            self._chosen, self._keeping = before, keeping

    def offer(self, images: Sequence[Any], regions: Sequence[Any], added: Any = None) -> None:
        """Follow the viewer's layers.

        A choice stays while its layer is there. Otherwise the layer that was ``added`` is taken, or
        the last image, or regions of the image.
        """
        self._images_there = [weakref.ref(layer) for layer in images]
        before, self._there = self._regions_there, [weakref.ref(layer) for layer in regions]
        if _among(added, images) and self.image is not None and not self._keeping:
            for layer in before:
                self._owners.setdefault(layer, self.image_ref)
        image = self._still("image", self.image, images, added)
        layer = self._still("regions", self.regions, regions, added)
        if layer is None or (image is not self.image and layer is self.regions):
            layer = self._regions_of(image)
        self._take(image, layer)
        for what, those, chosen in (("Image", images, image), ("Layer", regions, layer)):
            if _among(added, those) and added is not chosen and not self._keeping:
                self._say_added(what, added, chosen)

    def _say_added(self, what: str, added: Any, chosen: Any) -> None:
        if what == "Layer" and self._waiting is not None:
            return  # they may be those of the image that waits
        self._added = _reference(added)
        self.say(f"{what} '{added.name}' was added; '{chosen.name}' stays chosen.", action=SWITCH)

    @property
    def _waiting(self) -> Any:
        """The image that was added, while the user is asked about it."""
        asked = self.notice is not None and self.notice.action == SWITCH
        return self.added if asked and _among(self.added, self._images) else None

    @property
    def _images(self) -> list[Any]:
        return [layer for one in self._images_there if (layer := one()) is not None]

    @property
    def _regions_there(self) -> list[Any]:
        return [layer for one in self._there if (layer := one()) is not None]

    @property
    def added(self) -> Any:
        """The layer that was added last while another one stayed chosen; None if it is gone."""
        return self._added()

    def _still(self, name: str, now: Any, layers: Sequence[Any], added: Any) -> Any:
        there = _among(now, layers)
        if not there and not self._keeping:
            self._chosen.discard(name)
        waits = there and name == "regions" and self._waiting is not None
        if _among(added, layers) and name not in self._chosen and not waits:
            return added
        if there:
            return now
        return layers[-1] if layers and name == "image" else None

    def _regions_of(self, image: Any) -> Any:
        """Return the last layer with results on an image, else the last one made for it, ..."""
        there = self._regions_there
        computed = [] if image is None else list(self._records.get(image, ()))
        made = [layer for layer in self._made if self.is_made_for(layer, [image])]
        free = [layer for layer in there if self._may_lie_on(layer, image)]
        return next((one for one in reversed(free + made + computed) if _among(one, there)), None)

    def _may_lie_on(self, regions: Any, image: Any) -> bool:
        """Return whether regions belong to an image, to no other one, or to another channel."""
        owner = self._owners.get(regions, NOTHING)()
        if owner is image or not _among(owner, self._images):
            return True
        upper = [one for one in self._images if one is owner or one is image][-1]
        return bool(getattr(upper, "blending", "") == "additive")  # napari adds up channels

    def _take(self, image: Any, regions: Any) -> None:
        if image is not None and regions is not None:
            self._owners[regions] = _reference(image)
        if image is self.image and regions is self.regions:
            return
        kept = self._records.get(image) if image is not None else None
        record = None if kept is None else kept.get(_NO_LAYER if regions is None else regions)
        changes: dict[str, Any] = {"layers": (image, regions)}
        if record is not None:
            changes["scope"] = record.snapshot.scope
        elif self.regions is not None and regions is not self.regions:
            # Numbers and selection are of the other layer.
            changes["scope"] = replace(self.scope, limited=False, ids="", merge=False)
        # Results stay until others take their place.
        stay = image is None or (regions is None and image is self.image)
        if record is not None or not stay:
            changes |= self._showing(record)
        self._together = changes

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
        snapshot, note = self.looked_at or (None, "")
        return str(note) if snapshot is not None and snapshot.image is self.image else ""

    def change_settings(self, values: Mapping[str, Any]) -> None:
        """Change settings by key; where they cannot work, `settings_problem` says why."""
        try:
            self.settings = self.settings.changed(values)
        except ConfigError as error:
            self.settings_problem = str(error)
        else:
            self.settings_problem = ""

    def change_words(self, vocabulary: Vocabulary | None, problem: str = "") -> None:
        """Set the words, or why what was typed cannot be used."""
        self._together = {"words_problem": problem, "vocabulary": vocabulary}

    # -- results ------------------------------------------------------------------------------

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
            now, then = getattr(self, name), getattr(snapshot, name)
            if now is not then and (name not in _BY_VALUE or now != then):
                return False
        return True

    def begin_run(self) -> Snapshot:
        """Begin a run: from now on its layers are the user's choice."""
        self._chosen |= {"image", "regions"}
        snapshot = self.snapshot()
        self.notice = None
        self.run = RunState("running", snapshot=snapshot)
        return snapshot

    def show(self, record: ResultRecord) -> bool:
        """Show results and keep them for their layers.

        Results of layers that are not chosen any more are kept without being shown. Those whose
        layers were removed meanwhile are shown until others are chosen. Layers with results stay
        chosen when others are added.
        """
        image, regions = record.snapshot.image, record.snapshot.regions
        without = record.snapshot.regions_ref is NOTHING
        if image is not None and (without or regions is not None):
            kept = self._records.setdefault(image, weakref.WeakKeyDictionary())
            kept[_NO_LAYER if without else regions] = record
            if regions is not None and record.plane is not None:
                self._planes.setdefault(regions, {})[_indices(record.plane)] = record
        if self.image is not None and (
            image is not self.image
            or not (without or self.regions is None or regions is self.regions)
        ):
            return False
        if image is not None and image is self.image:
            self._chosen.add("image")
            # In live mode a layer is added to draw in it.
            if regions is not None and regions is self.regions and not record.live:
                self._chosen.add("regions")
        self._together = self._showing(record)
        return True

    def renew(self, before: ResultRecord, after: ResultRecord) -> bool:
        """Show results in place of others, unless these have been replaced meanwhile."""
        return self.record is before and self.show(after)

    def select(self, row: int, *, picked: bool = True) -> None:
        """Select a region by its row; who picks one, marks no others."""
        self._together = {"picked": picked, "row": row, **({"marked": ()} if picked else {})}

    @property
    def chosen_rows(self) -> tuple[int, ...]:
        """The selected rows, unless it is the first one because nobody has chosen any."""
        if len(self.rows) > 1 or (self.rows and self.picked):
            return self.rows
        return (self.row,) if self.picked and self.row >= 0 and not self.marked else ()

    def mark(self, rows: Iterable[int], marked: Iterable[RegionPlace]) -> None:
        """Select several regions, of this image and of others; see `rows`."""
        self.rows = tuple(rows)
        self.picked = self.picked or bool(self.rows)
        self.marked = tuple(marked)  # last: the table picks one of the rows

    def select_place(self, place: RegionPlace) -> bool:
        """Select a region of the results shown, and look at it; return whether it is there."""
        regions = () if self.results is None else self.results.regions
        for row, region in enumerate(regions):
            same = (region.id, region.position) == (place.region, place.position)
            if same and place.box in (None, region.bbox):
                self.select(row)
                return True
        return False

    def turn_to(self, plane: Position | None) -> None:
        """Take another plane of the image into view; results that it has come back."""
        self.plane = plane
        kept = self._planes.get(self.regions, {}) if self.regions is not None else {}
        record = kept.get(_indices(plane)) if self.elsewhere and plane is not None else None
        if record is not None and record.snapshot.image is self.image and not self.run.running:
            self.show(record)

    @property
    def elsewhere(self) -> str:
        """The plane of the results shown, if it is not the one in view; else ""."""
        record: ResultRecord | None = self.record
        there = None if record is None or self.live else record.plane
        if there is None or self.plane is None or _indices(there) == _indices(self.plane):
            return ""
        return place_text(there)

    def forget_results(self) -> None:
        """Drop the results shown."""
        if self.record is not None:
            snapshot = self.record.snapshot
            if snapshot.regions is not None and self.record.plane is not None:
                self._planes.get(snapshot.regions, {}).pop(_indices(self.record.plane), None)
            kept = self._records.get(snapshot.image) if snapshot.image is not None else None
            if kept is not None:
                kept.pop(snapshot.regions or _NO_LAYER, None)
            self._together = self._showing(None)

    def _showing(self, record: ResultRecord | None) -> dict[str, Any]:
        before = self.record
        if same_run(before, record):
            return {"record": record}
        if before is not None:
            names = (*_UNCHANGED, "row")
            self._changes[before.snapshot] = {name: getattr(self, name) for name in names}
        changes = {} if record is None else self._changes.get(record.snapshot, {})
        # The record comes last: its followers select a row, and read all the others.
        return {"row": -1, "picked": False, "decided": 0, **_UNCHANGED, **changes, "record": record}

    @property
    def results(self) -> Results | None:
        """The results shown."""
        record: ResultRecord | None = self.record
        return None if record is None else record.results

    @property
    def reviewed(self) -> Any:
        """The review of the results shown; None if there is none, or it is of others."""
        review = self.review
        return review if review is not None and review.results is self.results else None

    @property
    def undecided(self) -> int:
        """Regions of the results that have no decision."""
        return max(len(self.results or ()) - self.decided, 0)

    @property
    def total(self) -> int:
        """Regions of the run shown; those that it has results of while they are not counted."""
        record: ResultRecord | None = self.record
        return 0 if record is None else max(record.total, len(record.results))

    @property
    def missing(self) -> int:
        """Regions of the run shown that have no results: it was cancelled, or broke off."""
        return self.total - len(self.results or ())

    @property
    def stale(self) -> Staleness:
        """What has changed since the results shown were made; in live mode nothing, for long."""
        record: ResultRecord | None = self.record
        if record is None:
            return Staleness()
        then, scope = record.results.info.vocabulary, record.snapshot.scope
        return Staleness(
            words=self.vocabulary is not None and _words(then) != _words(self.vocabulary),
            settings=not self.settings.same_embeddings(record.snapshot.settings),
            image=self.image_changed
            or not (record.reopened or self.scope.channels == scope.channels),
            scope=self.scope.chosen != scope.chosen or self.others_picked,
            regions=len(self.changed_regions),
        )

    @property
    def changed_rows(self) -> frozenset[int]:
        """Rows of regions that were changed or removed since, or are computed; maybe all."""
        every, keys = self.image_changed, self.changed_regions | self.computing
        regions = enumerate(() if self.results is None else self.results.regions)
        return frozenset(
            row for row, one in regions if every or RegionKey(one.id, one.position) in keys
        )

    def outdated(self, rows: Collection[int] | None = None) -> str:
        """Why results, or rows of them, can be neither exported nor decided; "" if they can.

        They can while only the image's contrast or colours have changed.
        """
        regions = () if self.results is None else self.results.regions
        about = regions if rows is None else [regions[row] for row in rows]
        changed = [RegionKey(one.id, one.position) in self.changed_regions for one in about]
        since = "since these suggestions were made. Press Update, or undo the change."
        if about and self.pixels_changed:
            return f"The image has changed {since}"
        if any(changed):
            what = "regions have" if sum(changed) > 1 else "region has"
            return f"{sum(changed):,} {what} changed {since}"
        if about and self.comparing:
            return "Looking whether image and regions have changed; try again in a moment."
        return ""

    # -- what to do ---------------------------------------------------------------------------

    @property
    def next_step(self) -> NextStep:
        """What the one button does."""
        if self.run.running:
            return NextStep.WAIT
        if self.image is None:
            return NextStep.OPEN_SAMPLE
        here = self.results and not self.elsewhere  # results of the plane shown
        if self.regions is None or (self.region_count == 0 and not here):
            return NextStep.DRAW_REGIONS
        if self.vocabulary is None:
            return NextStep.CHOOSE_WORDS
        if not here:
            return NextStep.SUGGEST
        if self.stale and not self.live:
            return NextStep.UPDATE
        if self.missing and not self.live:
            return NextStep.CONTINUE
        if not self.undecided:
            return self._after_all
        deciding = self.tab == "review" and self.reviewing and self.reviewed is not None
        return NextStep.DECIDE if deciding else NextStep.REVIEW

    @property
    def _after_all(self) -> NextStep:
        """What comes after the last decision about an image."""
        if self.project is None or not self.project.current:
            return NextStep.EXPORT
        return NextStep.NEXT_IMAGE if self.project.next_open else NextStep.EXPORT_ALL

    def say(self, text: str, severity: Severity = "info", action: str = "") -> None:
        """Show a message in the status line; "" clears it."""
        self.notice = Notice(text, severity, action) if text else None

    def ask(self, what: Ask, value: Any = None) -> None:
        """Let the part of the panel that `Bindings.answer` bound do something, now."""
        self.asked = Asked(what, value)
        self.asked = None

    def refuse(self, source: str, text: str) -> None:
        """Show why a part of the panel cannot do something, until it settles that."""
        self.notice = Notice(text, "error", source=source)

    def stop_download(self) -> None:
        """Stop the download; the next one resumes there."""
        if self.download is not None:
            self.download = replace(self.download, stopping=True)

    def settle(self, source: str) -> None:
        """Take back what a part of the panel refused, unless something else is shown by now."""
        if self.notice is not None and self.notice.source == source:
            self.notice = None


_UNCHANGED: Final[Mapping[str, Any]] = {
    "changed_regions": frozenset(),
    "image_changed": False,
    "pixels_changed": False,
    "others_picked": False,
}
_BY_VALUE: Final = ("settings", "scope", "vocabulary")
_SESSIONS: dict[int, Session] = {}


def session_of(viewer: Any) -> Session:
    """Return the session of a viewer, which lives as long as the viewer."""
    viewer = getattr(viewer, "__wrapped__", viewer)
    session = _SESSIONS.get(id(viewer))
    if session is None:
        session = _SESSIONS[id(viewer)] = Session()
        # Not a WeakKeyDictionary: it would compare viewers field by field.
        weakref.finalize(viewer, _SESSIONS.pop, id(viewer), None).atexit = False
    return session


class Bindings:
    """Connections of one widget to a session, which outlives it."""

    def __init__(self) -> None:
        self._connected: list[tuple[Any, Callable[..., object]]] = []

    def connect(self, signals: Any | Iterable[Any], slot: Callable[..., object]) -> None:
        """Call a function after each of the signals."""
        for signal in signals if isinstance(signals, (tuple, list)) else (signals,):
            signal.connect(slot)
            self._connected.append((signal, slot))

    def answer(self, session: Session, what: Ask, slot: Callable[[Any], object]) -> None:
        """Call a function with the value of each request of a kind."""

        def called(asked: Asked | None) -> None:
            if asked is not None and asked.what == what:
                slot(asked.value)

        self.connect(session.events.asked, called)

    def release(self) -> None:
        """End all connections."""
        for signal, slot in self._connected:
            signal.disconnect(slot, missing_ok=True)
        self._connected.clear()


class Topic:
    """A part of the panel that follows the session, which outlives it.

    A subclass has `bind`, which connects it by `after` and `answer` each time the panel is docked;
    `stop` lets go of all this.
    """

    _session: Session

    @cached_property
    def _bindings(self) -> Bindings:
        return Bindings()

    def bind(self) -> None:
        """Connect to the session, and show what it has."""
        raise NotImplementedError

    def follow(self) -> None:
        """Follow the session."""
        self._bindings.release()
        self.bind()

    def stop(self) -> None:
        """Follow the session no more."""
        self._bindings.release()

    def after(self, names: str, slot: Callable[..., object]) -> None:
        """Call a function after each of some events of the session: ``"image settings"``."""
        self._bindings.connect([self._session.events[name] for name in names.split()], slot)

    def answer(self, what: Ask, slot: Callable[[Any], object]) -> None:
        """Call a function with the value of each request of a kind."""
        self._bindings.answer(self._session, what, slot)


def same_run(one: ResultRecord | None, other: ResultRecord | None) -> bool:
    """Return whether two records are of one run, finished or not."""
    return one is not None and other is not None and one.snapshot is other.snapshot


def same_regions(one: Results | None, other: Results | None) -> bool:
    """Return whether two results are of one run; limits and captions may differ."""
    if one is None or other is None or len(one) != len(other):
        return False
    pairs = zip(one.regions, other.regions, strict=True)
    return all(a.raw_embedding is b.raw_embedding for a, b in pairs)


def _reference(layer: Any) -> Callable[[], Any]:
    return NOTHING if layer is None else weakref.ref(getattr(layer, "__wrapped__", layer))


def _among(layer: Any, layers: Iterable[Any]) -> bool:
    return layer is not None and any(layer is one for one in layers)


def _words(vocabulary: Vocabulary | None) -> tuple[Any, ...] | None:
    """Return what similarities depend on: no groups, colours and threshold."""
    if vocabulary is None:
        return None
    return vocabulary.labels, vocabulary.synonyms, vocabulary.templates


def _indices(position: Position) -> tuple[int, ...]:
    """Return a plane without the names of its axes, which change as layers are added."""
    return tuple(at for _, at in position)
