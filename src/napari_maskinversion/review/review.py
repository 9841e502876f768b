"""A review of one image: its decisions, saved as they are made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol, Self

from ..base.atomic_files import sync_folder
from ..base.errors import NotSavedError
from ..base.identity import ImageIdentity, RegionIdentity, RegionKey
from .decision_file import (
    DIGITS,
    Action,
    DecisionFile,
    DecisionPlaces,
    Entry,
    header_of,
    lines_of,
    read_saved,
)
from .decisions import Change, Decision, Decisions, Step, Suggestion, now
from .matching import restore

_MOST_LISTED: Final = 50_000  # regions in the header of a run: 400 kB


class Origin(Protocol):
    """Where suggestions come from: a run, or what is known of one."""

    def provenance(self) -> dict[str, Any]:
        """Return ``software``, ``model``, ``config``, ``vocabulary`` and ``window``."""


class Review:
    """Decisions about the regions of one image, each saved before its call returns.

    Create it in a worker thread: it reads the file. Every other call writes one line and waits
    for the disk (some milliseconds), so a GUI can make it directly.
    """

    def __init__(
        self,
        image: ImageIdentity,
        regions: Sequence[RegionIdentity],
        info: Origin,
        *,
        file: Path | None = None,
        any_image: bool = False,
        places: DecisionPlaces | None = None,
        sync: bool = True,
    ) -> None:
        """Open the decisions; ``places`` are those of `find_places`, if they are known.

        Without ``sync`` decisions are on the disk only after `sync_together`.
        """
        self.image = image
        self._sync = sync
        self._file = DecisionFile(file, image, places)
        try:
            self.restored = restore(self._file.runs, image, regions, any_image=any_image)
            self.decisions: Decisions = self.restored.decisions
            self.notes = [*self._file.notes, *self.restored.sentences(image)]
            self._unsaved: list[Entry] = []
            self._step = 0
            self._regions = {region.key: region for region in regions}
            self.set_info(info)
        except BaseException:
            self._file.close()
            raise

    @property
    def path(self) -> Path:
        """Where decisions are saved."""
        return self._file.path

    @property
    def unsaved(self) -> int:
        """Number of changes that are not on the disk yet."""
        return len(self._unsaved)

    def set_info(self, info: Origin) -> None:
        """Set the run that suggestions come from (model, vocabulary, settings)."""
        full: dict[str, Any] = info.provenance()
        names = ("software", "model", "config", "vocabulary", "window")
        self._provenance = {name: full[name] for name in names}
        self._run_is_new = True

    def accept(self, region: RegionKey, label: str, suggestion: Suggestion | None = None) -> Step:
        """Accept a label; ``suggestion`` is the one it came from, None for a typed label.

        Every method that changes something returns the changes, and raises the errors below.
        """
        return self.decide(
            Decision(region=region, status="accepted", label=label, suggestion=suggestion)
        )

    def reject(self, region: RegionKey, suggestion: Suggestion | None = None) -> Step:
        """Reject every suggestion for a region."""
        return self.decide(Decision(region=region, status="rejected", suggestion=suggestion))

    def skip(self, region: RegionKey, suggestion: Suggestion | None = None) -> Step:
        """Leave a region for later."""
        return self.decide(Decision(region=region, status="skipped", suggestion=suggestion))

    def decide(self, *decisions: Decision) -> Step:
        """Decide about several regions in one step, undone as one."""
        return self._log("decide", self.decisions.decide(*decisions))

    def take_back(self, step: Step) -> Step:
        """Undo a step, also one that is not the last: where nobody has decided again since."""
        if [*map(_after, step)] == [*map(_after, self.decisions.last)]:
            return self.undo()
        now_ = self.decisions.get
        same = []
        for change in step:
            if _facts(now_(change.region)) == _facts(change.after):
                same.append(change)
        return self._log("decide", self.decisions.change({c.region: c.before for c in same}))

    def undo(self) -> Step:
        """Undo the last step, also of an earlier session; empty if there is none."""
        return self._log("undo", self.decisions.undo())

    def redo(self) -> Step:
        """Redo the last undone step; empty if there is none."""
        return self._log("redo", self.decisions.redo())

    def save(self) -> None:
        """Write the changes that are not on the disk yet."""
        if self._unsaved:
            header = b""
            if self._run_is_new:
                header = self._header()
            lines = header + lines_of(self._unsaved)
            self._file.append(lines, self.saved, sync=self._sync)
            self._unsaved.clear()
            self._run_is_new = False

    def adopt(self) -> None:
        """Save all decisions as made on this image, including those that ``any_image`` brought.

        The next review then restores them without ``any_image``.
        """
        self._unsaved += self._last_states()
        self.save()

    def saved(self) -> bytes:
        """Return all decisions in the format of the file."""
        return self._header() + lines_of(self._last_states())

    def take(self, data: bytes, name: str) -> int:
        """Import decisions about regions that nobody has ever decided about here, in one step.

        A decision that was made here and undone stays undone.
        """
        regions = list(self._regions.values())
        saved = restore(read_saved(data, name), self.image, regions).decisions
        decisions = self.decisions
        new = []
        for key, decision in saved.items():
            if not decisions.was_decided(key):
                new.append(decision)
        if new:
            self.decide(*new)
        return len(new)

    def sync(self) -> Path | None:
        """Bring decisions to the disk that were saved without that; see `DecisionFile.sync`."""
        return self._file.sync()

    def close(self, *, lose_unsaved: bool = False) -> None:
        """Close the file, so that others can review this image."""
        if not lose_unsaved:
            self.save()
        self._file.close()

    def __enter__(self) -> Self:
        """Return the review; leaving the block closes it."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close(lose_unsaved=kind is not None)

    def _log(self, action: Action, step: Step) -> Step:
        if step:
            self._step += 1
            entries = []
            for change in step:
                entries.append(
                    Entry.of(action, self._step, self._regions[change.region], change.after)
                )
            self._unsaved += entries
            self.save()
        return step

    def _header(self) -> bytes:
        masks = [region.mask[:DIGITS] for region in self._regions.values()]
        regions = ""
        if all(masks) and len(masks) <= _MOST_LISTED:
            regions = "".join(masks)
        return header_of(self.image, now(), self._provenance | {"regions": regions})

    def _last_states(self) -> list[Entry]:
        entries = []
        for key, decision in self.decisions.items():
            entries.append(Entry.of("keep", 0, self._regions[key], decision))
        return entries


def sync_together(reviews: Sequence[Review]) -> dict[Review, NotSavedError]:
    """Bring the decisions of several reviews to the disk; return why some are not there.

    Each folder with new files is synced once.
    """
    errors: dict[Review, NotSavedError] = {}
    folders: set[Path] = set()
    for review in reviews:
        try:
            folder = review.sync()
        except NotSavedError as error:
            errors[review] = error
            continue
        if folder is not None:
            folders.add(folder)
    for folder in folders:
        sync_folder(folder)
    return errors


def _after(change: Change) -> tuple[object, ...]:
    return change.region, _facts(change.after)


def _facts(decision: Decision | None) -> tuple[str, ...]:
    """Return what tells decisions apart; a suggestion may have NaN, which equals nothing."""
    if decision is None:
        return ()
    return (decision.status, decision.label, decision.time)
