"""Compare two results for one region."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, get_args

from qtpy.QtCore import QObject

from ...base import progress_words as words
from ...base.errors import InputError, MaskInversionError
from ...engine.methods.registry import Method, list_methods
from ...engine.models.registry import list_models, model_state
from ..run_requests.estimator import Estimator, Work, comparison
from ..run_requests.preparing import usable_settings
from ..run_requests.run_source import RunSource
from ..session import Session
from ..workers.driver import often
from ..workers.model_store import ModelStore
from ..workers.preload import start_torch
from ..workers.worker import Worker
from .compare_widget import CompareWidget

if TYPE_CHECKING:
    from ...results.region_result import RegionResult
    from ...results.run_info import RunInfo
    from ...results.settings import RunSettings, Setting


class CompareController(QObject):
    """Computes the selected region with the current settings and with one of them changed."""

    def __init__(
        self,
        viewer: Any,
        part: CompareWidget,
        session: Session,
        store: ModelStore,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._viewer, self._part, self._session, self._store = viewer, part, session, store
        self.worker = Worker("latest", "The comparison", parent=self)
        self._origin: RunSource | None = None
        self._region: RegionResult | None = None
        self._info: RunInfo | None = None
        self._titles: tuple[str, str] = ("", "")
        self._opened = False
        self.estimator = Estimator(self)
        self.estimator.due.connect(lambda: self.estimator.estimate(self._estimation))
        self.estimator.ready.connect(part.estimate.say)
        part.edited.connect(self.estimator.later)
        part.compare.clicked.connect(self.start)
        part.cancel.clicked.connect(self.cancel)
        part.what.activated.connect(lambda _: self._suggest())
        self.worker.progressed.connect(lambda update: part.say(f"{update.text} ..."))
        self.worker.done.connect(self._answered)
        self.worker.failed.connect(self._refuse)
        self.worker.ended.connect(lambda: part.show_running(False))

    def belong_to(self, origin: RunSource | None) -> None:
        """Use results of another run; None without any."""
        self.stop()
        if origin is None:
            self.estimator.stop()
        self._origin, self._region, self._info = origin, None, None
        self._clear()

    def show(self, region: RegionResult | None, info: RunInfo | None) -> None:
        """Use another region, and hide the results of the one before."""
        if region is not self._region:
            self.stop()
            self._clear()
        if (self._region is None) != (region is None):
            self.estimator.later()
        self._region, self._info = region, info

    @property
    def region(self) -> RegionResult | None:
        """The compared region."""
        return self._region

    def renew(self, region: RegionResult, info: RunInfo) -> None:
        """Use the same region with other limits."""
        self._region, self._info = region, info

    def set_open(self, opened: bool) -> None:
        """Fill the choices when the section opens."""
        self._opened = opened
        if opened:
            self._offer()
            self._suggest()
            self.estimator.later()

    def cancel(self) -> None:
        """Stop at the next step."""
        if self.worker.busy:
            self.stop()
            self._part.say("Stopped.")

    def stop(self) -> None:
        """Stop at the next step and tell nothing more."""
        self.worker.drop()
        self._part.show_running(False)

    def start(self) -> None:
        """Compute both results."""
        from ...pipeline.comparing import answer, cosine, with_one_change

        part, store = self._part, self._store
        try:
            now = self._present()
            other = with_one_change(now, part.changed, part.value)
            run_input = self._run_input()
        except MaskInversionError as error:
            part.clear()
            self._refuse(str(error))
            return
        assert self._info is not None
        vocabulary = self._info.vocabulary
        # The panel's own model last: the store keeps one, and the next run needs it.
        order = (other, now) if other.model != now.model else (now, other)

        def question() -> Generator[Any, None, Any]:
            yield from start_torch()
            (task,) = run_input.tasks()
            answers = {}
            for place, setting in enumerate(order, 1):
                if not store.has(setting.model, setting.device):
                    yield words.loading_model(setting.model)
                work = answer(store.get(setting.model, setting.device), task, vocabulary, setting)
                answers[id(setting)] = yield from often(work, f"{place} of 2: {{}}".format)
            both = [answers[id(setting)] for setting in (now, other)]
            return both, cosine(*both)

        self._titles = self._name(now, other)
        self._clear()
        part.say(f"{words.READING_IMAGE} ...")
        part.show_running(True)
        self.worker.start(question)

    def _refuse(self, reason: str) -> None:
        self._part.say("")
        self._session.refuse("compare", reason)

    def _clear(self) -> None:
        self._part.clear()
        self._session.settle("compare")

    def _run_input(self) -> Any:
        if self._region is None or self._info is None or self._origin is None:
            raise InputError("Run first and select a region to compare.")
        if self._session.run.running:
            raise InputError("Wait until the run is over.")
        return self._origin.again(self._viewer, self._region, drawn=True)

    def _name(self, now: RunSettings, other: RunSettings) -> tuple[str, str]:
        part = self._part
        values = [_value(setting, part.changed) for setting in (now, other)]
        mine, theirs = (part.title_of(value) for value in values)
        label = part.what.currentText()
        if part.changed not in part.inversion:
            return mine, theirs
        return f"{label} {mine}", f"{label} {theirs}"

    def _answered(self, outcome: Any) -> None:
        both, same = outcome
        verdict = (
            f"Cosine of the two embeddings: {same:.3f}"
            if same is not None
            else "Embeddings of different models cannot be compared."
        )
        self._part.say("")
        self._part.show_answers(self._titles, both, verdict)

    def _estimation(self) -> Work | None:
        """Return the work that estimates the comparison; None without a region."""
        from ...pipeline.comparing import with_one_change

        part = self._part
        if (
            not self._opened
            or self._region is None
            or self._session.run.running
            or not part.what.count()
        ):
            return None
        now = self._present()
        return comparison((now, with_one_change(now, part.changed, part.value)), self._store)

    def _present(self) -> RunSettings:
        session = self._session
        return usable_settings(session.settings, session.settings_problem)

    def refresh(self, _: object = None) -> None:
        """Follow the panel's model and method while the section is open."""
        if self._opened:
            self._offer()
            self.estimator.later()

    def _offer(self) -> None:
        here = [spec.name for spec in list_models() if model_state(spec) != "to fetch"]
        own = self._session.settings.method
        methods = {
            spec.title: Method(spec.name, own.weights)
            for spec in list_methods()
            if own.weights is not None or not spec.weights
        }
        self._part.offer(here if len(here) > 1 else [], methods, inverts=own.uses_inversion)

    def _suggest(self) -> None:
        """Suggest a value that differs from the current one."""
        part = self._part
        try:
            now = self._present()
        except MaskInversionError:
            return
        config = now.inversion
        part.form.set_values(
            {
                setting.key: _other(setting, getattr(config, name))
                for name, setting in part.inversion.items()
            }
        )
        part.window.setCurrentIndex(0 if now.window.mode == "whole" else 1)
        for box, own in ((part.model, now.model), (part.method, now.method.title)):
            names = [box.itemText(place) for place in range(box.count())]
            box.setCurrentIndex(next((i for i, name in enumerate(names) if name != own), -1))


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


def _value(settings: RunSettings, what: str) -> Any:
    if what == "window":
        return settings.window.mode
    source = settings if what in ("model", "method") else settings.inversion
    return getattr(source, what)
