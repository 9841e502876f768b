"""What the panel restores at its next start: a part of the file of preferences."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    field_serializer,
    field_validator,
)
from qtpy.QtCore import QObject

from ...app.review.review_options import ReviewOptions
from ...app.session import Topic, job_kinds
from ...base.config_parts import ConfigPart
from ...base.errors import ConfigError
from ...base.preferences import FILE, LAST, load
from ...results.settings import RunSettings, settings_by_key
from ..results.results_columns import ColumnState
from ..widgets.sections import debouncer
from ..workers.notify import inform

if TYPE_CHECKING:
    from .panel_parts import PanelParts

PART: Final = ConfigPart(("panel",), former="panel.json")
# Milliseconds after the last change until the state is written.
QUIET: Final = 1500
_WHERE: Final = ("model", "architecture", "device")


class PanelState(BaseModel):
    """The panel's last state; an empty value means: as at the first start."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    # The file holds what differs from the defaults, by the key of a `Setting`; what is unknown or
    # invalid there is the default
    settings: RunSettings = Field(default_factory=RunSettings)
    channels: str = ""  # As in `Scope`, whose other fields belong to an image
    outlined: bool = False  # As in `Session`
    forming: bool = False
    features: bool = False
    labels: str = ""  # The text as it was typed
    classifier: str = ""  # File of the one that ranks them
    # Group and colour by label, for labels that have one of the two
    marks: dict[str, tuple[str, str]] = Field(default_factory=dict)
    none: bool = False  # Whether "None of these" is switched on
    threshold: float | None = None  # Lowest similarity of a label
    prompts: str = ""  # Name of the prompt set, and the text of the user's own prompts
    own_prompts: str = ""
    columns: ColumnState = Field(default_factory=ColumnState)
    tab: str = ""  # The tab in view
    projects: tuple[str, ...] = ()  # The last ones
    library: str = ""  # Folder of the library in use
    review: ReviewOptions = Field(default_factory=ReviewOptions)

    @field_validator("review", mode="wrap")
    @classmethod
    def _options_that_work(
        cls, values: object, read: Callable[[object], ReviewOptions]
    ) -> ReviewOptions:
        try:
            return read(values)
        except ValidationError:
            return ReviewOptions()

    @field_validator("settings", mode="before")
    @classmethod
    def _settings_that_work(cls, values: object) -> RunSettings:
        if isinstance(values, RunSettings):
            return values
        settings = RunSettings()
        if not isinstance(values, Mapping):
            return settings
        for key in _keys():
            if key in values:
                with suppress(ConfigError):
                    settings = settings.changed({key: values[key]})
        return settings

    @field_serializer("settings")
    def _chosen_settings(self, settings: RunSettings) -> dict[str, Any]:
        default = RunSettings()
        values = {key: settings.get(key) for key in _keys()}
        return {
            key: TypeAdapter(Any).dump_python(value, mode="json")
            for key, value in values.items()
            if value != default.get(key)
        }


def _keys() -> list[str]:
    """Return the keys of all settings; a method and its weights are one value."""
    parts = settings_by_key(RunSettings)
    return ["method", *(key for key in parts if not key.startswith("method."))]


def read_state() -> tuple[PanelState, str]:
    """Return the last state, and one line that says why it was ignored."""
    values, problem = PART.read()
    try:
        return PanelState(**values), problem
    except ValidationError:
        return PanelState(), FILE.unreadable


def write_state(state: PanelState) -> None:
    """Write the state; raises OSError if that fails."""
    PART.write(state.model_dump(mode="json"))


class StateKeeper(Topic, QObject):
    """Restores the last state when the panel opens, and writes it when it changes."""

    def __init__(self, panel: PanelParts) -> None:
        super().__init__(panel)
        self._panel, self._session = panel, panel.session
        self._model, self._vocabulary = panel.model, panel.vocabulary
        self._columns, self._review = panel.results.columns, panel.review.part.form
        self._writing = panel.session.jobs.of(job_kinds.SAVE_PANEL)
        self._unsaved = False
        self._saving = debouncer(self, QUIET, self._write)
        self._first, self._last = PanelState(), PanelState()
        self._options: ReviewOptions | None = None  # of the review, as this window wrote them last

    def start(self) -> None:
        """Restore the last state, then follow changes."""
        self._first = self._gather()  # how the panel looks before anybody has used it
        state, _ = read_state()
        self._restore(state)
        self._last = state
        for changed in (
            self._vocabulary.text.textChanged,
            self._vocabulary.marked,
            self._vocabulary.none.toggled,
            self._vocabulary.threshold.valueChanged,
            self._vocabulary.templates_widget.changed,
            self._columns.changed,
            self._review.changed,
            self._panel.images.part.remembered,
            self._panel.tabs.currentChanged,
        ):
            changed.connect(self._on_change)
        self.follow()

    def bind(self) -> None:
        """Follow the session."""
        run = self._session.run.events
        explore = self._session.explore.events
        self.after(
            self._on_change,
            run.settings,
            run.scope,
            run.outlined,
            run.forming,
            run.features,
            explore.library,
        )

    def stop(self) -> None:
        """Write unsaved changes and follow the session no more; the panel is being closed."""
        super().stop()
        self.keep()

    def keep(self) -> None:
        """Write unsaved changes now."""
        if self._unsaved:
            self._cancel()
            with suppress(OSError):
                write_state(self._gather())

    def forget(self) -> None:
        """Return the panel to its first start, and delete what is kept of it."""
        self._last = PanelState()
        self._restore(self._first, forget=True)
        self._cancel()
        with suppress(OSError):
            PART.remove()

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

    def _gather(self) -> PanelState:
        vocabulary, prompts = self._vocabulary, self._vocabulary.templates_widget
        if vocabulary.prefilled:  # words of a layer are not the user's
            labels, classifier = self._last.labels, self._last.classifier
            marks = self._last.marks
        else:
            labels, classifier = vocabulary.text.toPlainText(), vocabulary.classifier
            marks = vocabulary.marks
        review = self._panel.review.part.options
        if review == self._options:  # another window may have changed them
            review = read_state()[0].review
        else:
            self._options = review
        return PanelState(
            settings=self._session.run.settings,
            channels=self._session.run.scope.channels,
            outlined=self._session.run.outlined,
            forming=self._session.run.forming,
            features=self._session.run.features,
            labels=labels,
            classifier=classifier,
            marks=marks,
            none=vocabulary.none.isChecked(),
            threshold=vocabulary.threshold.value(),
            prompts=str(prompts.sets.currentData()),
            own_prompts=prompts.own.toPlainText(),
            columns=self._columns.state,
            tab=self._panel.tabs.shown,
            projects=self._panel.images.part.recent,
            library=str(getattr(self._session.explore.library, "folder", "")),
            review=review,
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
        where = {key: self._session.run.settings.get(key) for key in _WHERE}
        self._session.run.settings = settings.changed(where)
        scope.choose_channels(state.channels)
        self._panel.images.part.show_recent(state.projects)
        scope.outline.setChecked(state.outlined)
        scope.live.setChecked(state.forming)
        self._panel.exports.features.setChecked(state.features)
        self._vocabulary.restore(
            state.labels, state.marks, classifier=state.classifier, forget=forget
        )
        if state.threshold is not None:
            self._vocabulary.threshold.setValue(state.threshold)
            self._vocabulary.none.setChecked(state.none)
        prompts = self._vocabulary.templates_widget
        if state.own_prompts or forget:
            prompts.own.setPlainText(state.own_prompts)
        if state.prompts:
            prompts.sets.setCurrentIndex(max(prompts.sets.findData(state.prompts), 0))
        self._columns.apply(state.columns)
        self._review.set_values(state.review.model_dump())
        self._options = self._panel.review.part.options
        self._panel.tabs.show_tab(state.tab)
        if state.library or forget:
            self._panel.library.open(state.library)
