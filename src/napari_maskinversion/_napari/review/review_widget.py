"""Widget of the review: decide about one region after another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from qtpy.QtCore import QEvent, QSignalBlocker, QStringListModel, Qt, Signal
from qtpy.QtWidgets import (
    QCheckBox,
    QCompleter,
    QGridLayout,
    QLabel,
    QLineEdit,
    QPushButton,
    QSizePolicy,
    QSlider,
    QWidget,
)

from ...review.decisions import Status, Suggestion
from ...review.exemplars import WEIGHT
from ...review.queue import Order
from ..layers.accepted_texts import MOST
from ..widgets.keys import FIELD, pressed
from ..widgets.sections import MARGINS, Note, combo_box, line, stack
from ..widgets.suggestion_button import SuggestionButton
from .review_keys import KEYS
from .review_state import SHOWN

_ORDERS: Final[tuple[tuple[str, Order], ...]] = (
    ("least certain (margin)", "margin"),
    ("least certain (entropy)", "entropy"),
    ("smallest", "smallest"),
    ("largest", "largest"),
    ("label", "label"),
    ("as given", "given"),
)
_FILTERS: Final[tuple[tuple[str, Status | None], ...]] = (
    ("undecided", "undecided"),
    ("all", None),
    ("accepted", "accepted"),
    ("rejected", "rejected"),
    ("skipped", "skipped"),
)
_BUTTONS: Final = (
    (
        ("accept", "Accept", "Accept the best suggestion"),
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
    """The current region, its suggestions and the actions.

    Signals
    -------
    switched : bool
        Review was switched on or off.
    asked : str
        One of `review_keys.KEYS`, by a button.
    typed : str
        A label to accept.
    arranged, learn_changed
    colored : bool
    save_asked, others_asked
    """

    switched = Signal(bool)
    asked = Signal(str)
    typed = Signal(str)
    arranged = Signal()
    learn_changed = Signal()
    colored = Signal(bool)
    save_asked = Signal()
    others_asked = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.switch = QPushButton("Review")
        self.switch.setCheckable(True)
        self.switch.setToolTip(
            "Decide about one region after another. While it is on, the keys below work on the "
            "canvas and in the table too; Escape ends that."
        )
        self.switch.toggled.connect(self.switched.emit)
        self.hint, self.place, self.counts, self.status = Note(), Note(), Note(), Note()
        self.place.setStyleSheet("font-weight: bold;")
        self.order = combo_box(
            [text for text, _ in _ORDERS], name="Order", tip="Which regions come first"
        )
        self.filter = combo_box(
            [text for text, _ in _FILTERS], name="Show", tip="Which regions to review"
        )
        for combo in (self.order, self.filter):
            combo.currentIndexChanged.connect(lambda _: self.arranged.emit())
        self.suggestions = [SuggestionButton(number) for number in range(1, SHOWN + 1)]
        for number, button in enumerate(self.suggestions, 1):
            button.clicked.connect(lambda _=False, n=number: self.asked.emit(f"pick {n}"))
        self.buttons: dict[str, QPushButton] = {}
        self.label = QLineEdit()
        self._words = QStringListModel(self)
        self.colors = QCheckBox("Colours and text on the canvas")
        self.colors.setToolTip(
            "Show accepted regions in the colour of their label, and the label as text (of Labels "
            f"layers the {MOST} nearest to the region you are at); your own colours come back when "
            "this is off"
        )
        self.colors.toggled.connect(self.colored.emit)
        self.learn = QCheckBox("Learn from decisions")
        self.learn.setToolTip(
            "Suggest by text and by what accepted regions look like, also those of earlier images; "
            "suggestions that change because of it are marked *"
        )
        self.weight = QSlider(Qt.Orientation.Horizontal)
        self.save, self.others = QPushButton("Save again"), QPushButton("Use them anyway")
        self._build()
        self.show_ready(False)

    def _build(self) -> None:
        self._build_label()
        self._build_weight()
        self.save.setToolTip("Try again to save the decisions")
        self.save.clicked.connect(lambda: self.save_asked.emit())
        self.save.hide()
        self.others.setToolTip(
            "Take over the decisions about other pixels where the outline of a region is the same; "
            "they are saved as decisions about this image"
        )
        self.others.clicked.connect(lambda: self.others_asked.emit())
        self.others.hide()
        choices = QWidget()
        grid = QGridLayout(choices)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setHorizontalSpacing(8)
        grid.setVerticalSpacing(4)
        for row, (text, combo) in enumerate((("Order", self.order), ("Show", self.filter))):
            grid.addWidget(QLabel(text), row, 0)
            grid.addWidget(combo, row, 1)
        grid.setColumnStretch(1, 1)
        self.body = QWidget()
        stack(
            self.body,
            choices,
            self.place,
            *self.suggestions,
            line(QLabel(KEYS["type"]), self.label, shares=(0, 1)),
            *(line(*(self._button(*item) for item in items)) for items in _BUTTONS),
            self.counts,
            self.colors,
            self.learn,
            self._slider,
            spacing=4,
        )
        head = line(self.switch, self.hint)
        parts = (head, self.body, self.status, self.others, self.save)
        stack(self, *parts, margins=MARGINS, spacing=4)

    def _build_label(self) -> None:
        self.label.setPlaceholderText("Another label, then Return")
        self.label.setAccessibleName("Another label")
        self.label.setToolTip(
            "Accept a label that is not suggested (T); Return accepts it, Escape leaves the field"
        )
        completer = QCompleter(self._words, self.label)
        completer.setCaseSensitivity(Qt.CaseSensitivity.CaseInsensitive)
        completer.setFilterMode(Qt.MatchFlag.MatchContains)
        self.label.setCompleter(completer)
        self.label.returnPressed.connect(self._take_typed)
        self.label.installEventFilter(self)

    def _build_weight(self) -> None:
        self.weight.setRange(0, 20)
        self.weight.setValue(round(20 * WEIGHT))
        self.weight.setAccessibleName("Weight of accepted regions")
        self.weight.setToolTip("What counts: the text only, or the accepted regions only")
        self.weight.valueChanged.connect(lambda _: self.learn_changed.emit())
        self._slider = line(
            QLabel("text only"), self.weight, QLabel("exemplars only"), shares=(0, 1, 0)
        )
        self._slider.setEnabled(False)
        self.learn.toggled.connect(self._slider.setEnabled)
        self.learn.toggled.connect(lambda _: self.learn_changed.emit())

    def _button(self, action: str, text: str, tip: str) -> QPushButton:
        button = QPushButton(f"{text}  {KEYS[action]}")
        button.setToolTip(f"{tip} ({KEYS[action]})")
        button.setAccessibleName(text)
        button.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        button.clicked.connect(lambda _=False: self.asked.emit(action))
        self.buttons[action] = button
        return button

    # -- what is chosen -----------------------------------------------------------------------

    @property
    def arrangement(self) -> tuple[Order, Status | None]:
        """Order of the queue, and the state of the regions in it."""
        return _ORDERS[self.order.currentIndex()][1], _FILTERS[self.filter.currentIndex()][1]

    @property
    def exemplar_weight(self) -> float | None:
        """Weight of exemplars in 0..1; None if learning is off."""
        return self.weight.value() / 20 if self.learn.isChecked() else None

    # -- what is shown ------------------------------------------------------------------------

    def show_ready(self, ready: bool, opened: bool = False) -> None:
        """Show whether there are results to review, and whether a review is open."""
        self.switch.setEnabled(ready)
        self.body.setVisible(opened)
        self.hint.setVisible(not opened)
        self.hint.setText(_READY if ready else NOTHING)

    def show_switch(self, on: bool) -> None:
        """Show whether the keys work everywhere, without emitting `switched`."""
        with QSignalBlocker(self.switch):
            self.switch.setChecked(on)
        self.switch.setText("Reviewing: Esc ends" if on else "Review")

    def show_region(self, place: str, suggestions: Sequence[Suggestion]) -> None:
        """Show a region's place in the queue and its suggestions."""
        self.place.setText(place)
        for number, button in enumerate(self.suggestions):
            button.show_suggestion(suggestions[number] if number < len(suggestions) else None)
        self.buttons["accept"].setEnabled(bool(suggestions))

    def show_state(self, counts: str, *, undo: bool, redo: bool, unsaved: int) -> None:
        """Show how far the review is."""
        self.counts.setText(counts)
        self.buttons["undo"].setEnabled(undo)
        self.buttons["redo"].setEnabled(redo)
        self.save.setVisible(unsaved > 0)

    def offer_others(self, count: int) -> None:
        """Offer decisions that were made about other pixels, if there are any."""
        self.others.setVisible(count > 0)

    def show_words(self, words: Iterable[str]) -> None:
        """Offer labels for completion."""
        listed = list(words)
        if listed != self._words.stringList():
            self._words.setStringList(listed)

    def say(self, text: str) -> None:
        """Show a line below everything."""
        self.status.say(text)

    def type_label(self) -> None:
        """Put the cursor into the field for another label."""
        self.label.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.label.selectAll()

    def eventFilter(self, watched: Any, event: Any) -> bool:  # noqa: N802 - Qt's name
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
