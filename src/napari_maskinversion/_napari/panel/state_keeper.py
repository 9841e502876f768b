"""Restores the panel's last state at the start, and writes it when it changes."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

from qtpy.QtCore import QObject

from ...base.preferences import LAST, load
from ...results.settings import RunSettings
from ..session import Bindings
from ..widgets.sections import debouncer
from ..workers.notify import inform
from ..workers.worker import Worker
from .panel_state import FILE, PanelState, read_state, write_state

# Milliseconds after the last change until the state is written.
QUIET: Final = 1500
_WHERE: Final = ("model", "architecture", "device")


class StateKeeper(QObject):
    """Keeps settings, labels, threshold, prompts, columns and the tab in view."""

    def __init__(self, panel: Any) -> None:
        super().__init__(panel)
        self._model, self._vocabulary = panel.model, panel.vocabulary
        self._columns = panel.results.columns
        self._session, self._bindings = panel.session, Bindings()
        self._panel, self._writing = panel, Worker("queue", "Saving the panel", parent=self)
        self._unsaved = False
        self._saving = debouncer(self, QUIET, self._write)
        self._first, self._last = PanelState(), PanelState()

    def start(self) -> None:
        """Restore the last state, then follow changes."""
        self._first = self._gather()
        state, problem = read_state()
        if problem:
            inform(problem)
        self._restore(state)
        self._last = state
        for signal in self._signals():
            signal.connect(self._on_change)
        self.follow()

    def follow(self) -> None:
        """Follow the session."""
        events = self._session.events
        names = ("settings", "scope", "outlined", "forming", "features")
        self._bindings.connect([events[name] for name in names], self._on_change)

    def stop(self) -> None:
        """Write unsaved changes and follow the session no more; the panel is being closed."""
        self._bindings.release()
        self.keep()

    def keep(self) -> None:
        """Write unsaved changes now."""
        if self._unsaved:
            self._cancel()
            with suppress(OSError):
                write_state(self._gather())

    def forget(self) -> None:
        """Return the panel to its first start, and delete the file."""
        self._last = PanelState()
        self._restore(self._first, forget=True)
        self._cancel()
        with suppress(OSError):
            FILE.remove()

    def choose_model(self, name: str, architecture: str | None = None) -> None:
        """Choose a model, or tell the user that it is not available."""
        self._model.choose(name, architecture)
        if self._model.spec.name != name:
            inform(f"Model '{name}' is not available; '{self._model.spec.name}' stays chosen.")

    def show_settings(self, settings: RunSettings) -> None:
        """Show settings in the dialog; the session has them already."""
        self.choose_model(settings.model, settings.architecture)
        for part in (self._model, self._panel.input.scope, self._vocabulary.uncertainty):
            part.show_settings(settings)
        if settings.threshold is not None:
            self._vocabulary.threshold.setValue(settings.threshold)
        self._vocabulary.none.setChecked(settings.threshold is not None)

    def _on_change(self, *_: object) -> None:
        self._unsaved = True
        self._saving.throttle()

    def _cancel(self) -> None:
        self._unsaved = False
        self._saving.cancel()

    def _write(self) -> None:
        self._unsaved = False
        self._last = state = self._gather()

        def write() -> None:
            with suppress(OSError):  # affects only the next start
                write_state(state)

        self._writing.start(write)

    def _signals(self) -> Iterable[Any]:
        yield self._vocabulary.text.textChanged
        yield self._vocabulary.marked
        yield self._vocabulary.none.toggled
        yield self._vocabulary.threshold.valueChanged
        yield self._vocabulary.templates_widget.changed
        yield self._columns.changed
        yield self._panel.tabs.currentChanged

    def _gather(self) -> PanelState:
        vocabulary, prompts = self._vocabulary, self._vocabulary.templates_widget
        # Labels of a layer are not the user's.
        foreign = vocabulary.prefilled
        return PanelState(
            settings=self._session.settings,
            channels=self._session.scope.channels,
            outlined=self._session.outlined,
            forming=self._session.forming,
            features=self._session.features,
            labels=self._last.labels if foreign else vocabulary.text.toPlainText(),
            marks=self._last.marks if foreign else vocabulary.marks,
            none=vocabulary.none.isChecked(),
            threshold=vocabulary.threshold.value(),
            prompts=str(prompts.sets.currentData()),
            own_prompts=prompts.own.toPlainText(),
            columns=self._columns.state,
            tab=self._panel.tabs.shown,
        )

    def _restore(self, state: PanelState, *, forget: bool = False) -> None:
        preferred, settings = load(), state.settings
        scope = self._panel.input.scope
        if preferred.model == LAST:
            self.choose_model(settings.model, settings.architecture)
        else:
            self.choose_model(preferred.model)
        device = settings.device if preferred.device == LAST else preferred.device
        self._model.choose_device(device)
        where = {key: self._session.settings.get(key) for key in _WHERE}
        self._session.settings = settings.changed(where)
        scope.choose_channels(state.channels)
        scope.outline.setChecked(state.outlined)
        scope.live.setChecked(state.forming)
        self._panel.exports.features.setChecked(state.features)
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
        self._panel.tabs.show_tab(state.tab)
