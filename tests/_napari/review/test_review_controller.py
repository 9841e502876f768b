"""The review in a window: what is marked, what a key decides about, and when the review ends."""

import numpy as np
import pandas as pd
import pytest
from napari.utils._proxies import ReadOnlyWrapper
from napari.utils._test_utils import MouseEvent
from napari.utils.interactions import (
    mouse_move_callbacks,
    mouse_press_callbacks,
    mouse_release_callbacks,
)
from pycocotools.coco import COCO
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QDockWidget, QFileDialog, QTableWidget

from napari_maskinversion._napari.layers.heatmap import DIMMED, OPACITY
from napari_maskinversion._napari.layers.overlays import CROP_SIDE
from napari_maskinversion._napari.review.review_keeper import place_of
from napari_maskinversion.app.review.decision_requests import WordRequest
from napari_maskinversion.app.session import changed_rows, outdated, session_of
from napari_maskinversion.results.export.catalogue import FORMATS

from .reviewing import canvas, press, switch_on
from .test_review_widget import saved, selected, states


def choose_rows(widget, *rows):
    table = widget.results.table
    table.clearSelection()
    for row in rows:
        table.selectionModel().select(
            widget.results.model.index(row, 0),
            table.selectionModel().SelectionFlag.Select | table.selectionModel().SelectionFlag.Rows,
        )


def test_a_with_five_rows_selected_accepts_five_and_u_takes_them_back(qtbot, reviewing):
    choose_rows(reviewing, *range(5))
    press(qtbot, canvas(reviewing), "A")
    assert {key: label for key, (_, label) in states(reviewing).items()} == {
        1: "dog", 2: "cat", 3: "dog", 4: "cat", 5: "dog"
    }  # fmt: skip
    assert "5 regions are accepted" in reviewing.foot.status.text()
    assert session_of(reviewing._viewer).review.decided_count == 5
    assert selected(reviewing) == 6
    press(qtbot, canvas(reviewing), "U")
    assert states(reviewing) == {}


def test_all_of_one_word_above_a_confidence_are_accepted_by_one_button(qtbot, reviewing, photo):
    part = reviewing.review.part
    part.more.click()
    part.together.word.setCurrentText("cat")
    part.together.limit.setValue(51)
    assert not part.together.accept.isEnabled()
    part.together.limit.setValue(50)  # the stand-in run is sure by half
    assert part.together.accept.text() == "Accept 25"
    qtbot.mouseClick(part.together.accept, Qt.MouseButton.LeftButton)
    assert set(saved(photo).values()) == {("accepted", "cat")}
    assert "25 regions are accepted as cat" in reviewing.foot.status.text()
    qtbot.mouseClick(part.buttons["undo"], Qt.MouseButton.LeftButton)
    assert states(reviewing) == {}


def test_ctrl_z_is_the_reviews_where_it_has_the_focus_and_else_the_layers(window, qtbot, reviewing):
    marks = reviewing.session.run.regions
    before = marks.data.copy()
    press(qtbot, canvas(reviewing), "AA")
    ctrl = Qt.KeyboardModifier.ControlModifier
    qtbot.keyClick(canvas(reviewing), Qt.Key.Key_Z, ctrl)
    assert set(states(reviewing)) == {1, 2}
    qtbot.keyClick(reviewing.review.part.buttons["skip"], Qt.Key.Key_Z, ctrl)
    assert set(states(reviewing)) == {1}
    both = ctrl | Qt.KeyboardModifier.ShiftModifier
    qtbot.keyClick(reviewing.results.table, Qt.Key.Key_Z, both)  # it has the keys, too
    assert set(states(reviewing)) == {1, 2}
    marks.paint((150, 150), 60)
    painted = marks.data.copy()
    reviewing.reveal("label")
    reviewing._viewer.layers.selection.active = reviewing.session.run.image
    qtbot.keyClick(reviewing.vocabulary.presets, Qt.Key.Key_Z, ctrl)
    np.testing.assert_array_equal(marks.data, before)
    qtbot.keyClick(reviewing.vocabulary.presets, Qt.Key.Key_Z, both)
    np.testing.assert_array_equal(marks.data, painted)
    assert set(states(reviewing)) == {1, 2}


def test_the_one_button_decides_while_the_review_is_in_view(qtbot, reviewing):
    button, click = reviewing.foot.button, Qt.MouseButton.LeftButton
    reviewing.reveal("label")
    assert button.text() == "Review 50 suggestions"
    qtbot.mouseClick(button, click)
    assert button.text() == "Accept 'dog'"
    qtbot.mouseClick(button, click)
    assert states(reviewing) == {1: ("accepted", "dog")}
    assert button.text() == "Accept 'cat'"
    reviewing.review.part.form.set_values({"show": "all"})
    assert selected(reviewing) == 1  # decided
    assert button.text() == "Next undecided region"
    qtbot.mouseClick(button, click)
    assert selected(reviewing) == 2
    choose_rows(reviewing, 1, 2)
    assert button.text() == "Accept 2 regions"
    qtbot.mouseClick(button, click)
    assert set(states(reviewing)) == {1, 2, 3}


def test_decisions_of_an_earlier_day_count_before_the_review_is_opened(qtbot, opened):
    first = opened()
    switch_on(qtbot, first)
    press(qtbot, canvas(first), "AR")
    first.shut_down()
    second = opened()
    heatmap = second.canvas.heatmap.layer
    qtbot.waitUntil(lambda: second.session.review.decided_count == 2)
    assert states(second) == {1: ("accepted", "dog"), 2: ("rejected", "")}
    assert second.tabs.tabText(1) == "Review 2/50"
    assert second.foot.button.text() == "Review 48 suggestions"
    # Nothing else is as in a review that the user has opened.
    assert not second.session.review.reviewing
    assert (selected(second), heatmap.opacity) == (1, OPACITY)
    qtbot.mouseClick(second.foot.button, Qt.MouseButton.LeftButton)
    assert second.session.review.reviewing
    assert (selected(second), heatmap.opacity) == (3, DIMMED)


@pytest.mark.parametrize("name", ["cells", "marks"])
def test_a_review_ends_with_its_layers_and_comes_back_with_them(
    window, qtbot, reviewing, photo, name, run_to_end
):
    part, viewer = reviewing.review.part, reviewing._viewer
    press(qtbot, canvas(reviewing), "A")
    before = saved(photo)
    assert part.image.text() == "Image: cells"
    gone = viewer.layers[name]
    viewer.layers.remove(name)
    other = viewer.add_image(np.random.default_rng(1).random((160, 200)), name="other")
    assert reviewing.review.state is None
    assert not part.switch.isChecked()
    assert f"'{name}' was removed" in part.status.text()
    press(qtbot, canvas(reviewing), "AR1")
    press(qtbot, reviewing.results.table, "A")
    reviewing.review.act("accept")
    assert saved(photo) == before
    viewer.layers.remove(other)
    viewer.add_layer(gone)
    run_to_end(reviewing)
    switch_on(qtbot, reviewing)
    assert states(reviewing) == {1: ("accepted", "dog")}


def test_a_review_hides_while_another_image_is_chosen(qtbot, reviewing):
    part, image = reviewing.review.part, reviewing.session.run.image
    other = reviewing._viewer.add_image(np.zeros((20, 20)), name="other")
    reviewing.input.image.choose(other)
    assert reviewing.session.run.record is None
    assert part.body.isHidden()
    press(qtbot, canvas(reviewing), "A")
    reviewing.input.image.choose(image)
    qtbot.waitUntil(lambda: not part.body.isHidden())
    assert states(reviewing) == {}
    press(qtbot, canvas(reviewing), "A")
    assert states(reviewing) == {1: ("accepted", "dog")}


def test_nothing_is_decided_about_an_image_that_is_hidden(qtbot, reviewing, photo, messages):
    image = reviewing._viewer.layers["cells"]
    image.visible = False
    press(qtbot, canvas(reviewing), "A")
    assert states(reviewing) == {}
    assert messages[-1] == "'cells' is hidden; show it, then decide."
    image.visible = True
    press(qtbot, canvas(reviewing), "A")
    assert states(reviewing) == {1: ("accepted", "dog")}


def test_nothing_outdated_is_decided_or_exported(qtbot, reviewing, export, tmp_path, messages):
    image, marks = (reviewing._viewer.layers[name] for name in ("cells", "marks"))
    session, model = reviewing.session, reviewing.results.model
    before = image.data

    def status(row):
        place = [column.name for column in model.columns].index("status")
        return model.data(model.index(row, place))

    marks.paint((4, 4), 2)  # over the border of region 1
    press(qtbot, canvas(reviewing), "A")
    export(reviewing, tmp_path, "csv")
    assert all("Looking whether" in message for message in messages[-2:])
    assert states(reviewing) == {}
    qtbot.waitUntil(lambda: changed_rows(session) == {0, 1})
    assert (status(0), status(2)) == ("outdated", "doubtful")
    press(qtbot, canvas(reviewing), "A")
    assert "1 region has changed since these suggestions were made" in messages[-1]
    reviewing.results.table.selectRow(2)
    press(qtbot, canvas(reviewing), "A")
    assert set(states(reviewing)) == {3}
    export(reviewing, tmp_path, "csv")
    assert "2 regions have changed" in messages[-1]
    reviewing.exports.accepted_only.setChecked(True)
    export(reviewing, tmp_path, "csv")
    assert len(pd.read_csv(tmp_path / "regions.csv")) == 1
    (tmp_path / "regions.csv").unlink()
    reviewing.exports.accepted_only.setChecked(False)
    image.contrast_limits_range = image.contrast_limits = (0, 200)  # to see better
    qtbot.waitUntil(lambda: session.run.image_changed)
    assert "2 regions have changed" in outdated(session)
    marks.undo()
    qtbot.waitUntil(lambda: outdated(session) == "")
    assert changed_rows(session) == set(range(50))
    image.data = before[::-1].copy()
    qtbot.waitUntil(lambda: session.run.pixels_changed)
    press(qtbot, canvas(reviewing), "RU")
    assert "The image has changed" in messages[-1]
    assert states(reviewing) == {}  # taken back is what was decided before
    export(reviewing, tmp_path, "csv", "npz")
    assert list(tmp_path.glob("regions.csv")) == []
    image.data = before
    qtbot.waitUntil(lambda: not session.run.pixels_changed)
    export(reviewing, tmp_path, "csv")
    assert list(tmp_path.glob("regions.csv"))


def test_keys_decide_wherever_the_focus_is_as_long_as_it_says_reviewing(
    window, qtbot, reviewing, run_to_end
):
    viewer, part = reviewing._viewer, reviewing.review.part
    main = viewer.window._qt_window
    reviewing.reveal("label")
    reviewing.reveal("review")
    controls = viewer.window._qt_viewer.controls.widgets[viewer.layers["marks"]]
    for place in (main, reviewing.tabs.tabBar(), reviewing.foot.button, controls):
        press(qtbot, place, "A")
    assert set(states(reviewing)) == {1, 2, 3, 4}
    reviewing.input.regions.choose(viewer.add_labels(np.zeros((160, 200), int), name="others"))
    assert part.switch.text() == "Review"  # there is nothing to review
    press(qtbot, main, "A")
    reviewing.input.regions.choose(viewer.layers["marks"])
    qtbot.waitUntil(lambda: part.switch.text() == "Reviewing: Esc ends")
    press(qtbot, main, "A")
    assert set(states(reviewing)) == {1, 2, 3, 4, 5}
    run_to_end(reviewing)  # Again
    qtbot.waitUntil(lambda: reviewing.review.state is not None)
    press(qtbot, main, "R")
    assert states(reviewing)[6] == ("rejected", "")
    dock = next(one for one in main.findChildren(QDockWidget) if one.isAncestorOf(part))
    dock.setFloating(True)
    press(qtbot, canvas(reviewing), "R")
    press(qtbot, reviewing.foot.button, "R")
    dock.setFloating(False)
    assert states(reviewing)[8] == ("rejected", "")
    features = QTableWidget(1, 1)  # as napari's table of features
    viewer.window.add_dock_widget(features)
    press(qtbot, features, "A")  # begins to edit a cell
    assert 9 not in states(reviewing)
    press(qtbot, main, ["Escape", "A"])
    assert 9 not in states(reviewing)
    assert reviewing.foot.button.text() == "Review 42 suggestions"
    assert "A accepts" not in reviewing.foot.status.text()


def test_a_review_goes_on_where_nothing_is_decided_yet_and_says_why_to_look(qtbot, reviewing):
    session, part = reviewing.session, reviewing.review.part
    assert part.flag.text().startswith("Doubtful: ")
    press(qtbot, canvas(reviewing), "N")
    assert part.flag.text() == "Low resolution"
    reviewing.results.table.selectRow(0)
    images = {"this one": place_of(reviewing.review.keeper.target)}
    request = WordRequest(word="dog", confidence=0.0, images=images, source=None)
    session.decisions.apply(request)  # of many images, on another tab
    assert selected(reviewing) == 2
    press(qtbot, canvas(reviewing), ["Escape"])
    reviewing.results.table.selectRow(2)
    qtbot.mouseClick(reviewing.foot.button, Qt.MouseButton.LeftButton)
    press(qtbot, canvas(reviewing), "2")
    assert states(reviewing)[3] == ("accepted", "dog")
    assert states(reviewing)[4] == ("accepted", "dog")


def click(viewer, y, x, moved=0):
    """Press the mouse at a place of the canvas, move it, and let go."""
    for kind, callbacks in (
        ("mouse_press", mouse_press_callbacks),
        ("mouse_move", mouse_move_callbacks),
        ("mouse_release", mouse_release_callbacks),
    ):
        event = MouseEvent(kind, button=1, position=(y, x), pos=np.array([0.0, 0.0]))
        if kind != "mouse_press":
            event.pos = np.array([0.0, float(moved)])
        callbacks(viewer, ReadOnlyWrapper(event, exceptions=("handled",)))


def test_a_click_on_a_region_selects_it_in_table_and_review(qtbot, opened, scene, run_to_end):
    labels = scene[1].copy()
    labels[:50, :60] = 99  # around others, which are smaller
    labels[3:13, 3:13] = 1
    widget = opened(labels)
    switch_on(qtbot, widget)
    viewer, marks = widget._viewer, widget.session.run.regions
    viewer.layers.selection.active = marks
    click(viewer, 64, 22)
    assert (selected(widget), widget.review.state.row) == (42, widget.results.row)
    click(viewer, 5, 5)
    assert selected(widget) == 1
    click(viewer, 45, 55, moved=1)  # a hand trembles
    assert selected(widget) == 99
    marks.mode = "pick"
    click(viewer, 5, 5)
    assert selected(widget) == 1
    click(viewer, 45, 55, moved=30)  # the picture was dragged
    click(viewer, 159, 199)  # there is no region
    marks.mode = "paint"
    click(viewer, 45, 55)
    assert selected(widget) == 1
    marks.mode = "pan_zoom"
    image, above = widget.session.run.image, viewer.add_image(np.zeros((160, 200)))
    click(viewer, 64, 22)  # on another image
    assert selected(widget) == 1
    above.visible, image.visible = False, False
    click(viewer, 64, 22)  # on nothing
    assert selected(widget) == 1
    image.visible, viewer.scene.camera.zoom = True, 0.1
    click(viewer, 64, 22)
    assert selected(widget) == 42
    assert viewer.scene.camera.zoom == 0.1  # a click leaves the view
    viewer.add_image(np.zeros((3, 160, 200)), visible=False)
    viewer.dims.order = (1, 0, 2)  # an axis that the image has not
    click(viewer, 5, 5)
    assert selected(widget) == 42
    viewer.dims.order = (0, 1, 2)
    corners = np.array([(0, 0), (0, 1), (1, 1), (1, 0)])
    boxes = viewer.add_shapes([90 * corners + 9, 20 * corners + 20, 50 * corners + 9])
    widget.session.choose(regions=boxes)
    run_to_end(widget)
    for place, row in (((25, 25), 1), ((50, 50), 2), ((90, 90), 0)):  # the smallest
        click(viewer, *place)
        assert widget.session.review.row == row


def test_the_crop_beside_the_suggestions_is_that_of_the_region(qtbot, reviewing, scene):
    part, image = reviewing.review.part, scene[0]
    for key in "AN":
        rows, columns = np.nonzero(scene[1] == selected(reviewing))
        shown = part.crop.pixmap().toImage()
        assert max(shown.width(), shown.height()) == CROP_SIDE
        middle = [(axis.min() + axis.max() + 1) / 2 for axis in (rows, columns)]
        top, left = (max(0, int(at - 12)) for at in middle)  # with what is around it
        bottom, right = (int(at + 12) + 1 for at in middle)
        scale = CROP_SIDE / max(bottom - top, right - left)
        inside, beside = (rows.min() + 4, columns.min() + 4), (rows.max() + 4, columns.max() + 4)
        for y, x in (inside, beside):
            place = [round((at + 0.5) * scale) for at in (x - left, y - top)]
            pixel = shown.pixelColor(*place).getRgb()[:3]
            assert np.abs(np.subtract(pixel, image[y, x])).mean() < 40
        press(qtbot, canvas(reviewing), key)
    reviewing._viewer.layers.remove("cells")
    assert not part.body.isVisible()


def test_keys_decide_nothing_while_another_plane_is_in_view(
    qtbot, viewer, dock, slow, run_to_end, scene
):
    viewer.add_image(np.stack([scene[0][..., 0]] * 3), name="stack")
    viewer.add_labels(np.stack([scene[1]] * 3), name="cells")
    viewer.dims.set_point(0, 1)
    widget, slow.free = dock(), True
    run_to_end(widget)
    switch_on(qtbot, widget)
    viewer.dims.set_point(0, 2)
    qtbot.waitUntil(lambda: widget.session.run.elsewhere != "")
    for key in "AR":
        press(qtbot, canvas(widget), key)
        assert states(widget) == {}
        assert "These suggestions are of plane 1" in widget.foot.status.text()
    viewer.dims.set_point(0, 1)
    qtbot.waitUntil(lambda: not widget.session.run.elsewhere)
    press(qtbot, canvas(widget), "A")
    assert len(states(widget)) == 1
    # A layer with more dimensions gives the axes other numbers: it is the same plane.
    viewer.add_image(np.zeros((2, 3, 8, 8), np.uint8), name="time")
    viewer.dims.set_point(1, 1)
    qtbot.waitUntil(lambda: widget.session.run.plane == (("axis 1", 1),))
    press(qtbot, canvas(widget), "A")
    assert len(states(widget)) == 2


def test_the_heatmap_leaves_the_object_visible_while_its_region_is_reviewed(window, qtbot, opened):
    widget = opened()
    heatmap = widget.canvas.heatmap
    assert heatmap.layer.opacity == OPACITY
    switch_on(qtbot, widget)
    assert heatmap.layer.opacity == DIMMED
    form = widget.review.part.form
    form.set_values({"heatmap": "inside the region"})
    assert heatmap.layer.opacity == OPACITY
    extent = heatmap.layer.extent.world
    np.testing.assert_allclose(extent, widget.canvas.border.corners, atol=0.1)
    press(qtbot, canvas(widget), "N")
    np.testing.assert_allclose(heatmap.layer.extent.world, widget.canvas.border.corners, atol=0.1)
    form.set_values({"heatmap": "full"})
    assert np.ptp(heatmap.layer.extent.world, axis=0).min() > 100  # all of the image
    form.set_values({"heatmap": "dimmed"})
    heatmap.layer.opacity = 0.5  # the user's
    widget.review.stop()
    assert heatmap.layer.opacity == 0.5


def test_options_come_back_after_a_restart(qtbot, opened):
    first = opened()
    changed = {"order": "largest", "keys": "by word", "words_on_canvas": True}
    changed |= {"learn": True}
    first.review.part.form.set_values(changed)
    first.shut_down()
    second = opened()
    assert changed.items() <= second.review.part.options.model_dump().items()
    switch_on(qtbot, second)
    assert [button._key.text() for button in second.review.part.suggestions[:2]] == ["1", "2"]
    assert second.review.part.suggestions[0].label.text() == "cat"  # first of the list
    second.controller.forget()
    assert second.review.part.options.order == "automatic"


def test_an_export_is_named_by_its_image_and_can_hold_accepted_regions_only(
    qtbot, reviewing, tmp_path, monkeypatch, messages
):
    offered = []

    def ask(parent, title, name, *_, **__):
        offered.append(name)
        return str(tmp_path / name), ""

    monkeypatch.setattr(QFileDialog, "getSaveFileName", ask)
    exports = reviewing.exports
    exports.accepted_only.setChecked(True)
    exports.ask(FORMATS["coco"])
    qtbot.waitUntil(lambda: not exports.saving.busy)
    assert "No region is accepted" in messages[-1]
    reviewing.review.act("pick 2")
    exports.ask(FORMATS["coco"])
    qtbot.waitUntil(lambda: not exports.saving.busy)
    assert offered == ["cells_coco.json"] * 2
    coco = COCO(tmp_path / "cells_coco.json")
    assert [one["region"] for one in coco.loadAnns(coco.getAnnIds())] == [1]
    assert [one["file_name"] for one in coco.dataset["images"]] == ["cells.png"]
    assert [one["name"] for one in coco.dataset["categories"]] == ["cat", "dog"]
    reviewing.input.image.layer.name = "a/b: c?"
    reviewing.input.image.layer._source = None  # of no file
    assert exports.name_of(FORMATS["csv"]) == "a_b_ c_regions.csv"
