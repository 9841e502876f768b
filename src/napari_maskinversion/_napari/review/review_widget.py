"""Widget of the review: decide about one region after another."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Final

from qtpy.QtCore import QEvent, QObject, QSignalBlocker, QStringListModel, Qt, Signal
from qtpy.QtWidgets import QCompleter, QLabel, QPushButton, QSizePolicy, QWidget

from ...app.review.review_options import ReviewOptions
from ...app.review.review_state import WORD_KEYS, ReviewState
from ...results.settings import fields_of
from ..widgets.controls import AcceptAll
from ..widgets.form import SettingsForm
from ..widgets.keys import FIELD, pressed
from ..widgets.progress_row import ProgressBar
from ..widgets.sections import MARGINS, Note, button, form, line, stack, text_field
from .region_views import CropView, SuggestionButton
from .review_keys import KEYS

_ORDERS: Final = (
    ("automatic", "automatic"),
    ("most different", "different"),
    ("least certain (margin)", "margin"),
    ("least certain (entropy)", "entropy"),
    ("smallest", "smallest"),
    ("largest", "largest"),
    ("word", "label"),
    ("as given", "given"),
)
_ONLY: Final = "undecided: "
_BUTTONS: Final = (
    (
        ("accept", "Accept", "Accept the best suggestion; of all rows selected in the table"),
        ("reject", "Reject", "Reject all suggestions"),
        ("skip", "Skip", "Skip: leave it for later"),
    ),
    (
        ("back", "Back", "Previous region, without a decision"),
        ("next", "Next", "Next region, without a decision"),
        ("undo", "Undo", "Undo the last decision, also of an earlier day"),
        ("redo", "Redo", "Redo the decision"),
    ),
)
NOTHING: Final = "Nothing to review yet: there are no suggestions."
_READY: Final = "Decide about each region with one key; every decision is saved at once."


class ReviewWidget(QWidget):
    """The current region, its suggestions and the actions."""

    asked = Signal(str)  # One of `review_keys.KEYS`, by a button
    typed = Signal(str)  # A label to accept

    def __init__(self) -> None:
        super().__init__()
        tip = (
            "Decide about one region after another. The keys below work in the whole window; "
            "Escape ends the review."
        )
        self.switch = button("Review", tip)
        self.switch.setCheckable(True)
        self.hint, self.place, self.counts, self.status = Note(), Note(), Note(), Note()
        self.flag = Note(name="Why to check this region")
        self.image = Note(name="Image under review")
        self.learning = Note(name="Why nothing is learned")
        self.place.setStyleSheet("font-weight: bold;")
        self.bar = ProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setFixedHeight(5)
        self.bar.setAccessibleName("Regions decided")
        self.crop = CropView()
        self.suggestions = [SuggestionButton() for _ in range(WORD_KEYS + 1)]
        for number, suggestion_button in enumerate(self.suggestions, 1):
            suggestion_button.clicked.connect(lambda _=False, n=number: self._choose(n))
        self.buttons: dict[str, QPushButton] = {}
        tip = "Accept a word that is not suggested (T); Return accepts it, Escape leaves the field"
        self.label = text_field("Another word, then Return", tip, name="Another word")
        self._words = QStringListModel(self)
        self.together = AcceptAll(
            "where it is suggested",
            "Accept this word for all undecided regions where it is suggested",
            "Accept them in one step; U takes all of them back",
        )
        self.form = SettingsForm(
            fields_of(model=ReviewOptions),
            options={
                "order": {"choices": [(text, value) for text, value in _ORDERS]},
            },
            parent=self,
        )
        tip = "Accept all of one word; order, keys, heatmap, words on the canvas, learning"
        self.more = button("More", tip)
        tip = "See all regions as a wall of crops, and decide about many at once"
        self.gallery = button("Gallery", tip)
        tip = (
            "Learn a classifier from the decisions about this and other images; shows how often it "
            "is right, and saves it"
        )
        self.learn = button("Learn...", tip)
        self.save = button("Save again", "Try again to save the decisions")
        tip = (
            "Use the decisions about the earlier pixels for regions with the same outline, and "
            "save them for this image"
        )
        self.others = button("Use them anyway", tip)
        self._keys: list[str] = []  # what each of the suggestions' buttons stands for
        self._build()
        self.show_ready(False)

    def _build(self) -> None:
        self._build_label()
        self.save.hide()
        self.others.hide()
        choices = QWidget()
        stack(choices, *self.suggestions, spacing=2).addStretch(1)
        choices.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        beside = line(self.crop, choices)
        layout = beside.layout()
        assert layout is not None
        layout.setAlignment(self.crop, Qt.AlignmentFlag.AlignTop)
        options = QWidget()
        rows = form(list(self.form.rows().values()))
        stack(options, self.gallery, self.together, rows, spacing=4)
        self.more.setCheckable(True)
        self.more.toggled.connect(options.setVisible)
        options.hide()
        self.body = QWidget()
        stack(
            self.body,
            self.image,
            self.place,
            self.bar,
            beside,
            self.flag,
            *(line(*(self._button(*item) for item in items)) for items in _BUTTONS),
            line(QLabel(KEYS["type"]), self.label, shares=(0, 1)),
            self.counts,
            line(self.more, self.learn, QWidget(), shares=(0, 0, 1)),
            self.learning,
            options,
            spacing=4,
        )
        head = line(self.switch, self.hint)
        parts = (head, self.body, self.status, self.others, self.save)
        stack(self, *parts, margins=MARGINS, spacing=4)

    def _build_label(self) -> None:
        completer = QCompleter(self._words, self.label)
        completer.setCaseSensitivity(Qt.CaseSensitivity.CaseInsensitive)
        completer.setFilterMode(Qt.MatchFlag.MatchContains)
        self.label.setCompleter(completer)
        self.label.returnPressed.connect(self._take_typed)
        self.label.installEventFilter(self)

    def _button(self, action: str, text: str, tip: str) -> QPushButton:
        action_button = button(
            f"{text}  {KEYS[action]}",
            f"{tip} ({KEYS[action]})",
            lambda: self.asked.emit(action),
            name=text,
        )
        action_button.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.buttons[action] = action_button
        return action_button

    # -- what is chosen -----------------------------------------------------------------------

    @property
    def options(self) -> ReviewOptions:
        """The options as they are set."""
        values = self.form.values()
        if self.word_shown:  # it is of these results, and not kept
            values["show"] = "undecided"
        return ReviewOptions(**values)

    @property
    def word_shown(self) -> str:
        """The only word to be reviewed; "" for all."""
        _, chosen, word = str(self.form["show"].currentData()).partition(_ONLY)
        return word if chosen else ""

    def _choose(self, number: int) -> None:
        key = self._keys[number - 1]
        action = f"pick {key}" if key else "accept"  # the best suggestion has no number
        self.asked.emit(action)

    # -- what is shown ------------------------------------------------------------------------

    def show_ready(self, ready: bool, opened: bool = False) -> None:
        """Show whether there are results to review, and whether a review is open."""
        self.switch.setEnabled(ready)
        self._name_switch()
        self.body.setVisible(opened)
        self.hint.setVisible(not opened)
        self.hint.setText(_READY if ready else NOTHING)

    def show_switch(self, on: bool) -> None:
        """Show whether the keys work everywhere, without a signal."""
        with QSignalBlocker(self.switch):
            self.switch.setChecked(on)
        self._name_switch()

    def _name_switch(self) -> None:
        on = self.switch.isChecked() and self.switch.isEnabled()
        self.switch.setText("Reviewing: Esc ends" if on else "Review")

    def show_review(self, state: ReviewState, image: str, outdated: bool) -> None:
        """Show the current region, what the keys accept, and how far the review is."""
        choices, decisions = state.choices, state.review.decisions
        flag = "outdated" if outdated else state.flag
        self.image.setText(image and f"Image: {image}")
        self.place.setText(state.place)
        self.flag.say(flag and f"{flag[0].upper()}{flag[1:]}")
        self._keys = [choice.key for choice in choices]
        shown = max(len(choices), 1)
        pairs = zip_longest(self.suggestions, choices)
        for number, (suggestion_button, choice) in enumerate(pairs):
            suggestion_button.show_choice(choice)
            suggestion_button.setVisible(number < shown)
        self.buttons["accept"].setEnabled(any(choice.suggestion for choice in choices))
        self.buttons["undo"].setEnabled(decisions.undoable > 0)
        self.buttons["redo"].setEnabled(decisions.redoable > 0)
        self.counts.setText(state.counts)
        done, total = state.done
        self.bar.setRange(0, max(total, 1))
        self.bar.setValue(done)
        self.save.setVisible(state.review.unsaved > 0)
        self.show_together(state)

    def show_together(self, state: ReviewState) -> None:
        """Offer words, and show how many regions would be accepted together as the chosen one."""
        words = state.words
        if words != self._words.stringList():  # for completion, too
            self._words.setStringList(words)
            self.together.offer(words)
            self.together.setVisible(bool(words))
            self._offer_words(words)
        count = len(state.above(*self.together.chosen))
        self.together.accept.setText(f"Accept {count:,}")
        self.together.accept.setEnabled(count > 0)

    def _offer_words(self, words: Sequence[str]) -> None:
        """Offer words under Show, below the states."""
        box, chosen = self.form["show"], self.word_shown
        with QSignalBlocker(box):
            for place in reversed(range(box.count())):
                if str(box.itemData(place)).startswith(_ONLY):
                    box.removeItem(place)
            for word in words:
                box.addItem(f"{_ONLY}{word}", f"{_ONLY}{word}")
            if chosen in words:
                box.setCurrentText(f"{_ONLY}{chosen}")
            elif chosen:
                box.setCurrentIndex(0)
        if chosen and chosen not in words:
            self.form.changed.emit()

    def say(self, text: str) -> None:
        """Show a line below everything."""
        self.status.say(text)

    def type_label(self) -> None:
        """Put the cursor into the field for another label."""
        self.label.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.label.selectAll()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        """Let Escape leave the field for another label."""
        if (
            watched is getattr(self, "label", None)
            and event.type() == QEvent.Type.KeyPress
            and pressed(event, FIELD) == "leave"
        ):
            self._leave_field()
            return True
        return False

    def _take_typed(self) -> None:
        text = self.label.text()
        self._leave_field()
        self.typed.emit(text)

    def _leave_field(self) -> None:
        self.label.clear()
        self.switch.setFocus(Qt.FocusReason.OtherFocusReason)
