"""Match earlier decisions to the regions of today."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby
from typing import Final

import numpy as np
import numpy.typing as npt

from ..base.identity import ImageIdentity, Position, RegionIdentity, RegionKey, difference
from .decision_file import DIGITS, Entry, Run
from .decisions import Decision, Decisions

FloatArray = npt.NDArray[np.float64]
Box = tuple[int, int, int, int]

# A redrawn region keeps its decision if the boxes overlap this much (intersection over union).
_MIN_OVERLAP: Final = 0.5
# Of other ids in files that do not say what was there: a nucleus is no cell that was deleted.
_MIN_OVERLAP_UNSURE: Final = 0.7
_MAX_LISTED: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """Earlier decisions, matched to regions."""

    decisions: Decisions = field(default_factory=Decisions)  # With the steps that can be undone
    # Earlier and current key of regions with the same outline under another id
    moved: tuple[tuple[RegionKey, RegionKey], ...] = ()
    # Regions with the same id and about the same place, but another outline
    changed: tuple[RegionKey, ...] = ()
    unfit: tuple[Decision, ...] = ()  # Decisions about regions that are gone; they stay in the file
    # Images of decisions that are not used because they were made on other pixels. Only those about
    # regions with no decision on this image count.
    other_images: tuple[ImageIdentity, ...] = ()
    unused: int = 0  # Number of these decisions

    def sentences(self, image: ImageIdentity) -> list[str]:
        """Describe the matches for the user; empty if there were no earlier decisions."""
        lines = []
        if self.decisions:
            count = len(self.decisions)
            lines.append(f"{count} earlier decision{'s' * (count > 1)} restored.")
        if self.moved:
            lines.append(
                f"Found under another id: {_listed(f'{a} is now {b}' for a, b in self.moved)}."
            )
        if self.changed:
            lines.append(
                f"The outline has changed since the decision, please check: region "
                f"{_listed(map(str, self.changed))}."
            )
        if self.unfit:
            regions = _listed(f"{d.region} ({d.label or d.status})" for d in self.unfit)
            lines.append(
                f"Decisions that match no region here and were set aside: region {regions}. "
                "They stay in the file."
            )
        if self.other_images:
            about = difference(self.other_images[-1], image)
            lines.append(
                f"The file holds {self.unused} decision{'s' * (self.unused != 1)} made on another "
                f"image ({about}): not used here, kept in the file."
            )
        return lines


def restore(
    runs: Sequence[Run],
    image: ImageIdentity,
    regions: Sequence[RegionIdentity],
    *,
    any_image: bool = False,
) -> Restored:
    """Apply earlier decisions to regions.

    The mask identifies a region, whatever its id. Otherwise its id does, if the boxes overlap by
    half: the id alone could belong to another object now. Last comes the region that overlaps most,
    by half, if no decision is about it; none is given the decisions of two: decisions of one id are
    about one region if their boxes overlap by half. A region that was there when the decision was
    made is another one.
    """
    own = [run for run in runs if run.image == image]
    other = [run for run in runs if run.image != image]
    # Those about this image come last: they count.
    groups, other = ((other, own), []) if any_image else ((own,), other)
    used = [run for group in groups for run in group]
    entries = [(number, entry) for number, run in enumerate(used) for entry in run.entries]
    identities = {part for _, entry in entries for part in (entry.mask, entry.key)}
    unused = dict.fromkeys((run.image for run in other), 0)
    for run in other:
        unused[run.image] += _count_other_regions(run, identities)
    unused = {pixels: count for pixels, count in unused.items() if count}
    targets = chain.from_iterable(
        _match([(entry, run.masks) for run in group for entry in run.entries], regions)
        for group in groups
    )
    decisions = Decisions()
    sources: dict[RegionKey, Entry] = {}
    unfit: dict[tuple[str, RegionKey], Decision | None] = {}
    for (_, action, _), step in groupby(entries, key=lambda e: (e[0], e[1].action, e[1].step)):
        states: dict[RegionKey, Decision | None] = {}
        for _, entry in step:
            key = next(targets)
            if key is None:
                unfit[entry.mask, entry.key] = entry.state
            else:
                sources[key] = entry
                states[key] = None if entry.state is None else replace(entry.state, region=key)
        _replay(decisions, action, states)
    current = {region.key: region for region in regions}
    decided = [(key, sources[key]) for key in decisions]
    return Restored(
        decisions=decisions,
        moved=tuple((source.key, key) for key, source in decided if source.key != key),
        changed=tuple(key for key, one in decided if one.mask not in ("", current[key].mask)),
        unfit=tuple(state for state in unfit.values() if state is not None),
        other_images=tuple(unused),
        unused=sum(unused.values()),
    )


def _match(
    entries: Sequence[tuple[Entry, frozenset[str]]], regions: Sequence[RegionIdentity]
) -> list[RegionKey | None]:
    """Return the current region of each entry, which comes with the masks that were there."""
    by_key = {region.key: region for region in regions}
    by_mask: dict[str, list[RegionKey]] = {}
    for region in regions:
        by_mask.setdefault(region.mask, []).append(region.key)
    keys: list[RegionKey | None] = []
    first_exact: dict[RegionKey, int] = {}
    for index, (entry, _) in enumerate(entries):
        same_mask = by_mask.get(entry.mask) if entry.mask else None  # unknown in a library
        key = None
        if same_mask is not None:
            key = entry.key if entry.key in same_mask else same_mask[0]
            first_exact.setdefault(key, index)
        keys.append(key)
    for index, (entry, there) in enumerate(entries):
        same_key = by_key.get(entry.key)
        if keys[index] is not None or same_key is None or same_key.mask[:DIGITS] in there:
            continue
        # A decision about the current outline outweighs a later one about another outline.
        earlier = index < first_exact.get(same_key.key, len(entries))
        if earlier and _box_iou(entry.box_yxyx, same_key.box) >= _MIN_OVERLAP:
            keys[index] = same_key.key
    # Drawn anew, with another id and outline: the boxes that overlap most, one for one.
    decided = set(keys)
    free = [region for region in regions if region.key not in decided]
    waiting = [index for index, key in enumerate(keys) if key is None]
    own = _regions_of([entry for entry, _ in entries])
    before: dict[RegionKey, tuple[RegionKey, int]] = {}
    after: dict[tuple[RegionKey, int], RegionKey] = {}
    for _, index, key in sorted(_pairs(entries, waiting, free), key=lambda pair: -pair[0]):
        old = own[index]
        if before.get(key, old) == old and after.get(old, key) == key:
            before[key], after[old], keys[index] = old, key, key
    return keys


def _regions_of(entries: Sequence[Entry]) -> list[tuple[RegionKey, int]]:
    """Return the region of each entry: a segmentation may give its id to another object."""
    boxes: dict[RegionKey, list[Box]] = {}  # The last box of each object with this id
    owners = []
    for entry in entries:
        box, known = entry.box_yxyx, boxes.setdefault(entry.key, [])
        overlaps = [_box_iou(box, one) for one in known]
        place = int(np.argmax(overlaps)) if overlaps else 0
        if not overlaps or overlaps[place] < _MIN_OVERLAP:
            place = len(known)
            known.append(box)
        known[place] = box
        owners.append((entry.key, place))
    return owners


def _pairs(
    entries: Sequence[tuple[Entry, frozenset[str]]],
    waiting: Sequence[int],
    free: Sequence[RegionIdentity],
) -> Iterator[tuple[float, int, RegionKey]]:
    """Yield overlap, entry and free region of all pairs that may be one region."""
    planes: dict[Position, list[RegionIdentity]] = {}
    for region in free:
        planes.setdefault(region.key.position, []).append(region)
    boxes = {plane: np.array([one.box for one in own], float) for plane, own in planes.items()}
    for index in waiting:
        entry, there = entries[index]
        own = planes.get(entry.key.position, [])
        if not own:
            continue
        overlaps = _overlaps(np.array(entry.box_yxyx, float), boxes[entry.key.position])
        for row in np.flatnonzero(overlaps >= (_MIN_OVERLAP if there else _MIN_OVERLAP_UNSURE)):
            if own[row].mask[:DIGITS] not in there:
                yield float(overlaps[row]), index, own[row].key


def _replay(decisions: Decisions, action: str, states: Mapping[RegionKey, Decision | None]) -> None:
    if action == "decide":
        decisions.change(states)
    elif action == "undo" and {c.region: c.before for c in decisions.last} == states:
        decisions.undo()
    elif action == "redo" and {c.region: c.after for c in decisions.next} == states:
        decisions.redo()
    else:
        decisions.keep(states)


def _box_iou(a: Box, b: Box) -> float:
    return float(_overlaps(np.array(a, float), np.array([b], float))[0])


def _overlaps(box: FloatArray, boxes: FloatArray) -> FloatArray:
    """Return the intersection over union of a box with each of others, (n, 4)."""
    sides = np.minimum(box[2:], boxes[:, 2:]) - np.maximum(box[:2], boxes[:, :2])
    shared = np.maximum(sides, 0).prod(1)
    union = (box[2:] - box[:2]).prod() + (boxes[:, 2:] - boxes[:, :2]).prod(1) - shared
    return np.asarray(shared / np.maximum(union, 1))


def _count_other_regions(run: Run, identities: Collection[str | RegionKey]) -> int:
    """Count a run's decisions about regions that are not among the identities."""
    last = {(entry.mask, entry.key): entry.state for entry in run.entries}
    return sum(
        state is not None and mask not in identities and key not in identities
        for (mask, key), state in last.items()
    )


def _listed(parts: Iterable[str]) -> str:
    texts = list(parts)
    more = len(texts) - _MAX_LISTED
    return ", ".join(texts[:_MAX_LISTED]) + (f" and {more} more" if more > 0 else "")
