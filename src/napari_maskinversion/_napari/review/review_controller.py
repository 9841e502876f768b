"""Connects the review's widget, decisions, table and layers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from qtpy.QtCore import QObject
from qtpy.QtWidgets import QWidget

from ...base import progress_words as words
from ...base.errors import InputError
from ...review.decisions import Status, Step
from ...review.review import Review
from ...review.together import Decided, Verdict
from ..layers.layers import is_shapes
from ..layers.overlays import AcceptedText
from ..layers.results_on_canvas import ResultsOnCanvas
from ..session import (
    ResultRecord,
    RunState,
    Snapshot,
    Topic,
    changed_rows,
    outdated,
    same_regions,
    same_run,
    session_of,
)
from ..widgets.sections import debouncer
from ..workers.model_store import ModelStore
from ..workers.notify import inform, refuse, refusing, report
from ..workers.worker import Worker
from .decided_layer import seen_on
from .learn_dialog import LearnDialog
from .learning import Trained, train
from .review_keeper import ReviewKeeper
from .review_keys import ReviewKeys
from .review_learning import ReviewLearning
from .review_options import BY_WORD, DIMMED, INSIDE, ReviewOptions
from .review_state import ReviewState
from .review_widget import ReviewWidget

_LEARNING: Final = {"learn", "other_words"}  # options
_DISMISSED: Final[Mapping[str, Status]] = {"reject": "rejected", "skip": "skipped"}
_LAYER_PAUSE: Final = 150  # milliseconds after the last decision until the layer is written


class ReviewController(Topic, QObject):
    """Reviews the results of the session."""

    def __init__(self, canvas: ResultsOnCanvas, store: ModelStore, parent: QWidget) -> None:
        super().__init__(parent)
        self._canvas = canvas
        self._session = session_of(canvas.viewer)
        self._record: ResultRecord | None = None  # the last results
        self._expected: Snapshot | None = None  # of the run whose layers are known
        self.part = ReviewWidget()
        self.keys = ReviewKeys(self.part, self._session, self)
        self.keeper = ReviewKeeper(canvas.viewer, self)
        self.learning = ReviewLearning(self._session, store, self)
        self._options, self._word = ReviewOptions(), ""
        self.learned: LearnDialog | None = None
        self._taught: Review | None = None
        self._training = Worker(
            "latest", "Learning a classifier", self._trained, refuse, parent=self
        )
        self._cropper = Worker("latest", "The crop", self.part.crop.show_crop, parent=self)
        self._timer = debouncer(self, _LAYER_PAUSE, self.write_layer)
        self._stay = False  # the user's region when the next review opens
        self._waiting: Verdict | None = None  # for the review that is being opened
        self._connect()

    def _connect(self) -> None:
        part, keeper = self.part, self.keeper
        part.switch.toggled.connect(self._switched)
        part.asked.connect(self.act)
        part.typed.connect(self.accept_typed)
        part.together.accept.clicked.connect(self._accept_together)
        part.together.changed.connect(self._show_together)
        part.form.changed.connect(self._take_options)
        part.gallery.clicked.connect(lambda _=False: self._session.ask("gallery"))
        part.learn.clicked.connect(self._train)
        part.save.clicked.connect(self._save)
        part.others.clicked.connect(self._use_others)
        keeper.ready.connect(self._ready)
        keeper.opened.connect(self._opened)
        keeper.closed.connect(self._closed)
        keeper.left.connect(self._left)
        keeper.refused.connect(self._cannot)
        keeper.opening_changed.connect(self._show_opening)
        self.keys.pressed.connect(self.act)
        self.learning.ranked.connect(self._ranked)
        self.learning.noted.connect(part.learning.say)
        self.learning.keeping.problem.connect(inform)

    @property
    def state(self) -> ReviewState | None:
        """The review of the results shown; None if they are of another run."""
        state: ReviewState | None = self._session.reviewed
        return state

    def bind(self) -> None:
        """Follow the session."""
        self.after("run", self._run_changed)
        self.after("record", self._record_changed)
        self.after("row", self._row_selected)
        self.after("changed_regions image_changed", lambda _: self._show())
        self.answer("accept word", self._accept_word)
        self.answer("decide", self._decide_together)
        self.answer("take back", self._take_back)
        self.answer("show decisions", self._show_decisions)
        self._record_changed(self._session.record)

    def _run_changed(self, run: RunState) -> None:
        if run.running:
            self._expect(run.snapshot)

    def _expect(self, snapshot: Snapshot | None) -> None:
        """Take the layers of the next results as they are when a run begins."""
        if snapshot not in (None, self._expected) and snapshot.regions is not None:
            self._expected = snapshot
            self.keeper.expect(snapshot.image, snapshot.regions)

    def _record_changed(self, record: ResultRecord | None) -> None:
        before, self._record = self._record, record
        self._results_shown()
        if record is None:
            return
        was, now = None if before is None else before.results, record.results
        if (
            was is not None
            and was is not now
            and same_run(before, record)
            and same_regions(was, now)
        ):
            # With other limits or captions the order of the queue stays.
            self.keeper.renew(was, now)
            self.learning.ask()
            self._ranked()
        if record.live:
            self._expected = None
        self._expect(record.snapshot)
        if record.settled:
            # After live mode the user is drawing: the review says no more than a line, and stays.
            self._stay = record.live
            self.keeper.follow(record)
        self._publish()

    def _publish(self) -> None:
        """Let the session know how far the review is."""
        session, keeper = self._session, self.keeper
        session.review, session.reviewable = keeper.state, keeper.target
        if session.reviewed is not None:
            session.decided = session.reviewed.done[0]
        session.decisions += 1

    def _show_opening(self) -> None:
        self._session.review_opening = self.keeper.opening

    def stop(self) -> None:
        """Close the review and release the layers."""
        super().stop()
        self._record = self._expected = self._waiting = None
        self.keys.active = self._session.reviewing = False
        self.learning.stop()
        self._timer.cancel()
        for act in (self.write_layer, self.keeper.stop, self._publish):
            try:
                act()
            except Exception as error:  # the file's lock must be released even if the layer fails
                report(error)
        self._session.review_opening = False
        self._canvas.texts.remove()
        self._cropper.drop()
        self._training.drop()
        self.part.crop.show_crop(None)
        self.part.show_ready(False)
        self.part.show_switch(False)

    # -- a review begins and ends -------------------------------------------------------------

    def _ready(self) -> None:
        self._publish()
        if self.keeper.state is None:
            self.part.show_ready(True)
            self.part.say("")

    def _results_shown(self) -> None:
        """Hide the review while the table has results of another image, or none."""
        target = self.keeper.target
        if self.keeper.state is not None and target is not None:
            own = self._session.results is not None and self._canvas.image is target.image
            self.keys.active = own
            self.part.show_ready(own, opened=own)
            if own:
                self._show()

    def _switched(self, on: bool) -> None:
        self.part.show_switch(on)
        if not on:
            self._session.reviewing = False
            return
        if self.keeper.state is None:
            self._stay = False
            self.part.say(f"{words.OPENING} ...")
            self.keeper.begin()
            return
        self._session.reviewing = True
        state = self.state
        if self.keeper.unasked:  # now it is
            self.keeper.unasked = False
            self._focus()
            self._arrange()
        elif state is not None and state.is_decided:  # meanwhile, on another tab
            self._go(state.next_undecided())

    def _opened(self, messages: list[str]) -> None:
        self._publish()
        state = self.state
        if state is None:
            return  # a new run has begun; its results will arrive too
        self.keys.active = True
        state.by_word = self._options.keys == BY_WORD
        self._focus()
        self.part.show_ready(True, opened=True)
        self.part.form["learn"].setEnabled(state.has_words)
        self.part.offer_others(state.review.restored.unused)
        self.part.say(" ".join(messages))
        if self._stay or self.keeper.unasked:
            state.arrange(self._options.sorting, self._options.show, self.part.word_shown)
            self._go(self._session.row if self._session.row >= 0 else None)
        else:
            self._arrange()
        self.learning.begin(state)
        self.write_layer()
        self._session.reviewing = self.part.switch.isChecked()
        verdict, self._waiting = self._waiting, None
        if verdict is not None:
            self._decide_together(verdict)

    def _closed(self) -> None:
        self.keys.active = False
        self._focus()
        self._canvas.texts.remove()
        self.part.offer_others(0)
        self.part.show_ready(self.keeper.target is not None)
        self._publish()

    def _left(self, name: str) -> None:
        """Leave a review whose layers are gone."""
        self._session.reviewing = False
        self._publish()
        self._canvas.blank()
        self.part.show_switch(False)
        self.part.show_ready(False, opened=self.keeper.state is not None)
        if self.keeper.state is None:
            self.part.say(
                f"'{name}' was removed, and its review is closed. The decisions are saved; they "
                "come back when the image and its regions are reviewed again."
            )

    def _cannot(self, message: str) -> None:
        """Show why there is no review, or why it is unsaved; the switch tries again."""
        self._waiting = None
        state = self.keeper.state
        if state is None:
            self.part.show_switch(False)
            self._session.reviewing = False
        else:
            self.part.save.setVisible(state.review.unsaved > 0)
        self.part.show_ready(self.keeper.target is not None, opened=state is not None)
        self.part.say(message)
        (inform if self.keeper.unasked else refuse)(message)

    def _save(self, _: bool = False) -> None:
        if self.keeper.save():
            self.part.say("All decisions are saved.")
            self.part.save.hide()

    def _use_others(self, _: bool = False) -> None:
        """Take over decisions about other pixels."""
        self._stay = False
        self.part.say(f"{words.OPENING} ...")
        self.keeper.begin(any_image=True)

    # -- what the user does -------------------------------------------------------------------

    def act(self, action: str) -> None:
        """Perform an action: one of `review_keys.KEYS`, or "end"."""
        state, now, rows = self.state, time.monotonic(), self._rows
        if action == "end":
            self.part.show_switch(False)
            self._session.reviewing = False
        elif state is None:
            self.part.say("You can decide after the run.")
        elif action == "type":
            self.part.type_label()
        elif action in ("next", "back"):
            self._go(state.next() if action == "next" else state.previous())
        elif action == "undecided":
            self._go(state.next_undecided())
        elif action in ("undo", "redo"):
            self._decide(state.undo if action == "undo" else state.redo, stay=True)
        elif action in _DISMISSED:
            status = _DISMISSED[action]
            self._decide_here(lambda: state.dismiss(status, now, rows), self._aimed)
        else:
            number = int(action[5:]) if action.startswith("pick ") else None
            self._decide_here(lambda: state.accept(number, now, rows), self._aimed)

    def accept_typed(self, text: str) -> None:
        """Accept a typed label."""
        state = self.state
        if state is not None:
            self._decide_here(lambda: state.accept_typed(text, self._rows), self._aimed)

    @property
    def _rows(self) -> tuple[int, ...]:
        """The rows that a decision is about: those selected, with the current one."""
        state, rows = self.state, self._session.rows
        return rows if state is not None and state.row in rows else ()

    @property
    def _aimed(self) -> Sequence[int]:
        state = self.state
        return self._rows or ([] if state is None or state.row is None else [state.row])

    def _accept_together(self, _: object = None) -> None:
        """Accept a word wherever it is suggested with at least a confidence."""
        state = self.state
        if state is not None:
            rows = state.above(*self.part.together.chosen)
            self._decide_here(lambda: state.accept_rows(rows), rows)

    def _accept_word(self, word_and_confidence: tuple[str, float]) -> None:
        """Accept a word wherever it is suggested so surely."""
        state = self.state
        if state is not None and not self.keeper.why_not:
            rows = state.above(*word_and_confidence)
            if rows:  # a key must not meet what was accepted here
                stay = not self._session.reviewing
                self._decide(lambda: state.accept_rows(rows), rows, stay=stay)

    def _decide_together(self, verdict: Verdict) -> None:
        """Decide about several regions of the results shown, once their review is open."""
        state = self.state
        if "" not in verdict.regions:
            return  # of other images
        if state is None:
            if self.keeper.target is None:
                refuse("You can decide after the run.")
            else:
                self._waiting = verdict
                self._show_decisions()
            return
        before, keys = state.review.decisions.last, set(verdict.regions[""])
        changed = self._session.changed_regions
        rows = [row for row, key in enumerate(state.queue.keys) if key in keys]
        same = [row for row in rows if state.queue.keys[row] not in changed]
        self._decide(lambda: state.decide(verdict, changed), same or rows, go=False)
        if (step := state.review.decisions.last) is not before:
            self._session.ask("decided", (verdict, Decided(steps={"": step}), {}))

    def _take_back(self, decided: Decided) -> None:
        """Take back what was decided about several regions at once."""
        state, step = self.state, decided.steps.get("", ())
        if state is not None and step:
            self._decide(lambda: state.take_back(step), go=False)

    def _show_decisions(self, _: None = None) -> None:
        """Open the review, since decisions about these results have been made elsewhere."""
        if self.keeper.state is None and self.keeper.target is not None:
            self.keeper.begin(unasked=True)

    def _decide_here(self, act: Callable[[], Step], rows: Sequence[int]) -> None:
        """Decide about rows, unless another plane is in view than theirs."""
        if plane := self._session.elsewhere:
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
        state = self.state
        if state is None:
            return
        if problem := self.keeper.why_not or outdated(self._session, rows):
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
        self.learning.remember(state, step)
        self._publish()
        self._go((row if stay else state.next()) if go else None)
        self.part.say("")
        # Replaces an earlier refusal; after the last decision the foot shows the next step.
        self._session.say(state.decision_text(step) if self._session.undecided else "")
        if state.problem:
            refuse(state.problem)
        self._timer.throttle()

    def _train(self, _: bool = False) -> None:
        """Learn a classifier from the decisions at hand, and show it."""
        state, record = self.state, self._session.record
        if state is None or record is None:
            return
        from .decided_elsewhere import Elsewhere

        self._taught = state.review  # it stays while words are ranked anew
        project = self._session.project
        file = None if project is None or not project.file else Path(project.file)
        known = self.learning.known.accepted(state.results)
        elsewhere = Elsewhere(file, self._session.library, known)
        image, measures = state.review.image.content, self._options.measures
        with refusing():
            about = state.results, state.taught, image, elsewhere, measures
            self._training.start(partial(train, self.learning.load(record), *about))

    def _trained(self, trained: Trained) -> None:
        if self.state is None or self.state.review is not self._taught:
            return  # another image is reviewed now
        if self.learned is None:
            self.learned = LearnDialog(self.part)
            self.learned.doubted.connect(self._look_again)
        self.learned.show_trained(trained)

    def _look_again(self, rows: list[int], wall: bool) -> None:
        """Review only these rows, until another order or state is chosen."""
        state = self.state
        if state is not None:
            state.queue.show(rows=rows)
            self._go(rows[0])
            if wall:
                self._session.ask("gallery", "in Review")

    # -- where the user is --------------------------------------------------------------------

    def _go(self, row: int | None) -> None:
        """Go to a row: the table selects it; heatmap and view follow."""
        state = self.state
        if state is None:
            return
        if row is not None:
            state.row = row
            if row != self._session.row:
                self._session.select(row)
        self._show()

    def _row_selected(self, row: int) -> None:
        state = self.state
        if state is not None and row >= 0 and state.row != row:
            state.row = row
            self._show()

    def _arrange(self) -> None:
        state = self.state
        if state is not None:
            state.arrange(self._options.sorting, self._options.show, self.part.word_shown)
            place, self._session.place = self._session.place, -1
            self._go(place if 0 <= place < len(state.queue.keys) else state.queue.next())

    def _show(self) -> None:
        state = self.state
        if state is None:
            return
        target = self.keeper.target
        self.part.image.setText("" if target is None else f"Image: {target.image.name}")
        outdated = state.row in changed_rows(self._session)
        self.part.show_region(state.place, state.choices, "outdated" if outdated else state.flag)
        self._show_crop(state)
        self._show_together()
        decisions = state.review.decisions
        self.part.show_state(
            state.counts,
            state.done,
            undo=decisions.undoable > 0,
            redo=decisions.redoable > 0,
            unsaved=state.review.unsaved,
        )
        if self._canvas.texts.layer is not None:
            self._timer.throttle()  # only the nearest texts are shown

    def _show_crop(self, state: ReviewState) -> None:
        region = None if state.row is None else state.results.regions[state.row]
        reader = None if region is None else self._canvas.crop(region)
        self._cropper.drop()
        if reader is None or not reader[1]:
            self.part.crop.show_crop(None)  # never that of another region
        if reader is not None:
            make, quick = reader
            if quick:
                self.part.crop.show_crop(make())
            else:
                self._cropper.start(make)

    def _show_together(self) -> None:
        state, part = self.state, self.part
        if state is not None:
            part.show_words(state.words)
            part.show_together(len(state.above(*part.together.chosen)))

    # -- options ------------------------------------------------------------------------------

    def _take_options(self) -> None:
        before, now = self._options, self.part.options
        word, self._word = self._word, self.part.word_shown
        if (before, word) == (now, self._word):
            return
        self._options = self.learning.options = now
        state = self.state
        if state is None:
            return
        state.by_word = now.keys == BY_WORD
        if (before.sorting, before.show, word) != (now.sorting, now.show, self._word):
            self._arrange()
        if before.keys != now.keys:
            self._show()
        if before.heatmap != now.heatmap:
            self._focus()
        if before.colors != now.colors:
            self.write_layer()
        if before.model_dump(include=_LEARNING) != now.model_dump(include=_LEARNING):
            self.learning.ask()

    def _focus(self) -> None:
        """Let the heatmap leave the object visible while a review is open."""
        opened = self.keeper.state is not None and not self.keeper.unasked
        heatmap = self._options.heatmap
        self._canvas.focus(dimmed=opened and heatmap == DIMMED, inside=opened and heatmap == INSIDE)

    # -- table and layers ---------------------------------------------------------------------

    def _ranked(self) -> None:
        self._publish()
        self._show()

    def write_layer(self) -> None:
        """Write accepted labels into the layer, in the colours that are preferred now."""
        state, target = self.state, self.keeper.target
        if state is None or target is None:
            return
        labels = state.labels()
        target.layer.write(labels)
        if self._options.colors:
            target.layer.color(labels, state.colors(), seen_on(target.image))
        else:
            target.layer.restore()
        self._show_texts(state, target.layer.layer)
        if target.layer.gone:
            self.part.say(target.layer.gone)

    def _show_texts(self, state: ReviewState, layer: Any) -> None:
        """Show texts: Shapes have their own; Labels get a separate layer."""
        if is_shapes(layer):
            return
        rows = state.accepted_rows() if self._options.colors else {}
        regions, colors = state.results.regions, state.colors() if rows else {}
        self._canvas.show_texts(
            [AcceptedText(regions[row], label, colors[label]) for row, label in rows.items()],
            layer,
            None if state.row is None else regions[state.row],
        )
