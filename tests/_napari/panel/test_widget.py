"""The dock widget as its user meets it."""

import gc
import json
import weakref

import numpy as np
import pandas as pd
import pytest
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QFileDialog

from napari_maskinversion.app.layer_input.layer_facts import is_ours
from napari_maskinversion.app.session import session_of


def row_click(qtbot, widget, row):
    table = widget.results.table
    place = table.visualRect(widget.results.model.index(row, 1)).center()
    qtbot.mouseClick(table.viewport(), Qt.MouseButton.LeftButton, pos=place)


def test_the_widget_says_how_many_regions_the_plane_has(widget, qtbot):
    assert widget.input.line.text() == "50 regions on this plane"
    cells = widget._viewer.layers["cells"]
    cells.data[:8] = 0
    cells.refresh()
    cells.paint((100, 100), 77)
    qtbot.waitUntil(lambda: widget.input.line.text() == "51 regions on this plane")


def test_rare_choices_are_pages_of_the_settings_and_open_by_keyboard(qtbot, widget):
    header, settings = widget.controller.part, widget.controller.settings
    assert not settings.isVisible()
    qtbot.keyClick(header.settings, Qt.Key.Key_Space)
    assert settings.isVisible()
    assert not settings.isModal()  # the canvas stays in use
    while not widget.input.scope.isVisible():
        assert settings.list.currentRow() < settings.list.count() - 1
        qtbot.keyClick(settings.list, Qt.Key.Key_Down)
    assert settings.list.currentItem().text() == "Regions and windows"
    qtbot.keyClick(widget.input.scope.windows, Qt.Key.Key_Down)  # the whole image
    assert widget.run_controller.request().settings.window.mode == "whole"
    qtbot.keyClick(widget.input.scope.use, Qt.Key.Key_Down)
    qtbot.keyClicks(widget.input.scope.ids, "3, 7-8")
    assert widget.run_controller.request().input.only == {3, 7, 8}
    qtbot.keyClick(widget.input.scope.merge, Qt.Key.Key_Space)
    assert widget.run_controller.request().input.merge


def test_the_line_names_the_plane_of_a_stack(viewer, dock, qtbot):
    labels = np.zeros((4, 20, 30, 30), dtype=int)
    labels[3, 12, 5:9, 5:9] = 1
    viewer.add_image(np.random.rand(4, 20, 30, 30))
    viewer.add_labels(labels)
    viewer.dims.axis_labels = ("t", "z", "y", "x")
    widget = dock()
    viewer.dims.set_point((0, 1), (3, 12))
    qtbot.waitUntil(lambda: widget.input.line.text() == "1 region on t 3, z 12")


def test_layers_are_offered_as_they_come_and_go(widget):
    viewer, combo = widget._viewer, widget.input.regions
    shapes = viewer.add_shapes([[(0, 0), (0, 9), (9, 9), (9, 0)]], name="drawn")
    viewer.add_points([(1, 1)])
    assert combo.layer is shapes  # the newest, until the user chooses
    combo.setCurrentIndex(0)
    combo.activated.emit(0)
    viewer.add_labels(np.zeros((5, 5), int))
    assert combo.layer is viewer.layers["cells"]
    viewer.layers["cells"].name = "renamed"
    assert combo.currentText() == "renamed"
    viewer.layers.remove("renamed")
    assert combo.layer in viewer.layers


def hottest_token(layer):
    """Row and column, on the grid (4, 5) of the fake run, of the highest value of a heatmap."""
    height, width = layer.data.shape
    y, x = np.unravel_index(layer.data.argmax(), layer.data.shape)
    return y * 4 // height, x * 5 // width


def test_the_row_selected_drives_heatmap_bars_and_view(qtbot, widget, slow, run_to_end):
    viewer = widget._viewer
    slow.free = True
    viewer.layers.selection.active = viewer.layers["cells"]
    viewer.layers["cells"].mode = "paint"
    before = [layer.data.copy() for layer in viewer.layers]
    run_to_end(widget)
    ours = [layer for layer in viewer.layers if is_ours(layer)]
    assert [layer.name for layer in ours] == ["heatmap: photo"]
    assert hottest_token(ours[0]) == (1, 1)  # of region 1, as the fake run has it
    row_click(qtbot, widget, 2)
    assert widget.results.row == 2
    assert hottest_token(ours[0]) == (3, 3)
    qtbot.keyClick(widget.results.table, Qt.Key.Key_Down)
    assert widget.results.row == 3
    assert hottest_token(ours[0]) == (0, 4)
    assert "dog" in widget.results.bars.toolTip()
    # The user's things are as they were.
    assert viewer.layers.selection.active is viewer.layers["cells"]
    assert viewer.layers["cells"].mode == "paint"
    for layer, data in zip((viewer.layers["photo"], viewer.layers["cells"]), before, strict=True):
        assert np.array_equal(layer.data, data)


def test_a_region_out_of_sight_that_the_user_selects_is_brought_into_view(
    window, widget, slow, run_to_end
):
    slow.free = True
    camera, image = window.scene.camera, window.layers["photo"]
    image.corner_pixels = np.array([[100, 100], [130, 130]])  # what a zoomed view would leave
    camera.center = (0, 115, 115)
    run_to_end(widget)
    assert widget.results.row == 0  # by the panel: the view stays
    assert camera.center[-2:] == pytest.approx((115, 115))
    image.corner_pixels = np.array([[0, 0], [30, 30]])
    widget.results.table.selectRow(49)
    y0, x0, y1, x1 = widget.results.results.regions[49].bbox
    assert camera.center[-2:] == pytest.approx(((y0 + y1 - 1) / 2, (x0 + x1 - 1) / 2))
    image.corner_pixels = np.array([[0, 0], [159, 199]])
    camera.center = (0, 50, 50)
    widget.results.table.selectRow(3)  # in view: nothing moves
    assert camera.center[-2:] == pytest.approx((50, 50))
    # One that is a dot on the screen is enlarged.
    camera.zoom = 0.1
    widget.results.table.selectRow(26)
    assert camera.zoom == pytest.approx(8)  # 10 pixels are 80
    y0, x0, y1, x1 = widget.results.results.regions[26].bbox
    assert camera.center[-2:] == pytest.approx(((y0 + y1 - 1) / 2, (x0 + x1 - 1) / 2))


def test_export_writes_what_the_table_shows(qtbot, ran, tmp_path, messages, monkeypatch):
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda *_: str(tmp_path))
    ran.exports.ask_folder()
    qtbot.waitUntil(lambda: not ran.exports.saving.busy)
    files = ("embeddings.npy", "embeddings.json", "regions.csv", "result.json")
    names = ", ".join(f"photo_{name}" for name in files)
    assert messages[-1] == f"Saved {names} in {tmp_path}"
    shown, model = ran.results.results, ran.results.model
    table = pd.read_csv(tmp_path / "photo_regions.csv")
    assert len(table) == model.rowCount() == 50
    for row in range(50):
        cells = [model.index(row, column).data() for column in range(model.columnCount())]
        saved = table.iloc[row]
        assert cells[:2] == [str(saved["region"]), saved["suggestion"]]
        assert cells[2] == f"{saved['probability']:.0%}".replace("%", " %")
        numbers = [cells[4], cells[5], cells[7]]  # "changed from" lies between
        assert numbers == [f"{saved[c]:.2f}" for c in ("similarity", "margin", "iou")]
        # The cell has room for the first word; the tip says the rest.
        status = saved["status"].split(":")[0]
        assert cells[3] == {"low resolution": "low res."}.get(status, status)
        tip = model.index(row, 3).data(Qt.ItemDataRole.ToolTipRole)
        assert tip == saved["status"]
    saved = np.load(tmp_path / "photo_embeddings.npy")
    assert saved.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(saved, axis=1), 1, rtol=1e-5)
    np.testing.assert_array_equal(saved, shown.embeddings)
    record = json.loads((tmp_path / "photo_result.json").read_text())
    assert [region["id"] for region in record["regions"]] == shown.ids
    assert record["source"]["image_layer"] == "photo"
    assert (record["source"]["channels"], record["source"]["channels_used"]) == ("this layer", [])
    sidecar = json.loads((tmp_path / "photo_embeddings.json").read_text())
    assert sidecar["embeddings"]["ids"] == shown.ids


def test_labels_come_from_a_file_and_prefilled_ones_give_way(qtbot, widget, tmp_path, messages):
    part = widget.vocabulary
    part.text.setPlainText("")
    part.prefill(["a", "b"])
    part.prefill(["c"])
    assert part.text.toPlainText() == "c"
    part.text.setPlainText("typed by hand")
    part.prefill(["d"])
    assert part.text.toPlainText() == "typed by hand"
    file = tmp_path / "words.txt"
    file.write_text("# comment\nfox\n\nowl\nfox\n")
    part.files.read(file)
    qtbot.waitUntil(lambda: part.count.text().startswith("2 words"))
    assert part.vocabulary().labels == ("fox", "owl")
    part.files.read(tmp_path / "missing.txt")
    qtbot.waitUntil(lambda: not part.files.busy)
    assert "missing.txt" in messages[-1]
    assert part.vocabulary().labels == ("fox", "owl")


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_colours_follow_the_theme(widget, theme):
    from napari.utils.theme import get_theme

    widget._viewer.theme = theme
    text = get_theme(theme).text.as_hex()
    assert widget.results.bars.text_color.name() == text


def test_a_closed_dock_frees_the_models_and_gives_back_its_results(
    window, widget, dock, slow, run_to_end
):
    class Weights:
        """Stands in for a model on a device."""

    models = [Weights(), Weights()]
    gone = [weakref.ref(one) for one in models]
    widget.store.kept.loaded, widget.segment.store.loaded = models
    models.clear()
    slow.free = True
    run_to_end(widget)
    widget.results.select(7)
    results = widget.session.run.results
    window.window.remove_dock_widget(widget)
    gc.collect()
    assert [one() for one in gone] == [None, None]
    assert session_of(window).run.results is results
    again = dock()
    assert again.results.model.rowCount() == 50
    assert again.results.row == 7
    assert [layer.name for layer in window.layers if is_ours(layer)] == ["heatmap: photo"]


def test_layers_that_change_after_the_window_was_closed_meet_no_dead_widget(
    close_window, viewer, dock
):
    close_window(dock())
    viewer.add_labels(np.zeros((4, 5, 5), int))
    viewer.dims.set_point(0, 2)
    viewer.layers.clear()
