"""What the user decides: about a region, the selected ones, or all of a word."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from qtpy.QtCore import QObject, Signal

from ...app.review.review_state import ReviewState
from ...app.session import Session, outdated
from ...base.errors import InputError
from ...review.decisions import Status, Step
from ..workers.notify import refuse
from .review_keeper import ReviewKeeper

_DISMISSED: Final[Mapping[str, Status]] = {"reject": "rejected", "skip": "skipped"}


class DecisionActions(QObject):
    """Decides in the open review, takes back, and says what was done or why it cannot be."""

    went = Signal(object)  # Where to go on: a row, or None to stay

    def __init__(self, session: Session, keeper: ReviewKeeper, parent: QObject) -> None:
        super().__init__(parent)
        self._session, self._keeper = session, keeper

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
    ) -> None:
        """Decide about rows, or with none take a decision back; then go on.

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
            self._session.say("There is nothing to undo or redo." if stay else "")
            return
        self._session.decisions.tell(state, step)
        self.went.emit(row if stay else state.next())
        # Replaces an earlier refusal; after the last decision the foot shows the next step.
        self._session.say(state.decision_text(step) if self._session.undecided else "")
        if state.problem:
            refuse(state.problem)
