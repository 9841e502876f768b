"""The map of embeddings as a widget: points on a canvas of their own, a lasso, and a legend."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
from qtpy.QtCore import QEvent, QSize, Qt, Signal
from qtpy.QtWidgets import QLabel, QSizePolicy, QWidget
from skimage.measure import points_in_poly
from vispy.scene import PanZoomCamera, SceneCanvas
from vispy.scene.visuals import Line, Markers

from ..widgets.sections import button, combo_box, line, pause, stack

if TYPE_CHECKING:
    from vispy.app.canvas import MouseEvent


FloatArray = npt.NDArray[np.float32]
Legend = Sequence[tuple[str, str]]  # Colours with a text
Pixel = npt.NDArray[np.floating]  # (x, y) on the canvas
_STILL: Final = 4  # pixels that the mouse may move in a click
_NEAR: Final = 10  # pixels between a click and its point
_SIZES: Final = ((500, 9), (5_000, 6), (np.inf, 4))  # pixels of a point, by their number
_MARK: Final = 4  # pixels by which a selected one is larger
_MARGIN: Final = 0.05
_FLUENT: Final = 5_000  # points drawn while the map moves: without a GPU all take half a second
_STILL_AGAIN: Final = 200  # milliseconds


class MapView(QWidget):
    """Points of which some are selected.

    A drag moves the map, the wheel zooms. A click selects a point, a drag with Shift or with the
    button Lasso all that it goes round; with Ctrl they join those selected.
    """

    picked = Signal(object, bool)  # Numbers of points, rising; whether they join those selected
    closed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.color = combo_box(name="Colour of the points", tip="What the colours of points show")
        self.lasso = button("Lasso", "Select points by drawing around them (or drag with Shift)")
        self.lasso.setCheckable(True)
        self.whole = button("Whole map", "Show all points again", self.fit)
        self.into_layer = button(
            "Into the layer",
            "Write the coordinates into the features of the regions' layer, as map_x and map_y",
        )
        self.legend = QLabel()
        self.legend.setWordWrap(True)
        self.legend.setTextFormat(Qt.TextFormat.RichText)
        self.legend.setAccessibleName("What the colours mean")
        # As napari makes its own: no keys of vispy, which would close the canvas.
        self._canvas = SceneCanvas(keys=None, vsync=True, parent=self)
        self._view = self._canvas.central_widget.add_view(camera=PanZoomCamera())
        self._dots, self._few, self._marked = (Markers(parent=self._view.scene) for _ in range(3))
        self._rest = pause(self, _STILL_AGAIN, self._draw_all)
        self._path = Line(parent=self._canvas.scene, width=2)
        for order, node in enumerate((self._dots, self._few, self._marked, self._path)):
            node.order = order
            node.set_gl_state("translucent", depth_test=False)
            node.visible = False
        self._points = np.zeros((0, 2), np.float32)
        self._rgba = np.zeros((0, 4), np.float32)
        self.rows = np.zeros(0, np.intp)  # selected
        self._line = "white"
        self._drawn: list[Pixel] | None = None  # corners of the lasso, in pixels of the canvas
        for name in ("press", "move", "release", "wheel"):
            self._canvas.events[f"mouse_{name}"].connect(getattr(self, f"_{name}"))
        self.canvas = self._canvas.native
        self.canvas.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.canvas.setMinimumSize(200, 120)
        self.canvas.setAccessibleName("Map of embeddings")
        row = line(self.color, self.lasso, self.whole, self.into_layer, shares=(1, 0, 0, 0))
        stack(self, row, self.canvas, self.legend, margins=(2, 2, 2, 2), spacing=2)
        self.layout().setStretchFactor(self.canvas, 1)

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        """Wide enough for a dock below the image."""
        return QSize(480, 360)

    def event(self, event: QEvent) -> bool:
        """Close the canvas when undocked: napari only removes the parent."""
        if event.type() == QEvent.Type.ParentChange and self.parent() is None:
            self.close_canvas()
        return bool(super().event(event))

    def close_canvas(self) -> None:
        """Free what the canvas holds of the GPU, and tell of it."""
        if self._canvas is not None:
            canvas, self._canvas = self._canvas, None
            self.closed.emit()
            canvas.close()

    # -- what is shown ------------------------------------------------------------------------

    def show_points(self, points: FloatArray, rgba: FloatArray, legend: Legend) -> None:
        """Show points (N, 2) in colours (N, 4); NaN stands for one without a place."""
        self._points = np.ascontiguousarray(points, np.float32)
        self.rows = np.zeros(0, np.intp)
        self.recolor(rgba, legend)
        self.fit()

    def recolor(self, rgba: FloatArray, legend: Legend) -> None:
        """Show the points in other colours."""
        self._rgba = rgba
        placed = np.flatnonzero(self._have_place)
        few = placed[:0]
        if len(placed) > _FLUENT:
            few = np.random.default_rng(0).permutation(placed)[:_FLUENT]
        self._draw(self._few, few)
        self._draw(self._dots, placed)
        self._draw_all()
        self.mark(self.rows)
        gap = "\N{NO-BREAK SPACE}"  # a text stays beside its colour
        entries = []
        for color, text in legend:
            entries.append(f'<span style="color:{color}">\N{BLACK SQUARE}</span>')
            if text:
                entries.append(escape(f"{gap}{text}  "))
        self.legend.setText("".join(entries))

    def mark(self, rows: npt.ArrayLike) -> None:
        """Show which points are selected."""
        self.rows = np.asarray(rows, np.intp)
        self.rows = self.rows[self.rows < len(self._points)]
        selected = self.rows[self._have_place[self.rows]]
        self._draw(self._marked, selected, edge=2, enlarged=_MARK)

    def _draw(
        self, node: Markers, rows: npt.NDArray[np.intp], *, edge: int = 0, enlarged: int = 0
    ) -> None:
        """Draw some of the points, with an edge of so many pixels."""
        if not len(rows):
            node.set_data(None)
        else:
            node.set_data(
                self._points[rows],
                size=self._size + enlarged,
                face_color=self._rgba[rows],
                edge_width=edge,
                edge_color=self._line,
            )
        self._canvas.update()

    @property
    def _size(self) -> int:
        """Pixels of a point: fewer where there are many."""
        return next(size for most, size in _SIZES if len(self._points) <= most)

    def _draw_few(self) -> None:
        """Draw some of many points, and all again once the map is still."""
        if len(self._points) > _FLUENT:
            self._few.visible, self._dots.visible = True, False
            self._marked.visible = len(self.rows) <= _FLUENT
            self._rest.start()

    def _draw_all(self) -> None:
        self._few.visible = False
        self._dots.visible = self._marked.visible = True

    @property
    def _have_place(self) -> npt.NDArray[np.bool_]:
        return np.asarray(np.isfinite(self._points).all(1))

    def fit(self) -> None:
        """Show all points."""
        points = self._points[self._have_place]
        low, high = np.zeros(2), np.ones(2)
        if len(points):
            low, high = points.min(0), points.max(0)
        margin = _MARGIN * max(float((high - low).max()), 1e-6)
        self._view.camera.rect = (*(low - margin), *(high - low + 2 * margin))

    def set_colors(self, background: str, line: str) -> None:
        """Follow the theme."""
        self._line = line
        self._canvas.bgcolor = background
        self._path.set_data(color=line)
        self.mark(self.rows)

    # -- the mouse ----------------------------------------------------------------------------

    def _press(self, event: MouseEvent) -> None:
        lasso = self.lasso.isChecked() or "Shift" in event.modifiers
        self._drawn = [event.pos] if lasso and event.button == 1 else None
        self._view.camera.interactive = self._drawn is None

    def _move(self, event: MouseEvent) -> None:
        if self._drawn is not None:
            self._drawn.append(event.pos)
            self._path.set_data(np.asarray([*self._drawn, self._drawn[0]], np.float32))
            self._path.visible = True
        elif event.press_event is not None:
            self._draw_few()

    def _wheel(self, _: object) -> None:
        self._draw_few()

    def _release(self, event: MouseEvent) -> None:
        drawn, self._drawn = self._drawn, None
        self._path.visible = False
        self._view.camera.interactive = True
        if event.button != 1 or event.press_event is None:
            return
        moved = np.abs(np.subtract(event.pos, event.press_event.pos)).max()
        if drawn is not None and len(drawn) > 2:
            rows = self._inside(self._in_data([*drawn, event.pos]))
        elif moved <= _STILL:
            rows = self._nearest(event.pos)
        else:
            return
        if len(rows):
            self.picked.emit(rows, "Control" in event.modifiers)

    def _in_data(self, pixels: Sequence[Pixel]) -> npt.NDArray[np.float64]:
        transform = self._dots.get_transform("canvas", "visual")
        return np.asarray(transform.map(np.asarray(pixels, float))[:, :2])

    def _inside(self, corners: npt.NDArray[np.float64]) -> npt.NDArray[np.intp]:
        low, high = corners.min(0), corners.max(0)
        # First those in the box around the corners: testing all of many points takes seconds.
        near = np.flatnonzero(((self._points >= low) & (self._points <= high)).all(1))
        if not len(near):
            return near
        return near[points_in_poly(self._points[near], corners)]

    def _nearest(self, pixel: Pixel) -> npt.NDArray[np.intp]:
        """Return the point next to a pixel, if it is near enough, as an array."""
        centre, corner = self._in_data([pixel, np.add(pixel, _NEAR)])
        distances = np.linalg.norm((self._points - centre) / (corner - centre), axis=1)
        near = distances <= 1  # NaN is not
        if not near.any():
            return np.zeros(0, np.intp)
        return np.flatnonzero(near & (distances == np.nanmin(distances)))[:1]
