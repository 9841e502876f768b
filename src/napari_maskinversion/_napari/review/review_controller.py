"""Connects the review's widget, decisions, table and layers."""

from __future__ import annotations

from typing import Final

from qtpy.QtCore import QObject
from qtpy.QtWidgets import QWidget

from ...app.review.decision_requests import DecisionOutcome, WordRequest
from ...app.review.learning import Trained
from ...app.review.review_options import BY_WORD, DIMMED, INSIDE, ReviewOptions
from ...app.review.review_state import ReviewState
from ...app.review.review_target import ReviewTarget
from ...app.session import (
    ResultRecord,
    RunState,
    Snapshot,
    Topic,
    changed_rows,
    job_kinds,
    same_regions,
    same_run,
    session_of,
)
from ...app.work.model_store import ModelStore
from ...base import progress_words as words
from ...base.identity import RegionKey
from ..layers.accepted_texts import AcceptedText
from ..layers.results_on_canvas import ResultsOnCanvas
from ..widgets.sections import debouncer
from ..workers.notify import inform, refuse, report
from .decision_actions import DecisionActions
from .decision_worker import DecisionWorker
from .learn_dialog import LearnDialog
from .review_keeper import ReviewKeeper, place_of
from .review_keys import ReviewKeys
from .review_learning import ReviewLearning
from .review_widget import ReviewWidget

_LEARNING: Final = {"learn", "other_words"}  # options
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
        self.keeper = ReviewKeeper(canvas.viewer, self._session, self)
        self.learning = ReviewLearning(self._session, store, self)
        self.actions = DecisionActions(self._session, self.keeper, self)
        self.decider = DecisionWorker(self._session, self.keeper, self)
        self._options, self._word = ReviewOptions(), ""
        self.learned: LearnDialog | None = None
        self._cropping = self._session.jobs.of(job_kinds.CROP)
        self._timer = debouncer(self, _LAYER_PAUSE, self.write_layer)
        self._stay = False  # the user's region when the next review opens
        self._connect()

    def _connect(self) -> None:
        part, keeper = self.part, self.keeper
        part.switch.toggled.connect(self._switched)
        part.asked.connect(self.act)
        part.typed.connect(self.actions.accept_typed)
        part.together.accept.clicked.connect(
            lambda _=False: self.actions.accept_together(*part.together.chosen)
        )
        part.together.changed.connect(self._show_together)
        part.form.changed.connect(self._take_options)
        part.gallery.clicked.connect(lambda _=False: self._session.explore.show_gallery.emit(None))
        part.learn.clicked.connect(lambda _=False: self.learning.train())
        part.save.clicked.connect(self._save)
        part.others.clicked.connect(self._use_others)
        keeper.ready.connect(self._ready)
        keeper.opened.connect(self._opened)
        keeper.closed.connect(self._closed)
        keeper.left.connect(self._left)
        keeper.refused.connect(self._cannot)
        self.keys.pressed.connect(self.act)
        self.actions.went.connect(self._go)
        self.learning.trained.connect(self._trained)
        self.learning.noted.connect(part.learning.say)
        self.learning.known.problem.connect(inform)

    @property
    def state(self) -> ReviewState | None:
        """The review of the results shown; None if they are of another run."""
        state: ReviewState | None = self._session.reviewed
        return state

    def bind(self) -> None:
        """Follow the session."""
        run = self._session.run.events
        review = self._session.review.events
        self.after(self._run_changed, run.progress)
        self.after(self._record_changed, run.record)
        self.after(self._row_selected, review.row)
        self.after(lambda _: self._show(), run.changed_regions, run.image_changed)
        self.after(self._decided, self._session.decisions.changed)
        self.decider.follow()
        self._record_changed(self._session.run.record)

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
            self.learning.follow()
            self._publish()
            self._show()
        elif not same_run(before, record):
            self.learning.catch_up()
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
        session = self._session
        if session.reviewed is not None:
            session.review.decided_count = session.reviewed.done[0]
        session.review.changes += 1

    def stop(self) -> None:
        """Close the review and release the layers."""
        super().stop()
        self.decider.stop()
        self._record = self._expected = None
        self.keys.active = self._session.review.reviewing = False
        self._timer.cancel()
        for act in (self.write_layer, self.keeper.stop, self._publish):
            try:
                act()
            except Exception as error:  # the file's lock must be released even if the layer fails
                report(error)
        self._canvas.texts.remove()
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
            own = self._session.run.results is not None and self._canvas.image is target.image
            self.keys.active = own
            self.part.show_ready(own, opened=own)
            if own:
                self._show()

    def _switched(self, on: bool) -> None:
        self.part.show_switch(on)
        if not on:
            self._session.review.reviewing = False
            return
        if self.keeper.state is None:
            self._stay = False
            self.part.say(f"{words.OPENING} ...")
            self.keeper.begin()
            return
        self._session.review.reviewing = True
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
        self.part.others.setVisible(state.review.restored.unused > 0)
        self.part.say(" ".join(messages))
        if self._stay or self.keeper.unasked:
            state.arrange(self._options.sorting, self._options.show, self.part.word_shown)
            self._go(self._session.review.row if self._session.review.row >= 0 else None)
        else:
            self._arrange()
        self.learning.begin(state)
        self.write_layer()
        self._session.review.reviewing = self.part.switch.isChecked()

    def _closed(self) -> None:
        self.keys.active = False
        self._focus()
        self._canvas.texts.remove()
        self.part.others.hide()
        self.part.show_ready(self.keeper.target is not None)
        self._publish()

    def _left(self, name: str) -> None:
        """Leave a review whose layers are gone."""
        self._session.review.reviewing = False
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
        state = self.keeper.state
        if state is None:
            self.part.show_switch(False)
            self._session.review.reviewing = False
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
        if action == "end":
            self.part.show_switch(False)
            self._session.review.reviewing = False
        elif action == "type" and self.state is not None:
            self.part.type_label()
        elif not self.actions.act(action):
            self.part.say("You can decide after the run.")

    def _decided(self, outcome: DecisionOutcome) -> None:
        """Follow decisions about the image under review."""
        target, state = self.keeper.target, self.state
        step = () if target is None else outcome.step_at(place_of(target))
        if not step:
            return
        if self.keeper.state is None:  # they are in the file: show them
            self.keeper.begin(unasked=True)
        elif state is None:
            return
        elif outcome.request is None:
            self.learning.remember(state, step)
            self._publish()
            self.part.say("")
            self._timer.throttle()
            self._show()
        elif isinstance(outcome.request, WordRequest):
            # A key must not meet what was accepted here.
            reviewing = self._session.review.reviewing
            self._go(state.next() if reviewing else state.row_of(step))

    # -- learning -----------------------------------------------------------------------------

    def _trained(self, trained: Trained) -> None:
        if self.learned is None:
            self.learned = LearnDialog(self.part, self._session.jobs)
            self.learned.doubted.connect(self._look_again)
        self.learned.show_trained(trained)

    def _look_again(self, trained: Trained, wall: bool) -> None:
        """Review what is doubtful, until another order or state is chosen; on the wall, all."""
        state, rows = self.state, dict[RegionKey, int]()
        # Another image may be open by now, or other regions of it.
        if state is not None and state.review.image.content == trained.image:
            known = {*state.queue.keys}
            rows = {key: state.queue.row(key) for key in trained.doubtful if key in known}
        if state is not None and rows:
            state.queue.show(rows=rows.values())
            self._go(next(iter(rows.values())))
        if wall:
            self._session.explore.show_gallery.emit(([*rows], trained.places))

    # -- where the user is --------------------------------------------------------------------

    def _go(self, row: int | None) -> None:
        """Go to a row: the table selects it; heatmap and view follow."""
        state = self.state
        if state is None:
            return
        if row is not None:
            state.row = row
            if row != self._session.review.row:
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
            place, self._session.review.place = self._session.review.place, -1
            self._go(place if 0 <= place < len(state.queue.keys) else state.queue.next())

    def _show(self) -> None:
        state = self.state
        if state is None:
            return
        target = self.keeper.target
        name = "" if target is None else str(target.image.name)
        self.part.show_review(state, name, state.row in changed_rows(self._session))
        self._show_crop(state)
        if self._canvas.texts.layer is not None:
            self._timer.throttle()  # only the nearest texts are shown

    def _show_crop(self, state: ReviewState) -> None:
        region = None if state.row is None else state.results.regions[state.row]
        reader = None if region is None else self._canvas.crop(region)
        self._cropping.drop()
        if reader is None or not reader[1]:
            self.part.crop.show_crop(None)  # never that of another region
        if reader is not None:
            make, quick = reader
            if quick:
                self.part.crop.show_crop(make())
            else:
                self._cropping.start(make, self.part.crop.show_crop, about=[lambda _: state.row])

    def _show_together(self) -> None:
        if self.state is not None:
            self.part.show_together(self.state)

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
        if before.words_on_canvas != now.words_on_canvas:
            self.write_layer()
        learns = before.learn or now.learn
        if learns and before.model_dump(include=_LEARNING) != now.model_dump(include=_LEARNING):
            self.learning.ask()

    def _focus(self) -> None:
        """Let the heatmap leave the object visible while a review is open."""
        opened = self.keeper.state is not None and not self.keeper.unasked
        heatmap = self._options.heatmap
        self._canvas.focus(dimmed=opened and heatmap == DIMMED, inside=opened and heatmap == INSIDE)

    # -- table and layers ---------------------------------------------------------------------

    def write_layer(self) -> None:
        """Write accepted words into the features of the layer, and onto the canvas if wanted."""
        state, target = self.state, self.keeper.target
        if state is None or target is None:
            return
        target.features.write_words(state.labels())
        self._show_texts(state, target)
        if target.features.removed_note:
            self.part.say(target.features.removed_note)

    def _show_texts(self, state: ReviewState, target: ReviewTarget) -> None:
        texts = []
        if self._options.words_on_canvas:
            removed = target.features.removed
            for row, word in state.accepted_rows().items():
                region = state.results.regions[row]
                if not removed.issuperset(region.members or (region.id,)):
                    texts.append(AcceptedText(region, word))
        current = None if state.row is None else state.results.regions[state.row]
        self._canvas.show_texts(texts, target.layer, current)
