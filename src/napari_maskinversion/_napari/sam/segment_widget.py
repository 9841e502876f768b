"""Controls for segmentation with SAM."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from qtpy.QtCore import QSignalBlocker, Qt, Signal
from qtpy.QtWidgets import (
    QCheckBox,
    QComboBox,
    QFileDialog,
    QLabel,
    QPushButton,
    QSizePolicy,
    QSpinBox,
    QWidget,
)

from ...regions.cleanup import CleanUp
from ...regions.sam import checkpoints
from ...regions.sam.checkpoints import CheckpointSpec
from ...regions.sam.folders import name_of
from ...regions.sam.prompts import AutomaticConfig
from ...results.settings import fields_of
from ..widgets.form import SettingsForm
from ..widgets.progress import FetchRow, ProgressRow
from ..widgets.sections import LayerCombo, Note, form, line, stack
from .prompt_layers import NEGATIVE, POSITIVE

_NONE: Final = "none: as drawn"
_SHARES: Final = ("score", "stability", "overlap")


class EverythingWidget(QWidget):
    """Edits an `AutomaticConfig`; starts with the defaults."""

    def __init__(self) -> None:
        super().__init__()
        settings = [one for one in fields_of(model=AutomaticConfig) if one.extra.get("ui", True)]
        self.form = SettingsForm(
            settings, options={key: {"step": 0.01} for key in _SHARES}, parent=self
        )
        for setting in settings:
            self.form[setting.key].setSizePolicy(
                QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed
            )
        stack(self, form(list(self.form.rows().values())), margins=(12, 0, 0, 0))

    def config(self) -> AutomaticConfig:
        """Return the chosen settings."""
        return AutomaticConfig(**self.form.values())


class SegmentWidget(QWidget):
    """Boxes, points, checkpoint, the Segment button, and the choice among an object's masks."""

    segment_requested = Signal()
    boxes_wanted = Signal()  # a new layer for them
    points_wanted = Signal()
    kind_chosen = Signal(str)
    object_chosen = Signal()
    stepped = Signal(int)  # to another mask of the object
    cleanup_changed = Signal()

    def __init__(self, viewer: Any) -> None:
        super().__init__()
        self._files: list[Path] = []
        self.use_boxes, self.use_points = QCheckBox("Boxes"), QCheckBox("Points")
        self.boxes = LayerCombo(viewer, is_shapes_layer, "no Shapes layer")
        self.points = LayerCombo(viewer, is_points_layer, "no Points layer")
        self.add_boxes, self.add_points = QPushButton("New"), QPushButton("New")
        self.kind = QComboBox()
        self.kind.addItems([POSITIVE, NEGATIVE])
        self.everything = QCheckBox("Everything in the image instead")
        self.everything_widget = EverythingWidget()
        self.everything_widget.hide()
        self.checkpoint = QComboBox()
        self.file = QPushButton("File...")
        self.fetching = FetchRow("SAM")
        self.run = QPushButton("Segment")
        self.progress = ProgressRow("segmenting", "Stop; nothing is changed")
        self.line = Note("Draw boxes or set points, then press Segment.")
        self.object = QComboBox()
        self.previous, self.next = (
            QPushButton("\N{BLACK LEFT-POINTING SMALL TRIANGLE}"),
            QPushButton("\N{BLACK RIGHT-POINTING SMALL TRIANGLE}"),
        )
        self.score = QLabel("")
        self.erode, self.dilate = QSpinBox(), QSpinBox()
        self.holes, self.largest = QCheckBox("Fill holes"), QCheckBox("Largest piece")
        self._describe()
        self._build()
        self._connect()
        self.fill()
        self.show_objects([])

    def _describe(self) -> None:
        """Set a tooltip and an accessible name for every control."""
        for widget, name, tip in (
            (self.use_boxes, "Use boxes", "Use the bounding box of each shape in a layer."),
            (self.use_points, "Use points", "Use the points of a layer."),
            (self.boxes, "Layer of boxes", "Each shape on the displayed plane is an object."),
            (
                self.points,
                "Layer of points",
                "Points inside a box belong to its object; positive points outside all boxes are "
                "objects of their own. The feature 'label' holds positive or negative, 'object' "
                "a number.",
            ),
            (self.add_boxes, "New layer of boxes", "Add a layer and draw rectangles on it."),
            (self.add_points, "New layer of points", "Add a layer and set points on it."),
            (
                self.kind,
                "New points are",
                "Whether new points are on the object (positive) or off it (negative). In select "
                "mode this changes the selected points, too.",
            ),
            (
                self.everything,
                "Everything in the image",
                "Segment everything with a grid of points, ignoring boxes and points. Takes "
                "minutes without a GPU.",
            ),
            (
                self.checkpoint,
                "SAM checkpoint",
                "Weights of Segment Anything. Without them, each drawn shape is a region.",
            ),
            (
                self.file,
                "Checkpoint file",
                "Use a checkpoint file of your own (.pth, .safetensors); of SAM 2, "
                "model.safetensors in its folder",
            ),
            (self.run, "Segment", "Turn boxes and points into regions in a new Labels layer"),
            (self.object, "Object", "The object whose masks the arrows step through"),
            (self.previous, "Previous mask", "Use the mask with the next higher score"),
            (self.next, "Next mask", "Use the mask with the next lower score"),
            (self.score, "Score", "The chosen mask of the object, and SAM's score for it"),
            (self.erode, "Erode", "Pixels to remove along the outline of each region"),
            (self.dilate, "Dilate", "Pixels to add along the outline, after eroding"),
            (self.holes, "Fill holes", "Fill holes in regions"),
            (self.largest, "Keep the largest piece", "Keep only the largest piece of each region"),
        ):
            widget.setAccessibleName(name)
            widget.setToolTip(tip)
        self.use_boxes.setChecked(True)
        self.use_points.setChecked(True)
        for box in (self.erode, self.dilate):
            box.setRange(0, 200)
            box.setSuffix(" px")
        # These may shrink in a narrow dock.
        combos = (self.boxes, self.points, self.checkpoint, self.object)
        for field in (*combos, self.kind, self.erode, self.dilate):
            field.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        for button in (self.previous, self.next):
            button.setFixedWidth(32)
            button.setAutoRepeat(False)

    def _build(self) -> None:
        rows: list[Any] = [
            (self.use_boxes, line(self.boxes, self.add_boxes)),
            (self.use_points, line(self.points, self.add_points)),
            ("New points", self.kind),
            self.everything,
            self.everything_widget,
            ("SAM", line(self.checkpoint, self.file)),
            self.fetching,
            self.run,
            self.progress,
            self.line,
            ("Object", line(self.object, self.previous, self.next)),
            self.score,
            ("Erode", line(self.erode, QLabel("Dilate"), self.dilate)),
            line(self.holes, self.largest),
        ]
        stack(self, form(rows))

    def _connect(self) -> None:
        self.everything.toggled.connect(self.everything_widget.setVisible)
        self.add_boxes.clicked.connect(self.boxes_wanted)
        self.add_points.clicked.connect(self.points_wanted)
        self.kind.currentTextChanged.connect(self.kind_chosen)
        self.checkpoint.currentIndexChanged.connect(lambda _: self.show_fetch(None))
        self.file.clicked.connect(self._ask_file)
        self.run.clicked.connect(self.segment_requested)
        self.object.currentIndexChanged.connect(lambda _: self.object_chosen.emit())
        self.previous.clicked.connect(lambda: self.stepped.emit(-1))
        self.next.clicked.connect(lambda: self.stepped.emit(1))
        for box in (self.erode, self.dilate):
            box.valueChanged.connect(lambda _: self.cleanup_changed.emit())
        for check in (self.holes, self.largest):
            check.toggled.connect(lambda _: self.cleanup_changed.emit())

    # -- checkpoint ---------------------------------------------------------------------------

    @property
    def spec(self) -> CheckpointSpec | None:
        """The chosen published checkpoint; None for a file or no checkpoint."""
        chosen = self.checkpoint.currentData()
        return chosen if isinstance(chosen, CheckpointSpec) else None

    @property
    def path(self) -> Path | None:
        """File of the chosen checkpoint; None without one."""
        chosen: Path | None = self.checkpoint.currentData()
        return chosen if self.spec is None else self.spec.path

    def needs_fetch(self) -> bool:
        """Return whether the chosen checkpoint still has to be downloaded."""
        return self.spec is not None and not self.spec.is_on_disk

    def fill(self) -> None:
        """List the checkpoints, each with its state or size."""
        index = max(self.checkpoint.currentIndex(), 0)
        with QSignalBlocker(self.checkpoint):
            self.checkpoint.clear()
            self.checkpoint.addItem(_NONE)
            for spec in checkpoints.CHECKPOINTS.values():
                badge = "on disk" if spec.is_on_disk else f"{spec.size_text} to fetch"
                self.checkpoint.addItem(f"{spec.name}  [{badge}]", spec)
                last = self.checkpoint.count() - 1
                self.checkpoint.setItemData(last, spec.title, Qt.ItemDataRole.ToolTipRole)
            for path in self._files:
                self.checkpoint.addItem(name_of(path), path)
            self.checkpoint.setCurrentIndex(index)
        self.show_fetch(None)

    def use_file(self, path: Path) -> None:
        """Add a checkpoint file to the list and choose it."""
        if path not in self._files:
            self._files.append(path)
        self.fill()
        places = range(self.checkpoint.count())
        self.checkpoint.setCurrentIndex(
            next(at for at in places if self.checkpoint.itemData(at) == path)
        )

    def show_fetch(self, progress: tuple[int, int] | None) -> None:
        """Show the progress of a download as (bytes, total); None hides it."""
        self.fetching.show_progress(progress, needed=self.needs_fetch())
        self.checkpoint.setEnabled(progress is None)
        if self.spec is not None:
            self.fetching.button.setText(f"Fetch {self.spec.size_text}, {self.spec.license}")

    def _ask_file(self) -> None:
        path, _ = QFileDialog.getOpenFileName(
            self, "SAM checkpoint", "", "Checkpoints (*.pth *.pt *.safetensors);;All files (*)"
        )
        if path:
            self.use_file(Path(path))

    # -- results ------------------------------------------------------------------------------

    def cleanup(self) -> CleanUp:
        """Return how masks are cleaned up."""
        return CleanUp(
            erode=self.erode.value(),
            dilate=self.dilate.value(),
            fill_holes=self.holes.isChecked(),
            keep_largest=self.largest.isChecked(),
        )

    def show_objects(self, names: list[str]) -> None:
        """List the segmented objects."""
        with QSignalBlocker(self.object):
            self.object.clear()
            self.object.addItems(names)
        self.object.setEnabled(bool(names))
        self.show_candidate(0, 0, None)

    def show_candidate(self, index: int, count: int, score: float | None) -> None:
        """Show which of an object's masks is used; drawn shapes have no score."""
        self.previous.setEnabled(index > 0)
        self.next.setEnabled(index + 1 < count)
        self.score.setVisible(count > 0)
        if score is not None:
            self.score.setText(f"Mask {index + 1} of {count}, score {score:.2f}")


def is_shapes_layer(layer: Any) -> bool:
    """Return whether a layer may hold boxes."""
    from napari.layers import Shapes

    from ..layers.layers import OURS
    from .prompt_layers import BOXES

    return isinstance(layer, Shapes) and layer.metadata.get(OURS, BOXES) == BOXES


def is_points_layer(layer: Any) -> bool:
    """Return whether a layer may hold points."""
    from napari.layers import Points

    from ..layers.layers import is_ours

    return isinstance(layer, Points) and not is_ours(layer)
