"""The fields of the session, and their values."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any, Literal

from psygnal import EventedModel
from pydantic import ConfigDict, PrivateAttr

from ...base.identity import Position
from ...base.wording import counted
from ...results.settings import RunSettings
from .records import NOTHING, Scope

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
    # `Verdict` or `Decided` that was asked for, what came of it, and files by name of the images.
    # "take back": a `Decided`.
    # "open region": a `RegionPlace`. "gallery": keys of the results and `RegionPlace`s, or None.
    # None otherwise.
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
        every = counted(total, "region")
        return f"{self.done:,} of {every}" if self.done < total else every


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


class State(EventedModel):
    """What the user sees and has chosen; `Session` is what can be done with it."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

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
    library_changes: int = 0  # Counts what this panel added to it
    computed: int = 0  # Counts images of the project that got other results
    many: ManyImages | None = None  # The work on several images of the project that goes on
    notice: Notice | None = None  # What the status line says
    asked: Asked | None = None  # What a part of the panel asks of another at this moment

    _thread: int = PrivateAttr(default_factory=threading.get_ident)

    def __setattr__(self, name: str, value: Any) -> None:
        # Qt would crash later, and far from the cause.
        if not name.startswith("_") and threading.get_ident() != self._thread:
            raise RuntimeError(f"Session.{name} was set outside the GUI thread.")
        super().__setattr__(name, value)
