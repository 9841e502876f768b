"""Export in other programs' formats from the panel, and results opened again."""

import json
from dataclasses import replace

import geopandas
import numpy as np
import pandas as pd
import pytest
import tifffile
import zarr
from pycocotools.coco import COCO
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QFileDialog, QMessageBox

from napari_maskinversion.results.export.archive import open_archive
from napari_maskinversion.results.export.catalogue import FORMATS
from tests.base.test_units import UTM, geotiff


def save(qtbot, widget, name, folder):
    entry = FORMATS[name]
    widget.exports.save((entry, folder / entry.file))
    qtbot.waitUntil(lambda: not widget.exports.saving.busy)
    return folder / entry.file


def reopen(qtbot, widget, path):
    widget.exports.open_file(path)
    qtbot.waitUntil(lambda: not widget.exports.opening.busy)


def switch_review(qtbot, widget):
    qtbot.mouseClick(widget.review.part.switch, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: widget.review.state is not None)


def entries(menu):
    """The entries of a menu and of the menus in it, by title."""
    found = {}
    for action in menu.actions():
        found |= entries(action.menu()) if action.menu() else {action.text(): action}
    return found


def test_every_format_is_in_the_menu_and_asks_before_it_replaces(
    qtbot, ran, tmp_path, monkeypatch, scene, messages
):
    actions = entries(ran.exports.export.menu())
    for entry in FORMATS.values():
        assert any(text.startswith(entry.title.split(" (")[0]) for text in actions), entry.title
    (tmp_path / "coco.json").write_text("mine")
    answers = [QMessageBox.StandardButton.No, QMessageBox.StandardButton.Yes]
    monkeypatch.setattr(QMessageBox, "question", lambda *_: answers.pop(0))
    place = (str(tmp_path / "coco.json"), "")
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_, **__: place)
    actions["COCO (.json)..."].trigger()
    assert not ran.exports.saving.busy  # nothing is being written either
    assert (tmp_path / "coco.json").read_text() == "mine"
    actions["COCO (.json)..."].trigger()
    qtbot.waitUntil(lambda: not ran.exports.saving.busy)
    assert "Saved coco.json in" in messages[-1]
    coco = COCO(tmp_path / "coco.json")
    for record in coco.loadAnns(coco.getAnnIds()):
        np.testing.assert_array_equal(coco.annToMask(record), scene[1] == record["region"])

    # A place that cannot be written is said.
    save(qtbot, ran, "parquet", tmp_path / "nowhere")
    assert "Could not export: " in messages[-1]
    # Masks are those of the run, whatever became of the layer.
    qtbot.waitUntil(lambda: not (ran.changes._touched or ran.session.run.comparing))
    drawn = scene[1].copy()
    ran._viewer.layers["cells"].data[:] = 0
    np.testing.assert_array_equal(tifffile.imread(save(qtbot, ran, "masks", tmp_path)), drawn)


def test_formats_of_maps_are_saved_and_without_their_packages_refused(
    qtbot, ran, tmp_path, monkeypatch, scene, messages
):
    path = save(qtbot, ran, "ome-zarr", tmp_path)
    np.testing.assert_array_equal(zarr.open_group(str(path), mode="r")["0"][:], scene[1])
    layer = geopandas.read_file(save(qtbot, ran, "geopackage", tmp_path))
    assert layer["region"].tolist() == ran.results.results.ids
    monkeypatch.setattr("napari_maskinversion.results.export.bundle.find_spec", lambda _: None)
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_, **__: pytest.fail("asked"))
    actions = entries(ran.exports.export.menu())
    actions["GeoPackage, for QGIS (.gpkg)..."].trigger()
    assert 'install the extra: pip install "napari-maskinversion[spatial]"' in messages[-1]


def test_results_open_again_with_table_heatmap_regions_and_decisions(
    qtbot, ran, tmp_path, scene, messages
):
    viewer = ran._viewer
    switch_review(qtbot, ran)
    ran.review.act("pick 2")
    ran.review.act("reject")
    path = save(qtbot, ran, "npz", tmp_path)
    before = ran.results.results
    decided = dict(ran.review.state.review.decisions)
    assert len(decided) == 2
    sidecar = ran.review.state.review.path
    ran.review.stop()
    sidecar.unlink()  # as on another machine
    viewer.layers.remove("cells")
    ran.session.forget_results()
    ran.review.follow()

    reopen(qtbot, ran, path)
    assert "Opened 50 regions of results.npz." in messages[-1]
    assert "another image" not in messages[-1]
    pd.testing.assert_frame_equal(ran.results.results.to_frame(), before.to_frame())
    assert ran.results.model.rowCount() == 50
    layer = viewer.layers["regions of results"]
    np.testing.assert_array_equal(layer.data, scene[1])
    assert ran.input.regions.layer is layer
    ran.results.select(7)
    heatmap = ran.canvas.heatmap.layer
    np.testing.assert_array_equal(heatmap.data, before.window_heatmap(7).values)
    switch_review(qtbot, ran)
    again = dict(ran.review.state.review.decisions)
    assert {key: (d.status, d.label) for key, d in again.items()} == {
        key: (d.status, d.label) for key, d in decided.items()
    }
    # And can be saved as before.
    archive = open_archive(save(qtbot, ran, "npz", tmp_path / ""))
    assert len(archive.masks) == 50


@pytest.mark.parametrize("live", [False, True])
def test_the_place_on_earth_of_a_geotiff_reaches_every_file(
    qtbot, viewer, dock, tmp_path, run_to_end, live
):
    geotiff(tmp_path / "utm.tif", keys=UTM)
    (image,) = viewer.open(tmp_path / "utm.tif", plugin="napari")
    labels = np.zeros(image.data.shape[:2], int)
    labels[4:8, 8:16] = 1
    viewer.add_labels(labels)
    panel = dock()
    panel.model.form.set_values({"inversion.steps": 1})
    if live:
        panel.live.switch.setChecked(True)
        qtbot.waitUntil(lambda: panel.session.run.results is not None)
    else:
        run_to_end(panel)
    page = json.loads(save(qtbot, panel, "geojson", tmp_path).read_text("utf-8"))
    assert "EPSG::32633" in page["crs"]["properties"]["name"]
    corners = np.array(page["features"][0]["geometry"]["coordinates"][0])
    assert corners.min(0).tolist() == [500_000 + 0.5 * 8, 4_200_000 - 0.25 * 8]
    assert corners.max(0).tolist() == [500_000 + 0.5 * 16, 4_200_000 - 0.25 * 4]
    table = pd.read_csv(save(qtbot, panel, "csv", tmp_path))
    assert (table["area"][0], table["unit"][0]) == (32 / 8, "m")
    assert (table["world_x"][0], table["world_y"][0]) == (500_006.0, 4_199_998.5)
    record = json.loads(save(qtbot, panel, "json", tmp_path).read_text("utf-8"))
    assert record["regions"][0]["world_xy"] == [500_006.0, 4_199_998.5]


def test_results_of_another_image_are_said_or_refused(qtbot, ran, tmp_path, scene, messages):
    path = save(qtbot, ran, "npz", tmp_path)
    viewer, shown = ran._viewer, ran.results.results
    image = viewer.layers["photo"]
    image.data = np.roll(scene[0], 3, axis=0)
    reopen(qtbot, ran, path)
    assert "belong to another image: photo, of the same size with other pixels" in messages[-1]
    assert ran.foot.button.text() == "Update the suggestions"
    save(qtbot, ran, "csv", tmp_path)
    assert "The image has changed" in messages[-1]
    image.data = scene[0][:80]
    shown = ran.results.results
    reopen(qtbot, ran, path)
    assert "its planes have 160 x 200 px, 'photo' has 80 x 200 px" in messages[-1]
    assert ran.results.results is shown
    (tmp_path / "bad.npz").write_bytes(b"none")
    reopen(qtbot, ran, tmp_path / "bad.npz")
    assert "bad.npz holds no results of this plugin" in messages[-1]
    viewer.layers.clear()
    reopen(qtbot, ran, path)
    assert "First open the image" in messages[-1]


def test_suggestions_join_the_columns_of_the_layer(ran, messages):
    layer = ran._viewer.layers["cells"]
    layer.features = pd.DataFrame({"index": [0, 1, 2], "suggestion": ["", "mine", "mine too"]})
    actions = entries(ran.exports.export.menu())
    for _ in range(2):  # a second time the columns are the same
        actions["Into the regions' layer"].trigger()
    features = layer.features.set_index("index")
    assert features.loc[[1, 2], "suggestion"].tolist() == ["mine", "mine too"]
    expected = ran.results.results.to_frame().set_index("region")["suggestion"]
    assert features.loc[range(1, 51), "suggestion_2"].tolist() == expected.tolist()
    ours = ["suggestion_2", "similarity", "confidence", "iou", "status", "decision"]
    assert list(features) == ["suggestion", "label", "roi_id", *ours]
    # What other plugins, such as napari-feature-classifier, find a region by.
    assert features.loc[range(1, 51), "label"].tolist() == list(range(1, 51))
    assert set(features.loc[range(1, 51), "roi_id"]) == {"photo"}
    assert set(features.loc[range(1, 51), "decision"]) == {""}
    assert "'cells' now has the columns label, roi_id, suggestion_2, similarity" in messages[-1]


def test_the_layers_features_follow_runs_and_decisions_where_that_is_switched_on(
    qtbot, ran, run_to_end
):
    layer = ran._viewer.layers["cells"]
    layer.features = pd.DataFrame({"index": [1, 2], "decision": ["mine", "mine too"]})

    def column(name):
        return layer.features.set_index("index")[name].to_dict()

    switch_review(qtbot, ran)
    qtbot.wait(600)
    assert list(layer.features) == ["index", "decision"]  # it is off at first
    ran.exports.features.click()
    qtbot.waitUntil(lambda: "roi_id" in layer.features)
    suggestion = ran.session.run.results.regions[2].suggestion
    assert (column("label")[3], column("suggestion")[3]) == (3, suggestion)
    ran.review.act("pick 2")
    first = ran.session.run.results.regions[0]
    decided = {first.id: first.ranking.labels[1]}
    qtbot.waitUntil(lambda: column("decision_2")[first.id] == decided[first.id])
    ran.review.act("undo")
    qtbot.waitUntil(lambda: column("decision_2")[first.id] == "")
    layer.paint((150, 190), 77)
    run_to_end(ran)
    qtbot.waitUntil(lambda: column("label").get(77) == 77)
    layer.undo()  # the layer's own undo is about its pixels
    assert (column("decision")[1], column("decision")[2]) == ("mine", "mine too")
    assert set(column("decision_2").values()) == {""}
    # Off: our columns go, but for the accepted words of the review, and do not come back.
    ran.exports.features.click()
    ran.review.act("pick 1")
    ran.shut_down()
    assert set(layer.features) == {"index", "decision", "accepted_label"}
    assert (column("decision")[1], column("decision")[2]) == ("mine", "mine too")


def test_shapes_drawn_later_inherit_no_suggestion(ran, run_to_end):
    square = np.array([(4, 4), (4, 9), (9, 9), (9, 4)], dtype=float)
    layer = ran._viewer.add_shapes([square, square + 20], name="drawn")
    ran.session.choose(regions=layer)
    run_to_end(ran)
    ran.exports.to_features()
    layer.add(square + 40)
    assert layer.features["label"].tolist()[:2] == [0, 1]
    assert layer.features[["label", "suggestion"]].isna()[2:].all(axis=None)


def test_results_of_other_regions_are_not_written_into_the_layer(ran, messages):
    layer = ran._viewer.layers["cells"]
    before = list(layer.features)
    results = ran.session.run.results
    others = replace(results, regions=results.regions[:10])
    ran.session.run.record = replace(ran.session.run.record, results=others, settled=False)
    ran.exports.to_features()
    assert list(layer.features) == before
    assert "to other regions" in messages[-1]
