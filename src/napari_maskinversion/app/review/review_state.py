"""State of a review: current region, suggestions, and the effect of each action.

No Qt, no napari.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from ...base.errors import InputError, NotSavedError
from ...base.identity import RegionKey
from ...base.validation import composed, without_hidden
from ...language.labels.label import colors_of
from ...language.labels.vocabulary import NONE_OF_THESE
from ...language.ranking.ranking import LabelFigures
from ...results.orders import Order
from ...results.results import Results
from ...review.decisions import STATUSES, Decision, Status, Step, Suggestion
from ...review.queue import ReviewQueue, certainty_of
from ...review.review import Review
from .decision_requests import DecisionRequest, is_sure_enough

SHOWN: Final = 5  # labels of a region
WORD_KEYS: Final = 9
# A key pressed within a reaction time of new suggestions refers to the old ones.
REACTION: Final = 0.25


@dataclass(frozen=True, slots=True)
class Choice:
    """A label that one key accepts."""

    key: str  # "1" to "9"; "" for none
    label: str
    color: str = ""
    suggestion: Suggestion | None = None  # None for a word that has no score here
    best: bool = False  # Whether Accept takes it


class ReviewState:
    """A review with its queue."""

    def __init__(self, results: Results, review: Review, queue: ReviewQueue) -> None:
        self.results, self.review, self.queue = results, review, queue
        self.row: int | None = None
        self.by_word = False
        self.problem = ""
        self._undecided_only = False
        self.left_out = ""  # which regions the last decision did not reach, and why
        self._suggested = suggested_by(results)
        self._before: tuple[int, tuple[Suggestion, ...], float] | None = None
        self._numbers = [region.members or (region.id,) for region in results.regions]
        self._blank = {number: "" for numbers in self._numbers for number in numbers}
        queue.load(review.decisions)

    @property
    def has_words(self) -> bool:
        """Whether there is something to learn: words, ranked for each region."""
        words = self.results.info.vocabulary
        return words is not None and all(one.ranking is not None for one in self.results.regions)

    @property
    def taught(self) -> dict[int, str | None]:
        """The accepted label of decided rows, None for rejected ones."""
        decided = ((row, self.review.decisions.get(key)) for row, key in enumerate(self.queue.keys))
        return {
            row: one.label or None
            for row, one in decided
            if one is not None and one.status in ("accepted", "rejected")
        }

    def replace_results(self, results: Results, now: float) -> None:
        """Take the same regions with other limits, words or captions, or ranked by decisions.

        A key pressed just after decisions ranked them refers to what was suggested before.
        """
        aimed = () if self.row is None else self.top(self.row)
        before, self.results = self.results, results
        same_words = before.info.without_decisions == results.info.without_decisions
        if not same_words:
            self._before = None
            self.review.set_info(results.info.without_decisions)
        if before.info.vocabulary == results.info.vocabulary:
            return
        self.queue.suggest(**certainty_of(results))
        self._suggested = suggested_by(results)
        if self.row is not None and same_words:
            labels = [suggestion.label for suggestion in self.top(self.row)]
            if labels != [suggestion.label for suggestion in aimed]:
                self._before = (self.row, aimed, now + REACTION)

    # -- the queue ----------------------------------------------------------------------------

    def arrange(self, order: Order, show: str, word: str = "") -> None:
        """Sort the queue, and show some regions only: a choice of `ReviewOptions`, or one word."""
        self.queue.sort(order)
        among = None
        if show == "doubtful":
            regions = enumerate(self.results.regions)
            among = [row for row, region in regions if region.flagged]
        elif show == "nothing found":
            every = range(len(self.queue.keys))
            among = [row for row in every if self.suggestion(row) in ("", NONE_OF_THESE)]
        states: dict[str, list[Status]] = {one: [one] for one in STATUSES} | {"all": []}
        status = states.get(show, ["undecided"])
        self.queue.show(status=status, label=word or None, rows=among)
        self._undecided_only = show == "undecided" and not word

    def next(self) -> int | None:
        """Return the row after this one; None if the queue is empty."""
        return self.queue.next(self.row)

    def next_undecided(self) -> int | None:
        """Return the next row without a decision, shown or hidden; None if all have one."""
        row, decided = self.row, self.review.decisions
        for _ in range(len(self.queue)):
            row = self.queue.next(row)
            if row is not None and self.queue.keys[row] not in decided:
                return row
        return next((row for row, key in enumerate(self.queue.keys) if key not in decided), None)

    @property
    def acceptable(self) -> str:
        """The suggestion that Accept takes now; "" for a decided region, and without one."""
        if self.row is None or self.is_decided:
            return ""
        label = self.suggestion(self.row)
        return "" if label == NONE_OF_THESE else label

    @property
    def is_decided(self) -> bool:
        """Whether the region has a decision."""
        return self.row is not None and self.queue.keys[self.row] in self.review.decisions

    @property
    def flag(self) -> str:
        """Why to check the suggestions of the region; "" for no reason."""
        region = None if self.row is None else self.results.regions[self.row]
        return region.status if region is not None and region.flagged else ""

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

    @property
    def done(self) -> tuple[int, int]:
        """Number of decided regions, and of all."""
        total = len(self.queue.keys)
        return total - self.queue.counts()["undecided"], total

    # -- suggestions --------------------------------------------------------------------------

    def top(self, row: int, count: int | None = SHOWN) -> tuple[Suggestion, ...]:
        """Return the best labels of a row; None for all."""
        ranking = self.results.regions[row].ranking
        if ranking is None:
            return ()
        labels = ranking.labels[:count]
        scores = zip(labels, ranking.similarities, ranking.probabilities, strict=False)
        return tuple(
            Suggestion(
                label=label,
                rank=rank,
                similarity=float(similarity),
                by="text" if ranking.before is None else "decisions",
                score=float(probability),
            )
            for rank, (label, similarity, probability) in enumerate(scores, 1)
        )

    @property
    def choices(self) -> tuple[Choice, ...]:
        """What the keys 1 to 9 accept: the best labels, or the first words of the list.

        By word, the best label comes too, without a key if it is not among the first.
        """
        if self.row is None:
            return ()
        colors, best = self.colors(), self.suggestion(self.row)
        if not self.by_word:
            return tuple(
                Choice(str(one.rank), one.label, colors.get(one.label, ""), one, one.label == best)
                for one in self.top(self.row)
            )
        ranked = {one.label: one for one in self.top(self.row, None)}
        words = self.words[:WORD_KEYS]
        chosen = [
            Choice(str(key), word, colors[word], ranked.get(word), word == best)
            for key, word in enumerate(words, 1)
        ]
        if best in ranked and best not in words:
            chosen.append(Choice("", best, colors.get(best, ""), ranked[best], True))
        return tuple(chosen)

    def above(self, word: str, confidence: float) -> list[int]:
        """Return the undecided rows for which a word is suggested with at least a confidence."""
        rows = []
        for row, (best, value) in self._open.items():
            if best == word and is_sure_enough(value, confidence):
                rows.append(row)
        return rows

    @property
    def waiting(self) -> tuple[tuple[str, float], ...]:
        """The suggested word and its confidence of the undecided regions that have one."""
        return tuple(one for one in self._open.values() if one[0])

    @property
    def _open(self) -> dict[int, tuple[str, float]]:
        """The suggestion, or "", and its confidence, of each undecided row."""
        decisions = self.review.decisions
        undecided = {}
        for row, key in enumerate(self.queue.keys):
            if key not in decisions:
                undecided[row] = self._suggested[row]
        return undecided

    def aimed(self, now: float) -> tuple[Suggestion, ...]:
        """Return the suggestions that a key pressed now refers to."""
        if self.row is None:
            return ()
        if self._before is not None:
            row, before, until = self._before
            if row == self.row and now < until:
                return before
        return self.top(self.row)

    def suggestion(self, row: int) -> str:
        """Return the best suggestion for a row, even if another label was accepted."""
        return self.results.regions[row].suggestion

    def decision(self, row: int) -> Decision | None:
        """Return what was decided about a row; None if it is undecided."""
        return self.review.decisions.get(self.queue.keys[row])

    def accepted_figures(self, row: int) -> LabelFigures | None:
        """Return the figures of the label that was accepted for a row; None without one."""
        decision, ranking = self.decision(row), self.results.regions[row].ranking
        if decision is None or decision.status != "accepted" or ranking is None:
            return None
        return ranking.figures_of(decision.label)

    def accepted_tip(self, row: int) -> str:
        """Return what was accepted for a row, and what its text says; "" without one."""
        decision, ranking = self.decision(row), self.results.regions[row].ranking
        if decision is None or decision.status != "accepted":
            return ""
        by_text = "" if ranking is None else (ranking.before or ranking).labels[0]
        return f"{decision.label}, accepted; {by_text} by text"

    def decision_text(self, step: Step) -> str:
        """Return what a step did: "Region 17 is accepted as cat."."""
        after = [self.review.decisions.get(change.region) for change in step]
        many = len(step) > 1
        who = f"{len(step):,} regions are" if many else f"Region {step[0].region} is"
        states = {"undecided" if one is None else one.status for one in after}
        if states == {"undecided"}:
            return f"{who} undecided again."
        if len(states) > 1:
            return f"{who} as they were."
        labels = {one.label for one in after if one is not None and one.label}
        label = f" as {labels.pop()}" if len(labels) == 1 else ""
        rest = " U takes all of them back." if many else ""
        return f"{who} {states.pop()}{label}. {self.left_out}".rstrip() + rest

    # -- decisions ----------------------------------------------------------------------------

    def accept(self, number: int | None, now: float, rows: Sequence[int] = ()) -> Step:
        """Accept the label of a key, or with None what the table suggests."""
        if number is None and len(rows) > 1:
            return self.accept_rows(rows)
        here = self._here
        if number is None and self.suggestion(here) == NONE_OF_THESE:
            raise InputError(
                f"Region {self.queue.keys[here]} is suggested to be none of these: R rejects it, "
                "1 takes the word that comes nearest, T types another one."
            )
        label, suggestion = self._taken(number, now)
        return self._decide_rows(rows or [here], "accepted", label, {here: suggestion})

    def _taken(self, number: int | None, now: float) -> tuple[str, Suggestion | None]:
        """Return the label of a key, and the suggestion that it came from."""
        if self.by_word and number is not None:
            words = self.words[:WORD_KEYS]
            if number > len(words):
                raise InputError(f"There is no word {number}: the list has {len(words)}.")
            word = words[number - 1]
            ranked = {one.label: one for one in self.top(self._here, None)}
            return word, ranked.get(word)
        aimed = self.aimed(now)
        if len(aimed) < (number or 1):
            wanted = "no suggestion" if number is None else f"no suggestion {number}"
            key = self.queue.keys[self._here]
            raise InputError(f"There is {wanted} for region {key}; press T to type a word.")
        suggestion = aimed[(number or 1) - 1]
        return suggestion.label, suggestion

    def accept_rows(self, rows: Sequence[int]) -> Step:
        """Accept the best suggestion of each row in one step; rows without one are left out."""
        decisions = []
        for row in rows:
            label = self.suggestion(row)
            if label and label != NONE_OF_THESE:
                taken = next((one for one in self.top(row) if one.label == label), None)
                decisions.append(
                    Decision(
                        region=self.queue.keys[row],
                        status="accepted",
                        label=label,
                        suggestion=taken,
                    )
                )
        if not decisions:
            raise InputError("None of the selected regions has a suggestion; press T to type one.")
        step = self._decide(decisions)
        self.left_out = _stayed(len(rows) - len(decisions), "no suggestion")
        return step

    def accept_typed(self, text: str, rows: Sequence[int] = ()) -> Step:
        """Accept a typed label; the vocabulary is matched ignoring case."""
        here, label = self._here, composed(without_hidden(" ".join(text.split())))
        known = {word.casefold(): word for word in self.words}
        label = known.get(label.casefold(), label)
        return self._decide_rows(rows or [here], "accepted", label, {})

    def dismiss(self, status: Status, now: float, rows: Sequence[int] = ()) -> Step:
        """Reject all suggestions for this region, or skip it; or several."""
        here, rows = self._here, rows or [self._here]
        taken = {row: next(iter(self.top(row, 1)), None) for row in rows}
        taken[here] = next(iter(self.aimed(now)), None)
        return self._decide_rows(rows, status, "", taken)

    def _decide_rows(
        self,
        rows: Sequence[int],
        status: Status,
        label: str,
        taken: Mapping[int, Suggestion | None],
    ) -> Step:
        keys = self.queue.keys
        return self._decide(
            [
                Decision(region=keys[row], status=status, label=label, suggestion=taken.get(row))
                for row in rows
            ]
        )

    def _decide(self, decisions: Sequence[Decision]) -> Step:
        return self._do(lambda: self.review.decide(*decisions))

    def decide(
        self, request: DecisionRequest, name: str, changed: Collection[RegionKey] = ()
    ) -> Step:
        """Decide about several regions of this image in one step, as the gallery does.

        Those that are not as they were seen, or have ``changed`` since, stay as before. The request
        calls this image by ``name``.
        """
        best, seen, wanted = {}, request.seen.get(name, {}), set(request.regions[name])
        for key in wanted.intersection(self.queue.keys).difference(changed):
            row = self.queue.row(key)
            region = self.results.regions[row]
            if seen.get(key, (region.bbox, region.area)) == (region.bbox, region.area):
                label = self.suggestion(row)
                best[key] = next((one for one in self.top(row) if one.label == label), None)
        if not best:
            raise InputError("Its regions have changed since; choose 'This image', or Reload.")
        decisions = request.decisions(best)
        if not decisions:
            raise InputError("None of these regions has a suggestion; give them a word.")
        step = self._decide(decisions)
        others = _stayed(len(wanted) - len(best), "changed since")
        without = _stayed(len(best) - len(decisions), "no suggestion")
        self.left_out = f"{others} {without}".strip()
        return step

    def take_back(self, step: Step) -> Step:
        """Take back a step where nobody has decided again."""
        return self._do(lambda: self.review.take_back(step), step)

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

    @property
    def _here(self) -> int:
        if self.row is None:
            raise InputError("There is no region to review; choose 'all' under Show.")
        return self.row

    def _do(self, act: Callable[[], Step], step: Step = ()) -> Step:
        self.problem = self.left_out = ""
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
        vocabulary = self.results.info.without_decisions.vocabulary
        own = () if vocabulary is None else vocabulary.labels
        return list(dict.fromkeys((*own, *self.review.decisions.accepted().values())))

    def colors(self) -> dict[str, str]:
        """Return a colour for each label, from the vocabulary where it has one."""
        vocabulary, words = self.results.info.without_decisions.vocabulary, self.words
        own = [] if vocabulary is None else [label.color for label in vocabulary.full_labels]
        return colors_of(words, own)

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
        """Columns for the exported table: decision, label and time."""
        from ...review.reporting import decision_columns

        return {**decision_columns(self.results, self.review.decisions)}


def _stayed(count: int, why: str) -> str:
    return f"{count:,} {'have' if count > 1 else 'has'} {why} and stayed as before." * (count > 0)


def suggested_by(results: Results) -> list[tuple[str, float]]:
    """Return the suggestion of each region, or "", and its confidence."""
    suggested = []
    for region in results.regions:
        ranking = region.ranking
        confidence = 0.0 if ranking is None else float(ranking.probabilities[0])
        suggested.append((region.suggestion, confidence))
    return suggested
