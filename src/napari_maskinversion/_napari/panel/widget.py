"""The dock widget: creates the topics and connects them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ..workers import needs_qt  # noqa: F401  # isort: skip - before Qt is asked for

from qtpy.QtCore import QEvent, QSize, QTimer, Signal
from qtpy.QtWidgets import QPushButton, QWidget

from ..explore.captions_and_words import CaptionsAndWords
from ..explore.region_details import RegionDetails
from ..inputs.drawing import draw_regions
from ..inputs.input_widget import InputWidget
from ..inputs.regions_file_controller import RegionsFileController
from ..layers.results_on_canvas import ResultsOnCanvas
from ..layers.tasks import PlaneFinder
from ..model.model_widget import ModelWidget, fetch_model
from ..results.export_controller import ExportController
from ..results.results_widget import ResultsWidget
from ..review.review_controller import ReviewController
from ..run.live_controller import LiveController
from ..run.live_results import LiveResults
from ..run_requests.estimator import Estimator, Work
from ..run_requests.preparing import estimate_of, make_request, record
from ..run_requests.request import Request
from ..run_requests.run_task import FinishedRun, RunTask
from ..sam.segment_controller import SegmentController
from ..session import Bindings, Phase, RunState, session_of
from ..vocabulary.limits_controller import LimitsController
from ..vocabulary.vocabulary_widget import VocabularyWidget
from ..widgets.sections import stack
from ..workers.fetching import connect_fetching
from ..workers.model_store import ModelStore
from ..workers.notify import Severity, ignore, inform, listen, refuse, refusing
from ..workers.updates import Update
from ..workers.warming import Warming
from ..workers.worker import Worker
from .colors import colors_of
from .controller import PanelController
from .foot import ACTIONS, Foot
from .topics import Tabs

if TYPE_CHECKING:
    import pandas as pd

    from ...results.results import Results
    from ..run.live_updater import LiveAnswer


class MaskInversionWidget(QWidget):
    """Choose an image and regions, type labels, run, and read the suggestions.

    Parameters
    ----------
    napari_viewer : napari.viewer.Viewer
        Or napari's proxy of it.

    Signals
    -------
    closed
        The dock was closed: stop workers and release layers. It may be docked again.
    """

    closed = Signal()

    def __init__(self, napari_viewer: Any, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        # napari's proxy wraps each layer at each access; here layers are compared by identity.
        self._viewer = getattr(napari_viewer, "__wrapped__", napari_viewer)
        # Image layer, planes and record of the current run.
        self._next: tuple[Any, PlaneFinder, dict[str, Any]] | None = None
        self._live = self._filling = False  # heatmaps as they form; the table is being filled
        self._connected = False
        kept = "The regions finished before are kept."
        self.runner = Worker("single", "The run", kept=kept, parent=self)
        self.fetcher = Worker("single", "The download", parent=self)
        self.store = ModelStore()
        self.finished: FinishedRun | None = None  # the last run that finished any region
        self.session = session = session_of(self._viewer)
        self._bindings = Bindings()
        self.input, self.model = InputWidget(self._viewer, session), ModelWidget(session)
        self.vocabulary, self.results = VocabularyWidget(session), ResultsWidget()
        self.from_file = RegionsFileController(self._viewer, session, self.input, self)
        self.segment = SegmentController(self._viewer, session, self)
        self.canvas = ResultsOnCanvas(self._viewer)
        self.review = ReviewController(self.results, self.canvas, self)
        self.details = RegionDetails(self._viewer, self.canvas, session, self.store, self)
        self.language = CaptionsAndWords(
            self._viewer, session, self.results, self.canvas, self.store, self
        )
        self.live = LiveController(self._viewer, session, self.runner, self.store, self)
        self.live_results = LiveResults(
            session, self.results, self.canvas, self.details, self.review, self
        )
        self.limits = LimitsController(session, self.vocabulary, self.results, self)
        self.estimator = Estimator(self._estimation, self)
        self.foot = Foot(session)
        self.exports = ExportController(self._viewer, self)
        self.tabs = Tabs(self)
        self.controller = PanelController(self, self.model, self.vocabulary, self.results.columns)
        self.warming = Warming(self)
        self._build()
        self._connect_parts()
        self._connect_viewer()
        self.controller.start()
        if self.controller.preferences.live:
            self.live.part.switch.setChecked(True)

    def _build(self) -> None:
        stack(self, self.controller.part, self.tabs, self.foot)
        self.layout().setStretchFactor(self.tabs, 1)
        self.setMinimumWidth(300)

    def _on_warm(self) -> None:
        self.model.fill_devices()
        self.estimator.later()

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        """Narrow, and as tall as there is room."""
        return QSize(360, 760)

    def _connect_parts(self) -> None:
        self.live.stopped.connect(self.language.finder.estimator.later)
        self.estimator.ready.connect(self.foot.show_estimate)
        self.results.picked.connect(self._pick)
        self.foot.asked.connect(self.do)
        for action in ("draw", "file", "segment"):
            entry = self.input.menu.addAction(ACTIONS[action])
            entry.triggered.connect(lambda _=False, action=action: self.do(action))
        self.foot.stopped.connect(self.stop)
        self.results.row_selected.connect(self._select_row)
        self.live.stopped.connect(self.estimator.later)
        self.live.answered.connect(self._show_live)
        self.live.stopped.connect(self.live_results.forget)
        self.live.stopped.connect(self.limits.look)
        self.results.renewed.connect(self.details.renew)
        self.runner.progressed.connect(self._on_update)
        self.runner.done.connect(self._on_done)
        self.runner.failed.connect(refuse)
        self.runner.ended.connect(self._on_end)
        connect_fetching(self.model, self.fetcher, fetch_model)
        self.warming.done.connect(self._on_warm)
        self.controller.heatmap_changed.connect(self.canvas.heatmap.recolor)
        self.controller.palette_changed.connect(self.review.recolor)
        self.controller.forgotten.connect(self.review.forget_options)
        self.controller.pages.unload_asked.connect(self._unload)
        # Restores the labels of a layer.
        self.controller.forgotten.connect(self.vocabulary.prefill_from_layers)

    # -- life ---------------------------------------------------------------------------------

    def _connect_viewer(self) -> None:
        if not self._connected:
            self._connected = True
            self.controller.resume()
            self._viewer.events.theme.connect(self._on_theme)
            self._on_theme()
            self._follow_session()
            for part in (self.vocabulary, self.live, self.language, self.details, self.segment):
                part.follow()
            self.limits.follow()
            self.foot.follow()
            listen(self._hear)
            self.input.connect_viewer()

    def _follow_session(self) -> None:
        events = self.session.events
        names = ("layers", "settings", "scope", "live")
        self._bindings.connect([events[name] for name in names], self._estimate_later)
        self._bindings.connect(events.edits, self._edited)
        self._bindings.connect(events.outlined, self._show_outline)
        self._bindings.connect([events.record, events.decided], self._count_decided)

    def _estimate_later(self, _: Any) -> None:
        self.estimator.later()

    def _edited(self, _: int) -> None:
        # In live mode each stroke is answered anyway.
        if not self.session.live:
            self.estimator.later()

    def _count_decided(self, _: Any = None) -> None:
        """Show in the tab's title how far the review is: ``Review 12/43``."""
        total = len(self.session.results or ())
        self.tabs.set_note("review", f"{self.session.decided:,}/{total:,}" if total else "")

    def _show_outline(self, _: bool) -> None:
        self._show_row(self.results.row)

    def shut_down(self) -> None:
        """Stop the workers and release viewer, layers and model."""
        if self._connected:
            self._connected = False
            self.closed.emit()
            self.controller.stop()
            self._bindings.release()
            self.vocabulary.stop()
            self.runner.drop()
            self.live.shut_down()
            self.review.stop()
            self.fetcher.cancel()
            self.segment.shut_down()
            self.from_file.stop()
            self.store.clear()
            self._viewer.events.theme.disconnect(self._on_theme)
            self.input.disconnect_viewer()
            self.estimator.stop()
            self.limits.stop()
            self.language.shut_down()
            self.exports.stop()
            self.canvas.forget()
            self.details.forget()
            self._next = None
            self.foot.stop()
            ignore(self._hear)

    def _hear(self, text: str, severity: Severity, action: str) -> bool:
        """Show a message in the status line; return whether the user sees it there."""
        self.session.say(text, severity, action)
        return self.isVisible()

    def event(self, event: QEvent) -> bool:
        """Shut down when undocked: napari only removes the parent."""
        if event.type() == QEvent.Type.WindowActivate and self._connected:
            listen(self._hear)  # of several windows the active one shows the messages
        if event.type() == QEvent.Type.ParentChange:
            if self.parent() is None:
                self.shut_down()
            else:
                self._connect_viewer()
        return bool(super().event(event))

    def closeEvent(self, event: Any) -> None:  # noqa: N802 - Qt's name
        """Shut down when closed as a separate window."""
        self.shut_down()
        super().closeEvent(event)

    # -- run ----------------------------------------------------------------------------------

    @property
    def viewer(self) -> Any:
        """The viewer it belongs to."""
        return self._viewer

    def belongs_to(self, viewer: Any) -> bool:
        """Whether it is docked in this viewer."""
        return self._viewer is viewer and self.parent() is not None

    def reveal(self, place: str) -> None:
        """Show a tab, the table ("results") or the window for SAM ("segment")."""
        if place == "segment":
            self.segment.dialog.bring()
            return
        area = self.tabs.show_tab("label" if place == "results" else place)
        area.widget().nextInFocusChain().setFocus()
        if place == "results":
            QTimer.singleShot(60, self._scroll_to_results)  # once the tab is laid out

    def do(self, action: str) -> None:
        """Do what a button of the foot says: a key of `foot.ACTIONS`."""
        actions: dict[str, Callable[[], object]] = {
            "sample": partial(self._viewer.open_sample, "napari-maskinversion", "everyday-1"),
            "draw": self._draw,
            "file": self.from_file.ask,
            "segment": self.segment.dialog.bring,
            "words": self._choose_words,
            "run": self.start,
            "review": self._begin_review,
            "export": self._choose_export,
            "settings": self.controller.show_settings,
            "model": partial(self.controller.show_settings, "Model"),
        }
        actions[action]()

    def _draw(self) -> None:
        image, regions = self.session.layers
        with refusing():
            layer = draw_regions(self._viewer, image, regions)
            self.session.choose(regions=layer)
        inform("Paint one region, then press M for the next label. Every label is a region.")

    def _choose_words(self) -> None:
        self.reveal("label")
        self.vocabulary.text.setFocus()
        _open_menu(self.vocabulary.presets)

    def _begin_review(self) -> None:
        self.reveal("review")
        if not self.review.part.switch.isChecked():
            self.review.part.switch.click()

    def _choose_export(self) -> None:
        self.reveal("results")
        _open_menu(self.results.export)

    def preselect(self, layer: Any) -> None:
        """Choose a layer as image or as regions, by its type."""
        for combo in (self.input.image, self.input.regions):
            combo.choose(layer)

    def start(self) -> None:
        """Start a run, or show why it cannot start."""
        if self.runner.busy:
            return
        with refusing():
            self._begin(self._request())

    def _begin(self, request: Request) -> None:
        (image, regions), where = self.session.layers, request.input.finder
        source = record(request, image, regions)
        # The results shown stay until the first new ones: a refused run loses nothing.
        self._next = (image, where, source)
        self.details.expect(request, image, regions)
        self.review.expect(image, regions)
        self._live = self.session.forming
        self.estimator.stop()
        self.live.pause()
        self.session.begin_run()
        self.runner.start(RunTask(request, self.store).work)

    def stop(self) -> None:
        """Cancel the run; finished regions stay."""
        self.runner.cancel()
        if self.runner.busy:
            self.session.run = replace(self.session.run, phase="stopping")

    def _request(self) -> Request:
        return make_request(self._viewer, self.session, captioned=True)

    def _estimation(self) -> Work | None:
        """Return the function that estimates a run, or live mode's first answer."""
        if self.runner.busy:
            return None
        return estimate_of(self._viewer, self.session, self.store)

    def _on_update(self, update: Update) -> None:
        if update.results is not None:
            self._show_results(update.results, update.table)
        run = self.session.run
        self.session.run = replace(
            run,
            text=update.text,
            fraction=update.fraction or 0.0,
            done=update.done,
            total=update.total,
        )
        if update.forming is not None and self._live:
            image, where = self._next[:2] if self._next else (self.canvas.image, None)
            self.canvas.show_forming(update.forming, image, where)
        if update.note:
            self.session.say(update.note)  # what was changed because memory ran out

    def _on_end(self) -> None:
        self._next = None
        if self.session.run.running:  # cancelled or failed before any region was finished
            self.session.run = RunState("cancelled")
        if self._live:  # back to what is selected
            self._live = False
            self.canvas.heatmap.blank()
            self._show_row(self.results.row)
        self.model.fill_devices()
        self.estimator.later()

    def _on_done(self, finished: FinishedRun) -> None:
        self.finished, self.live.seed = finished, finished.seed
        done, total = len(finished.results), finished.total
        stopped: Phase = "cancelled" if self.session.run.phase == "stopping" else "failed"
        self.session.run = RunState("done" if done >= total else stopped, done, total)
        self._show_results(finished.results)
        self.results.run_masks = (finished.results, finished.masks)
        self.results.fingerprint = finished.pixels
        self.review.follow(finished.results, finished.identities)

    def _show_results(self, results: Results, table: pd.DataFrame | None = None) -> None:
        if self._next is not None:
            image, where, self.results.source = self._next
            self._next = None
            self.results.show_results(None)
            self.canvas.belong_to(image, where)
            self.details.begin()
        first = self.results.results is None
        self._filling = True
        self.results.show_results(results, table)
        self._filling = False
        self._open_results(first)

    def _show_live(self, answer: LiveAnswer) -> None:
        first = self.results.results is None
        self.live_results.show(answer)
        self._open_results(first)

    def _open_results(self, first: bool) -> None:
        if first:
            # After the layout has updated.
            QTimer.singleShot(50, self._scroll_to_results)

    def _scroll_to_results(self) -> None:
        self.tabs.areas["label"].ensureWidgetVisible(self.results, 0, 4)

    # -- results ------------------------------------------------------------------------------

    def _select_row(self, row: int) -> None:
        if self.live_results.busy:
            return
        # A picked row is shown instead of heatmaps that form.
        self._live = self._live and self._filling
        self._show_row(row)

    def _show_row(self, row: int) -> None:
        """Show the heatmap of a row, if its image is still in the viewer."""
        results = self.results.results
        if results is not None and 0 <= row < len(results):
            outlined = self.session.outlined
            self.canvas.show(results.regions[row], outlined=outlined)
            self.details.show(results, row)

    def _pick(self, ids: list[int]) -> None:
        self.input.scope.pick(ids)
        inform(f"The next run uses {len(ids)} region{'s' * (len(ids) != 1)} only.")

    def _unload(self) -> None:
        """Free the memory of the models that no worker uses."""
        if self.runner.busy:
            refuse("Wait until the run is over, or cancel it; then unload the model.")
            return
        self.store.clear()
        self.segment.store.clear()
        inform("The model is unloaded. The next run loads it again.")

    # -- the rest -----------------------------------------------------------------------------

    def _on_theme(self, event: Any = None) -> None:
        from napari.utils.theme import get_theme

        theme = get_theme(self._viewer.theme)
        self.vocabulary.set_colors(theme.foreground.as_hex())
        self.results.set_colors(theme.current.as_hex(), theme.text.as_hex())
        self.details.set_colors(theme.current.as_hex(), theme.text.as_hex())
        colors = colors_of(theme)
        self.controller.part.set_colors(colors)
        self.foot.set_colors(colors)


def _open_menu(button: QPushButton) -> None:
    """Open the menu of a button, and return at once."""
    menu = button.menu()
    if menu is not None:
        menu.popup(button.mapToGlobal(button.rect().bottomLeft()))
