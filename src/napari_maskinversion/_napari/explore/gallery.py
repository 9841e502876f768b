"""The gallery: a wall of regions, decided many at a time; in a dock of its own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import zip_longest
from typing import Any, Final

import numpy as np
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QLineEdit, QWidget

from ...app.explore.region_sources import (
    IMAGE,
    LIBRARY,
    PROJECT,
    SOURCES,
    SUBJECTS,
    RegionTable,
    no_regions,
    open_region,
    shown_file,
    words_of,
)
from ...app.explore.searches import FoundRegions
from ...app.review.decision_requests import SHOWN as SHOWN_IMAGE
from ...app.review.decision_requests import (
    DecisionOutcome,
    DecisionRequest,
    Outline,
    TakeBackRequest,
)
from ...app.session import (
    RegionOrder,
    RegionPlace,
    ResultRecord,
    Topic,
    job_kinds,
    only_ranked_again,
    same_run,
)
from ...base.errors import InputError
from ...base.identity import ImagePlace, RegionKey
from ...base.wording import counted
from ...batch.project_decisions import ProjectRegions
from ...review.decisions import Status
from ..widgets.keys import REVIEW, named
from ..widgets.sections import (
    HAS_OWN_KEYS,
    Note,
    Section,
    button,
    combo_box,
    debouncer,
    line,
    refill,
    stack,
)
from ..workers.notify import refuse
from .gallery_model import IN_REVIEW, SHOWN, SORTS, WallModel, WallView, read_pictures
from .work_section import Shared

_TIP: Final = "Regions as a wall of crops, decided together"
_LOOK: Final = 30  # milliseconds after scrolling
_FOLLOW: Final = 100  # milliseconds after the last decision
_STATES: Final[dict[str, Status]] = {"accept": "accepted", "reject": "rejected", "skip": "skipped"}
_EMPTY: Final = "There are no regions yet: suggest words, or add results to the library."
_NOTHING: Final = "Mark regions first: drag, click with Shift or Ctrl, or press Ctrl+A."


class Gallery(Topic, QWidget):
    """The wall, what it shows and in which order, and the decisions about what is marked."""

    def __init__(self, shared: Shared) -> None:
        super().__init__()
        self._viewer, self._session = shared.viewer, shared.session
        self._table = no_regions()
        self._only: list[
            tuple[ImagePlace, RegionKey]
        ] = []  # what "in Review" shows, if it was asked
        self._usual_sort = SORTS[0]  # what it is sorted by unless something was looked for
        self._is_found = False  # whether the table has only what a search has found
        self._linking = False  # marks come from the session, or go there
        self._record: ResultRecord | None = None  # The results that "This image" shows
        self._done: list[DecisionOutcome] = []  # What can be taken back, the last one at the end
        self.opener = button("Open the gallery", _TIP, self.open)
        content = QWidget()
        stack(content, self.opener, margins=(4, 4, 4, 4))
        self.section = Section("Gallery", content, tip=_TIP)
        self.source = combo_box(SOURCES, name="Regions of", tip="Which regions to show")
        self.sort = combo_box(SORTS, name="Order", tip="The order of the regions")
        self.shown = combo_box(SHOWN, name="Show", tip="Which of them to show")
        tip = "Read the regions and decisions again; what was searched for is dropped"
        self.reload = button("Reload", tip, self._reload)
        self.model = WallModel()
        self.wall = WallView(self.model)
        self.about = Note(name="How many regions there are")
        self.buttons = {
            name: self._button(name, what)
            for name, what in (
                ("accept", "Accept what is suggested for each marked region"),
                ("reject", "Reject what is suggested for the marked regions"),
                ("skip", "Leave the marked regions for later"),
                ("undo", "Take back the last decision of the gallery, in all its images"),
            )
        }
        tip = "Give the marked regions this word: choose it, or type it and Return"
        self.word = combo_box(name="Word for the marked regions", tip=tip, typed=True)
        self.loader = shared.session.jobs.of(job_kinds.READ_GALLERY)
        self.pictures = shared.session.jobs.of(job_kinds.READ_PICTURES)
        self._look_later = debouncer(self, _LOOK, self._look)
        self._follow_later = debouncer(self, _FOLLOW, self._follow_review)
        self._mark_later = debouncer(self, _LOOK, self._mark_elsewhere)
        self._build()

    def _button(self, action: str, tip: str) -> Any:
        key = named(REVIEW)[action].keys[0]
        text = action.capitalize()
        return button(f"{text}  {key}", f"{tip} ({key})", partial(self.act, action), name=text)

    def _build(self) -> None:
        self.setProperty(HAS_OWN_KEYS, True)
        self.setMinimumSize(300, 220)
        field = self.word.lineEdit()
        assert isinstance(field, QLineEdit)
        field.setPlaceholderText(f"Another word  {named(REVIEW)['type'].keys[0]}")
        field.returnPressed.connect(self._take_word)
        self.word.activated.connect(lambda _: self._take_word())
        head = line(self.source, self.sort, self.shown, self.reload, shares=(2, 2, 1, 0))
        foot = line(*self.buttons.values(), self.word, shares=(1, 1, 1, 1, 2))
        stack(self, head, self.wall, self.about, foot, margins=(4, 4, 4, 4), spacing=4)
        self.source.activated.connect(lambda _: self.load())
        self.sort.activated.connect(lambda _: self._choose_sort())
        self.shown.activated.connect(self._choose_shown)
        self.wall.asked.connect(self.act)
        self.wall.opened.connect(lambda row: open_region(self._session, self._table.place(row)))
        self.wall.seen.connect(self._look_later.throttle)
        self.wall.selectionModel().selectionChanged.connect(self._marked)
        self._show(no_regions())

    # -- for the panel ------------------------------------------------------------------------

    def bind(self) -> None:
        """Follow the session."""
        run = self._session.run.events
        review = self._session.review.events
        project = self._session.project.events
        explore = self._session.explore.events
        self.after(self._show_loading, self.loader.changed)
        self.after(self._answer, self._session.explore.show_gallery)
        self.after(self._decided, self._session.decisions.changed)
        self.after(self._record_changed, run.record)
        self.after(lambda _: self._table.find_here(self._session), project.state)
        self.after(self._mark_here, review.row, review.rows, review.marked)
        self.after(self._project_changed, project.state)
        self.after(lambda _: self._source_changed(LIBRARY), explore.library)
        self.after(self._order_changed, explore.order)
        self.after(lambda _: self._say_newer(LIBRARY), explore.library_changes)
        self.after(lambda _: self._say_newer(PROJECT), project.computed)
        self.after(lambda _: self._follow_later.throttle(), review.changes)
        self._file = "" if self._session.project.state is None else self._session.project.state.file
        self._record = self._session.run.record

    def stop(self) -> None:
        """Follow the session no more, and close the dock."""
        super().stop()
        self._record = None
        for later in (self._look_later, self._mark_later, self._follow_later):
            later.cancel()
        self._show(no_regions())
        window = getattr(self._viewer, "window", None)
        if window is not None and self.parent() is not None:
            window.remove_dock_widget(self)

    def open(self) -> None:
        """Show the gallery below the canvas, with its regions, and go there."""
        self._bring()
        self.wall.setFocus(Qt.FocusReason.OtherFocusReason)

    def _bring(self) -> None:
        window = getattr(self._viewer, "window", None)
        if window is not None and self.parent() is None:
            window.add_dock_widget(self, name="Gallery", area="bottom", add_vertical_stretch=False)
        self.show()
        if dock := self.parentWidget():
            dock.raise_()
        self.load()

    def _answer(self, asked: tuple[Sequence[RegionKey], Sequence[RegionPlace]] | None) -> None:
        """Open the gallery; with regions of the results and other places, only these."""
        self._only = []
        if asked:
            keys, places = asked
            self._only = [(shown_file(self._session), key) for key in keys]
            self._only += [(place.file, place.key) for place in places]
            own = LIBRARY if self._session.project.state is None else PROJECT
            self.source.setCurrentText(own if places else IMAGE)
            self.shown.setCurrentText(IN_REVIEW)
        self.open()

    def _choose_shown(self, _: int) -> None:
        self._only = []
        self._arrange()

    # -- a search ---------------------------------------------------------------------------------

    def _order_changed(self, order: RegionOrder | None) -> None:
        """Show what a search has found, the most similar first; without one all, as usual."""
        usual = [self.sort.itemText(place) for place in range(len(SORTS))]
        refill(self.sort, usual if order is None else [*usual, order.title])
        if order is None:
            self.sort.setCurrentText(self._usual_sort)
            if self._is_found and self.isVisible():
                self.load()
            else:
                self._is_found = False
                self._arrange()
            return
        self._only = []
        self.sort.setCurrentIndex(len(SORTS))
        self.shown.setCurrentText(SHOWN[0])
        self.source.setCurrentText(order.source)
        self._bring()

    @property
    def _order(self) -> RegionOrder | None:
        """The search that the wall is sorted by."""
        return self._session.explore.order

    def _choose_sort(self) -> None:
        """Sort as chosen; another order than that of a search ends it."""
        if self.sort.currentIndex() < len(SORTS):
            self._usual_sort = self.sort.currentText()
        if self._order is not None and self.sort.currentIndex() < len(SORTS):
            self._session.explore.order = None
        else:
            self._arrange()

    def _reload(self) -> None:
        """Read everything again."""
        if self._is_found:
            self._session.explore.order = None
        self.load()

    def _record_changed(self, record: ResultRecord | None) -> None:
        before, self._record = self._record, record
        if only_ranked_again(before, record):
            return  # as after each decision: `follow` takes the suggestions
        is_new = not same_run(before, record)
        if is_new:  # the review undoes what was decided about the results before
            self._done = [done for done in self._done if SHOWN_IMAGE not in done.steps]
        if is_new or (record is not None and record.settled):
            self._source_changed(IMAGE)
        self._table.find_here(self._session)

    def _project_changed(self, project: Any) -> None:
        file = "" if project is None else project.file
        if file != self._file:
            self._file = file
            # The images of another project may have the same names.
            self._done = [
                done for done in self._done if not isinstance(done.source, ProjectRegions)
            ]
            self._say_count()
            self._source_changed(PROJECT)

    def _source_changed(self, source: str) -> None:
        if self.source.currentText() == source and self.isVisible():
            self.load()

    # -- what is shown ------------------------------------------------------------------------

    def load(self) -> None:
        """Read the regions of the source, or say why there are none."""
        source, session, order = self.source.currentText(), self._session, self._order
        self._is_found = False
        if isinstance(order, FoundRegions) and source == order.source != IMAGE:
            self.loader.drop()
            self._is_found = True
            self._show(order.table)
            self.wall.scrollToTop()
            return
        try:
            work = SOURCES[source](session)
        except InputError as error:
            self.loader.drop()
            self._cannot(str(error))
            return
        self.about.say("Reading ...")
        self.loader.start(work, self._show, failed=self._cannot, about=[SUBJECTS[source]])

    def _cannot(self, reason: str) -> None:
        self._show(no_regions())
        self._why_none = reason
        self.about.say(reason)

    def _show(self, table: RegionTable) -> None:
        self._table, self._is_new, self._has_newer = table, True, False
        self._why_none = _EMPTY
        if self._order is not None and self._is_found:
            self._why_none = self._order.about
        keys = [f"{key.keys[0]}  " for name, key in named(REVIEW).items() if "pick" in name]
        self.word.clear()
        for key, word in zip_longest(keys[: len(table.words)], table.words, fillvalue=""):
            self.word.addItem(f"{key}{word}", word)
        self.word.setCurrentIndex(-1)
        table.find_here(self._session)
        self._arrange()
        if len(table.frame):
            self._follow_later.throttle()
        if table.problems:
            more = f" And {len(table.problems) - 1} more." * (len(table.problems) > 1)
            refuse(f"Left out of the gallery: {table.problems[0].rstrip('.')}.{more}")

    def _arrange(self) -> None:
        self.pictures.drop()
        review, queue = self._session.reviewed, np.zeros(0, np.intp)
        if self._only:
            queue = np.array([self._table.row_of(*one) for one in self._only], np.intp)
        elif review is not None and len(self._table.here):
            queue = self._table.here[review.queue.rows]
        similarities = None
        if self._order is not None:
            similarities = self._order.similarities(self._table.drawn_places())
        self.model.show(
            self._table, self.sort.currentText(), self.shown.currentText(), queue, similarities
        )
        self._mark_here()
        self._say_count()
        self._look_later.throttle()

    def _look(self) -> None:
        """Read the pictures of the regions in view, and then of the page below."""
        if not self.wall.isVisible():
            return
        first, last = self.wall.items_in_view
        rows = self.model.without_picture(first, 2 * last - first)
        if rows:
            work = partial(read_pictures, self._table, rows)
            self.pictures.start(work, news=self.model.take_pictures)

    def _show_loading(self) -> None:
        if self.loader.job is not None and self.loader.job.text:
            self.about.say(f"{self.loader.job.text} ...")

    def _say_count(self) -> None:
        frame = self._table.frame
        if not len(frame):
            self.about.say(self._why_none)
        else:
            decided = int((frame["decision"] != "undecided").sum())
            marked = len(self.wall.marked)
            text = f"{counted(len(frame), 'region')}, {decided:,} decided"
            if self._order is not None and self._is_found:
                text = f"{self._order.about} {decided:,} decided"
            if not self.model.rowCount():
                text += f", none {self.shown.currentText()}; choose {SHOWN[0]!r} to see them"
            text += f"; {marked:,} marked" * (marked > 0)
            self.about.say(
                f"{text}. There are newer ones: press Reload." if self._has_newer else text
            )
        for name, one in self.buttons.items():
            one.setEnabled(bool(self._done) if name == "undo" else len(frame) > 0)

    # -- marks, here and in the rest of the panel ---------------------------------------------

    def _marked(self, *_: object) -> None:
        self._say_count()
        if not self._linking:
            self._mark_later.throttle()

    def _mark_elsewhere(self) -> None:
        """Select in table, canvas and map what is marked here."""
        self._linking = True
        self._table.select(self._session, self.wall.marked)
        self._linking = False

    def _mark_here(self, _: object = None) -> None:
        """Mark here what is selected there."""
        if self._linking:
            return
        rows = self._table.selected(self._session)
        if not np.array_equal(rows, np.sort(self.wall.marked)):
            self._linking = True
            self.wall.mark(rows)
            self._linking = False

    def _redraw(self) -> None:
        """Show decisions where the regions stand; nothing moves while somebody works."""
        self.model.redraw.emit()
        self._say_count()

    def _follow_review(self) -> None:
        """Show what the review of the shown image has decided, and what it suggests by now."""
        followed = self._table.follow(self._session)
        self._redraw()
        if self._is_new and followed and not len(self.wall.marked):
            self._is_new = False
            self._arrange()  # by what the review suggests

    def _say_newer(self, source: str) -> None:
        """Say that there are other results by now than on the wall."""
        self._has_newer = self._has_newer or self.source.currentText() == source
        self._say_count()

    # -- decisions ----------------------------------------------------------------------------

    def act(self, action: str) -> None:
        """Do what a key of the review means for all that is marked."""
        if action == "undo":
            self.undo()
        elif action == "type":
            self.word.setFocus(Qt.FocusReason.ShortcutFocusReason)
        elif action in _STATES:
            self.decide(_STATES[action])
        elif action == "end":
            self.wall.clearSelection()
        elif action.startswith("pick "):
            for word in self._table.words[int(action[5:]) - 1 :][:1]:
                self.decide("accepted", word)

    def _take_word(self) -> None:
        place, text = self.word.currentIndex(), self.word.currentText()
        word = self.word.itemData(place) if text == self.word.itemText(place) else text
        self.word.setCurrentIndex(-1)
        self.word.clearEditText()
        self.wall.setFocus(Qt.FocusReason.OtherFocusReason)
        if word := " ".join(str(word or "").split()):
            known = {one.casefold(): one for one in self._table.words}
            self.decide("accepted", known.get(word.casefold(), word))

    def decide(self, status: Status, label: str = "") -> None:
        """Decide about all marked regions at once."""
        rows, table = self.wall.marked, self._table
        if not len(rows):
            refuse(_NOTHING)
            return
        if status == "accepted" and not label and not words_of(table.frame).iloc[rows].any():
            refuse("None of these regions has a suggestion; give them a word.")
            return
        frame = table.frame.iloc[rows]
        keys = map(RegionKey, map(int, frame["region"]), frame["position"])
        seen: dict[str, dict[RegionKey, Outline]] = {}
        for row, image, key in zip(rows, frame["image"], keys, strict=True):
            seen.setdefault(image, {})[key] = table.outline(row)
        regions: dict[str, list[RegionKey]] = {}
        files: dict[str, ImagePlace] = {}
        for image, outlines in seen.items():
            regions[image] = list(outlines)
            files[image] = table.file(image)
        request = DecisionRequest(
            regions=regions,
            status=status,
            label=label,
            seen=seen,
            images=files,
            source=None if table.source is None else table.source(frame["id"].tolist()),
        )
        self._session.review.decide.emit(request)

    def undo(self) -> None:
        """Take back the last decision of the gallery, in all images."""
        if self._done:
            self._session.review.decide.emit(TakeBackRequest(self._done[-1]))

    def _decided(self, outcome: DecisionOutcome) -> None:
        """Show decisions about images, and keep those of the gallery to be taken back."""
        request = outcome.request
        if request is None:
            return  # the open review is followed with its suggestions, after a pause
        if isinstance(request, TakeBackRequest):
            self._keep_rest(request.outcome, request.outcome.rest(outcome))
        elif isinstance(request, DecisionRequest) and outcome.count and not outcome.project_closed:
            self._done.append(outcome)
        self._table.take(outcome)
        self._redraw()

    def _keep_rest(self, undone: DecisionOutcome, rest: DecisionOutcome | None) -> None:
        """Keep only what remains to be taken back of an outcome."""
        kept: list[DecisionOutcome] = []
        for outcome in self._done:
            if outcome is not undone:
                kept.append(outcome)
            elif rest is not None:
                kept.append(rest)
        self._done = kept
