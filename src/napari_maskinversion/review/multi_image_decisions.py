"""Decisions about regions of many images: those of an image are saved in one step, or not at all.

Between two images nothing is half done: what was saved stays after a crash, and can be undone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..base.errors import InUseError, MaskInversionError
from ..base.identity import RegionKey
from ..base.wording import one_line
from ..language.labels.vocabulary import NONE_OF_THESE
from .decisions import Decision, Status, Step, Suggestion

Outline = tuple[tuple[int, int, int, int], int]  # Box and area of a region


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class DecisionRequest:
    """What somebody decided about several regions at once."""

    regions: Mapping[str, Sequence[RegionKey]]  # By image
    status: Status
    label: str = ""  # Of accepted ones; "" for what is suggested for each
    # Box and area of the regions as they were seen, by image: an open review may have others
    seen: Mapping[str, Mapping[RegionKey, Outline]] = field(default_factory=dict)

    def decisions(self, suggestions: Mapping[RegionKey, Suggestion | None]) -> list[Decision]:
        """Return the decisions about regions; one without a suggestion to accept is left out."""
        made = []
        for key, suggestion in suggestions.items():
            label = ""
            if self.status == "accepted":
                label = self.label or ("" if suggestion is None else suggestion.label)
                if label in ("", NONE_OF_THESE):
                    continue
                if suggestion is not None and suggestion.label != label:
                    suggestion = None
            made.append(
                Decision(region=key, status=self.status, label=label, suggestion=suggestion)
            )
        return made


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionOutcome:
    """What was decided in several images at once."""

    steps: Mapping[str, Step] = field(default_factory=dict)  # By image
    # Why images were left out, by name; of those with a step, why the library lacks it
    problems: Mapping[str, str] = field(default_factory=dict)
    stopped: bool = False  # by the user, before the last image
    word: str = ""  # That was accepted

    @property
    def count(self) -> int:
        """How many regions were decided."""
        return sum(map(len, self.steps.values()))

    def rest(self, taken: DecisionOutcome) -> DecisionOutcome | None:
        """Return what is still to be taken back after ``taken`` was; None if nothing is."""
        done = taken.steps.keys() - taken.problems.keys()
        steps = {name: step for name, step in self.steps.items() if name not in done}
        left = steps and (taken.stopped or taken.problems)
        return replace(self, steps=steps) if left else None


ImageStep = tuple[str, Step, str]  # An image, what was decided, and a problem


def each_image(names: Iterable[str], decide: Callable[[str], Step]) -> Iterator[ImageStep]:
    """Decide in one image after the other; one that cannot be decided about stops none."""
    for name in names:
        try:
            yield name, decide(name), ""
        except InUseError:
            yield name, (), "it is under review, here or in another window"
        except (MaskInversionError, OSError) as error:
            yield name, (), one_line(error)
