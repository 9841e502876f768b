"""Compare the selected region with and without a change of one setting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, get_args

import numpy as np
from psygnal import SignalInstance
from qtpy.QtCore import Qt
from qtpy.QtGui import QPixmap
from qtpy.QtWidgets import QComboBox, QGridLayout, QLabel, QSizePolicy, QStackedWidget, QWidget

from ...app.requests.preparing import usable_settings
from ...app.session import job_kinds
from ...app.work.driver import Job
from ...base.errors import MaskInversionError
from ...base.progress import telling
from ...engine.methods.registry import Method, list_methods
from ...engine.models.registry import list_models, model_state
from ...images.windows import MODES
from ...results.region_result import RegionResult
from ...results.settings import RunSettings, Setting, fields_of
from ..widgets.controls import pixmap_of
from ..widgets.form import SettingsForm
from ..widgets.sections import Note, button, combo_box, form, line, refill, stack
from .work_section import RegionSection, Shared

if TYPE_CHECKING:
    from ...pipeline.comparing import Answer

_SIDE: Final = 150  # pixels of a thumbnail


class Comparison(NamedTuple):
    """A region with two settings: those of the panel, and the same with one change."""

    names: tuple[str, str]
    answers: tuple[Answer, Answer]
    cosine: float | None  # Of the two embeddings; None for those of different models


class CompareSection(RegionSection):
    """Computes the selected region with the current settings and with one of them changed."""

    title, tip = "Compare", "The region with another model, method or setting"
    kind, source = job_kinds.COMPARE, "compare"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self.what = combo_box(tip="The setting to change")
        self.model = combo_box(tip="The other model, of those on this machine")
        self.method = combo_box(tip="The other method")
        modes = {MODES[mode]: mode for mode in ("auto", "whole")}
        self.window = combo_box(modes, tip="What the model sees with the region")
        settings = {setting.key: setting for setting in fields_of()}
        # Settings that only an inversion has, by name.
        self.inversion: dict[str, Setting] = {
            setting.name: setting
            for setting in fields_of("inversion")
            if setting.extra.get("ui", True)
        }
        self.form = SettingsForm(self.inversion.values(), parent=self)
        # Title and field of what can be changed.
        self._fields: dict[str, tuple[str, QWidget]] = {
            name: (setting.title, self.form[setting.key])
            for name, setting in self.inversion.items()
        } | {
            "window": (settings["window"].title, self.window),
            "model": (settings["model"].title, self.model),
            "method": (settings["method.name"].title, self.method),
        }
        self.stack = QStackedWidget()
        tip = "Compute the selected region with and without this change"
        self.compare = button("Compare", tip, self.run)
        self.cancel = button("Cancel", "Stop comparing", self._cancel)
        self.verdict = Note(name="How well both results agree")
        self.sides = (_Side(), _Side())
        self._build()
        self.forget()

    def followed(self) -> tuple[SignalInstance, ...]:
        """Return the events of the session after which it is refreshed."""
        return (self._session.run.events.settings,)

    def _build(self) -> None:
        for _, field in self._fields.values():
            self.stack.addWidget(field)
        self.stack.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.what.currentIndexChanged.connect(
            lambda _: self.changed and self.stack.setCurrentWidget(self._fields[self.changed][1])
        )
        buttons = line(self.compare, self.cancel, shares=(2, 1))
        self._both = QWidget()
        grid = QGridLayout(self._both)
        grid.setContentsMargins(6, 2, 2, 2)
        grid.setHorizontalSpacing(8)
        for column, side in enumerate(self.sides):
            grid.setColumnStretch(column, 1)
            for place, item in enumerate(side.items):
                grid.addWidget(item, place, column, Qt.AlignmentFlag.AlignTop)
        rows = [("Change", self.what), ("to", self.stack), buttons, self.line]
        stack(self, form(rows), self._both, form([self.verdict]), margins=(0, 0, 0, 4))
        self.what.activated.connect(lambda _: self._suggest())

    # -- the form -----------------------------------------------------------------------------

    def offer(
        self, models: Sequence[str], methods: Mapping[str, Method], *, inverts: bool = True
    ) -> None:
        """Offer the settings that can be changed."""
        refill(self.model, {name: name for name in models})
        refill(self.method, methods)
        absent: set[str] = set()
        if not models:
            absent.add("model")
        if not methods:
            absent.add("method")
        if not inverts:
            absent |= self.inversion.keys()
        keys = [key for key in self._fields if key not in absent]
        if [self.what.itemData(i) for i in range(self.what.count())] == keys:
            return
        before = self.changed
        self.what.clear()
        for key in keys:
            self.what.addItem(self._fields[key][0], key)
        places = (self.what.findData(name) for name in (before, "alpha", "window"))
        self.what.setCurrentIndex(next(place for place in places if place >= 0))

    @property
    def changed(self) -> str:
        """The setting to change."""
        return self.what.currentData() or ""

    @property
    def value(self) -> Any:
        """Its other value."""
        if self.changed in self.inversion:
            return self.form.values()[self.inversion[self.changed].key]
        return self._fields[self.changed][1].currentData()

    def _offer_all(self) -> None:
        models = [spec.name for spec in list_models() if model_state(spec) != "to fetch"]
        if len(models) == 1:
            models = []
        method = self._session.run.settings.method
        methods: dict[str, Method] = {}
        for spec in list_methods():
            if method.weights is not None or not spec.weights:
                methods[spec.title] = Method(spec.name, method.weights)
        self.offer(models, methods, inverts=method.uses_inversion)

    def _suggest(self) -> None:
        """Suggest a value that differs from the current one."""
        try:
            settings = self._present()
        except MaskInversionError:
            return
        values = {}
        for name, setting in self.inversion.items():
            values[setting.key] = _other(setting, getattr(settings.inversion, name))
        self.form.set_values(values)
        self.window.setCurrentIndex(0 if settings.window.mode == "whole" else 1)
        _choose_other(self.model, settings.model)
        _choose_other(self.method, settings.method.title)

    # -- the region ---------------------------------------------------------------------------

    def refresh(self, _: object = None) -> None:
        """Follow the panel's model and method while the section is open."""
        if self.is_open:
            self._offer_all()

    def toggled(self, opened: bool) -> None:
        """Fill the choices when the section opens."""
        if opened:
            self._offer_all()
            self._suggest()

    def show_job(self) -> None:
        """Offer Compare, or Cancel while both are compared."""
        super().show_job()
        self.compare.setEnabled(not self.job.busy)
        self.cancel.setEnabled(self.job.busy)

    def show_region(self, before: RegionResult | None) -> None:
        """Hide the results of the region before."""
        if self.region is not before:
            self.forget()

    def forget(self) -> None:
        """Show nothing."""
        self._both.hide()
        self.verdict.say("")
        self.say("")
        self._session.settle(self.source)

    def _cancel(self) -> None:
        if self.job.busy:
            self.job.drop()
            self.say("Stopped.")

    # -- the comparison -----------------------------------------------------------------------

    def run(self) -> None:
        """Compute both results."""
        from ...pipeline.comparing import answer, cosine, with_one_change

        try:
            present = self._present()
            other = with_one_change(present, self.changed, self.value)
            origin, region, record = self.source_of_region(), self.region, self._record
            assert region is not None
            assert record is not None
            run_input = origin.again(self._viewer, region, drawn=True)
        except MaskInversionError as error:
            self.forget()
            self.refuse(str(error))
            return
        vocabulary, store = record.results.info.without_decisions.vocabulary, self._store
        # The panel's own model last: the store keeps one, and the next run needs it.
        order = (other, present) if other.model != present.model else (present, other)

        def compare() -> Comparison:
            (task,) = run_input.tasks()
            answers = {}
            for place, settings in enumerate(order, 1):
                model = store.load(settings.model, settings.device)
                with telling(partial(_update, place)):
                    answers[id(settings)] = answer(model, task, vocabulary, settings)
            pair = answers[id(present)], answers[id(other)]
            return Comparison(names, pair, cosine(*pair))

        names = self._name(present), self._name(other)
        self.forget()
        self.start(compare)

    def answered(self, comparison: Comparison) -> None:
        """Show both results side by side, and how well they agree."""
        self.say("")
        for side, name, answer in zip(
            self.sides, comparison.names, comparison.answers, strict=True
        ):
            side.show(name, answer)
        self._both.show()
        verdict = "Embeddings of different models cannot be compared."
        if comparison.cosine is not None:
            verdict = f"Cosine of the two embeddings: {comparison.cosine:.3f}"
        self.verdict.say(verdict)

    def _present(self) -> RunSettings:
        session = self._session
        return usable_settings(session.run.settings, session.run.settings_problem)

    def _name(self, settings: RunSettings) -> str:
        """Return what tells one of the two settings from the other."""
        names = {
            "window": MODES[settings.window.mode],
            "model": settings.model,
            "method": settings.method.title,
        }
        if self.changed in names:
            return names[self.changed]
        value = getattr(settings.inversion, self.changed)
        if isinstance(value, bool):
            value = "on" if value else "off"
        text = f"{value:g}" if isinstance(value, float) else value
        return f"{self.what.currentText()} {text}"


def _choose_other(box: QComboBox, present: str) -> None:
    """Choose the first entry that is not the present one; none if there is no other."""
    for index in range(box.count()):
        if box.itemText(index) != present:
            box.setCurrentIndex(index)
            return
    box.setCurrentIndex(-1)


def _other(setting: Setting, value: Any) -> Any:
    """Return a value of an inversion's setting that differs from the current one."""
    if setting.name == "alpha":
        return 0.0 if value >= 2.5 else 5.0  # with or without its context
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return next(choice for choice in get_args(setting.annotation) if choice != value)
    if isinstance(value, int):
        return 2 * value if 2 * value <= setting.extra.get("ui_max", 2 * value) else value // 2
    return value / 2 or 0.01


class _Side:
    """One result: title, thumbnail, labels, numbers."""

    def __init__(self) -> None:
        self.title, self.picture, self.labels, self.numbers = Note(), QLabel(), Note(), Note()
        self.title.setStyleSheet("font-weight: bold;")
        self.picture.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.items = (self.title, self.picture, self.labels, self.numbers)

    def show(self, title: str, answer: Answer) -> None:
        result = answer.result
        self.title.setText(title)
        self.picture.setPixmap(thumbnail(answer))
        self.picture.setAccessibleName(f"Heatmap with {title}")
        self.picture.setToolTip("The region's heatmap over what the model saw")
        ranking = result.ranking
        best = () if ranking is None else zip(ranking.labels, ranking.similarities, strict=True)
        rows = [f"{value:.2f} {name}" for name, value in islice(best, 5)]
        self.labels.setText("\n".join(rows))
        margin = "" if ranking is None or len(ranking.labels) < 2 else f"{ranking.margin:.3f}"
        overlap = f"IoU {result.iou:.2f}" if result.has_heatmap else "no heatmap"
        lines = [overlap, margin and f"margin {margin}", f"{answer.seconds:.2f} s"]
        if result.flagged:
            lines.append(result.status)
        self.numbers.setToolTip("Overlap of heatmap and region, margin, and time")
        self.numbers.setText("\n".join(filter(None, lines)))


def thumbnail(answer: Answer) -> QPixmap:
    """Draw a heatmap over what the model saw."""
    from napari.utils.colormaps import ensure_colormap

    heat = ensure_colormap("turbo").map(answer.heatmap.ravel())[:, :3]
    heat = heat.reshape(*answer.heatmap.shape, 3) * 255
    strength = (0.7 * np.clip(1.6 * answer.heatmap, 0, 1))[..., None]
    mixed = (1 - strength) * answer.picture + strength * heat
    pixels = mixed.round().astype(np.uint8)
    keep, smooth = Qt.AspectRatioMode.KeepAspectRatio, Qt.TransformationMode.SmoothTransformation
    return pixmap_of(pixels).scaled(_SIDE, _SIDE, keep, smooth)


def _update(place: int, news: object) -> object:
    text = getattr(news, "text", "")
    if not text:
        return news
    return Job(text=f"{place} of 2: {text}")
