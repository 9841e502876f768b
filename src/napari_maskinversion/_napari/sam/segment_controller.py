"""Connects the controls for SAM, the layers and the worker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from qtpy.QtCore import QObject
from qtpy.QtWidgets import QCheckBox, QWidget

from ...app.layer_input.coordinates import Grid, Plane, ViewPoint, pixels_to_layer, plane_of
from ...app.layer_input.input_pictures import copy_picture
from ...app.requests.preparing import background_of, image_layers
from ...app.requests.segment_task import (
    Found,
    Painted,
    Segmentation,
    SegmentRequest,
    features_of,
    mark_of,
    off_axes,
    on_axes,
    paint_all,
    renewed_features,
    score_of,
    segment,
)
from ...app.session import Session, Topic, job_kinds
from ...app.work.model_store import Kept
from ...base.errors import InputError, MaskInversionError
from ...base.wording import counted, listed
from ...regions.drawn_shapes import Shape
from ...regions.sam.prompts import BoxMark, PointMark, gather, object_numbers
from ...regions.sam.sam_checkpoints import fetch_checkpoint, file_or_checkpoint, get_checkpoint
from ..layers.placing import REGIONS_OPACITY, box_transform, selection_kept
from ..run_requests.fetching import Fetching
from ..widgets.dialogs import ToolDialog
from ..widgets.layer_list import LayerListWatch
from ..widgets.sections import LayerCombo, debouncer
from ..workers.notify import inform, refuse
from .prompt_layers import box_marks, new_boxes, new_points, point_marks, set_kind
from .segment_widget import SegmentWidget

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from napari.components import ViewerModel
    from napari.layers import Image, Labels, Layer, Points, Shapes

    from ...regions.cleanup import CleanUp
    from ...regions.sam.segmenter import Segmenter

_QUIET = 150  # milliseconds without a change before masks are painted again


class SamFetching(Fetching):
    """Downloads published checkpoints."""

    @staticmethod
    def fetch(name: str) -> None:
        """Download a published checkpoint."""
        fetch_checkpoint(get_checkpoint(name))


class SegmentController(Topic, QObject):
    """Turns boxes and points into a Labels layer, which becomes the regions layer."""

    def __init__(self, viewer: ViewerModel, session: Session, parent: QWidget) -> None:
        super().__init__(parent)
        self._viewer, self._session = viewer, session
        self._objects: Sequence[Found] = ()
        self._chosen: dict[int, int] = {}
        self._layer: Labels | None = None
        self._image: Image | None = None
        self._plane: Plane | None = None
        self._mark = ""
        self._left_out = 0  # points that were not used
        self.part = SegmentWidget(viewer)
        # Not modal: boxes and points are drawn while it is open.
        self.dialog = ToolDialog("Segment: boxes and points to regions", self.part, parent)
        self.store: Kept[Segmenter] = Kept()
        self.job = session.jobs.of(job_kinds.SEGMENT)
        self.fetching = SamFetching(session, self.part, self)
        self._painting = session.jobs.of(job_kinds.PAINT_MASKS)
        self._timer = debouncer(self, _QUIET, self._paint)
        self._list = LayerListWatch(viewer, self._refresh)
        self._connect()

    def _connect(self) -> None:
        part = self.part
        part.run.clicked.connect(self.start)
        part.progress.cancelled.connect(self.job.cancel)
        part.add_boxes.clicked.connect(
            lambda _=False: self._add(new_boxes, part.boxes, part.use_boxes)
        )
        part.add_points.clicked.connect(
            lambda _=False: self._add(self._points, part.points, part.use_points)
        )
        part.kind.currentTextChanged.connect(self._set_kind)
        part.object.currentIndexChanged.connect(self._show_object)
        for arrow, by in ((part.previous, -1), (part.next, 1)):
            arrow.clicked.connect(partial(self._step, by))
        part.cleaning.changed.connect(self._later)

    def stop(self) -> None:
        """Release layers and model."""
        super().stop()
        self._list.disconnect()
        self._timer.cancel()
        self.fetching.stop()
        self.store.clear()
        self._objects, self._chosen = (), {}
        self._layer = self._image = self._plane = None
        self.part.show_objects([])

    # -- layers -------------------------------------------------------------------------------

    def bind(self) -> None:
        """Follow the viewer's layers, and the jobs of the session."""
        self.fetching.follow()
        self.after(self._show_job, self.job.changed)
        self._show_job()
        self._list.connect()
        self._refresh()

    def _refresh(self, added: Layer | None = None) -> None:
        self.part.boxes.refresh(added)
        self.part.points.refresh(added)

    def _add(
        self,
        make: Callable[[ViewerModel, Image], Shapes | Points],
        chosen: LayerCombo,
        used: QCheckBox,
    ) -> None:
        """Add a layer for prompts, and use it."""
        image = self._session.run.image
        if image is None:
            self._refuse("Open an image first.")
            return
        layer = make(self._viewer, image)
        self._session.choice.made_for(image, layer)
        chosen.choose(layer)
        used.setChecked(True)

    def _points(self, viewer: ViewerModel, image: Image) -> Points:
        return new_points(viewer, image, self.part.kind.currentText())

    def _refuse(self, reason: str) -> None:
        self.part.line.setText(reason)  # the window may hide the status line
        refuse(reason)

    def _set_kind(self, kind: str) -> None:
        layer = self.part.points.layer
        if layer is not None:
            set_kind(layer, kind)

    # -- run ----------------------------------------------------------------------------------

    def start(self, _: bool = False) -> None:
        """Segment the drawn boxes and points, or say why not."""
        if self.job.busy:
            return
        try:
            request = self._request()
        except MaskInversionError as error:
            self._refuse(str(error))
            return
        work = partial(segment, request, self.store)
        done = partial(self._show, self._session.run.image, request.plane)
        self.job.start(work, done, failed=self._refuse)

    def _request(self) -> SegmentRequest:
        image, part = self._session.run.image, self.part
        if image is None:
            raise InputError("Open an image first.")
        if part.needs_fetch():
            raise InputError(
                "The SAM checkpoint is not on this machine yet; press Fetch, choose a file, or "
                "choose 'none'."
            )
        if part.path is not None:
            file_or_checkpoint(str(part.path))
        view = ViewPoint.of(self._viewer)
        picture = copy_picture(
            image,
            view,
            channels=self._session.run.scope.channels,
            others=image_layers(self._viewer),
            background=background_of(self._viewer),
        )
        plane = plane_of(picture.grid, view)
        boxes: list[BoxMark] = []
        points: list[PointMark] = []
        shapes: tuple[Shape, ...] = ()
        to_shapes = None
        everything = part.everything.isChecked()
        if not everything and part.use_boxes.isChecked() and part.boxes.layer is not None:
            boxes, shapes = box_marks(part.boxes.layer, picture.grid, plane, view)
            grid = Grid.of(part.boxes.layer, view)
            to_shapes = pixels_to_layer(picture.grid, plane, grid, view)
        if not everything and part.use_points.isChecked() and part.points.layer is not None:
            points = point_marks(part.points.layer, picture.grid, plane, view)
        if part.path is None and (everything or not boxes):
            raise InputError(
                "Without a SAM checkpoint, the drawn shapes are the regions; draw boxes, or choose "
                "a checkpoint."
            )
        self._left_out = len(points) if part.path is None else 0
        prompts = () if everything or part.path is None else gather(boxes, points, plane.shape)
        return SegmentRequest(
            view=view,
            picture=picture,
            plane=plane,
            prompts=tuple(prompts),
            shapes=shapes,
            objects=tuple(object_numbers(boxes)),
            to_shapes=to_shapes,
            checkpoint=part.path,
            everything=part.automatic(),
            device=self._session.run.settings.device,
            cleanup=part.cleanup(),
        )

    def _show_job(self) -> None:
        self.part.progress.show_job(self.job.job)
        self.part.run.setEnabled(not self.job.busy)

    # -- results ------------------------------------------------------------------------------

    def _show(self, image: Image, plane: Plane, segmentation: Segmentation) -> None:
        if image not in self._viewer.layers:
            return
        self._timer.cancel()
        self._image, self._plane = image, plane
        self._objects, self._chosen = segmentation.objects, {}
        names = [f"{item.id}  ({item.text or 'found'})" for item in self._objects]
        layer = self._add_layer(segmentation.painted, self._image, self._plane)
        self.part.show_objects(names)
        self._show_object()
        self._say(segmentation.painted, layer)

    @property
    def _are_of_sam(self) -> bool:
        """Whether SAM has made the objects; else they are as drawn."""
        return any(item.scores for item in self._objects)

    def _say(self, painted: Painted, layer: Labels) -> None:
        text = f"{counted(len(painted.ids), 'region')} in '{layer.name}'."
        if painted.gone:
            text += f" No visible pixel is left of {listed(painted.gone)}."
        if not self._are_of_sam:
            text += " Without SAM, the drawn shapes are the regions."
        if self._left_out:
            was = "were" if self._left_out > 1 else "was"
            text += f" {counted(self._left_out, 'point')} {was} left out: "
            text += "points need a SAM checkpoint."
        self.part.line.setText(text)

    def _add_layer(self, painted: Painted, image: Image, plane: Plane) -> Labels:
        height, width = plane.shape
        box = (0.0, 0.0, float(height), float(width))
        place = box_transform(image, plane, box, plane.shape)
        with selection_kept(self._viewer), self._session.choice.kept():
            layer: Labels = self._viewer.add_labels(
                on_axes(painted.labels, plane),
                name="SAM regions" if self._are_of_sam else "regions",
                features=features_of(painted, self._objects, self._chosen),
                opacity=REGIONS_OPACITY,
                **place,
            )
        self._layer, self._mark = layer, painted.mark
        self._session.choice.made_for(image, layer)
        self._session.choose_for(image, layer)
        return layer

    def _show_object(self, _: int = 0) -> None:
        index = self.part.object.currentIndex()
        if 0 <= index < len(self._objects):
            item = self._objects[index]
            mask = self._chosen.get(item.id, 0)
            self.part.show_candidate(mask, len(item.scores), score_of(item, self._chosen))

    def _step(self, by: int, _: bool = False) -> None:
        index = self.part.object.currentIndex()
        if 0 <= index < len(self._objects):
            item = self._objects[index]
            mask = self._chosen.get(item.id, 0) + by
            self._chosen[item.id] = min(max(mask, 0), len(item.scores) - 1)
            self._show_object()
            self._later()

    def _later(self, _: object = None) -> None:
        if self._objects and self._layer in self._viewer.layers:
            self._timer.throttle()

    def _paint(self) -> None:
        """Paint the label image again, in a worker."""
        layer, plane = self._layer, self._plane
        if layer is None or plane is None or layer not in self._viewer.layers:
            return
        work = partial(
            _repaint,
            self._objects,
            dict(self._chosen),
            self.part.cleanup(),
            plane.shape,
            off_axes(layer.data, plane),
        )
        self._painting.start(
            work, self._repainted, failed=self._refuse, about=[lambda _: self._layer]
        )

    def _repainted(self, outcome: tuple[Painted, str]) -> None:
        painted, mark = outcome
        layer, plane = self._layer, self._plane
        if layer is None or plane is None or layer not in self._viewer.layers:
            return
        if mark != self._mark:
            inform(f"'{layer.name}' was edited, so it stays; the masks are in a new layer.")
            layer = self._add_layer(painted, self._image, plane)
        else:
            layer.data = on_axes(painted.labels, plane)
            scores = features_of(painted, self._objects, self._chosen)
            layer.features = renewed_features(layer.features, scores)
            self._mark = painted.mark
        self._say(painted, layer)


def _repaint(
    objects: Sequence[Found],
    chosen: dict[int, int],
    cleanup: CleanUp,
    shape: tuple[int, int],
    shown: npt.NDArray[np.integer],
) -> tuple[Painted, str]:
    return paint_all(objects, chosen, cleanup, shape), mark_of(shown)
