"""Decisions about regions, with undo and redo."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Literal

from ..base.errors import InputError
from ..base.identity import RegionKey
from ..base.validation import FiniteOrNull

Status = Literal["undecided", "accepted", "rejected", "skipped"]
STATUSES: Final[tuple[Status, ...]] = ("undecided", "accepted", "rejected", "skipped")


def class_of(decision: str, label: str, suggestion: str) -> str:
    """Return the class of a region: what was accepted, else suggested; none if it is rejected."""
    return label or ("" if decision == "rejected" else suggestion)


def now() -> str:
    """Return the time in UTC (ISO 8601, milliseconds)."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """A suggested label and where it came from."""

    label: str
    rank: int  # 1 is the best
    # Cosine of region and label; NaN for a label that has no text embedding
    similarity: FiniteOrNull
    by: str = "text"  # Or "decisions"
    # Score it was ranked by, 0..1; NaN if that was the similarity
    score: FiniteOrNull = float("nan")


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A decision about one region."""

    region: RegionKey
    status: Status
    label: str = ""  # The accepted label; empty for another status
    # The suggestion that was accepted, rejected or skipped; None for a typed label
    suggestion: Suggestion | None = None
    time: str = field(default_factory=now)  # UTC, ISO 8601; default: now

    def __post_init__(self) -> None:
        if self.status not in STATUSES[1:]:
            raise InputError(f"A decision is one of {', '.join(STATUSES[1:])}; got {self.status}.")
        if self.status == "accepted" and not self.label.strip():
            raise InputError(f"Region {self.region} cannot be accepted without a label; type one.")
        if self.status != "accepted" and self.label:
            raise InputError(f"Region {self.region} is {self.status} and cannot have a label.")


@dataclass(frozen=True, slots=True)
class Change:
    """State of one region before and after; None is undecided."""

    region: RegionKey
    before: Decision | None
    after: Decision | None


Step = tuple[Change, ...]
"""Changes that are undone together."""


class Decisions(Mapping[RegionKey, Decision]):
    """The decision about each region, with unlimited undo and redo.

    A mapping from `RegionKey`, of decided regions only. `decide`, `undo` and `redo` return the
    changes, so that a caller can redraw only those.
    """

    def __init__(self) -> None:
        self._states: dict[RegionKey, Decision] = {}
        self._done: list[Step] = []
        self._undone: list[Step] = []
        self._ever_decided: set[RegionKey] = set()

    def __getitem__(self, region: RegionKey) -> Decision:
        """Return a region's decision."""
        return self._states[region]

    def __iter__(self) -> Iterator[RegionKey]:
        return iter(self._states)

    def __len__(self) -> int:
        return len(self._states)

    def status(self, region: RegionKey) -> Status:
        """Return the status of a region."""
        decision = self._states.get(region)
        if decision is None:
            return "undecided"
        return decision.status

    def accepted(self) -> dict[RegionKey, str]:
        """Labels of the accepted regions, in the order of their first decisions."""
        return {key: d.label for key, d in self._states.items() if d.status == "accepted"}

    def was_decided(self, region: RegionKey) -> bool:
        """Return whether a region has, or ever had, a decision: an undone one counts."""
        return region in self._ever_decided

    @property
    def undoable(self) -> int:
        """Number of steps that can be undone."""
        return len(self._done)

    @property
    def redoable(self) -> int:
        """Number of steps that can be redone."""
        return len(self._undone)

    @property
    def last(self) -> Step:
        """The step that `undo` would undo; empty if there is none."""
        if self._done:
            return self._done[-1]
        return ()

    @property
    def next(self) -> Step:
        """The step that `redo` would redo; empty if there is none."""
        if self._undone:
            return self._undone[-1]
        return ()

    def decide(self, *decisions: Decision) -> Step:
        """Decide about regions in one step."""
        return self.change({decision.region: decision for decision in decisions})

    def change(self, states: Mapping[RegionKey, Decision | None]) -> Step:
        """Set states in one step; None makes a region undecided."""
        step = self._step(states)
        if step:
            self._apply(step)
            self._done.append(step)
            self._undone.clear()
        return step

    def keep(self, states: Mapping[RegionKey, Decision | None]) -> Step:
        """Set states that cannot be undone, such as restored ones."""
        step = self._step(states)
        self._apply(step)
        return step

    def undo(self) -> Step:
        """Undo the last step; empty if there is none."""
        if not self._done:
            return ()
        step = self._done.pop()
        self._undone.append(step)
        return self._apply(tuple(Change(c.region, c.after, c.before) for c in reversed(step)))

    def redo(self) -> Step:
        """Redo the last undone step; empty if there is none."""
        if not self._undone:
            return ()
        step = self._undone.pop()
        self._done.append(step)
        return self._apply(step)

    def _step(self, states: Mapping[RegionKey, Decision | None]) -> Step:
        changes = []
        for region, after in states.items():
            changes.append(Change(region, self._states.get(region), after))
        return tuple(changes)

    def _apply(self, step: Step) -> Step:
        for change in step:
            self._ever_decided.add(change.region)
            if change.after is None:
                self._states.pop(change.region, None)
            else:
                self._states[change.region] = change.after
        return step
