"""State of a review: current region, suggestions, and the effect of each action.

No Qt, no napari.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ...base.errors import InputError, NotSavedError
from ...base.identity import RegionKey
from ...base.preferences import SAFE, load
from ...language.labels.colors import SAFE_COLORS, fill_colors
from ...language.labels.vocabulary import NONE_OF_THESE
from ...review.decisions import Status, Step, Suggestion
from .learning import Learned, text_best, text_figures, text_top

if TYPE_CHECKING:
    from ...results.results import Results
    from ...review.exemplars import Learner
    from ...review.queue import Order, ReviewQueue
    from ...review.review import Review

SHOWN: Final = 5
# A key pressed within a reaction time of new suggestions refers to the old ones.
REACTION: Final = 0.25


@dataclass(frozen=True, slots=True)
class RowOverlay:
    """What the table shows for a row instead of the run's values.

    Attributes
    ----------
    suggestion : str
        The accepted label, or the current suggestion.
    status : str
        The decision; empty keeps the table's status.
    tip : str
        Why the suggestion changed.
    figures : dict of str to float
        Its similarity and margin, where it is not the text's best label; NaN for a label that the
        text does not know.
    """

    suggestion: str
    status: str = ""
    tip: str = ""
    figures: dict[str, float] = field(default_factory=dict)


class ReviewState:
    """A review with its queue.

    Parameters
    ----------
    results : Results
        Rows as in the queue.
    review : Review
    queue : ReviewQueue
    learner : Learner or None
        None without labels.

    Attributes
    ----------
    row : int or None
        Row of the current region.
    problem : str
        Why the last decision is unsaved; empty if it is saved.
    """

    def __init__(
        self, results: Results, review: Review, queue: ReviewQueue, learner: Learner | None
    ) -> None:
        self.results, self.review = results, review
        self.queue, self.learner = queue, learner
        self.row: int | None = None
        self.problem = ""
        self._undecided_only = False
        self._learned: Learned | None = None
        self._before: tuple[int, tuple[Suggestion, ...], float] | None = None
        self._numbers = [region.members or (region.id,) for region in results.regions]
        self._blank = {number: "" for numbers in self._numbers for number in numbers}
        queue.load(review.decisions)

    def replace_results(self, results: Results) -> None:
        """Take the same regions with other limits; `learn` ranks them for the queue."""
        self.results = results
        self.review.set_info(results.info)

    # -- the queue ----------------------------------------------------------------------------

    def arrange(self, order: Order, status: Status | None) -> None:
        """Sort the queue, and show regions of one state only."""
        self.queue.sort(order)
        self.queue.show(status=[] if status is None else [status])
        self._undecided_only = status == "undecided"

    def next(self) -> int | None:
        """Return the row after this one; None if the queue is empty."""
        return self.queue.next(self.row)

    def previous(self) -> int | None:
        """Return the row before this one."""
        return self.queue.previous(self.row)

    @property
    def place(self) -> str:
        """Return the place of the row: "Region 17: 37 of 212".

        If only undecided regions are shown, decided ones count too, so the number shows progress.
        """
        if self.row is None:
            return "No region of this kind"
        text = self.queue.text(self.row)
        if self._undecided_only and not text.endswith("left"):
            done = len(self.queue.keys) - len(self.queue)
            text = f"{done + int(text.split()[0])} of {len(self.queue.keys)}"
        return f"Region {self.queue.keys[self.row]}: {text}"

    @property
    def counts(self) -> str:
        """Number of regions in each state, as text."""
        counts = self.queue.counts()
        return ", ".join(f"{counts[s]} {s}" for s in ("accepted", "rejected", "skipped")) + (
            f", {counts['undecided']} to go"
        )

    # -- suggestions --------------------------------------------------------------------------

    def top(self, row: int) -> tuple[Suggestion, ...]:
        """Return the current best labels of a row."""
        if self._learned is not None:
            return self._learned.scores.top(row, SHOWN)
        return text_top(self.results.regions[row].ranking, SHOWN)

    def aimed(self, now: float) -> tuple[Suggestion, ...]:
        """Return the suggestions that a key pressed now refers to."""
        if self.row is None:
            return ()
        if self._before is not None:
            row, before, until = self._before
            if row == self.row and now < until:
                return before
        return self.top(self.row)

    def learn(self, learned: Learned | None, now: float) -> None:
        """Take suggestions learned from accepted regions; None restores the text's."""
        before = () if self.row is None else self.top(self.row)
        self._learned = learned
        if learned is None:
            ranks = [region.ranking for region in self.results.regions]
            nan = float("nan")
            self.queue.suggest(
                margins=[nan if rank is None else rank.margin for rank in ranks],
                entropies=[nan if rank is None else rank.entropy for rank in ranks],
                labels=[region.suggestion for region in self.results.regions],
            )
        else:
            self.queue.suggest(
                margins=learned.margins, entropies=learned.entropies, labels=learned.best
            )
        if self.row is not None:
            labels = [suggestion.label for suggestion in self.top(self.row)]
            if labels != [suggestion.label for suggestion in before]:
                self._before = (self.row, before, now + REACTION)

    def suggestion(self, row: int) -> str:
        """Return the best suggestion for a row, even if another label was accepted."""
        if self._learned is not None:
            return self._learned.best[row]
        return self.results.regions[row].suggestion

    @property
    def changed(self) -> int:
        """Rows whose best suggestion has changed through learning."""
        return 0 if self._learned is None else len(self._learned.changed)

    def overlay(self, row: int) -> RowOverlay | None:
        """Return what the table shows of a row; None for the run's values."""
        decision = self.review.decisions.get(self.queue.keys[row])
        region = self.results.regions[row]
        by_text = text_best(region)
        suggestion, tip = self.suggestion(row), ""
        figures = text_figures(region, suggestion)
        if self._learned is not None and row in self._learned.changed:
            tip = f"{suggestion}, by the regions you accepted; {by_text or 'nothing'} by text alone"
            suggestion = f"{suggestion} *"
        if decision is None:
            return RowOverlay(suggestion, "", tip, figures) if tip else None
        if decision.status == "accepted":
            label = decision.label
            tip = f"{label}, accepted; {by_text} by text"
            return RowOverlay(label, "accepted", tip, text_figures(region, label))
        return RowOverlay(suggestion, decision.status, tip or suggestion, figures)

    def decision_text(self, row: int) -> str:
        """Return the decision about a row: "Region 17 is accepted as cat."."""
        key = self.queue.keys[row]
        decision = self.review.decisions.get(key)
        if decision is None:
            return f"Region {key} is undecided again."
        label = f" as {decision.label}" if decision.label else ""
        return f"Region {key} is {decision.status}{label}."

    # -- decisions ----------------------------------------------------------------------------

    def accept(self, place: int | None, now: float) -> Step:
        """Accept a suggestion by its number (1 is the best); None accepts the table's suggestion.

        Raises
        ------
        InputError
            If there is none.
        """
        key = self._key()
        aimed = self.aimed(now)
        if place is None and self.row is not None and self.suggestion(self.row) == NONE_OF_THESE:
            raise InputError(
                f"Region {key} is suggested to be none of these: R rejects it, 1 takes the label "
                "that comes nearest, T types another one."
            )
        if len(aimed) < (place or 1):
            wanted = "no suggestion" if place is None else f"no suggestion {place}"
            raise InputError(f"There is {wanted} for region {key}; press T to type a label.")
        taken = aimed[(place or 1) - 1]
        return self._do(lambda: self.review.accept(key, taken.label, taken))

    def accept_typed(self, text: str) -> Step:
        """Accept a typed label; the vocabulary is matched ignoring case.

        Raises
        ------
        InputError
            If nothing was typed.
        """
        key, label = self._key(), " ".join(text.split())
        known = {word.casefold(): word for word in self.words}
        label = known.get(label.casefold(), label)
        return self._do(lambda: self.review.accept(key, label))

    def reject(self, now: float) -> Step:
        """Reject all suggestions for this region."""
        key, first = self._key(), next(iter(self.aimed(now)), None)
        return self._do(lambda: self.review.reject(key, first))

    def skip(self, now: float) -> Step:
        """Skip this region."""
        key, first = self._key(), next(iter(self.aimed(now)), None)
        return self._do(lambda: self.review.skip(key, first))

    def undo(self) -> Step:
        """Undo the last step."""
        return self._do(self.review.undo, self.review.decisions.last)

    def redo(self) -> Step:
        """Redo the last undone step."""
        return self._do(self.review.redo, self.review.decisions.next)

    def row_of(self, step: Step) -> int | None:
        """Return the row of a step; None if it is not among these results."""
        for change in step:
            with suppress(KeyError):
                return self.queue.row(change.region)
        return None

    def _key(self) -> RegionKey:
        if self.row is None:
            raise InputError("There is no region to review; choose 'all' under Show.")
        return self.queue.keys[self.row]

    def _do(self, act: Callable[[], Step], step: Step = ()) -> Step:
        self.problem = ""
        try:
            step = act()
        except NotSavedError as error:
            # It counts, and is written with the next one.
            self.problem = str(error)
            self.queue.load(self.review.decisions)
            return step or self.review.decisions.last
        self.queue.mark(step)
        return step

    # -- what others show of it ---------------------------------------------------------------

    @property
    def words(self) -> list[str]:
        """Labels of the vocabulary, then typed ones."""
        vocabulary = self.results.info.vocabulary
        own = () if vocabulary is None else vocabulary.labels
        return list(dict.fromkeys((*own, *self.review.decisions.accepted().values())))

    def colors(self) -> dict[str, str]:
        """Return a colour for each label, from the vocabulary where it has one."""
        vocabulary, words = self.results.info.vocabulary, self.words
        own = [] if vocabulary is None else [label.color for label in vocabulary.full_labels]
        first = SAFE_COLORS if load().palette == SAFE else ()
        filled = fill_colors([*own, *[""] * (len(words) - len(own))], first)
        return dict(zip(words, filled, strict=True))

    def labels(self) -> dict[int, str]:
        """Accepted label of each region's id, empty where there is none.

        On several planes one id may have several; all members of a merged region share its label.
        """
        labels: dict[int, list[str]] = {}
        for key, label in self.review.decisions.accepted().items():
            with suppress(KeyError):
                for number in self._numbers[self.queue.row(key)]:
                    labels.setdefault(number, []).append(label)
        joined = {number: ", ".join(dict.fromkeys(names)) for number, names in labels.items()}
        return self._blank | joined

    def accepted_rows(self) -> dict[int, str]:
        """Return the label of each accepted row."""
        accepted = {}
        for key, label in self.review.decisions.accepted().items():
            with suppress(KeyError):
                accepted[self.queue.row(key)] = label
        return accepted

    def columns(self) -> dict[str, list[Any]]:
        """Columns for the exported table: decision, label, learned suggestion."""
        from ...review.reporting import decision_columns

        columns: dict[str, list[Any]] = {}
        columns |= decision_columns(self.results, self.review.decisions)
        if self._learned is not None:
            columns["learned"] = list(self._learned.best)
        return columns

    def records(self) -> list[dict[str, Any]]:
        """Entries of the regions for the exported record."""
        from ...review.reporting import decision_records

        return decision_records(self.results, self.review.decisions)
