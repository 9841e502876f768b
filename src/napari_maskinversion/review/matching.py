"""Match earlier decisions to the regions of today."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, groupby
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ..base.identity import ImageIdentity, Position, RegionIdentity, RegionKey, difference
from ..base.wording import counted
from .decision_file import DIGITS, Action, Entry, Run
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
            lines.append(f"{counted(len(self.decisions), 'earlier decision')} restored.")
        if self.moved:
            moves = _listed(f"{earlier} is now {current}" for earlier, current in self.moved)
            lines.append(f"Found under another id: {moves}.")
        if self.changed:
            lines.append(
                f"The outline has changed since the decision, please check: region "
                f"{_listed(map(str, self.changed))}."
            )
        if self.unfit:
            regions = _listed(
                f"{decision.region} ({decision.label or decision.status})"
                for decision in self.unfit
            )
            lines.append(
                f"Decisions that match no region here and were set aside: region {regions}. "
                "They stay in the file."
            )
        if self.other_images:
            about = difference(self.other_images[-1], image)
            lines.append(
                f"The file holds {counted(self.unused, 'decision')} made on another image "
                f"({about}): not used here, kept in the file."
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
    about_image = [run for run in runs if run.image == image]
    about_others = [run for run in runs if run.image != image]
    groups = [about_image]
    if any_image:
        # Those about this image come last: they count.
        groups = [about_others, about_image]
        about_others = []
    numbers = count()
    entries: list[_RunEntry] = []
    targets: list[RegionKey | None] = []  # the present region of each entry
    for group in groups:
        entries_of_group = _entries_of(group, numbers)
        entries += entries_of_group
        # Group by group: decisions about other images leave this one's regions free.
        targets += _match(entries_of_group, regions)
    decisions = Decisions()
    sources: dict[RegionKey, Entry] = {}
    unfit: dict[tuple[str, RegionKey], Decision | None] = {}
    matched = zip(entries, targets, strict=True)
    for (_, action, _), step in groupby(matched, key=lambda pair: pair[0].step_of_run):
        states: dict[RegionKey, Decision | None] = {}
        for (_, entry, _), key in step:
            if key is None:
                unfit[entry.mask, entry.key] = entry.state
                continue
            sources[key] = entry
            states[key] = None
            if entry.state is not None:
                states[key] = replace(entry.state, region=key)
        _replay(decisions, action, states)
    moved = []
    changed = []
    current = {region.key: region for region in regions}
    for key in decisions:
        source = sources[key]
        if source.key != key:
            moved.append((source.key, key))
        # A library keeps no masks.
        if source.mask not in ("", current[key].mask):
            changed.append(key)
    unused = _unused(about_others, entries)
    return Restored(
        decisions=decisions,
        moved=tuple(moved),
        changed=tuple(changed),
        unfit=tuple(state for state in unfit.values() if state is not None),
        other_images=tuple(unused),
        unused=sum(unused.values()),
    )


class _RunEntry(NamedTuple):
    """An entry with its run: what tells runs apart, and the masks that were there."""

    run: int
    entry: Entry
    masks: frozenset[str]

    @property
    def step_of_run(self) -> tuple[int, Action, int]:
        """What entries share that were made at once."""
        return self.run, self.entry.action, self.entry.step


def _entries_of(runs: Iterable[Run], numbers: Iterator[int]) -> list[_RunEntry]:
    entries: list[_RunEntry] = []
    for run in runs:
        number = next(numbers)
        masks = run.masks
        entries += [_RunEntry(number, entry, masks) for entry in run.entries]
    return entries


def _unused(runs: Sequence[Run], entries: Iterable[_RunEntry]) -> dict[ImageIdentity, int]:
    """Count the decisions in runs about regions that no entry is about, by their images."""
    identities: set[str | RegionKey] = set()
    for _, entry, _ in entries:
        identities |= {entry.mask, entry.key}
    counts = dict.fromkeys((run.image for run in runs), 0)
    for run in runs:
        counts[run.image] += _count_other_regions(run, identities)
    return {image: unused for image, unused in counts.items() if unused}


def _match(
    entries: Sequence[_RunEntry], regions: Sequence[RegionIdentity]
) -> list[RegionKey | None]:
    """Return the current region of each entry: by its mask, else its id, else its box."""
    by_key = {region.key: region for region in regions}
    by_mask: dict[str, list[RegionKey]] = {}
    for region in regions:
        by_mask.setdefault(region.mask, []).append(region.key)
    keys: list[RegionKey | None] = []
    first_exact: dict[RegionKey, int] = {}
    for index, (_, entry, _) in enumerate(entries):
        same_mask = by_mask.get(entry.mask, [])
        key = None
        if entry.mask and same_mask:  # a library keeps no masks
            key = entry.key if entry.key in same_mask else same_mask[0]
            first_exact.setdefault(key, index)
        keys.append(key)
    for index, (_, entry, masks) in enumerate(entries):
        same_key = by_key.get(entry.key)
        # What was there when the decision was made is another region than the one decided about.
        if keys[index] is not None or same_key is None or same_key.mask[:DIGITS] in masks:
            continue
        # A decision about the current outline outweighs a later one about another outline.
        earlier = index < first_exact.get(same_key.key, len(entries))
        if earlier and _box_iou(entry.box_yxyx, same_key.box) >= _MIN_OVERLAP:
            keys[index] = same_key.key
    # Drawn anew, with another id and outline: the boxes that overlap most, one for one.
    decided = set(keys)
    free = [region for region in regions if region.key not in decided]
    waiting = [index for index, key in enumerate(keys) if key is None]
    objects = _objects_of([entry for _, entry, _ in entries])
    object_of: dict[RegionKey, _Object] = {}
    region_of: dict[_Object, RegionKey] = {}
    # Best first, and no region twice: each is given the decisions about one object alone.
    for pair in sorted(_pairs(entries, waiting, free), key=lambda pair: -pair.overlap):
        decided_object = objects[pair.place]
        is_free = object_of.get(pair.key, decided_object) == decided_object
        if is_free and region_of.get(decided_object, pair.key) == pair.key:
            object_of[pair.key] = decided_object
            region_of[decided_object] = pair.key
            keys[pair.place] = pair.key
    return keys


class _Object(NamedTuple):
    """What had an id for a while: a segmentation may give the id to another object later."""

    key: RegionKey
    number: int


def _objects_of(entries: Sequence[Entry]) -> list[_Object]:
    """Return the object of each entry: boxes of one id that overlap are about one."""
    boxes: dict[RegionKey, list[Box]] = {}  # The last box of each object with this id
    objects = []
    for entry in entries:
        last_boxes = boxes.setdefault(entry.key, [])
        overlaps = [_box_iou(entry.box_yxyx, box) for box in last_boxes]
        number = len(last_boxes)
        if overlaps and max(overlaps) >= _MIN_OVERLAP:
            number = int(np.argmax(overlaps))
            last_boxes[number] = entry.box_yxyx  # an outline may move on step by step
        else:
            last_boxes.append(entry.box_yxyx)
        objects.append(_Object(entry.key, number))
    return objects


class _Pair(NamedTuple):
    """An entry and a free region that may be what it is about."""

    overlap: float
    place: int
    key: RegionKey


def _pairs(
    entries: Sequence[_RunEntry], waiting: Sequence[int], free: Sequence[RegionIdentity]
) -> Iterator[_Pair]:
    """Yield all pairs of entries and free regions that may be one region."""
    planes: dict[Position, list[RegionIdentity]] = {}
    for region in free:
        planes.setdefault(region.key.position, []).append(region)
    boxes = {}
    for plane, regions in planes.items():
        boxes[plane] = np.array([region.box for region in regions], float)
    for index in waiting:
        _, entry, masks = entries[index]
        plane = entry.key.position
        if plane not in planes:
            continue
        overlaps = _overlaps(np.array(entry.box_yxyx, float), boxes[plane])
        # Without masks it is unknown which regions were there: more overlap is asked for.
        least = _MIN_OVERLAP if masks else _MIN_OVERLAP_UNSURE
        for row in np.flatnonzero(overlaps >= least):
            region = planes[plane][row]
            if region.mask[:DIGITS] not in masks:
                yield _Pair(float(overlaps[row]), index, region.key)


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
    # The last state of a region counts; None is a decision that was undone.
    last = {(entry.mask, entry.key): entry.state for entry in run.entries}
    decided = 0
    for (mask, key), state in last.items():
        if state is not None and mask not in identities and key not in identities:
            decided += 1
    return decided


def _listed(parts: Iterable[str]) -> str:
    texts = list(parts)
    more = len(texts) - _MAX_LISTED
    return ", ".join(texts[:_MAX_LISTED]) + (f" and {more} more" if more > 0 else "")
