"""What somebody wants to decide about regions of one image or of many, and what came of it.

Decisions about one image are saved in one step, or not at all. Between two images nothing is half
done: what was saved stays after a crash, and can be taken back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from ...base.errors import InputError
from ...base.identity import ImagePlace, RegionKey
from ...base.wording import counted
from ...language.labels.vocabulary import NONE_OF_THESE
from ...review.decisions import Decision, Status, Step, Suggestion
from ...review.review import Review
from ...review.stored_images import DecisionSource, StoredRegion

Outline = tuple[tuple[int, int, int, int], int]  # Box and area of a region
_ROUNDING: Final = 2e-6  # confidences have single precision: 0.9 is a little less


def is_sure_enough(confidence: float, least: float) -> bool:
    """Return whether a confidence is at least as high as asked for, but for rounding."""
    return confidence >= least - _ROUNDING


NO_SUGGESTIONS: Final = "it has no suggestions any more; compute it again first"
NOT_STORED: Final = "its regions are not stored any more; compute or add it again, then undo again"
SHOWN: Final = ""  # The name of the image in view


class ReviewActions(Protocol):
    """What a request asks of a review that is open."""

    def decide(self, request: DecisionRequest, name: str) -> Step:
        """Decide about regions that are as they were seen."""

    def accept_word(self, word: str, confidence: float) -> Step:
        """Accept a word wherever it is suggested so surely."""

    def take_back(self, step: Step) -> Step:
        """Take back a step, except where a later decision exists."""


class Request(Protocol):
    """A wish to decide about images: in their open reviews, or in their files."""

    @property
    def images(self) -> Mapping[str, ImagePlace]:
        """The images and where they are."""

    @property
    def source(self) -> DecisionSource | None:
        """What has their regions; None: only an open review has."""

    @property
    def needs_fresh(self) -> bool:
        """Whether regions that would be computed otherwise now are refused."""

    @property
    def left_out_text(self) -> str:
        """What a message says of images that are left out, after their number."""

    def decide_in_review(self, name: str, review: ReviewActions) -> Step:
        """Decide in an open review."""

    def regions_of(
        self, name: str, stored: Sequence[StoredRegion] | None
    ) -> Sequence[StoredRegion]:
        """Return which stored regions of an image this is about."""

    def decide_in_file(self, name: str, regions: Sequence[StoredRegion], review: Review) -> Step:
        """Decide about these regions in the image's file."""

    def text(self, outcome: DecisionOutcome) -> str:
        """Say what came of it, but not what was left out."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class DecisionRequest:
    """What somebody decided about several regions at once."""

    regions: Mapping[str, Sequence[RegionKey]]  # By image
    status: Status
    label: str = ""  # Of accepted ones; "" for what is suggested for each
    # Box and area of the regions as they were seen, by image: an open review may have others
    seen: Mapping[str, Mapping[RegionKey, Outline]] = field(default_factory=dict)
    images: Mapping[str, ImagePlace] = field(default_factory=dict)
    source: DecisionSource | None = None
    needs_fresh: bool = field(default=True, init=False)
    left_out_text: str = field(default="left out", init=False)

    def decisions(self, suggestions: Mapping[RegionKey, Suggestion | None]) -> list[Decision]:
        """Return the decisions about regions; one without a suggestion to accept is left out."""
        decisions: list[Decision] = []
        for key, suggestion in suggestions.items():
            label = ""
            if self.status == "accepted":
                label = self.label or ("" if suggestion is None else suggestion.label)
                if label in ("", NONE_OF_THESE):
                    continue
                if suggestion is not None and suggestion.label != label:
                    suggestion = None
            decision = Decision(region=key, status=self.status, label=label, suggestion=suggestion)
            decisions.append(decision)
        return decisions

    def decide_in_review(self, name: str, review: ReviewActions) -> Step:
        """Decide in an open review."""
        return review.decide(self, name)

    def regions_of(
        self, name: str, stored: Sequence[StoredRegion] | None
    ) -> Sequence[StoredRegion]:
        """Return the regions that somebody decided about."""
        if stored is None:
            raise InputError(NO_SUGGESTIONS)
        keys = set(self.regions[name])
        return [region for region in stored if region.key in keys]

    def decide_in_file(self, name: str, regions: Sequence[StoredRegion], review: Review) -> Step:
        """Decide about regions in the image's file."""
        decisions = self.decisions({region.key: region.suggested for region in regions})
        return review.decide(*decisions) if decisions else ()

    def text(self, outcome: DecisionOutcome) -> str:
        """Say how many regions were decided."""
        if not outcome.count:
            return "Nothing is decided."
        return f"Decided: {outcome.counted}."


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class WordRequest:
    """Accept a word in all images, wherever it is suggested and nothing is decided."""

    word: str
    confidence: float  # The least one
    images: Mapping[str, ImagePlace]
    source: DecisionSource
    needs_fresh: bool = field(default=True, init=False)
    left_out_text: str = field(default="left out", init=False)

    def decide_in_review(self, name: str, review: ReviewActions) -> Step:
        """Accept the word in an open review."""
        return review.accept_word(self.word, self.confidence)

    def regions_of(
        self, name: str, stored: Sequence[StoredRegion] | None
    ) -> Sequence[StoredRegion]:
        """Return the undecided regions for which the word is suggested."""
        likely: list[StoredRegion] = []
        for region in stored or ():
            if region.suggestion != self.word or region.decision != "undecided":
                continue
            if region.confidence is None:
                continue
            if is_sure_enough(region.confidence, self.confidence):
                likely.append(region)
        return likely

    def decide_in_file(self, name: str, regions: Sequence[StoredRegion], review: Review) -> Step:
        """Accept the word in the image's file."""
        decisions: list[Decision] = []
        for region in regions:
            if region.key not in review.decisions:
                decision = Decision(
                    region=region.key,
                    status="accepted",
                    label=self.word,
                    suggestion=region.suggested,
                )
                decisions.append(decision)
        return review.decide(*decisions) if decisions else ()

    def text(self, outcome: DecisionOutcome) -> str:
        """Say how many regions were accepted."""
        if not outcome.count:
            return f"Nothing is suggested as {self.word} so surely."
        text = f"Accepted as {self.word}: {outcome.counted}."
        if outcome.project_closed:
            return text
        return f"{text} Undo on this tab takes all of them back."


@dataclass(frozen=True, slots=True, eq=False)
class TakeBackRequest:
    """Take back an outcome, except where a later decision exists."""

    outcome: DecisionOutcome
    needs_fresh: bool = field(default=False, init=False)
    left_out_text: str = field(default="could not be changed", init=False)

    @property
    def images(self) -> Mapping[str, ImagePlace]:
        """The images about which something was decided, and where they are."""
        return {name: self.outcome.places[name] for name in self.outcome.steps}

    @property
    def source(self) -> DecisionSource | None:
        """What has their regions."""
        return self.outcome.source

    def decide_in_review(self, name: str, review: ReviewActions) -> Step:
        """Take back in an open review."""
        return review.take_back(self.outcome.steps[name])

    def regions_of(
        self, name: str, stored: Sequence[StoredRegion] | None
    ) -> Sequence[StoredRegion]:
        """Return all regions; they include the regions of the step."""
        if not stored:
            raise InputError(NOT_STORED)
        return stored

    def decide_in_file(self, name: str, regions: Sequence[StoredRegion], review: Review) -> Step:
        """Take back in the image's file."""
        return review.take_back(self.outcome.steps[name])

    def text(self, outcome: DecisionOutcome) -> str:
        """Say how many regions are as they were."""
        is_of_images_tab = isinstance(self.outcome.request, WordRequest)
        state = "Undecided again" if is_of_images_tab else "As before"
        text = f"{state}: {counted(outcome.count, 'region')}."
        if outcome.problems or outcome.project_closed:
            return text
        if outcome.stopped:
            text += f" Undo{' on this tab' if is_of_images_tab else ''} takes back the rest."
        return text


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class DecisionOutcome:
    """What was decided: an entry for each image."""

    request: Request | None = None  # None: an open review has decided by itself
    places: Mapping[str, ImagePlace] = field(default_factory=dict)  # Where the images are
    source: DecisionSource | None = None
    steps: Mapping[str, Step] = field(default_factory=dict)  # What was decided, by image
    # Why images were left out, by image; of those with a step, why the library lacks it
    problems: Mapping[str, str] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)  # Which regions were left out, by image
    reached: frozenset[str] = frozenset()  # Images without a problem, also where nothing was to do
    stopped: bool = False  # by the user, before the last image
    # Whether the project of the images was closed meanwhile: nobody offers to take this back
    project_closed: bool = False

    @property
    def count(self) -> int:
        """How many regions were decided."""
        return sum(map(len, self.steps.values()))

    @property
    def counted(self) -> str:
        """How many regions of how many images were decided, in words."""
        return f"{counted(self.count, 'region')} of {counted(len(self.steps), 'image')}"

    def step_at(self, place: ImagePlace) -> Step:
        """Return what was decided about the image at a place."""
        for name, step in self.steps.items():
            if self.places[name] == place:
                return step
        return ()

    @property
    def text(self) -> str:
        """What to tell the user."""
        if self.request is None:
            return ""
        parts = [self.request.text(self)]
        parts += [f"{name}: {note}" if name else note for name, note in self.notes.items()]
        saved = {name: why for name, why in self.problems.items() if name in self.steps}
        refused = {name: why for name, why in self.problems.items() if name not in self.steps}
        if saved:
            name, why = next(iter(saved.items()))
            parts.append(f"{name}: {why.rstrip('.')}.")
        if len(saved) > 1:
            parts.append(f"And {len(saved) - 1:,} more.")
        if refused:
            name, why = next(iter(refused.items()))
            images = counted(len(refused), "image")
            reason = why.rstrip(".")
            parts.append(f"{images} {self.request.left_out_text}, such as {name}: {reason}.")
        return " ".join(parts)

    def rest(self, taken: DecisionOutcome) -> DecisionOutcome | None:
        """Return what is still to be taken back after ``taken`` was; None if nothing is."""
        steps = {name: step for name, step in self.steps.items() if name not in taken.reached}
        return replace(self, steps=steps) if steps else None
