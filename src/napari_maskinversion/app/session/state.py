"""Values of the session's fields."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ...base.wording import counted
from ..work.driver import Job
from .actions import Action
from .records import Snapshot

Severity = Literal["info", "warning", "error"]
Phase = Literal["idle", "running", "stopping", "done", "cancelled", "failed"]


@dataclass(frozen=True, slots=True)
class Notice:
    """One message in the status line."""

    text: str  # Whole sentences, with what to do
    severity: Severity = "info"
    action: Action | None = None  # Of a button beside it
    source: str = ""  # The part of the panel that takes it back; see `Session.settle`


@dataclass(frozen=True, slots=True)
class RunState:
    """How far a run is, or how the last one ended."""

    phase: Phase = "idle"
    snapshot: Snapshot | None = None  # What the run works on, or worked on
    job: Job = field(default_factory=Job)  # It counts regions

    @property
    def running(self) -> bool:
        """Whether a run is at work, also one that is being stopped."""
        return self.phase in ("running", "stopping")

    @property
    def summary(self) -> str:
        """How the run ended: "47 of 141 regions" after Cancel or an error."""
        done = self.job.done
        total = max(self.job.total, done)
        every = counted(total, "region")
        return f"{done:,} of {every}" if done < total else every


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
        following, earlier = self.names, self.names[:0]
        if self.current in self.names:
            place = self.names.index(self.current)
            following, earlier = self.names[place + 1 :], self.names[:place]
        for name in following + earlier:
            if name not in self.done:
                return name
        return ""

    def beside(self, step: int) -> str:
        """Return the image so many places after the one opened last; "" beyond the ends."""
        last_opened = self.opening or self.current
        if last_opened not in self.names:
            return self.names[0] if self.names else ""
        place = self.names.index(last_opened) + step
        return self.names[place] if 0 <= place < len(self.names) else ""

    @property
    def progress(self) -> str:
        """How many are done: "4 of 10"."""
        return f"{len(self.done):,} of {len(self.names):,}"
