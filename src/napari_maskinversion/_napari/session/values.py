"""Values of the session: what goes on, what is said, which images are worked through."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from ...base.identity import Position

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
    series: int = field(default=0, compare=False)  # Of a file with several images
    # None: whichever region has the number
    box: tuple[int, int, int, int] | None = field(default=None, compare=False)


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
