"""What the user decides: about a region, the selected ones, or all of a word."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from qtpy.QtCore import QObject, Signal

from ...app.review.review_state import ReviewState
from ...app.session import Session, Topic, outdated
from ...base.errors import InputError
from ...review.decisions import Status, Step
from ...review.multi_image_decisions import DecisionOutcome, DecisionRequest
from ..workers.notify import refuse
from .review_keeper import ReviewKeeper

_DISMISSED: Final[Mapping[str, Status]] = {"reject": "rejected", "skip": "skipped"}


class Deciding(Topic, QObject):
    """Decides, takes back, and says what was done or why it cannot be."""

    made = Signal(object, object)  # A decision: the review, and the step
    went = Signal(object)  # Where to go on: a row, or None to stay

    def __init__(self, session: Session, keeper: ReviewKeeper, parent: QObject) -> None:
        super().__init__(parent)
        self._session, self._keeper = session, keeper
        self.waiting: DecisionRequest | None = None  # for the review that is being opened

    def bind(self) -> None:
        """Answer other parts of the panel."""
        self.after(self._accept_word, self._session.review.accept_word)
        self.after(self._decide_together, self._session.review.decide)
        self.after(self._take_back, self._session.review.take_back)
        self.after(self._show_decisions, self._session.review.show_decisions)

    def stop(self) -> None:
        """Answer no more."""
        super().stop()
        self.waiting = None

    def go_on(self) -> None:
        """Decide what waited for the review that is open now."""
        request, self.waiting = self.waiting, None
        if request is not None:
            self._decide_together(request)

    @property
    def _state(self) -> ReviewState | None:
        state: ReviewState | None = self._session.reviewed
        return state

    def act(self, action: str) -> bool:
        """Perform one of `review_keys.KEYS` but "type"; return False without a review."""
        state, now, rows = self._state, time.monotonic(), self._rows
        if state is None:
            return False
        if action in ("next", "back"):
            self.went.emit(state.next() if action == "next" else state.queue.previous(state.row))
        elif action == "undecided":
            self.went.emit(state.next_undecided())
        elif action in ("undo", "redo"):
            self._decide(state.undo if action == "undo" else state.redo, stay=True)
        elif action in _DISMISSED:
            status = _DISMISSED[action]
            self._decide_here(lambda: state.dismiss(status, now, rows), self._aimed)
        else:
            number = int(action[5:]) if action.startswith("pick ") else None
            self._decide_here(lambda: state.accept(number, now, rows), self._aimed)
        return True

    def accept_typed(self, text: str) -> None:
        """Accept a typed label."""
        state = self._state
        if state is not None:
            self._decide_here(lambda: state.accept_typed(text, self._rows), self._aimed)

    @property
    def _rows(self) -> tuple[int, ...]:
        """The rows that a decision is about: those selected, with the current one."""
        state, rows = self._state, self._session.review.rows
        return rows if state is not None and state.row in rows else ()

    @property
    def _aimed(self) -> Sequence[int]:
        state = self._state
        return self._rows or ([] if state is None or state.row is None else [state.row])

    def accept_together(self, word: str, confidence: float) -> None:
        """Accept a word wherever it is suggested with at least a confidence."""
        state = self._state
        if state is not None:
            rows = state.above(word, confidence)
            self._decide_here(lambda: state.accept_rows(rows), rows)

    def _accept_word(self, word: str, confidence: float) -> None:
        """Accept a word wherever it is suggested so surely."""
        state = self._state
        if state is not None and not self._keeper.why_not:
            rows = state.above(word, confidence)
            if rows:  # a key must not meet what was accepted here
                stay = not self._session.review.reviewing
                self._decide(lambda: state.accept_rows(rows), rows, stay=stay)

    def _decide_together(self, request: DecisionRequest) -> None:
        """Decide about several regions of the results shown, once their review is open."""
        state = self._state
        if "" not in request.regions:
            return  # of other images
        if state is None:
            if self._keeper.target is None:
                refuse("You can decide after the run.")
            else:
                self.waiting = request
                self._show_decisions()
            return
        before, keys = state.review.decisions.last, set(request.regions[""])
        changed = self._session.run.changed_regions
        rows = [row for row, key in enumerate(state.queue.keys) if key in keys]
        same = [row for row in rows if state.queue.keys[row] not in changed]
        self._decide(lambda: state.decide(request, changed), same or rows, go=False)
        if (step := state.review.decisions.last) is not before:
            self._session.review.decided.emit(request, DecisionOutcome(steps={"": step}), {})

    def _take_back(self, decided: DecisionOutcome) -> None:
        """Take back what was decided about several regions at once."""
        state, step = self._state, decided.steps.get("", ())
        if state is not None and step:
            self._decide(lambda: state.take_back(step), go=False)

    def _show_decisions(self) -> None:
        """Open the review, since decisions about these results have been made elsewhere."""
        if self._keeper.state is None and self._keeper.target is not None:
            self._keeper.begin(unasked=True)

    def _decide_here(self, act: Callable[[], Step], rows: Sequence[int]) -> None:
        """Decide about rows, unless another plane is in view than theirs."""
        if plane := self._session.run.elsewhere:
            refuse(f"These suggestions are of {plane}: go back there to decide about them.")
        else:
            self._decide(act, rows)

    def _decide(
        self,
        act: Callable[[], Step],
        rows: Sequence[int] = (),
        *,
        stay: bool = False,
        go: bool = True,
    ) -> None:
        """Decide about rows, or with none take a decision back; ``go`` on from where the user is.

        With ``stay`` the place to go to is that of the decision.
        """
        state = self._state
        if state is None:
            return
        if problem := self._keeper.why_not or outdated(self._session, rows):
            refuse(problem)
            return
        try:
            step = act()
        except InputError as error:
            refuse(str(error))
            return
        row = state.row_of(step)
        if row is None:
            self._session.say("There is nothing to undo or redo." * (stay or not go))
            return
        self.made.emit(state, step)
        self.went.emit((row if stay else state.next()) if go else None)
        # Replaces an earlier refusal; after the last decision the foot shows the next step.
        self._session.say(state.decision_text(step) if self._session.undecided else "")
        if state.problem:
            refuse(state.problem)
