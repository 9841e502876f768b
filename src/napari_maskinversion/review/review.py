"""A review of one image: decisions in memory and, at once, on the disk."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ..base.errors import InputError
from ..base.identity import ImageIdentity, RegionIdentity, RegionKey
from ..results.export.provenance import provenance
from ..results.run_info import RunInfo
from .decision_file import DecisionFile
from .decision_log import Action, Entry, read, write_entries, write_header
from .decisions import Decision, Decisions, Step, Suggestion, now
from .matching import restore


class Review:
    """Decisions about the regions of one image, each saved before its call returns.

    Opening reads the file and belongs in a worker; the rest writes one line and waits for the disk
    (some milliseconds), so a GUI may call it directly.

    Parameters
    ----------
    image : ImageIdentity
        See `identify_image`.
    regions : sequence of RegionIdentity
        See `identify`.
    info : RunInfo
        How the suggestions came to be; written into the file.
    file : Path, optional
        The image file; decisions are saved beside it, otherwise in the cache folder.
    any_image : bool
        Also use decisions that the file holds about other pixels.

    Attributes
    ----------
    decisions : Decisions
        For reading; change it through this object alone.
    restored : Restored
        What became of earlier decisions.
    notes : list of str
        What to tell the user: where decisions are saved if not beside the image, what was
        restored, what no longer fits.

    Raises
    ------
    InUseError
        If another window or program reviews this image.
    InputError
        If the file beside the image is none of ours or of a newer version; it is left as it is.
    """

    def __init__(
        self,
        image: ImageIdentity,
        regions: Sequence[RegionIdentity],
        info: RunInfo,
        *,
        file: Path | None = None,
        any_image: bool = False,
    ) -> None:
        self.image = image
        self._sidecar = DecisionFile(file, image)
        try:
            self.restored = restore(self._sidecar.runs, image, regions, any_image=any_image)
            self.decisions: Decisions = self.restored.decisions
            self.notes = [*self._sidecar.notes, *self.restored.words(image)]
            self._unsaved: list[Entry] = []
            self._step = 0
            self._known: dict[RegionKey, RegionIdentity] = {}
            self.set_regions(regions)
            self.set_info(info)
        except BaseException:
            self._sidecar.close()
            raise

    @property
    def path(self) -> Path:
        """Where decisions are saved."""
        return self._sidecar.path

    @property
    def unsaved(self) -> int:
        """Changes that could not be written yet."""
        return len(self._unsaved)

    def set_info(self, info: RunInfo) -> None:
        """Say that suggestions come from another run from now on (model, words, settings)."""
        made: dict[str, Any] = provenance(info)
        self._provenance = {
            key: made[key] for key in ("software", "model", "config", "vocabulary", "window")
        }
        self._sidecar.begin(self._header())

    def set_regions(self, regions: Iterable[RegionIdentity]) -> None:
        """Say which regions there are from now on; decisions stay with their ids."""
        self._regions = {region.key: region for region in regions}
        # Also those that are gone: undo may come to them.
        self._known |= self._regions

    def accept(self, region: RegionKey, label: str, suggestion: Suggestion | None = None) -> Step:
        """Say what a region is; ``suggestion`` is the one that was taken, None for a typed label.

        Every method that changes something returns what changed, and raises the errors below.

        Raises
        ------
        NotSavedError
            If it could not be written: it counts all the same, and is written with the next one
            or by `save`.
        InputError
            If there is no such region, or no label.
        """
        return self.decide(
            Decision(region=region, status="accepted", label=label, suggestion=suggestion)
        )

    def reject(self, region: RegionKey, suggestion: Suggestion | None = None) -> Step:
        """Say that a region is none of what was suggested."""
        return self.decide(Decision(region=region, status="rejected", suggestion=suggestion))

    def skip(self, region: RegionKey, suggestion: Suggestion | None = None) -> Step:
        """Leave a region for later."""
        return self.decide(Decision(region=region, status="skipped", suggestion=suggestion))

    def decide(self, *decisions: Decision) -> Step:
        """Decide about several regions in one step, which one undo takes back."""
        for decision in decisions:
            if decision.region not in self._regions:
                raise InputError(f"There is no region {decision.region} in this review.")
        return self._keep("decide", self.decisions.decide(*decisions))

    def undo(self) -> Step:
        """Take the last step back, also one of an earlier day; empty if there is none."""
        return self._keep("undo", self.decisions.undo())

    def redo(self) -> Step:
        """Do again what was undone last; empty if there is nothing."""
        return self._keep("redo", self.decisions.redo())

    def save(self) -> None:
        """Write what could not be written before; nothing to do otherwise."""
        if self._unsaved:
            self._sidecar.append(write_entries(self._unsaved), self._everything)
            self._unsaved.clear()

    def adopt(self) -> None:
        """Write all decisions as such about this image, with those that ``any_image`` brought.

        They are then found without it.

        Raises
        ------
        NotSavedError
            As `accept`.
        """
        self._unsaved += [
            Entry("keep", 0, self._known[key], decision) for key, decision in self.decisions.items()
        ]
        self.save()

    def compact(self) -> int:
        """Shrink the file to the last state of each region; returns the lines that went."""
        self.save()
        return self._sidecar.compact()

    def saved(self) -> bytes:
        """Give all that is decided, as the file has it."""
        return self._everything()

    def take(self, data: bytes, name: str) -> int:
        """Decide what was decided elsewhere about regions that are undecided here, in one step.

        Parameters
        ----------
        data : bytes
            What `saved` gave.
        name : str
            What errors call it.

        Returns
        -------
        int
            How many.

        Raises
        ------
        InputError
            If the data are none of ours.
        NotSavedError
            As `accept`.
        """
        regions = list(self._regions.values())
        found = restore(read(data, name).runs, self.image, regions).decisions
        new = [d for key, d in found.items() if key not in self.decisions]
        if new:
            self.decide(*new)
        return len(new)

    def close(self, *, lose_unsaved: bool = False) -> None:
        """Let others review this image; the object is of no use afterwards.

        Raises
        ------
        NotSavedError
            If changes still cannot be written and ``lose_unsaved`` is False; it stays open.
        """
        if not lose_unsaved:
            self.save()
        self._sidecar.close()

    def __enter__(self) -> Self:
        """Return the review itself; leaving the block closes it."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close(lose_unsaved=kind is not None)

    def _keep(self, action: Action, step: Step) -> Step:
        if step:
            self._step += 1
            self._unsaved += [
                Entry(action, self._step, self._known[change.region], change.after)
                for change in step
            ]
            self.save()
        return step

    def _header(self) -> bytes:
        return write_header(self.image, now(), self._provenance)

    def _everything(self) -> bytes:
        known = [
            Entry("keep", 0, self._known[key], decision) for key, decision in self.decisions.items()
        ]
        return self._header() + write_entries(known)
