"""Images whose regions an index or a library has stored, and decisions about these regions.

The decisions themselves are in the files of the images. What is stored about them follows the files
and can be built again from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from ..base.identity import RegionIdentity, RegionKey, plane_text
from .decisions import Decision, Step, Suggestion, class_of
from .review import Review

_UNKNOWN: Final = float("nan")


class StoredRegion(NamedTuple):
    """A region as decisions about it need it."""

    key: RegionKey
    mask_hash: str  # "" where it is not known
    box: tuple[int, int, int, int]
    suggestion: str
    confidence: float | None  # None: it was not ranked
    similarity: float | None
    flagged: bool
    decision: str
    label: str  # That was accepted; else the suggestion, or "" if that was rejected
    date: str  # What is stored as the date of an undecided region

    @property
    def identity(self) -> RegionIdentity:
        """What tells it from others."""
        return RegionIdentity(self.key, self.mask_hash, self.box)

    @property
    def suggested(self) -> Suggestion | None:
        """Its suggestion, as decisions name it."""
        if not self.suggestion:
            return None
        return Suggestion(
            label=self.suggestion,
            rank=1,
            similarity=_UNKNOWN if self.similarity is None else float(self.similarity),
            score=_UNKNOWN if self.confidence is None else float(self.confidence),
        )

    def decided(self, decision: Decision | None) -> StoredRegion:
        """Return the region after a decision; None makes it undecided."""
        if decision is None:
            return self._replace(decision="undecided", label=self.suggestion)
        label = class_of(decision.status, decision.label, self.suggestion)
        return self._replace(decision=decision.status, label=label)

    def row(self, decision: Decision | None) -> dict[str, Any]:
        """Return what `Store.decide` needs of the region after a decision."""
        after = self.decided(decision)
        y0, x0, y1, x1 = self.box
        return {
            "plane": plane_text(self.key.position),
            "region": self.key.id,
            **{"y0": y0, "x0": x0, "y1": y1, "x1": x1},
            "label": after.label,
            "decision": after.decision,
            "date": self.date if decision is None else decision.time,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What a list of images shows of one."""

    regions: int | None = None  # None while they are not counted
    decided: int = 0
    flagged: int = 0  # Undecided regions whose suggestion is flagged
    suggested: bool = False  # Whether there are suggestions
    waiting: tuple[tuple[str, float], ...] = ()  # Word and confidence of undecided regions
    words: frozenset[str] = frozenset()  # That were accepted, or are suggested
    problem: str = ""  # Why it cannot be used; one line


class DecidedImage(NamedTuple):
    """An image about whose regions something was decided; its file is still locked."""

    name: str
    review: Review
    regions: Sequence[StoredRegion]  # As they were before
    step: Step

    @property
    def rows(self) -> list[dict[str, Any]]:
        """What `Store.decide` needs of the regions as they are decided now."""
        decisions = self.review.decisions
        return [region.row(decisions.get(region.key)) for region in self.regions]


def rows_by_content(images: Iterable[DecidedImage]) -> dict[str, list[dict[str, Any]]]:
    """Return what `Store.update` needs of decided images."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for image in images:
        rows.setdefault(image.review.image.content, []).extend(image.rows)
    return rows


class StoredImages(Protocol):
    """Images by name, with their stored regions and with the files of their decisions."""

    def regions(self, name: str) -> Sequence[StoredRegion] | None:
        """Return the regions of an image; None without any; raises why they cannot be read."""

    def review(self, name: str, *, fresh: bool) -> Review:
        """Open the decisions about an image, which nobody else can make until they are closed.

        They are on the disk after `sync_together`. With ``fresh`` an image is refused whose regions
        are not as they would be computed now.
        """

    def keep(self, images: Sequence[DecidedImage]) -> Mapping[str, str]:
        """Store what was decided, before the files are closed; return problems by image."""

    def summary(self, name: str) -> Summary | None:
        """Count the regions of an image after `keep`; None where nobody counts them."""


class DecisionSource(Protocol):
    """Where images with stored regions are: a project, or a library."""

    def open(self, names: Sequence[str]) -> StoredImages:
        """Open images as they are now; in a worker."""
