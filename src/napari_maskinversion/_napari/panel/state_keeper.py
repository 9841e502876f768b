"""Keeps what the panel remembers: puts it back at the start, writes it down when it changes."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from qtpy.QtCore import QObject, QTimer
from qtpy.QtWidgets import QWidget

from ...base.preferences import LAST, load
from ..model.model_widget import ModelWidget
from ..results.results_columns import ResultColumns
from ..vocabulary.vocabulary_widget import VocabularyWidget
from ..widgets.sections import Section
from ..workers.calls import Calls
from ..workers.notify import inform
from .panel_state import FILE, PanelState, read_state, write_state

# Milliseconds after the last change until it is written.
QUIET: Final = 1500


class StateKeeper(QObject):
    """Remembers model, device, context, labels, threshold, prompts, columns and open sections.

    Parameters
    ----------
    panel : QWidget
        In which sections are looked for.
    model : ModelWidget
    vocabulary : VocabularyWidget
    columns : ResultColumns
    """

    def __init__(
        self,
        panel: QWidget,
        model: ModelWidget,
        vocabulary: VocabularyWidget,
        columns: ResultColumns,
    ) -> None:
        super().__init__(panel)
        self._model, self._vocabulary, self._columns = model, vocabulary, columns
        self._panel, self._calls = panel, Calls(self)
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(QUIET)
        self._timer.timeout.connect(self._write)
        self._first, self._known = PanelState(), PanelState()

    def start(self) -> None:
        """Put back what is remembered, then notice changes."""
        self._first = self._gather()
        state, problem = read_state()
        if problem:
            inform(problem)
        self._put_back(state)
        self._known = state
        for signal in self._signals():
            signal.connect(lambda *_: self._timer.start())

    def stop(self) -> None:
        """Write at once what has changed; the panel is being closed."""
        if self._timer.isActive():
            self._timer.stop()
            self._calls.abandon()
            with suppress(OSError):
                write_state(self._gather())

    def forget(self) -> None:
        """Return to how the panel first started, and remember nothing."""
        self._known = PanelState()
        self._put_back(self._first, forget=True)
        self._timer.stop()
        with suppress(OSError):
            FILE.remove()

    def _write(self) -> None:
        self._known = state = self._gather()

        def write() -> None:
            with suppress(OSError):  # costs the next start, nothing else
                write_state(state)

        self._calls.start(write)

    def _signals(self) -> Iterable[Any]:
        yield self._model.model.currentIndexChanged
        yield self._model.device.currentIndexChanged
        yield self._model.alpha.valueChanged
        yield self._vocabulary.text.textChanged
        yield self._vocabulary.marked
        yield self._vocabulary.limits_changed
        yield self._vocabulary.templates_widget.changed
        yield self._columns.changed
        for section in self._sections().values():
            yield section.toggled

    def _sections(self) -> dict[str, Section]:
        """Give the sections by title, without the numbers in front."""
        found = self._panel.findChildren(Section)
        return {section.title.lstrip("0123456789 "): section for section in found}

    def _gather(self) -> PanelState:
        vocabulary, prompts = self._vocabulary, self._vocabulary.templates_widget
        # What came with a layer is not the user's own.
        layers = vocabulary.prefilled
        labels = self._known.labels if layers else vocabulary.text.toPlainText()
        return PanelState(
            model=self._model.spec.name,
            device=self._model.device.currentText(),
            alpha=self._model.config().alpha,
            labels=labels,
            marks=self._known.marks if layers else vocabulary.marks,
            none=vocabulary.none.isChecked(),
            threshold=vocabulary.threshold.value(),
            prompts=str(prompts.sets.currentData()),
            own_prompts=prompts.own.toPlainText(),
            columns=self._columns.state,
            sections={name: section.isExpanded() for name, section in self._sections().items()},
        )

    def _put_back(self, state: PanelState, *, forget: bool = False) -> None:
        preferred = load()
        if preferred.model != LAST:
            state = replace(state, model=preferred.model)
        if preferred.device != LAST:
            state = replace(state, device=preferred.device)
        if state.model:
            self._model.choose(state.model)
        if state.device:
            self._model.choose_device(state.device)
        self._model.set_alpha(state.alpha)
        self._vocabulary.restore(state.labels, state.marks, forget=forget)
        if state.threshold is not None:
            self._vocabulary.threshold.setValue(state.threshold)
            self._vocabulary.none.setChecked(state.none)
        prompts = self._vocabulary.templates_widget
        if state.own_prompts or forget:
            prompts.own.setPlainText(state.own_prompts)
        if state.prompts:
            prompts.sets.setCurrentIndex(max(prompts.sets.findData(state.prompts), 0))
        self._columns.apply(state.columns)
        for name, section in self._sections().items():
            wanted = state.sections.get(name, section.isExpanded())
            if wanted != section.isExpanded():
                section.expand(animate=False) if wanted else section.collapse(animate=False)
