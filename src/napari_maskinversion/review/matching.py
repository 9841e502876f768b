"""Decisions of earlier days on the regions of today."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Final

from ..base.identity import ImageIdentity, RegionIdentity, RegionKey, difference
from .decision_log import Entry, Run
from .decisions import Decision, Decisions

# Boxes that share this much of their union may hold the same region, drawn anew.
_LEAST_OVERLAP: Final = 0.5
_MOST_NAMED: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """Earlier decisions, and what became of them.

    Attributes
    ----------
    decisions : Decisions
        With the steps that can be undone.
    moved : tuple of (RegionKey, RegionKey)
        The same outline under another id: then, now.
    changed : tuple of RegionKey
        The same id at about the same place, decided when its outline was another.
    unfit : tuple of Decision
        About regions that are no longer there; they stay in the file.
    other_images : tuple of ImageIdentity
        Images that further decisions in the file were made on: about regions of which none is
        known that was made on this one.
    unused : int
        How many of those there are.
    """

    decisions: Decisions = field(default_factory=Decisions)
    moved: tuple[tuple[RegionKey, RegionKey], ...] = ()
    changed: tuple[RegionKey, ...] = ()
    unfit: tuple[Decision, ...] = ()
    other_images: tuple[ImageIdentity, ...] = ()
    unused: int = 0

    def words(self, image: ImageIdentity) -> list[str]:
        """Say it in sentences; none for a file that was not there."""
        said = []
        if self.decisions:
            count = len(self.decisions)
            said.append(f"{count} earlier decision{'s' * (count > 1)} restored.")
        if self.moved:
            said.append(
                f"Found under another id: {_some(f'{a} is now {b}' for a, b in self.moved)}."
            )
        if self.changed:
            said.append(
                f"Decided when their outline was another, please look again: region "
                f"{_some(map(str, self.changed))}."
            )
        if self.unfit:
            about = _some(f"{d.region} ({d.label or d.status})" for d in self.unfit)
            said.append(
                f"Decisions that fit no region here and were set aside: region {about}. "
                "They stay in the file."
            )
        if self.other_images:
            about = difference(self.other_images[-1], image)
            said.append(
                f"The file holds {self.unused} decision{'s' * (self.unused != 1)} made on another "
                f"image ({about}): not used here, kept in the file."
            )
        return said


def restore(
    runs: Sequence[Run],
    image: ImageIdentity,
    regions: Sequence[RegionIdentity],
    *,
    any_image: bool = False,
) -> Restored:
    """Apply earlier decisions to regions.

    A region is found by its mask, whatever its id; only then by its id, if the boxes share half
    of their union: an id alone may have gone to another object.

    Parameters
    ----------
    runs : sequence of Run
        In the order of time.
    image : ImageIdentity
        Decisions made on another image are left out.
    regions : sequence of RegionIdentity
        Those of today.
    any_image : bool
        Use decisions whatever image they were made on.
    """
    used = [run for run in runs if any_image or run.image.is_same(image)]
    entries = [(number, entry) for number, run in enumerate(used) for entry in run.entries]
    known = {what for _, entry in entries for what in (entry.region.mask, entry.region.key)}
    counts = {run.image: 0 for run in runs if run not in used}
    for run in runs:
        if run not in used:
            counts[run.image] += _standing(run, known)
    unused = {image: count for image, count in counts.items() if count}
    targets = iter(_match([entry for _, entry in entries], regions))
    decisions = Decisions()
    sources: dict[RegionKey, RegionIdentity] = {}
    unfit: dict[tuple[str, RegionKey], Decision | None] = {}
    for (_, action, _), group in groupby(entries, key=lambda e: (e[0], e[1].action, e[1].step)):
        states: dict[RegionKey, Decision | None] = {}
        for _, entry in group:
            key = next(targets)
            if key is None:
                unfit[entry.region.mask, entry.region.key] = entry.state
            else:
                sources[key] = entry.region
                states[key] = None if entry.state is None else replace(entry.state, region=key)
        _replay(decisions, action, states)
    today = {region.key: region for region in regions}
    decided = [(key, sources[key]) for key in decisions]
    return Restored(
        decisions=decisions,
        moved=tuple((source.key, key) for key, source in decided if source.key != key),
        changed=tuple(key for key, source in decided if source.mask != today[key].mask),
        unfit=tuple(state for state in unfit.values() if state is not None),
        other_images=tuple(unused),
        unused=sum(unused.values()),
    )


def _match(entries: Sequence[Entry], regions: Sequence[RegionIdentity]) -> list[RegionKey | None]:
    """Find the region of today for each entry."""
    today = {region.key: region for region in regions}
    outlines: dict[str, list[RegionKey]] = {}
    for region in regions:
        outlines.setdefault(region.mask, []).append(region.key)
    found: list[RegionKey | None] = []
    first: dict[RegionKey, int] = {}
    for place, entry in enumerate(entries):
        alike = outlines.get(entry.region.mask)
        key = None if alike is None else entry.region.key
        if alike is not None and key not in alike:
            key = alike[0]
        found.append(key)
        if key is not None:
            first.setdefault(key, place)
    for place, entry in enumerate(entries):
        same = today.get(entry.region.key)
        if found[place] is not None or same is None:
            continue
        # What was decided for the outline of today counts more than what came after for another.
        earlier = place < first.get(same.key, len(entries))
        if earlier and _overlap(entry.region.box, same.box) >= _LEAST_OVERLAP:
            found[place] = same.key
    return found


def _replay(decisions: Decisions, action: str, states: Mapping[RegionKey, Decision | None]) -> None:
    if action == "decide":
        decisions.change(states)
    elif action == "undo" and {c.region: c.before for c in decisions.last} == states:
        decisions.undo()
    elif action == "redo" and {c.region: c.after for c in decisions.next} == states:
        decisions.redo()
    else:
        decisions.keep(states)


def _overlap(a: tuple[int, int, int, int], b: tuple[int, int, int, int]) -> float:
    high = min(a[2], b[2]) - max(a[0], b[0])
    wide = min(a[3], b[3]) - max(a[1], b[1])
    both = max(high, 0) * max(wide, 0)
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (a, b)]
    return both / max(sum(areas) - both, 1)


def _standing(run: Run, known: Collection[str | RegionKey]) -> int:
    """Decisions of a run about regions of which nothing else is known."""
    last = {(entry.region.mask, entry.region.key): entry.state for entry in run.entries}
    return sum(
        state is not None and mask not in known and key not in known
        for (mask, key), state in last.items()
    )


def _some(words: Iterable[str]) -> str:
    listed = list(words)
    more = len(listed) - _MOST_NAMED
    return ", ".join(listed[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
