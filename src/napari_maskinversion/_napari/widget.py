"""The dock widget: five parts, and what happens between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qtpy.QtCore import QEvent, QSize, Qt, QTimer
from qtpy.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QProgressBar,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from ..core.errors import InputError, MaskInversionError
from .coordinates import Plane, ViewPoint
from .heatmap import HeatmapLayer
from .input_part import InputPart
from .jobs import Request, Update
from .layers import copy_image, copy_regions, vocabulary_of
from .model_part import ModelPart
from .notify import inform, refuse
from .results_part import ResultsPart
from .runner import Fetcher, Runner
from .sections import Section, column
from .view import bring_into_view
from .vocabulary_part import VocabularyPart

if TYPE_CHECKING:
    import pandas as pd

    from ..results import Results


class MaskInversionWidget(QWidget):
    """Pick an image and regions, type labels, run, and read what each region is.

    Parameters
    ----------
    napari_viewer : napari.viewer.Viewer
        Or napari's proxy of it.
    """

    def __init__(self, napari_viewer: Any, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        # The proxy that napari hands to some plugin widgets wraps every layer anew; layers are
        # compared and kept as objects here.
        self._viewer = getattr(napari_viewer, "__wrapped__", napari_viewer)
        self._image: Any = None  # the image layer of the results shown, and their plane
        self._plane: Plane | None = None
        self._next: tuple[Any, Plane, dict[str, Any]] | None = None  # those of the run under way
        self._connected = False
        self.runner, self.fetcher = Runner(self), Fetcher(self)
        self.input, self.model = InputPart(self._viewer), ModelPart()
        self.vocabulary, self.results = VocabularyPart(), ResultsPart()
        self.heatmap = HeatmapLayer(self._viewer)
        self.run = QPushButton("Run")
        self.run.setToolTip("Find the best label of every region (Ctrl+Return)")
        self.run.setShortcut("Ctrl+Return")
        self.cancel = QPushButton("Cancel")
        self.cancel.setToolTip("Stop at the next step; regions already finished are kept")
        self.progress = QProgressBar()
        self.progress.setAccessibleName("Progress")
        self._build()
        self._connect_parts()
        self._show_running(False)
        self._connect_viewer()

    def _build(self) -> None:
        buttons = QWidget()
        row = QHBoxLayout(buttons)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(self.run, 2)
        row.addWidget(self.cancel, 1)
        self.results_section = Section("5  Results", self.results)
        inside = QWidget()
        layout = QVBoxLayout(inside)
        layout.setContentsMargins(2, 2, 2, 2)
        layout.setSpacing(2)
        layout.addWidget(Section("1  Image and regions", self.input))
        layout.addWidget(Section("2  Model", self.model))
        layout.addWidget(Section("3  Vocabulary", self.vocabulary))
        layout.addWidget(Section("4  Run", column(buttons, self.progress)))
        layout.addWidget(self.results_section)
        layout.addStretch(1)
        self.scroll = QScrollArea()
        self.scroll.setWidgetResizable(True)
        self.scroll.setFrameShape(QFrame.Shape.NoFrame)
        self.scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.scroll.setWidget(inside)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addWidget(self.scroll)
        self.setMinimumWidth(300)

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        """Narrow, and as tall as there is room."""
        return QSize(360, 760)

    def _connect_parts(self) -> None:
        self.input.changed.connect(self._prefill)
        self.run.clicked.connect(self.start)
        self.cancel.clicked.connect(self.stop)
        self.results.row_selected.connect(self._show_row)
        self.runner.updated.connect(self._on_update)
        self.runner.finished.connect(self._show_results)
        self.runner.failed.connect(refuse)
        self.runner.ended.connect(self._on_end)
        self.model.fetch_requested.connect(self._fetch)
        self.model.fetch_cancelled.connect(self.fetcher.cancel)
        self.fetcher.progressed.connect(
            lambda done, total: self.model.show_fetch((int(done), int(total)))
        )
        self.fetcher.fetched.connect(lambda name: inform(f"{name} is on this machine now."))
        self.fetcher.failed.connect(refuse)
        self.fetcher.ended.connect(self._on_fetch_end)

    # -- life ---------------------------------------------------------------------------------

    def _connect_viewer(self) -> None:
        if not self._connected:
            self._connected = True
            self._viewer.events.theme.connect(self._on_theme)
            self._on_theme()
            self.input.connect_viewer()

    def shut_down(self) -> None:
        """Stop the workers and let go of viewer, layers and model."""
        if self._connected:
            self._connected = False
            self.runner.abandon()
            self.fetcher.cancel()
            self.runner.store.clear()
            self._viewer.events.theme.disconnect(self._on_theme)
            self.input.disconnect_viewer()
            self.heatmap.forget()
            self._image = self._plane = self._next = None
            self._show_running(False)

    def event(self, event: QEvent) -> bool:
        """Notice being undocked for good: napari only takes the parent away."""
        if event.type() == QEvent.Type.ParentChange:
            if self.parent() is None:
                self.shut_down()
            else:
                self._connect_viewer()
        return bool(super().event(event))

    def closeEvent(self, event: Any) -> None:  # noqa: N802 - Qt's name
        """Stop when closed as a window of its own."""
        self.shut_down()
        super().closeEvent(event)

    # -- run ----------------------------------------------------------------------------------

    def preselect(self, layer: Any) -> None:
        """Choose a layer as image or as regions, whichever it can be."""
        self.input.image.choose(layer)
        self.input.regions.choose(layer)

    def start(self) -> None:
        """Run on what is chosen; says why if it cannot."""
        if self.runner.running:
            return
        try:
            request, plane = self._request()
        except MaskInversionError as error:
            refuse(str(error))
            return
        source = {
            "image_layer": self.input.image.layer.name,
            "regions_layer": self.input.regions.layer.name,
            "plane": list(plane.position),
        }
        # What is shown stays until there is something new: a run that is refused costs nothing.
        self._next = (self.input.image.layer, plane, source)
        self._show_running(True)
        self.runner.start(request)

    def stop(self) -> None:
        """Cancel the run; regions already finished stay."""
        self.runner.cancel()
        if self.runner.running:
            self.cancel.setEnabled(False)
            self.progress.setFormat("Stopping ...")

    def _request(self) -> tuple[Request, Plane]:
        image, regions = self.input.image.layer, self.input.regions.layer
        if image is None:
            raise InputError("There is no image to look at; open one first.")
        if regions is None:
            raise InputError("There are no regions; add a Labels or Shapes layer and draw some.")
        vocabulary = self.vocabulary.vocabulary()
        if self.model.needs_fetch():
            raise InputError(
                f"{self.model.spec.name} is not on this machine yet; press Fetch under Model, "
                "or choose the bundled model 'demo'."
            )
        view = ViewPoint.of(self._viewer)
        pixels = copy_image(image, view)
        request = Request(
            pixels=pixels,
            regions=copy_regions(regions, image, pixels.plane, view),
            vocabulary=vocabulary,
            config=self.model.config(),
            model=self.model.spec.name,
            device=self.model.device.currentText(),
            chunk_size=self.model.chunk.value(),
            keep_aspect=self.model.keep_aspect.isChecked(),
        )
        return request, pixels.plane

    def _on_update(self, update: Update) -> None:
        if update.results is not None:
            self._show_results(update.results, update.table)
        if not self.cancel.isEnabled():
            return  # being stopped: the bar says so
        # Not Qt's busy bar where nobody knows the fraction: it shows no text.
        self.progress.setValue(round(1000 * (update.fraction or 0)))
        self.progress.setFormat(update.text)

    def _on_end(self) -> None:
        self._next = None
        self._show_running(False)
        self.model.fill_devices()

    def _show_results(self, results: Results, table: pd.DataFrame | None = None) -> None:
        if self._next is not None:
            self._image, self._plane, self.results.source = self._next
            self._next = None
            self.results.show_results(None)
            self.heatmap.blank()
        first = self.results.results is None
        self.results.show_results(results, table)
        self.results_section.open()
        if first:
            # Once the parts have taken their new heights.
            QTimer.singleShot(50, self._scroll_to_results)

    def _show_running(self, running: bool) -> None:
        self.run.setEnabled(not running)
        self.cancel.setEnabled(running)
        self.progress.setRange(0, 1000)
        self.progress.setValue(0)
        found = self.results.model.rowCount()
        done = f"{found} region{'s' * (found != 1)} done" if found else "Ready"
        self.progress.setFormat("Starting ..." if running else done)

    def _scroll_to_results(self) -> None:
        self.scroll.ensureWidgetVisible(self.results, 0, 4)

    # -- results ------------------------------------------------------------------------------

    def _show_row(self, row: int) -> None:
        """Show the heatmap of a row, if its image is still there."""
        results, image, plane = self.results.results, self._image, self._plane
        if results is None or plane is None or image not in self._viewer.layers:
            return
        region = results.regions[row]
        self.heatmap.show(region.grid_map, image, plane)
        bring_into_view(self._viewer, image, plane, region.bbox)

    # -- the rest -----------------------------------------------------------------------------

    def _prefill(self) -> None:
        self.vocabulary.prefill(vocabulary_of(self.input.regions.layer, self.input.image.layer))

    def _fetch(self, name: str) -> None:
        self.model.show_fetch((0, 0))
        self.fetcher.start(name)

    def _on_fetch_end(self) -> None:
        self.model.show_fetch(None)
        self.model.fill()

    def _on_theme(self, event: Any = None) -> None:
        from napari.utils.theme import get_theme

        theme = get_theme(self._viewer.theme)
        self.vocabulary.set_colors(theme.foreground.as_hex())
        self.results.set_colors(theme.current.as_hex(), theme.text.as_hex())
