"""The map of embeddings in the window, as its user meets it."""

import threading
from dataclasses import replace

import numpy as np
import pytest
from qtpy.QtCore import QEvent, QItemSelectionModel, QPointF, Qt
from qtpy.QtGui import QMouseEvent
from qtpy.QtWidgets import QApplication

from napari_maskinversion._napari.explore.map_view import MapView
from napari_maskinversion._napari.explore.map_window import MapSection
from napari_maskinversion.app.explore.region_sources import LIBRARY, PROJECT, SOURCES, no_regions
from napari_maskinversion.app.review.decision_requests import DecisionOutcome, TakeBackRequest
from napari_maskinversion.app.session import Action, ProjectState, RegionPlace
from napari_maskinversion.base.identity import ImagePlace, RegionKey
from napari_maskinversion.library.library import Library
from napari_maskinversion.results.results import Results
from napari_maskinversion.review.decisions import Change, Decision
from tests.library.made import bundle

_LEFT, _NONE = Qt.MouseButton.LeftButton, Qt.MouseButton.NoButton
_PLAIN, _SHIFT = Qt.KeyboardModifier.NoModifier, Qt.KeyboardModifier.ShiftModifier
_CTRL = Qt.KeyboardModifier.ControlModifier


@pytest.fixture
def panel(window, opened):
    """The panel with 50 regions in five groups of ten, by their embeddings."""
    panel, random = opened(), np.random.default_rng(0)
    record = panel.session.run.record
    regions = [
        replace(one, raw_embedding=np.float32(np.eye(8)[row // 10] + 0.03 * random.normal(size=8)))
        for row, one in enumerate(record.results.regions)
    ]
    results = Results(record.results.info, tuple(regions))
    panel.session.show(record.changed(results=results, table=None))
    panel.reveal("explore")
    panel.map.section.open()
    window.window._qt_window.show()
    return panel


def show_map(qtbot, panel, of="This image"):
    panel.map.of.setCurrentText(of)
    qtbot.mouseClick(panel.map.make, _LEFT)
    qtbot.waitUntil(lambda: not panel.map.job.busy)
    qtbot.waitUntil(panel.map.view.isVisible)
    qtbot.wait(50)  # until docks have their sizes
    return panel.map.view


def pixels_of(view, points):
    """Where points are on the canvas."""
    return view._dots.get_transform("visual", "canvas").map(np.float64(points))[:, :2]


def drag(qtbot, canvas, corners, modifiers=_PLAIN):
    """Press, move and release the mouse along corners, in pixels."""
    kinds = [QEvent.Type.MouseButtonPress, *[QEvent.Type.MouseMove] * (len(corners) - 1)]
    kinds.append(QEvent.Type.MouseButtonRelease)
    for kind, (x, y) in zip(kinds, [*corners, corners[-1]], strict=True):
        place = QPointF(float(x), float(y))
        button = _NONE if kind == QEvent.Type.MouseMove else _LEFT
        event = QMouseEvent(kind, place, canvas.mapToGlobal(place), button, _LEFT, modifiers)
        QApplication.sendEvent(canvas, event)
        qtbot.wait(12)  # vispy takes a hundred moves a second


def around(pixels):
    (left, top), (right, bottom) = pixels.min(0) - 12, pixels.max(0) + 12
    return [(left, top), (right, top), (right, bottom), (left, bottom)]


def maps():
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    return [one for one in QApplication.allWidgets() if isinstance(one, MapView)]


def test_a_lasso_and_clicks_select_regions_everywhere_and_the_table_shows_where_they_are(
    qtbot, panel, window
):
    view, session = show_map(qtbot, panel), panel.session
    points = session.explore.mapped[1]
    assert "cat 25" in view.legend.text()
    # Around a group with the button, in the table and on the image.
    qtbot.mouseClick(view.lasso, _LEFT)
    drag(qtbot, view.canvas, around(pixels_of(view, points[20:30])))
    assert session.review.rows == tuple(range(20, 30))
    assert panel.results.row == session.review.row == 20
    ranges = panel.results.table.selectionModel().selectedRows()
    assert sorted(one.row() for one in ranges) == list(range(20, 30))
    # their squares of ten pixels are three rows of the scene down
    np.testing.assert_allclose(panel.canvas.further.corners, [[32.5, 2.5], [42.5, 174.5]], atol=0.1)
    assert view.rows.tolist() == list(range(20, 30))
    qtbot.mouseClick(view.lasso, _LEFT)
    # Shift does the same, Ctrl adds; a drag without them moves the map.
    drag(qtbot, view.canvas, around(pixels_of(view, points[:10])), _SHIFT | _CTRL)
    assert session.review.rows == (*range(10), *range(20, 30))
    before = pixels_of(view, points[:1])
    drag(qtbot, view.canvas, [(40, 40), (70, 50)])
    np.testing.assert_allclose(pixels_of(view, points[:1]) - before, [[30, 10]], atol=0.1)
    qtbot.mouseClick(view.whole, _LEFT)
    np.testing.assert_allclose(pixels_of(view, points[:1]), before, atol=0.1)
    # Only what is inside of a triangle, not of its box.
    wide, high = view.canvas.width(), view.canvas.height()
    drag(qtbot, view.canvas, [(0, 0), (wide, 0), (0, high)], _SHIFT)
    x, y = pixels_of(view, points).T
    assert session.review.rows == tuple(np.flatnonzero(x / wide + y / high < 1))
    drag(qtbot, view.canvas, pixels_of(view, points[45:46]))
    assert (session.review.rows, session.review.row, session.review.picked) == ((45,), 45, True)
    assert not panel.canvas.further.visible
    # And back.
    flags = QItemSelectionModel.SelectionFlag
    for row in (3, 7):
        index = panel.results.model.index(row, 0)
        panel.results.table.selectionModel().select(index, flags.Select | flags.Rows)
    assert view.rows.tolist() == [3, 7, 45]


def test_map_gallery_table_and_canvas_mark_the_same_regions(qtbot, panel):
    view, session, gallery = show_map(qtbot, panel), panel.session, panel.gallery
    gallery.open()
    qtbot.waitUntil(lambda: not gallery.loader.busy)
    assert not len(gallery.wall.marked)  # nobody has chosen the first row of the table
    view.picked.emit(np.arange(20, 25), False)
    assert sorted(gallery.wall.marked) == [*range(20, 25)]
    gallery.sort.setCurrentIndex(1)
    gallery.sort.activated.emit(1)
    assert sorted(gallery.wall.marked) == [*range(20, 25)]
    gallery.wall.mark([3, 30, 31])
    qtbot.waitUntil(lambda: session.review.rows == (3, 30, 31))
    assert view.rows.tolist() == list(panel.results._selected) == [3, 30, 31]
    assert len(panel.canvas.further.corners) == 2
    gallery.act("end")
    qtbot.waitUntil(lambda: session.review.rows == ())
    assert not len(gallery.wall.marked)
    panel.results.select(7)
    assert view.rows.tolist() == gallery.wall.marked.tolist() == [7]


def test_points_follow_decisions_columns_and_results_and_the_map_closes(
    qtbot, panel, window, messages
):
    view, session = show_map(qtbot, panel), panel.session
    points = session.explore.mapped[1]
    offered = [view.color.itemText(place) for place in range(view.color.count())]
    assert offered[:2] == ["word", "decision"]
    assert {"suggestion", "probability"} & set(offered)
    # Decisions about all selected ones, which the colours follow.
    panel.do(Action.REVIEW)
    qtbot.waitUntil(lambda: panel.review.state is not None)
    view.color.setCurrentText("decision")
    assert "undecided 50" in view.legend.text()
    session.review.rows = (4, 5, 6)
    panel.review.act("accept")
    assert "accepted 3" in view.legend.text()
    # Columns of the layer's features: a row for each label, as plots of other plugins take them.
    qtbot.mouseClick(view.into_layer, _LEFT)
    layer = session.run.regions
    features = layer.features[["map_x", "map_y"]]
    np.testing.assert_array_equal(features.to_numpy(float), points)
    assert "map_x, map_y" in messages[-1]
    labels = np.unique(layer.data)[1:]
    assert layer.features["index"].tolist() == labels.tolist()
    # A map that is closed leaves nothing behind, and opens again.
    window.window.remove_dock_widget(view)
    assert panel.map.view is None
    assert not maps()
    view = show_map(qtbot, panel)
    assert maps() == [view]
    # Other results are not those of the map.
    record = session.run.record
    fewer = Results(record.results.info, record.results.regions[:9])
    session.show(record.changed(results=fewer, table=None, snapshot=session.run.snapshot()))
    assert session.explore.mapped is None
    assert "press Show map" in panel.map.about.text()
    panel.shut_down()
    assert not maps()


def test_regions_of_a_library_are_on_the_map_and_open_where_they_are(qtbot, panel, tmp_path):
    library = Library.new(tmp_path / "library")
    library.add(bundle(4))
    library.add(bundle(3, seed=5))
    show_map(qtbot, panel)
    panel.session.explore.library = library
    view, asked = show_map(qtbot, panel, "The library"), []
    assert "red cell 4" in view.legend.text()
    panel.session.project.open_region.connect(asked.append)
    view.picked.emit(np.array([5]), False)
    assert asked == [RegionPlace.of(ImagePlace("image-5.png"), RegionKey(2))]
    assert panel.session.review.marked == tuple(asked)
    assert view.rows.tolist()[-1:] == [5]
    view.picked.emit(np.array([1, 2]), True)
    assert view.rows.tolist() == [1, 2, 5]
    # It follows decisions made elsewhere, and says that there are more regions.
    view.color.setCurrentText("decision")
    taken = Change(RegionKey(2), None, Decision(region=RegionKey(2), status="rejected"))
    outcome = DecisionOutcome(
        request=TakeBackRequest(DecisionOutcome()),
        places={"image-5.png": ImagePlace("image-5.png")},
        steps={"image-5.png": (taken,)},
    )
    panel.session.decisions.changed.emit(outcome)
    assert "rejected 1" in view.legend.text()
    library.add(bundle(2, seed=6, decisions=["accepted", "rejected"]))
    panel.session.explore.library_changes += 1
    assert "newer regions" in panel.map.about.text()
    assert "undecided 6" in view.legend.text()  # without the new ones


def test_without_regions_the_map_says_what_is_missing(qtbot, widget, messages):
    widget.map.run()
    assert "no suggestions yet" in messages[-1]
    for place, said in ((1, "No project is open"), (2, "No library is open")):
        widget.map.of.setCurrentIndex(place)
        widget.map.run()
        assert said in messages[-1]


@pytest.mark.parametrize("source", [PROJECT, LIBRARY])
def test_a_map_of_another_project_or_library_is_not_waited_for(
    qtbot, shared, section, monkeypatch, source
):
    part, session = section(MapSection), shared.session
    begun, go = threading.Event(), threading.Event()

    def read():
        begun.set()
        go.wait(60)
        return no_regions()

    monkeypatch.setitem(SOURCES, source, lambda session: read)
    session.project.state = ProjectState("cells", file="cells.yaml")
    session.explore.library = Library.in_memory()
    part.of.setCurrentText(source)
    part.run()
    qtbot.waitUntil(begun.is_set)
    if source == PROJECT:
        session.project.state = ProjectState("others", file="others.yaml")
    else:
        session.explore.library = Library.in_memory()
    is_busy = part.job.busy
    part.job.drop()
    go.set()
    qtbot.waitUntil(lambda: part.job.idle)
    assert not is_busy
