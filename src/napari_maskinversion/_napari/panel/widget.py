"""The dock widget: creates the topics and connects them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from ..workers import needs_qt  # noqa: F401  # isort: skip - before Qt is asked for

from qtpy.QtCore import QEvent, QSize, Qt, QTimer, Signal
from qtpy.QtGui import QCloseEvent, QKeyEvent, QShortcut
from qtpy.QtWidgets import QPushButton, QWidget

from ...app.requests.estimating import Work
from ...app.requests.preparing import estimate_of
from ...app.session import Action, Topic, session_of
from ...app.work.driver import any_driven
from ...app.work.model_store import ModelStore, give_back_memory
from ..explore.captions_section import CaptionsSection
from ..explore.compare import CompareSection
from ..explore.find_section import FindSection
from ..explore.gallery import Gallery
from ..explore.imagine_section import ImagineSection
from ..explore.map_window import MapSection
from ..explore.why import WhySection
from ..explore.work_section import Shared
from ..images.images_controller import ImagesController
from ..inputs.input_widget import InputWidget, draw_regions
from ..inputs.regions_file import RegionsFileController
from ..layers.results_on_canvas import ResultsOnCanvas
from ..library.library_controller import LibraryController
from ..model.image_check import ImageCheck
from ..model.model_widget import ModelWidget
from ..model.own_model import ModelDownload, OwnModel
from ..results.export_controller import ExportController
from ..results.region_on_canvas import RegionOnCanvas
from ..results.results_widget import ResultsWidget
from ..review.review_controller import ReviewController
from ..run.changes import Changes
from ..run.live_controller import LiveController
from ..run.run_controller import RunController
from ..run_requests.estimator import Estimator
from ..sam.segment_controller import SegmentController
from ..vocabulary.rerank_controller import RerankController
from ..vocabulary.vocabulary_widget import VocabularyWidget
from ..widgets.dialogs import WindowClosing
from ..widgets.focus_ring import FocusRing
from ..widgets.keys import PANEL, pressed, shortcut
from ..widgets.sections import stack
from ..workers.job_runner import JobRunner, when_idle
from ..workers.notify import Severity, ignore, inform, listen, refuse, refusing
from ..workers.warming import Warming
from .controller import PanelController
from .file_drops import FileDrops
from .foot import Foot
from .header import colors_of
from .panel_parts import PanelParts
from .topics import TABS, Tabs

if TYPE_CHECKING:
    from napari.components import ViewerModel
    from napari.layers import Layer


class MaskInversionWidget(Topic, PanelParts):
    """Choose an image and regions, type labels, run, and read the suggestions."""

    closed = Signal()

    def __init__(
        self, napari_viewer: ViewerModel, parent: QWidget | None = None, *, in_parts: bool = False
    ) -> None:
        super().__init__(parent)
        # napari's proxy wraps each layer at each access; here layers are compared by identity.
        self._viewer = getattr(napari_viewer, "__wrapped__", napari_viewer)
        self._connected = False
        self.parts = self._make()
        if not in_parts:
            for _ in self.parts:
                pass

    def _make(self) -> Iterator[bool]:
        """Make the parts; each takes less than a tenth of a second."""
        self.store = ModelStore()
        self.session = self._session = session = session_of(self._viewer)
        self.threads = JobRunner(session.jobs, self)
        self.input = InputWidget(self._viewer, session)
        yield False
        self.model = ModelWidget(session)
        yield False
        self.download = ModelDownload(session, self.model, self)
        self.own_model = OwnModel(session, self.model, self.store, self)
        self.image_check = ImageCheck(self._viewer, session, self.store, self)
        self.vocabulary = VocabularyWidget(session)
        yield False
        self.results = ResultsWidget(session)
        yield False
        self.from_file = RegionsFileController(self._viewer, session, self.input, self)
        self.segment = SegmentController(self._viewer, session, self)
        yield False
        self.canvas = ResultsOnCanvas(self._viewer)
        self.region = RegionOnCanvas(session, self.canvas)
        self.run_controller = RunController(self._viewer, session, self.canvas, self.store, self)
        self.runner = self.run_controller.job
        yield False
        self.review = ReviewController(self.canvas, self.store, self)
        yield False
        shared = Shared(self._viewer, session, self.canvas, self.store)
        self.why, self.compare = WhySection(shared), CompareSection(shared)
        yield False
        self.captions, self.finder = CaptionsSection(shared), FindSection(shared)
        self.map = MapSection(shared)
        yield False
        self.gallery = Gallery(shared)
        yield False
        self.imagine = ImagineSection(shared)
        yield False
        self.live = LiveController(self._viewer, session, self.store, self)
        self.rerank = RerankController(session, self.store, self)
        self.changes = Changes(self._viewer, session, self)
        self.estimator = Estimator(session, self)
        self.estimator.due.connect(lambda: self.estimator.estimate(self._estimation))
        self.foot = Foot(session)
        self.exports = ExportController(self._viewer, session, self)
        self.library = LibraryController(self._viewer, session, self.store, self)
        yield False
        self.images = ImagesController(self._viewer, session, self.store, self)
        yield False
        self.tabs = Tabs(self)
        yield False
        self.controller = PanelController(self)
        yield False
        self.warming = Warming(self)
        self.ring = FocusRing(self)
        self.closing = WindowClosing(self)
        self.closing.closing.connect(self.keep)
        self.closing.gone.connect(self.shut_down)
        self._build()
        self._connect_parts()
        yield False
        self.resume()
        yield False
        self.controller.start()
        if self.controller.preferences.live:
            self.live.switch.setChecked(True)
        self.drops = FileDrops(self, session)
        yield False
        yield True
        for name in TABS:
            self.tabs.fill(name)
            yield True

    def _build(self) -> None:
        stack(self, self.controller.part, self.tabs, self.foot)
        self.layout().setStretchFactor(self.tabs, 1)
        self.setMinimumWidth(300)

    def _order_foot(self, name: str) -> None:
        """Let Tab reach the foot after a tab that was filled."""
        inside = _reached_by_tab(self.tabs.areas[name])
        foot = _reached_by_tab(self.foot)
        for before, after in pairwise([inside[-1], *foot]):
            QWidget.setTabOrder(before, after)

    def _on_warm(self) -> None:
        self.model.fill_devices()
        self.own_model.list_architectures()
        self.estimator.later()
        self.image_check.later()

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        """Narrow, and as tall as there is room."""
        return QSize(360, 760)

    def _connect_parts(self) -> None:
        for name, step in (("previous image", -1), ("next image", 1)):
            key = QShortcut(shortcut(PANEL, name), self)  # also from the canvas
            key.activated.connect(partial(self.images.move, step))
        self.estimator.ready.connect(self.foot.show_estimate)
        self.review.decider.project_writer = self.images.keeper
        self.foot.action_pressed.connect(self.do)
        self.tabs.filled.connect(self._order_foot)
        self.tabs.currentChanged.connect(self._tab_changed)
        self._tab_changed()
        for action in (Action.DRAW, Action.OPEN_REGIONS, Action.SEGMENT):
            entry = self.input.menu.addAction(action.value)
            entry.triggered.connect(lambda _=False, action=action: self.do(action))
        self.foot.stopped.connect(self.stop)
        self.warming.done.connect(self._on_warm)
        self.controller.heatmap_changed.connect(self.canvas.heatmap.recolor)
        self.controller.palette_changed.connect(self.review.write_layer)
        self.controller.palette_changed.connect(self.results.recolor)
        self.controller.pages.unload_asked.connect(self._unload)
        # Restores the labels of a layer.
        self.controller.forgotten.connect(self.vocabulary.prefill_from_layers)

    @property
    def topics(self) -> dict[str, Topic]:
        """What is bound to the session, by name, in the order in which it follows changes."""
        return {
            "input": self.input,
            "model": self.model,
            "own_model": self.own_model,
            "download": self.download,
            "vocabulary": self.vocabulary,
            "run_controller": self.run_controller,
            "from_file": self.from_file,
            "results": self.results,
            "region": self.region,
            "why": self.why,
            "compare": self.compare,
            "captions": self.captions,
            "finder": self.finder,
            "map": self.map,
            "gallery": self.gallery,
            "imagine": self.imagine,
            "live": self.live,
            "rerank": self.rerank,
            "changes": self.changes,
            "segment": self.segment,
            "review": self.review,
            "library": self.library,
            "images": self.images,
            "exports": self.exports,
            "image_check": self.image_check,
            "foot": self.foot,
            "ring": self.ring,
        }

    # -- life ---------------------------------------------------------------------------------

    def resume(self) -> None:
        """Follow the viewer, at first and after the panel is docked again."""
        if not self._connected:
            self._connected = True
            self.threads.open()
            self.controller.resume()
            self._viewer.events.theme.connect(self._on_theme)
            self._on_theme()
            listen(self._hear)
            self.closing.watch()
            for name, topic in self.topics.items():
                try:
                    topic.follow()
                except Exception as error:  # the others work: an odd layer stops none of them
                    self.session.say(f"The part '{name}' does not work: {error}", "error")
            self.follow()

    def bind(self) -> None:
        """Follow the session."""
        run = self._session.run.events
        review = self._session.review.events
        project = self._session.project.events
        self.after(self.estimator.later, run.layers, run.settings, run.scope, run.live)
        self.after(self._edited, run.edits)
        self.after(self._run_changed, run.running)
        self.after(self._count_decided, run.record, review.decided_count)
        self.after(self._count_images, project.state)
        self.after(lambda _: self.reveal("images"), self._session.project.open_images)
        self.after(lambda: self._begin_review(), self._session.review.begin)
        self._count_decided()
        self._count_images()
        self.estimator.later()

    def _edited(self, _: int) -> None:
        # In live mode each stroke is answered anyway.
        if not self.session.run.live:
            self.estimator.later()

    def _run_changed(self, running: bool) -> None:
        if running:
            self.estimator.stop()
        else:
            self.model.fill_devices()
            self.estimator.later()

    def _tab_changed(self, _: int = 0) -> None:
        self.session.status.tab = self.tabs.shown

    def _count_decided(self, *_: object) -> None:
        """Show in the tab's title how far the review is: ``Review 12/43``."""
        total = len(self.session.run.results or ())
        note = ""
        if total:
            note = f"{self.session.review.decided_count:,}/{total:,}"
        self.tabs.set_note("review", note)

    def _count_images(self, *_: object) -> None:
        """Show in the tab's title how many images are done: ``Images 4/10``."""
        state = self.session.project.state
        note = "" if state is None else f"{len(state.done):,}/{len(state.names):,}"
        self.tabs.set_note("images", note)

    def shut_down(self) -> None:
        """Stop the workers and release viewer, layers and model."""
        if self._connected:
            self._connected = False
            self.closed.emit()
            self.closing.release()
            self.threads.stop()
            self.controller.stop()
            super().stop()
            self._viewer.events.theme.disconnect(self._on_theme)
            self.estimator.stop()
            # The other way round: an export still has its review, a review its canvas.
            for topic in reversed(self.topics.values()):
                topic.stop()
            self.threads.close()
            ignore(self._hear)
            self.store.clear()  # last: nothing loads the model again
            when_idle(give_back_memory)

    def keep(self) -> None:
        """Write what waits for a pause: the window closes, and tells its widgets nothing else."""
        self.controller.keep()
        self.library.keep()
        self.images.keeper.finish()

    def _hear(self, text: str, severity: Severity, action: Action | None) -> bool:
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
                self.resume()
        return bool(super().event(event))

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 - Qt's name
        """Undo and redo in the regions layer what no part of the panel undoes."""
        action, regions = pressed(event, PANEL), self.session.run.regions
        if action in ("undo", "redo") and hasattr(regions, action):
            getattr(regions, action)()
        else:
            super().keyPressEvent(event)

    def closeEvent(self, event: QCloseEvent) -> None:  # noqa: N802 - Qt's name
        """Shut down when closed as a separate window."""
        self.shut_down()
        super().closeEvent(event)

    # -- run ----------------------------------------------------------------------------------

    @property
    def viewer(self) -> ViewerModel:
        """The viewer it belongs to."""
        return self._viewer

    def reveal(self, place: str) -> None:
        """Show a tab, the table ("results") or the window for SAM ("segment")."""
        if place == "segment":
            self.segment.dialog.bring()
            return
        area = self.tabs.show_tab("label" if place == "results" else place)
        _reached_by_tab(area.widget())[0].setFocus()
        if place == "results":
            QTimer.singleShot(60, self._scroll_to_results)  # once the tab is laid out

    def do(self, action: Action) -> None:
        """Do what a button of the foot, or of a message, says."""
        actions: dict[Action, Callable[[], object]] = {
            Action.OPEN_SAMPLE: partial(self._open_sample, "everyday-1"),
            Action.OPEN_SMEAR: partial(self._open_sample, "bccd-smear"),
            Action.DRAW: self._draw,
            Action.OPEN_REGIONS: self.from_file.ask,
            Action.SEGMENT: self.segment.dialog.bring,
            Action.CHOOSE_WORDS: self._choose_words,
            Action.CHOOSE_PRESET: self._choose_preset,
            Action.RUN: self.start,
            Action.UPDATE: partial(self.run_controller.start, keep=True),
            Action.CONTINUE: partial(self.run_controller.start, keep=True),
            Action.REVIEW: self._begin_review,
            Action.ACCEPT: partial(self.review.act, "accept"),
            Action.NEXT_UNDECIDED: partial(self.review.act, "undecided"),
            Action.EXPORT: partial(self._choose_from, "results", self.exports.export),
            Action.NEXT_IMAGE: self.images.next_open,
            Action.EXPORT_ALL: partial(self._choose_from, "images", self.images.part.export),
            Action.ADD_IMAGES: self.images.add_new,
            Action.SAVE_REGIONS: self.images.keeper.flush,
            Action.SETTINGS: self.controller.settings.bring,
            Action.SWITCH_LAYER: self.session.choose_added,
            Action.CHOOSE_MODEL: partial(self.controller.settings.bring, "Model"),
        }
        actions[action]()

    def _open_sample(self, key: str) -> None:
        self._viewer.open_sample("napari-maskinversion", key)

    def _draw(self) -> None:
        image, regions = self.session.run.layers
        if image is None:
            return
        with refusing():
            layer = draw_regions(self._viewer, image, regions)
            if regions is None:
                self.session.choice.made_for(image, layer)
            self.session.choose(regions=layer)
        inform("Paint one region, then press M for the next label. Every label is a region.")

    def _choose_words(self) -> None:
        # No menu opens: it would take the keys of who types at once.
        self.reveal("label")
        self.vocabulary.text.setFocus()

    def _choose_preset(self) -> None:
        self._choose_words()
        _open_menu(self.vocabulary.presets)

    def _begin_review(self) -> None:
        self.reveal("review")
        if not self.review.part.switch.isChecked():
            self.review.part.switch.click()

    def _choose_from(self, place: str, button: QPushButton) -> None:
        self.reveal(place)
        _open_menu(button)

    def preselect(self, layer: Layer) -> None:
        """Choose a layer as image or as regions, by its type."""
        for combo in (self.input.image, self.input.regions):
            combo.choose(layer)

    def start(self) -> None:
        """Start a run, or show why it cannot start."""
        self.run_controller.start()

    def stop(self) -> None:
        """Cancel the run, whose finished regions stay; else the download."""
        if self.session.run.progress.running:
            self.run_controller.cancel()
        elif self.session.status.many is not None:
            self.images.across.cancel()
            self.review.decider.cancel()
        else:
            self.download.job.cancel()

    def _estimation(self) -> Work | None:
        """Return the function that estimates a run, or live mode's first answer."""
        if self.session.run.progress.running:
            return None
        return estimate_of(self._viewer, self.session, self.store)

    def _scroll_to_results(self) -> None:
        self.tabs.areas["label"].ensureWidgetVisible(self.results, 0, 4)

    def _unload(self) -> None:
        """Free the memory of all models, once no worker uses them."""
        if self.session.run.progress.running:
            refuse("Wait until the run is over, or cancel it; then unload the model.")
            return
        if any_driven():
            inform("The model will be unloaded when the current work is finished.")
        when_idle(self._unload_now)

    def _unload_now(self) -> None:
        self.why.release()
        self.live.release()
        self.imagine.release()
        self.segment.store.clear()
        self.store.clear()
        give_back_memory()
        inform("The model is unloaded. The next run loads it again.")

    # -- the rest -----------------------------------------------------------------------------

    def _on_theme(self, _: object = None) -> None:
        from napari.utils.theme import get_theme

        theme = get_theme(self._viewer.theme)
        self.vocabulary.set_colors(theme.foreground.as_hex())
        self.results.set_colors(theme.current.as_hex(), theme.text.as_hex())
        self.why.set_colors(theme.current.as_hex(), theme.text.as_hex())
        self.map.set_colors(theme.canvas.as_hex(), theme.text.as_hex())
        colors = colors_of(theme)
        self.controller.part.set_colors(colors)
        self.foot.set_colors(colors)
        self.ring.set_color(colors["text"])


def _reached_by_tab(part: QWidget) -> list[QWidget]:
    tab = Qt.FocusPolicy.TabFocus
    return [widget for widget in part.findChildren(QWidget) if widget.focusPolicy() & tab]


def _open_menu(button: QPushButton) -> None:
    """Open the menu of a button, and return at once."""
    menu = button.menu()
    if menu is not None:
        menu.popup(button.mapToGlobal(button.rect().bottomLeft()))
