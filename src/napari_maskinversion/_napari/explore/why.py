"""Why the selected region got its word: its numbers, and heatmaps of words and steps."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Final, NamedTuple

from qtpy.QtCore import QSignalBlocker, QStringListModel, Qt
from qtpy.QtGui import QColor
from qtpy.QtWidgets import QLabel, QSlider

from ...app.requests.run_source import RunSource, look_again
from ...app.session import job_kinds
from ...base.errors import MaskInversionError
from ...base.lru_cache import LruCache
from ...results.region_result import RegionResult
from ...results.run_info import RunInfo
from ..layers.heatmap import LESS_COLOR, MORE_COLOR
from ..widgets.curve import LossCurve
from ..widgets.sections import Note, check_box, combo_box, form, line, stack
from .work_section import RegionSection, Shared

if TYPE_CHECKING:
    from ...pipeline.explaining import Course, Explainer, LabelMaps

REGION, LABEL, AGAINST, STEPS = "region", "label", "against", "steps"
_MODES: Final = {
    "the region's heatmap": REGION,
    "where a word is": LABEL,
    "one word against another": AGAINST,
    "the steps of the optimisation": STEPS,
}
# Recent explanations; one of 200 steps at 28 x 28 takes 0.6 MB.
_KEPT: Final = 8
CHANGED_IMAGE: Final = (
    "The image has changed since this run; the heatmap belongs to the image as it is now."
)


class _Explanation(NamedTuple):
    """What the worker has answered about a region."""

    answer: LabelMaps | Course
    region: RegionResult  # Kept with it: the key holds an id, which must not be used again


class WhySection(RegionSection):
    """What the heatmap layer shows for the selected region, and what its numbers mean."""

    title, tip = "Why", "Why the region got its word"
    kind, source = job_kinds.EXPLAIN, "why"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._explainers: list[Explainer] = []  # the last one; used in the worker
        self._answers = LruCache[tuple[object, ...], _Explanation](_KEPT)
        self.pinned = False  # the user has chosen the labels
        self.mode = combo_box(_MODES, tip="What the heatmap layer shows for the selected region")
        self.label = combo_box(tip="The word whose heatmap is shown")
        self.other = combo_box(tip="The word to compare it with")
        self._names = QStringListModel(self)
        for box in (self.label, self.other):
            box.setModel(self._names)
        tip = "The run saw this region in a window; look for the word on the whole image instead"
        name = "Where a word is on the whole image"
        self.whole = check_box("On the whole image", tip, name=name)
        self.legend = Note()
        self.legend.setTextFormat(Qt.TextFormat.RichText)
        self.step = QSlider(Qt.Orientation.Horizontal)
        self.step.setToolTip("Optimisation step; 0 is the embedding of the whole image")
        self.step.setAccessibleName("Step of the optimisation")
        self.step.setPageStep(5)
        self.step_value = QLabel("0")
        self.curve = LossCurve()
        self.numbers = Note(name="The selected region's numbers in words")
        self._build()
        self.mode.activated.connect(lambda _: self._changed())
        self.mode.currentIndexChanged.connect(lambda _: self._arrange())
        for box in (self.label, self.other):
            box.activated.connect(lambda _: self._words_chosen())
        self.whole.toggled.connect(lambda _: self._changed())
        self.step.valueChanged.connect(self._step_moved)
        self.curve.picked.connect(self.step.setValue)
        self._arrange()

    def _build(self) -> None:
        self._slider = line(QLabel("Step"), self.step, self.step_value)
        self.step_value.setMinimumWidth(24)
        self.step_value.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        rows = [("Show", self.mode), ("Word", self.label), ("Against", self.other)]
        unlabelled = [self.whole, self.legend, self._slider, self.curve, self.line, self.numbers]
        self._rows = form([*rows, *unlabelled])
        stack(self, self._rows, margins=(0, 0, 0, 4))
        self.say("")

    # -- the form -----------------------------------------------------------------------------

    @property
    def shown(self) -> str:
        """What to show: "region", "label", "against" or "steps"."""
        return str(self.mode.currentData())

    @property
    def labels(self) -> tuple[str, ...]:
        """The chosen labels, as many as needed."""
        boxes = {LABEL: (self.label,), AGAINST: (self.label, self.other)}
        return tuple(box.currentText() for box in boxes.get(self.shown, ()) if box.count())

    @property
    def on_whole(self) -> bool:
        """Whether to explain on the whole image although the run used a window."""
        return self._can_be_whole and self.whole.isChecked()

    @property
    def _can_be_whole(self) -> bool:
        """Whether a word is looked for, of a region that the run saw in a window."""
        region = self.region
        return region is not None and not region.window.whole and self.shown in (LABEL, AGAINST)

    def set_colors(self, line: str, text: str) -> None:
        """Follow the theme."""
        self.curve.line_color, self.curve.text_color = QColor(line), QColor(text)
        self.curve.update()

    def _offer(self, names: Sequence[str], best: Sequence[str]) -> None:
        """List labels; keep the two chosen ones, or choose the best two."""
        before = [box.currentText() for box in (self.label, self.other)]
        with QSignalBlocker(self.label), QSignalBlocker(self.other):
            if self._names.stringList() != list(names):
                self._names.setStringList(list(names))
            places = {name: place for place, name in enumerate(names)}
            for box, chosen, suggested in zip((self.label, self.other), before, best, strict=False):
                box.setCurrentIndex(places.get(suggested, places.get(chosen, 0)))

    def _show_legend(self, more: str, less: str) -> None:
        """Show which colour means which label."""
        self.legend.setText(
            " &nbsp; ".join(
                f'<span style="color:{color}">\N{BLACK SQUARE}</span> more {escape(name)}'
                for color, name in ((MORE_COLOR, more), (LESS_COLOR, less))
            )
        )
        self.legend.setToolTip("Nothing is drawn where both heatmaps agree or are 0")
        self.legend.show()

    def _show_course(self, losses: Sequence[float], step: int) -> None:
        """Show the loss curve and a slider, at one step."""
        with QSignalBlocker(self.step):
            self.step.setRange(0, max(len(losses) - 1, 0))
            self.step.setValue(step)
        self.step_value.setText(str(self.step.value()))
        self.curve.show_losses(losses)
        self.curve.show_step(self.step.value())
        for widget in (self._slider, self.curve):
            widget.setVisible(len(losses) > 0)

    def _explain(self, region: RegionResult | None) -> None:
        """Show the numbers of a region in words."""
        if region is None:
            self.numbers.say("")
            return
        from ...pipeline.explaining import in_words

        self.numbers.say("\n".join(in_words(region)))

    def _step_moved(self, step: int) -> None:
        self.step_value.setText(str(step))
        self.curve.show_step(step)
        self._show_answer()

    def _words_chosen(self) -> None:
        self.pinned = True
        self._changed()

    def _arrange(self) -> None:
        """Show the controls of the chosen mode."""
        layout = self._rows.layout()
        layout.setRowVisible(self.label, self.shown in (LABEL, AGAINST))
        layout.setRowVisible(self.other, self.shown == AGAINST)
        self.whole.setVisible(self._can_be_whole)
        for widget in (self.legend, self._slider, self.curve):
            widget.setVisible(False)

    # -- the region ---------------------------------------------------------------------------

    def bind(self) -> None:
        """Follow the session."""
        super().bind()
        status = self._session.status.events
        self.after(self._turned, status.tab)
        self.after(self._run_changed, self._session.run.events.running)

    def _turned(self, tab: str) -> None:
        """Show the region's own heatmap on other tabs."""
        if self.is_open and self.shown != REGION:
            if tab == "explore":
                self._show_answer()
            else:
                self._show_own()

    def _run_changed(self, running: bool) -> None:
        if running:
            self.release()

    def release(self) -> None:
        """Stop, and release the model's encodings."""
        self.job.drop()
        self._explainers.clear()

    def forget(self) -> None:
        """Show nothing."""
        self.release()
        self._answers.clear()
        self.pinned = False
        self._settle()
        self._explain(None)

    def show_region(self, before: RegionResult | None) -> None:
        """Explain the region, whose own heatmap is already shown."""
        if self.is_open:
            self._look()

    def renew(self) -> None:
        """Show the region's numbers in words."""
        if self.is_open:
            self._explain(self.region)

    def toggled(self, opened: bool) -> None:
        """Explain only while the section is open; closing it shows the region's own heatmap."""
        if opened:
            self._look()
        else:
            self.job.drop()
            self._settle()
            self._show_own()

    def _changed(self) -> None:
        if self.shown == REGION:
            self._show_own()
        self._look()

    def _settle(self) -> None:
        self.say("")
        self._session.settle(self.source)

    def _show_own(self) -> None:
        if self.region is not None:
            self._canvas.show_own_map(self.region)

    # -- the explanation ----------------------------------------------------------------------

    def _look(self) -> None:
        """Show what is chosen for the region: what is known of it, else what is asked now."""
        region, record = self.region, self._record
        self.job.drop()
        self._settle()
        self.legend.hide()
        self._show_course([], 0)
        self._explain(region)
        if region is None or record is None:
            return
        self.whole.setVisible(self._can_be_whole)
        if region.ranking is not None:
            best = () if self.pinned else region.ranking.labels[:2]
            self._offer(sorted(region.ranking.labels, key=str.casefold), best)
        if not region.has_heatmap:
            self.say(record.results.info.method.lacks)
            return
        if self.shown == REGION:
            return
        try:
            RunSource.of(record).check(self._viewer, drawn=False)
            if self.shown != STEPS and not self.labels:
                self.refuse("These results have no words; suggest again with words.")
                return
            explanation = self._answers.get(self._key())
            # The image had changed then; it may be back.
            if explanation is None or not explanation.answer.same_image:
                self._ask(region, record.results.info)
                return
        except MaskInversionError as error:
            self.refuse(str(error))
            return
        self._show_answer(fresh=True)

    def _key(self) -> tuple[object, ...]:
        # With other limits the region is another object; its embedding is the same array.
        embedding = None if self.region is None else self.region.raw_embedding
        return (id(embedding), self.shown, self.labels, self.on_whole)

    def _ask(self, region: RegionResult, info: RunInfo) -> None:
        origin, store, explainers = self.source_of_region(), self._store, self._explainers
        drawn, names, whole = self.shown == STEPS, self.labels, self.on_whole
        run_input = origin.again(self._viewer, region, drawn=drawn)

        def explain() -> LabelMaps | Course:
            model = origin.load(store)
            from ...pipeline.explaining import Explainer

            if not explainers or explainers[0].model is not model:
                explainers[:] = [Explainer(model)]
            seen = look_again(run_input, region, info, drawn=drawn)
            explainer = explainers[0]
            if drawn:
                return explainer.course(seen)
            return explainer.labels(seen, names, whole=whole)

        self._answers.remove(self._key())
        self.start(explain, lambda _: self._key())

    def answered(self, answer: LabelMaps | Course) -> None:
        """Keep and show an explanation."""
        assert self.region is not None  # it is the one that was asked about
        self._answers.put(self._key(), _Explanation(answer, self.region))
        self._show_answer(fresh=True)

    def _show_answer(self, *, fresh: bool = False) -> None:
        region = self.region
        explanation = self._answers.get(self._key())
        if explanation is None or region is None:
            return
        from ...pipeline.explaining import Course

        answer = explanation.answer
        self.say("" if answer.same_image else CHANGED_IMAGE)
        if isinstance(answer, Course):
            if fresh:
                self._show_course(answer.losses.tolist(), answer.steps)
            self._canvas.show_map(region, answer.heatmap(self.step.value()))
        elif self.shown == AGAINST:
            self._show_legend(*self.labels)
            self._canvas.show_map(region, answer.difference(), signed=True, box=answer.box)
        else:
            if answer.words[0] != self.labels[0]:
                synonym = f"The heatmap shows its closest synonym: {answer.words[0]}."
                self.say(f"{synonym} {self.line.text()}".strip())
            self._canvas.show_map(region, answer.heatmap(0), box=answer.box)
