"""The words to choose from, prompts and limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakSet

from qtpy.QtCore import Signal
from qtpy.QtGui import QFontMetrics, QTextCursor
from qtpy.QtWidgets import QMenu, QPlainTextEdit, QWidget

from ...app.layer_input.layer_facts import vocabulary_of
from ...app.session import Session, Topic, job_kinds
from ...base.errors import InputError
from ...base.wording import counted
from ...language.labels.files import LabelFile
from ...language.labels.label import Label, clashes, parse_text, to_text, word_lists
from ...language.labels.learned import Learned, learned_of, read_head
from ...language.labels.presets import TITLES, preset, unknown_words_note
from ...language.labels.vocabulary import Vocabulary
from ...results.settings import fields_of
from ..widgets.controls import number_box
from ..widgets.form import SettingsForm, decimals_of
from ..widgets.sections import Note, button, check_box, debouncer, form, line, stack
from ..workers.notify import refuse, refusing
from .label_dialogs import LabelDialog, LabelFiles
from .limits_page import TemplatesWidget

if TYPE_CHECKING:
    from napari.layers import Image


# Lines of the field: more of them while no table needs the room.
_LINES, _MOST_LINES = 4, 10
# Longer texts (some 500 labels) are counted in a worker, after a pause in typing.
_COUNTED_AT_ONCE = 5_000
_PAUSE = 400  # milliseconds
_LIMITS = (
    "Suggestions below these limits are flagged, also in the current table. Automatic: as "
    "calibrated for the model."
)


@dataclass(frozen=True, slots=True)
class TypedLabels:
    """The labels in a text."""

    text: str  # As `Vocabulary.parse` reads it
    # Without groups and colours; empty where the text cannot be read
    labels: tuple[Label, ...] = ()
    repeated: int = 0  # Entries that repeat a label; their synonyms are kept
    problem: str = ""  # Why these labels cannot be used, or empty

    @classmethod
    def read(cls, text: str) -> TypedLabels:
        """Parse a text; errors become `problem`."""
        try:
            labels = tuple(parse_text(text))
            repeated = sum(1 for _ in word_lists(text)) - len(labels)
        except InputError as error:
            return cls(text, problem=str(error))
        for _, _, says in clashes(labels):
            return cls(text, labels, repeated, f"{says}; keep one of them.")
        return cls(text, labels, repeated)

    @property
    def summary(self) -> str:
        """One line for the user."""
        count = len(self.labels)
        if self.problem:
            return self.problem
        if not count:
            return "no words yet"
        message = counted(count, "word")
        if self.repeated:
            message += f", {self.repeated:,} repeated"
        return message + (": every region gets it" if count == 1 else "")


class VocabularyWidget(Topic, QWidget):
    """Labels, one per line, their prompts, and when no label fits."""

    marked = Signal()  # groups or colours

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._prefilled = ""
        self._brought: WeakSet[Image] = WeakSet()  # images whose words were filled in
        self._origin = ""  # the image whose words replaced the user's
        # Groups and colours by label, also of labels that are gone: undo may restore them.
        self._marks: dict[str, tuple[str, str]] = {}
        self._typed = TypedLabels("")
        self.dialog: LabelDialog | None = None
        self.files = LabelFiles(self, session.jobs)
        self.text = QPlainTextEdit()
        self.text.setPlaceholderText("One word per line, for example\ndog\ncat\nsofa")
        self.text.setAccessibleName("Words, one per line")
        self.text.setToolTip("One word per line; synonyms after | : car | automobile")
        self.text.setTabChangesFocus(True)  # Tab moves on, as elsewhere in the panel
        self.count = Note()
        self._learned: Learned | None = None  # The classifier that ranks the words
        self._model = ""
        menu = QMenu(self)
        for name, title in TITLES.items():
            action = menu.addAction(f"{name}: {title}")
            action.triggered.connect(partial(self._choose, name))
        self.presets = button("Presets", "Use a built-in list of words and its prompts")
        self.presets.setMenu(menu)
        self.load = button(
            "Load...", "Read words from a text, CSV or YAML file, or a classifier", self.files.ask
        )
        tip = "Save words as text, CSV or YAML; YAML also keeps prompts and threshold"
        self.save = button("Save as...", tip, self.save_as)
        tip = "Edit words, synonyms, groups and colours in a table"
        self.edit = button("Edit...", tip, self.open_dialog)
        self.templates_widget = TemplatesWidget(self)
        self.templates = self.templates_widget.sets
        tip = "Regions whose best word is less similar (cosine) become 'none of these'."
        self.none = check_box("None of these, below", tip)
        tip = "Similarities differ between models: look at known regions first."
        name = "Least similarity of a word"
        self.threshold = number_box(-1, 1, 0.2, tip, step=0.01, name=name)
        self.threshold.setDecimals(3)
        self.threshold.setEnabled(False)
        self.uncertainty = SettingsForm(fields_of("uncertainty"), parent=self)
        self.uncertainty.name_least("off")
        self._pause = debouncer(self, _PAUSE, self._count_in_worker)
        self._counting = session.jobs.of(job_kinds.COUNT_WORDS)
        buttons = line(self.presets, self.load, self.save, self.edit, shares=(1, 1, 1, 1))
        stack(self, form([self.text, self.count, buttons]))
        prompts = self.templates_widget
        none = (self.none, self.threshold)
        rows = [("Prompts", prompts.sets), prompts.own, prompts.problem, none]
        self.limits_page = QWidget()
        limits = form([Note(_LIMITS), *self.uncertainty.rows().values()])
        stack(self.limits_page, form(rows), limits)
        self.none.toggled.connect(self.threshold.setEnabled)
        for signal in (self.none.toggled, self.threshold.valueChanged):
            signal.connect(lambda *_: self._tell())
        self.uncertainty.changed.connect(self._tell_limits)
        self._tell_limits()
        self.templates_widget.changed.connect(self._tell)
        self.marked.connect(self._tell)
        self.text.textChanged.connect(self._text_changed)
        self.text.blockCountChanged.connect(self._fit)
        self.files.loaded.connect(self.take)
        self._text_changed()
        self._fit()

    # -- values ------------------------------------------------------------------------------

    def vocabulary(self) -> Vocabulary:
        """Return the typed labels with their groups and colours."""
        typed = self._read()
        if typed.problem:
            raise InputError(typed.problem)
        labels = self._marked(typed.labels)
        threshold = self.threshold.value() if self.none.isChecked() else None
        words = Vocabulary.of(labels, self.templates_widget.templates(), threshold)
        return replace(words, learned=self._ranks(typed))

    def _ranks(self, typed: TypedLabels) -> Learned | None:
        """Return the classifier that ranks the words; None where none of them is one of its."""
        learned = self._learned
        if learned is None or not learned.words:
            return learned
        names = {label.name for label in typed.labels}
        return learned if names & set(learned.words) else None

    def _tell(self) -> None:
        """Pass the words to the session."""
        typed = self._read()
        vocabulary, problem = None, ""
        try:
            if typed.labels or typed.problem:
                vocabulary = self.vocabulary()
        except InputError as error:
            problem = str(error)
        self._session.change_words(vocabulary, problem)

    def _fit(self, _: object = None) -> None:
        """Show as many lines as there are words, where there is room."""
        most = _LINES if self._session.run.results else _MOST_LINES
        lines = min(max(self.text.blockCount(), _LINES), most)
        self.text.setFixedHeight(lines * QFontMetrics(self.text.font()).lineSpacing() + 14)

    def _tell_limits(self) -> None:
        self._session.run.change_settings(self.uncertainty.values())

    @property
    def empty(self) -> bool:
        """Whether nothing was typed."""
        return not self.text.toPlainText().strip()

    def _follow_settings(self, *_: object) -> None:
        self.uncertainty.show_settings(self._session.run.settings)
        if self._session.run.settings.model != self._model:
            self._show_summary()

    def prefill(self, labels: Sequence[str]) -> None:
        """Fill in labels, unless the user has typed some."""
        text = to_text(labels)
        if text and not self._own and text != self.text.toPlainText():
            self._prefilled, self._origin, self._learned = text, "", None
            self.text.setPlainText(text)

    @property
    def _own(self) -> bool:
        """Whether the user has typed the words."""
        return self.text.toPlainText() not in ("", self._prefilled)

    @property
    def prefilled(self) -> bool:
        """Whether the labels come from a layer or the last session, unedited."""
        return bool(self._prefilled) and self.text.toPlainText() == self._prefilled

    @property
    def marks(self) -> dict[str, tuple[str, str]]:
        """Group and colour of labels that have any."""
        names = {label.name for label in self._read().labels}
        return {name: mark for name, mark in self._marks.items() if name in names and any(mark)}

    @property
    def classifier(self) -> str:
        """The file of the classifier that ranks the words; "" for none."""
        learned = self._ranks(self._read())
        if learned is None or learned.file is None:
            return ""
        return str(learned.file)

    def _remember(self, labels: Iterable[Label]) -> None:
        self._marks.update({label.name: (label.group, label.color) for label in labels})

    def _marked(self, labels: Iterable[Label]) -> tuple[Label, ...]:
        """Return labels with their known groups and colours."""
        marked = []
        for label in labels:
            group, color = self._marks.get(label.name, ("", ""))
            if group or color:
                label = replace(label, group=group, color=color)
            marked.append(label)
        return tuple(marked)

    def restore(
        self,
        text: str,
        marks: Mapping[str, tuple[str, str]],
        *,
        classifier: str = "",
        forget: bool = False,
    ) -> None:
        """Restore labels of the last session; labels of a layer replace them.

        Labels in the field stay, unless ``forget``.
        """
        if forget:
            self._marks.clear()
        for name, (group, color) in marks.items():
            with suppress(InputError):  # the file was edited by hand
                self._remember([Label(name, group=group, color=color)])
        if forget:
            self._replace(text)
        elif text and self.empty:
            self._prefilled = text
            self.text.setPlainText(text)
        if forget or (classifier and self.text.toPlainText() == text):
            self._learned = _learned(classifier)
            self._tell()

    def set_colors(self, field: str) -> None:
        """Follow the theme: napari draws such text fields without an edge."""
        style = f"QPlainTextEdit {{ background: {field}; border-radius: 2px; }}"
        self.text.setStyleSheet(style)
        self.templates_widget.own.setStyleSheet(style)

    def bind(self) -> None:
        """Follow the session; words of the chosen layers are filled in."""
        run = self._session.run.events
        self.after(self.prefill_from_layers, run.layers)
        self.after(self._follow_settings, run.settings)
        self.after(self._fit, run.record)
        self.after(self.take, self._session.run.take_words)
        self.prefill_from_layers()
        self._follow_settings()

    def prefill_from_layers(self, _: object = None) -> None:
        """Fill in the words that the chosen layers bring."""
        image, regions = self._session.run.layers
        words = vocabulary_of(image)
        if image is not None and words:
            # The words of a sample replace typed ones once; those of a regions' file do not.
            if self._own and image not in self._brought:
                self._prefilled, self._origin = to_text(words), image.name
                self._learned = None
                self._replace(self._prefilled)
            self._brought.add(image)
        self.prefill(vocabulary_of(regions, image))

    # -- lists --------------------------------------------------------------------------------

    def _choose(self, name: str, _: bool = False) -> None:
        """Take a built-in list and its prompts."""
        self.take(preset(name).vocabulary.content)

    def take(self, content: LabelFile) -> None:
        """Take the labels of a list, and its prompts and threshold if it has any."""
        self._remember(content.labels)
        self._learned = content.learned
        if self._learned is not None:
            self.none.setChecked(False)
        self.marked.emit()
        self._prefilled = ""  # names of regions do not replace them
        self._replace(to_text(content.labels))
        self._show_summary()
        if content.templates is not None:
            self.templates_widget.choose(content.templates)
        if content.threshold is not None:
            decimals = decimals_of(content.threshold, self.threshold.decimals())
            self.threshold.setDecimals(decimals)
            self.threshold.setValue(content.threshold)
            self.none.setChecked(True)

    def save_as(self) -> None:
        """Ask for a file and save all that its format can hold."""
        with refusing():
            self.files.ask_where(self.vocabulary())

    def open_dialog(self) -> None:
        """Open the table of labels."""
        typed = self._read()
        if typed.problem and not typed.labels:
            refuse(typed.problem)
            return
        self.dialog = LabelDialog(self._marked(typed.labels), self)
        self.dialog.accepted.connect(self._take_dialog)
        self.dialog.finished.connect(self._forget_dialog)
        self.dialog.open()

    def _take_dialog(self) -> None:
        if self.dialog is None:
            return
        labels = self.dialog.labels
        self._remember(labels)
        self.marked.emit()
        words_before = [label.words for label in self._read().labels]
        if [label.words for label in labels] != words_before:
            self._replace(to_text(labels))  # comments in the text go; Ctrl+Z restores them

    def _forget_dialog(self) -> None:
        if self.dialog is not None:
            self.dialog.deleteLater()
            self.dialog = None

    def _replace(self, text: str) -> None:
        """Replace the text; Ctrl+Z restores it."""
        cursor = QTextCursor(self.text.document())
        cursor.select(QTextCursor.SelectionType.Document)
        cursor.insertText(text)
        self.text.moveCursor(QTextCursor.MoveOperation.Start)

    # -- counting -----------------------------------------------------------------------------

    def _read(self) -> TypedLabels:
        """Return the labels in the text field; parsed again only after a change."""
        text = self.text.toPlainText()
        if self._typed.text != text:
            self._typed = TypedLabels.read(text)
        return self._typed

    def _text_changed(self) -> None:
        self._counting.drop()
        if self.text.document().characterCount() > _COUNTED_AT_ONCE:
            self.count.setText("counting ...")
            self._session.change_words(None, "The words are being counted; try again in a moment.")
            self._pause.throttle()
            return
        self._pause.cancel()
        self._show_count(self._read())

    def _count_in_worker(self) -> None:
        self._counting.start(partial(TypedLabels.read, self.text.toPlainText()), self._show_count)

    def _show_count(self, typed: TypedLabels) -> None:
        self._typed = typed
        self._show_summary()
        self._tell()

    def _show_summary(self, *_: object) -> None:
        self._model = self._session.run.settings.model
        notes = [self._typed.summary, unknown_words_note(self._typed.labels, self._model)]
        if self._origin and self.prefilled:
            notes.insert(1, f"These words came with '{self._origin}'; Ctrl+Z brings back yours.")
        learned = self._ranks(self._typed)
        if learned is not None:
            notes[1:] = [f"{learned.text}; other words: Presets or Load..."]
        self.count.setText("\n".join(filter(None, notes)))


def _learned(file: str) -> Learned | None:
    """Return the classifier of the last session; None if its file is gone."""
    with suppress(InputError):
        return learned_of(Path(file), read_head(Path(file))) if file else None
    return None
