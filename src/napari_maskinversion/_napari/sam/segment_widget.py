"""Controls for segmentation with SAM."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from napari.layers import Points, Shapes
from qtpy.QtCore import QSignalBlocker, Qt
from qtpy.QtWidgets import QLabel, QSizePolicy, QWidget

from ...app.layer_input.layer_facts import OURS, is_ours
from ...regions.cleanup import CleanUp
from ...regions.sam import sam_checkpoints
from ...regions.sam.folders import name_of
from ...regions.sam.prompts import AutomaticConfig
from ...regions.sam.sam_checkpoints import CheckpointSpec
from ...results.settings import fields_of
from ..widgets.dialogs import ask_file
from ..widgets.form import SettingsForm
from ..widgets.progress_row import FetchRow, ProgressRow
from ..widgets.sections import LayerCombo, Note, button, check_box, combo_box, form, line, stack
from .prompt_layers import BOXES, NEGATIVE, POSITIVE

if TYPE_CHECKING:
    from napari.components import ViewerModel
    from napari.layers import Layer


_NONE: Final = "none: as drawn"
_SHARES: Final = ("score", "stability", "overlap")
_WIDTH: Final = 330  # pixels: names of layers and checkpoints may shrink, but not to nothing


class SegmentWidget(QWidget):
    """Boxes, points, checkpoint, the Segment button, and the choice among an object's masks."""

    def __init__(self, viewer: ViewerModel) -> None:
        super().__init__()
        self._files: list[Path] = []
        tip = "Use the bounding box of each shape in a layer."
        self.use_boxes = check_box("Boxes", tip, name="Use boxes")
        self.use_points = check_box("Points", "Use the points of a layer.", name="Use points")
        self.boxes = LayerCombo(viewer, is_shapes_layer, "no Shapes layer")
        self.points = LayerCombo(viewer, is_points_layer, "no Points layer")
        tip = "Add a layer and draw rectangles on it."
        self.add_boxes = button("New", tip, name="New layer of boxes")
        tip = "Add a layer and set points on it."
        self.add_points = button("New", tip, name="New layer of points")
        self.kind = combo_box(
            [POSITIVE, NEGATIVE],
            name="New points are",
            tip="Whether new points are on the object (positive) or off it (negative). In select "
            "mode this changes the selected points, too.",
        )
        self.everything = check_box(
            "Everything in the image instead",
            "Segment everything with a grid of points, ignoring boxes and points. Takes minutes "
            "without a GPU.",
            name="Everything in the image",
        )
        settings = [
            setting for setting in fields_of(model=AutomaticConfig) if setting.extra.get("ui", True)
        ]
        steps = {key: {"step": 0.01} for key in _SHARES}
        self.grid = SettingsForm(settings, options=steps, parent=self)
        self.everything_widget = form(list(self.grid.rows().values()))
        self.everything_widget.hide()
        tip = "Weights of Segment Anything. Without them, each drawn shape is a region."
        self.checkpoint = combo_box(name="SAM checkpoint", tip=tip)
        tip = (
            "Use a checkpoint file of your own (.pth, .safetensors); of SAM 2, model.safetensors "
            "in its folder"
        )
        self.file = button("File...", tip, self._ask_file, name="Checkpoint file")
        self.fetching = FetchRow("SAM")
        tip = "Turn boxes and points into regions in a new Labels layer"
        self.run = button("Segment", tip, name="Segment")
        self.progress = ProgressRow("segmenting", "Stop; nothing is changed")
        self.line = Note("Draw boxes or set points, then press Segment.")
        tip = "The object whose masks the arrows step through"
        self.object = combo_box(name="Object", tip=tip)
        tip = "Use the mask with the next higher score"
        left = "\N{BLACK LEFT-POINTING SMALL TRIANGLE}"
        self.previous = button(left, tip, name="Previous mask")
        tip = "Use the mask with the next lower score"
        right = "\N{BLACK RIGHT-POINTING SMALL TRIANGLE}"
        self.next = button(right, tip, name="Next mask")
        self.score = QLabel("")
        self.score.setAccessibleName("Score")
        self.score.setToolTip("The chosen mask of the object, and SAM's score for it")
        pixels: dict[str, Any] = {"annotation": int, "default": 0, "maximum": 200, "unit": "px"}
        whole_pixels = []
        for setting in fields_of(model=CleanUp):
            is_length = setting.annotation is float
            whole_pixels.append(replace(setting, **pixels) if is_length else setting)
        self.cleaning = SettingsForm(whole_pixels, parent=self)
        self._build()
        self.everything.toggled.connect(self.everything_widget.setVisible)
        self.checkpoint.currentIndexChanged.connect(lambda _: self.show_fetch(None))
        self.fill()
        self.show_objects([])

    def _build(self) -> None:
        for box, name, tip in (
            (self.boxes, "Layer of boxes", "Each shape on the displayed plane is an object."),
            (
                self.points,
                "Layer of points",
                "Points inside a box belong to its object; positive points outside all boxes are "
                "objects of their own. The feature 'label' holds positive or negative, 'object' "
                "a number.",
            ),
        ):
            box.setAccessibleName(name)
            box.setToolTip(tip)
        for check in (self.use_boxes, self.use_points):
            check.setChecked(True)
        for field in (self.boxes, self.points, *map(self.grid.__getitem__, self.grid.values())):
            field.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        for arrow in (self.previous, self.next):
            arrow.setFixedWidth(32)
        rows: list[tuple[str | QWidget, QWidget] | QWidget] = [
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
            *self.cleaning.rows().values(),
        ]
        stack(self, form(rows))
        self.setMinimumWidth(_WIDTH)

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
            for spec in sam_checkpoints.CHECKPOINTS.values():
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
        for index in range(self.checkpoint.count()):
            if self.checkpoint.itemData(index) == path:
                self.checkpoint.setCurrentIndex(index)

    def show_fetch(self, progress: tuple[int, int] | None) -> None:
        """Show the progress of a download as (bytes, total); None hides it."""
        self.fetching.show_progress(progress, needed=self.needs_fetch())
        self.checkpoint.setEnabled(progress is None)
        if self.spec is not None:
            self.fetching.button.setText(f"Fetch {self.spec.size_text}, {self.spec.license}")

    def _ask_file(self) -> None:
        kinds = "Checkpoints (*.pth *.pt *.safetensors);;All files (*)"
        if file := ask_file(self, "SAM checkpoint", kinds):
            self.use_file(file)

    # -- results ------------------------------------------------------------------------------

    def automatic(self) -> AutomaticConfig | None:
        """Return how everything is segmented; None if boxes and points are."""
        return AutomaticConfig(**self.grid.values()) if self.everything.isChecked() else None

    def cleanup(self) -> CleanUp:
        """Return how masks are cleaned up."""
        return CleanUp(**self.cleaning.values())

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


def is_shapes_layer(layer: Layer) -> bool:
    """Return whether a layer may hold boxes."""
    return isinstance(layer, Shapes) and layer.metadata.get(OURS, BOXES) == BOXES


def is_points_layer(layer: Layer) -> bool:
    """Return whether a layer may hold points."""
    return isinstance(layer, Points) and not is_ours(layer)
