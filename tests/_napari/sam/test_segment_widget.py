"""SAM in the panel: boxes and points of layers to a Labels layer, which becomes the regions."""

import pickle
import threading
from functools import partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from napari.components import ViewerModel
from napari.layers import Image, Points, Shapes
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QWidget

from napari_maskinversion._napari.inputs.input_widget import InputWidget
from napari_maskinversion._napari.sam.prompt_layers import (
    box_marks,
    new_points,
    point_marks,
    set_kind,
)
from napari_maskinversion._napari.sam.segment_controller import SegmentController
from napari_maskinversion.app.layer_input.coordinates import Grid, ViewPoint, plane_of
from napari_maskinversion.base.progress import telling
from napari_maskinversion.images.channels import as_source
from napari_maskinversion.regions.annotations.label_maps import draw_labels
from napari_maskinversion.regions.sam import segmenter
from napari_maskinversion.regions.sam.prompts import (
    AutomaticConfig,
    Prompt,
    read_boxes,
    read_points,
)
from napari_maskinversion.regions.sam.sam_loading import load_segmenter
from tests._napari.running import texts_of
from tests.regions.sam.tiny import save_tiny, tiny_sam2

PLACE = {"scale": (2.0, 0.5), "rotate": 30, "translate": (7.0, -3.0)}
OTHER = {"scale": (0.3, 4.0), "rotate": -75, "translate": (-40.0, 11.0)}
VIEW = ViewPoint(point=(0.0, 0.0), displayed=(0, 1), labels=("0", "1"))


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return save_tiny(tmp_path_factory.mktemp("sam") / "sam_tiny.pth")


@pytest.fixture
def panel(qtbot, scene, sessions):
    """The section in its part of the panel, of a viewer without a window."""
    viewer = ViewerModel()
    viewer.add_image(scene[0], name="photo")
    session = sessions()
    chosen = InputWidget(viewer, session)
    control = SegmentController(viewer, session, chosen)
    qtbot.addWidget(chosen)
    chosen.follow()
    control.follow()
    control.dialog.bring()
    yield SimpleNamespace(_viewer=viewer, session=session, input=chosen, segment=control)
    control.stop()
    chosen.stop()


@pytest.fixture
def part(panel):
    return panel.segment.part


def test_the_lists_of_layers_follow_their_names(panel, part):
    before, after = (panel._viewer.add_shapes(None, ndim=2, name=name) for name in ("a", "b"))
    points = panel._viewer.add_points(None, ndim=2, name="c")
    before.name, after.name, points.name = "cells", "boxes", "marks"
    assert [part.boxes.itemText(row) for row in range(2)] == ["cells", "boxes"]
    assert part.boxes.layer is after
    assert part.points.currentText() == "marks"
    panel.segment.stop()  # and no longer when the panel is closed
    after.name = "other"
    assert part.boxes.currentText() == "boxes"
    panel.segment.follow()
    assert part.boxes.currentText() == "other"


@pytest.fixture
def segment(qtbot, panel):
    """Press Segment and wait; give the label image of the regions layer."""
    return partial(press, qtbot, panel)


def press(qtbot, panel):
    qtbot.mouseClick(panel.segment.part.run, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: not panel.segment.job.busy)
    made = panel.input.regions.layer
    return None if made is None else np.asarray(made.data)


def rectangle(y0, x0, y1, x1):
    return np.array([[y0, x0], [y0, x1], [y1, x1], [y1, x0]], float)


def through(points, first, second):
    """Data of one layer at the same place of the world in another one."""
    return np.array([second.world_to_data(first.data_to_world(point)) for point in points])


@pytest.mark.parametrize("place", [{}, PLACE], ids=["plain", "scaled, rotated"])
@pytest.mark.parametrize("other", [{}, PLACE, OTHER], ids=["plain", "alike", "other"])
def test_boxes_and_points_are_found_through_the_transforms_of_both_layers(place, other):
    image = Image(np.zeros((60, 80)), **place)
    corners, dots = rectangle(10, 20, 30, 50), np.array([[12.0, 25.0], [28.0, 45.0]])
    shapes, points = Shapes(ndim=2, **other), Points(ndim=2, **other)
    shapes.add_polygons([through(corners, image, shapes)])
    points.add(through(dots, image, points))
    points.features = {"label": ["positive", "negative"]}
    grid = Grid.of(image, VIEW)
    plane = plane_of(grid, VIEW)
    ((box,), drawn) = box_marks(shapes, grid, plane, VIEW)
    np.testing.assert_allclose(box.box, (10, 20, 30, 50), atol=1e-6)
    assert [shape.id for shape in drawn] == [0]
    marks = point_marks(points, grid, plane, VIEW)
    np.testing.assert_allclose([mark.point for mark in marks], dots, atol=1e-6)
    assert [mark.positive for mark in marks] == [True, False]


def test_only_points_of_the_plane_shown_count_and_objects_are_numbered():
    view = ViewPoint(point=(3.0, 0.0, 0.0), displayed=(1, 2), labels=("z", "y", "x"))
    image = Image(np.zeros((5, 60, 80)))
    points = Points([[3, 5, 6], [4, 7, 8], [3, 9, 10]], features={"object": [2, 2, np.nan]})
    grid = Grid.of(image, view)
    marks = point_marks(points, grid, plane_of(grid, view), view)
    assert [(mark.point, mark.object) for mark in marks] == [((5, 6), 2), ((9, 10), None)]


def test_sam_2_is_chosen_by_its_weights_and_named_by_its_folder(panel, part, segment, tmp_path):
    folder = tmp_path / "my sam 2"
    tiny_sam2().save_pretrained(folder)
    part.use_file(folder / "model.safetensors")
    assert part.checkpoint.currentText() == "my sam 2"
    panel._viewer.add_shapes([rectangle(10, 20, 60, 70)], name="boxes")
    assert segment().max() == 1
    assert panel.segment._objects[0].scores
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content[:-100])
    segment()
    assert "my sam 2 cannot be loaded" in part.line.text()


def test_layers_that_napari_saves_as_csv_are_read_by_the_command_line(tmp_path):
    from napari_builtins.io import napari_write_points, napari_write_shapes

    shapes = Shapes([rectangle(5, 6, 25, 30)])
    points = Points([[10, 11], [50, 70]], features={"label": ["negative", "positive"]})
    for layer, write, name in (
        (shapes, napari_write_shapes, "shapes.csv"),
        (points, napari_write_points, "points.csv"),
    ):
        data, meta, _ = layer.as_layer_data_tuple()
        assert write(str(tmp_path / name), data, meta)
    (box,) = read_boxes(tmp_path / "shapes.csv")
    assert box.box == (5, 6, 25, 30)
    prompts = read_points(tmp_path / "points.csv")
    assert [(p.point, p.positive) for p in prompts] == [((10, 11), False), ((50, 70), True)]


def test_without_a_checkpoint_shapes_are_the_regions_where_the_image_lies(panel, part, segment):
    image = panel.input.image.layer
    image.scale, image.rotate, image.translate = (2.0, 0.5), 30, (7.0, -3.0)
    shapes = panel._viewer.add_shapes(name="boxes", **PLACE)
    shapes.add_rectangles([rectangle(9.6, 19.6, 29.4, 49.4)])
    labels = segment()
    made = panel.input.regions.layer
    assert made.name == "regions"
    for name in ("scale", "translate"):
        np.testing.assert_allclose(getattr(made, name), getattr(image, name), rtol=0, atol=1e-9)
    np.testing.assert_allclose(made.rotate, image.rotate, rtol=0, atol=1e-9)
    expected = np.zeros((160, 200), int)
    expected[10:30, 20:50] = 1
    np.testing.assert_array_equal(labels, expected)
    assert "Without SAM" in part.line.text()
    assert panel.input.line.text().startswith("1 region")


def test_without_a_checkpoint_shapes_of_one_object_are_one_region(panel, part, segment):
    boxes = [rectangle(y - 0.4, 19.6, y + 9.4, 29.4) for y in (10, 40, 70, 100)]
    panel._viewer.add_shapes(boxes, features={"object": [7, np.nan, 2, 7]}, name="boxes")
    labels = segment()
    expected = np.zeros((160, 200), int)
    for y, value in ((10, 7), (40, 1), (70, 2), (100, 7)):
        expected[y : y + 10, 20:30] = value
    np.testing.assert_array_equal(labels, expected)
    assert [part.object.itemText(place) for place in range(part.object.count())] == [
        "1  (shape)",
        "2  (shape)",
        "7  (2 shapes)",
    ]


def test_columns_of_the_user_stay_when_masks_are_painted_anew(qtbot, panel, part, segment):
    panel._viewer.add_shapes([rectangle(9.6, 19.6, 29.4, 49.4), rectangle(60, 60, 64, 64)])
    segment()
    made = panel.input.regions.layer
    made.features = made.features.assign(kind=["nut", "bolt"], checked=[True, False], size=[7, 8])
    part.cleaning["erode"].setValue(4)  # nothing is left of the second
    qtbot.waitUntil(lambda: not (made.data == 2).any())
    assert made.features[["index", "kind"]].to_numpy().tolist() == [[1, "nut"], [2, "bolt"]]
    made.features = pd.DataFrame({"kind": ["", "nut"]})  # a row's place is its label
    part.cleaning["erode"].setValue(0)
    qtbot.waitUntil(lambda: (made.data == 2).any())
    assert panel.input.regions.layer is made
    kinds = dict(zip(made.features["index"], made.features["kind"].fillna("none"), strict=True))
    assert kinds == {0: "", 1: "nut", 2: "none"}
    assert "score" in made.features


def test_points_that_need_a_checkpoint_are_said_to_be_left_out(panel, part, segment):
    panel._viewer.add_shapes([rectangle(9.6, 19.6, 29.4, 49.4)])
    points = panel._viewer.add_points([[12, 25], [100, 100]])
    segment()
    assert part.line.text().endswith("2 points were left out: points need a SAM checkpoint.")
    points.selected_data = {1}
    points.remove_selected()
    segment()
    assert part.line.text().endswith("1 point was left out: points need a SAM checkpoint.")
    part.use_points.setChecked(False)
    segment()
    assert "left out" not in part.line.text()


def test_sam_s_masks_are_gone_through_by_keyboard_and_cleaned(qtbot, widget, checkpoint):
    viewer, part = widget._viewer, widget.segment.part
    widget.segment.dialog.bring()
    shapes = viewer.add_shapes([rectangle(10, 20, 60, 90), rectangle(80, 100, 140, 180)])
    points = viewer.add_points([[30, 50]], features={"label": ["negative"]})
    part.use_file(checkpoint)
    first = press(qtbot, widget).copy()
    made = widget.input.regions.layer
    assert made.name == "SAM regions"
    assert [part.object.itemText(i) for i in range(2)] == [
        "1  (box, 1 negative point)",
        "2  (box)",
    ]
    assert part.score.text().startswith("Mask 1 of 4, score ")
    best = float(made.features["score"].iloc[0])
    assert not part.previous.isEnabled()
    part.next.setFocus()
    qtbot.keyClick(part.next, Qt.Key.Key_Space)
    qtbot.waitUntil(lambda: not np.array_equal(made.data, first))
    assert part.score.text().startswith("Mask 2 of 4")
    assert float(made.features.query("index == 1")["score"].iloc[0]) < best
    assert widget.input.regions.layer is made
    qtbot.mouseClick(part.previous, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: np.array_equal(made.data, first))
    part.cleaning["erode"].setValue(2)
    qtbot.waitUntil(lambda: (made.data > 0).sum() < (first > 0).sum())
    # What the user painted stays: the next masks go into a layer of their own.
    made.data[0, 0] = 77
    part.cleaning["erode"].setValue(0)
    qtbot.waitUntil(lambda: widget.input.regions.layer is not made)
    assert made.data[0, 0] == 77
    np.testing.assert_array_equal(widget.input.regions.layer.data, first)
    assert shapes in viewer.layers
    assert points in viewer.layers


@pytest.fixture(scope="module")
def plain(checkpoint):
    """What SAM finds of a box and a negative point without any layer."""
    image = np.random.default_rng(0).integers(0, 255, (160, 200, 3), dtype=np.uint8)
    said = Prompt(id=1, boxes=((10, 20, 60, 90),), negative=((30, 50),))
    (segmented,) = load_segmenter(checkpoint, "cpu").segment(as_source(image), [said])
    return draw_labels([segmented.region()], (160, 200))[0].astype(int)


@pytest.mark.parametrize(("place", "other"), [({}, OTHER), (PLACE, {}), (PLACE, OTHER)])
def test_a_whole_run_finds_the_same_whatever_the_transforms_of_the_layers(
    panel, part, segment, checkpoint, plain, place, other
):
    image = panel.input.image.layer
    for name, value in place.items():
        setattr(image, name, value)
    shapes = panel._viewer.add_shapes(ndim=2, **other)
    shapes.add_polygons([through(rectangle(10, 20, 60, 90), image, shapes)])
    points = panel._viewer.add_points(ndim=2, **other)
    points.add(through([[30, 50]], image, points))
    points.features = {"label": ["negative"]}
    part.use_file(checkpoint)
    labels = segment()
    assert plain.sum() > 100
    assert (labels != plain).sum() <= 2  # a box's corner is right to some 14 digits
    made = panel.input.regions.layer
    for corner in ((0, 0), (159, 199)):
        np.testing.assert_allclose(
            made.data_to_world(corner), image.data_to_world(corner), atol=1e-9
        )


def test_everything_in_the_image_is_found_as_the_controls_say(
    qtbot, panel, part, segment, checkpoint, messages
):
    controls = part.everything_widget
    assert controls.isHidden()
    qtbot.keyClick(part.everything, Qt.Key.Key_Space)
    assert not controls.isHidden()
    assert part.automatic() == AutomaticConfig()
    part.use_file(checkpoint)
    part.grid["points_per_side"].setValue(4)
    before = panel.input.regions.layer
    part.grid["score"].setValue(1.0)
    segment()
    assert "lower 'Score from' or 'Stability from'" in messages[-1]
    assert panel.input.regions.layer is before
    part.grid["score"].setValue(0)
    part.grid["stability"].setValue(0)
    part.grid["overlap"].setValue(1)
    labels = segment()
    expected = AutomaticConfig(points_per_side=4, score=0, stability=0, overlap=1)
    assert part.automatic() == expected
    assert part.object.count() == len(_everything(panel, checkpoint, expected)) > 2
    assert part.object.itemText(0) == "1  (found)"
    assert part.score.text().startswith("Mask 1 of 1, score ")
    assert labels.any()
    few = expected.model_copy(update={"min_area": 31_500})
    part.grid["min_area"].setValue(few.min_area)
    segment()
    assert 0 < part.object.count() == len(_everything(panel, checkpoint, few)) < 48


def _everything(panel, checkpoint, config):
    source = as_source(panel.input.image.layer.data)
    return load_segmenter(checkpoint, "cpu").segment_everything(source, config)


def test_segmenting_says_how_far_it_is_and_cancel_changes_nothing(
    qtbot, panel, part, checkpoint, monkeypatch
):
    go = threading.Semaphore(0)
    real = segmenter.Segmenter.segment

    def slow(self, source, prompts):
        told = []

        def wait(news):
            if told:
                go.acquire(timeout=100)
            told.append(news)
            return news

        with telling(wait):
            return real(self, source, prompts)

    monkeypatch.setattr(segmenter.Segmenter, "segment", slow)
    panel._viewer.add_shapes([rectangle(10, 20, 60, 90)])
    before = panel.input.regions.layer
    part.use_file(checkpoint)
    texts = texts_of(panel.segment.job)
    count = len(panel._viewer.layers)
    qtbot.mouseClick(part.run, Qt.MouseButton.LeftButton)
    assert not part.run.isEnabled()
    qtbot.waitUntil(lambda: "Reading the image" in texts)
    go.release(2)
    qtbot.mouseClick(part.progress.cancel, Qt.MouseButton.LeftButton)
    go.release(100)
    qtbot.waitUntil(lambda: not panel.segment.job.busy)
    assert len(panel._viewer.layers) == count
    assert panel.input.regions.layer is before
    assert part.run.isEnabled()
    assert part.progress.isHidden()


def test_boxes_for_sam_are_not_taken_for_regions(qtbot, panel, part):
    assert panel.input.regions.layer is None
    qtbot.mouseClick(part.add_boxes, Qt.MouseButton.LeftButton)
    assert part.boxes.layer.name == "boxes"
    assert panel.input.regions.layer is None


def test_regions_of_an_image_that_is_no_longer_chosen_take_no_place(qtbot, panel, part):
    viewer = panel._viewer
    viewer.add_shapes(name="boxes").add_rectangles([rectangle(9, 19, 29, 49)])
    qtbot.mouseClick(part.run, Qt.MouseButton.LeftButton)
    viewer.add_image(np.zeros((30, 30)), name="other")
    drawn = viewer.add_labels(np.eye(30, dtype=int), name="drawn")
    assert panel.input.image.layer.name == "other"
    qtbot.waitUntil(lambda: not panel.segment.job.busy)
    assert viewer.layers[-1].name == "regions"
    assert panel.input.regions.layer is drawn


def test_new_layers_lie_as_the_image_does_and_points_take_the_kind_chosen(qtbot, panel, part):
    image = panel.input.image.layer
    image.scale = (2.0, 0.5)
    qtbot.mouseClick(part.add_boxes, Qt.MouseButton.LeftButton)
    assert part.boxes.layer.mode == "add_rectangle"
    np.testing.assert_array_equal(part.boxes.layer.scale, image.scale)
    qtbot.mouseClick(part.add_points, Qt.MouseButton.LeftButton)
    points = part.points.layer
    np.testing.assert_array_equal(points.scale, image.scale)
    points.add([5, 5])
    part.kind.setCurrentText("negative")
    points.add([6, 6])
    assert list(points.features["label"]) == ["positive", "negative"]
    assert not np.array_equal(points.face_color[0], points.face_color[1])
    assert len({str(symbol) for symbol in points.symbol}) == 2


def test_the_kind_of_selected_points_changes_in_select_mode_and_other_columns_stay():
    points = Points([[1, 1], [2, 2]], features={"mine": [7, 8]})
    points.mode = "select"
    points.selected_data = {1}
    set_kind(points, "negative")
    assert list(points.features["label"]) == ["positive", "negative"]
    assert list(points.features["mine"]) == [7, 8]


def test_bad_input_is_refused_by_name_and_nothing_runs(
    qtbot, panel, part, segment, messages, tmp_path, checkpoint
):
    viewer = panel._viewer
    count = len(viewer.layers)

    def refused(*words):
        messages.clear()
        segment()
        assert len(messages) == 1
        for word in words:
            assert word in messages[0]
        assert part.line.text() == messages[0]  # where the user looks

    refused("draw boxes")
    shapes = viewer.add_shapes([rectangle(300, 20, 320, 90)], name="far")
    part.use_file(checkpoint)
    refused("Shape 0 of 'far'", "outside the image")
    shapes.data = [rectangle(10, 20, 10, 90)]
    refused("Shape 0 of 'far'", "no area")
    viewer.layers.remove(shapes)
    points = viewer.add_points([[30, 50]], features={"label": ["negative"]})
    refused("only negative points")
    points.features = {"label": ["positive"]}
    mark = tmp_path / "it ran"
    evil = tmp_path / "evil.pth"
    evil.write_bytes(pickle.dumps(_Evil(str(mark))))
    part.use_file(evil)
    refused("evil.pth", "could run code")
    assert not mark.exists()
    part.checkpoint.setCurrentIndex(1)
    refused("press Fetch")
    assert len(viewer.layers) == count + 1


class _Evil:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (self.path, "w"))


def test_a_checkpoint_is_fetched_with_progress_and_then_on_disk(
    qtbot, panel, part, hub, monkeypatch
):
    content = np.random.default_rng(0).bytes(2_000_000)
    hub.pause = 0.03
    spec = hub.publish_sam(content, monkeypatch)
    part.fill()
    part.checkpoint.setCurrentIndex(1)
    assert "[2 MB to fetch]" in part.checkpoint.currentText()
    qtbot.mouseClick(part.fetching.button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: part.fetching.bar.value() > 0)
    assert panel.segment.fetching.job.job.name == spec.name
    panel.segment.fetching.job.cancel()  # as Cancel of the panel does
    qtbot.waitUntil(lambda: not panel.segment.fetching.job.busy)
    assert not spec.is_on_disk
    hub.pause = 0
    qtbot.mouseClick(part.fetching.button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: not panel.segment.fetching.job.busy)
    assert "[on disk]" in part.checkpoint.currentText()
    assert part.fetching.button.isHidden()


def test_every_control_fits_the_dock_and_has_a_tool_tip_and_a_name(part):
    assert part.minimumSizeHint().width() <= 320
    part.everything.setChecked(True)
    assert part.minimumSizeHint().width() <= 320
    controls = vars(part) | form_widgets(part.grid) | vars(part.fetching)
    rows = ("line", "progress", "everything_widget", "fetching", "problem")
    for name, item in controls.items():
        if isinstance(item, QWidget) and name not in rows:
            assert item.toolTip(), name
            assert item.accessibleName() or getattr(item, "text", str)(), name


def test_the_window_shows_all_of_its_controls_also_where_one_is_added(qtbot, panel, part):
    dialog = panel.segment.dialog
    for chosen in (0, 1):  # without a checkpoint, and one to fetch
        part.checkpoint.setCurrentIndex(chosen)
        for control in (
            part.add_boxes,
            part.file,
            part.next,
            part.cleaning["erode"],
            part.cleaning["keep_largest"],
        ):
            qtbot.waitUntil(lambda c=control: c.visibleRegion().boundingRect() == c.rect())
    assert dialog.height() < dialog.screen().availableSize().height()


def test_labels_lie_on_the_plane_shown_of_a_stack(panel, part, segment):
    viewer = panel._viewer
    stack = viewer.add_image(
        np.random.default_rng(0).integers(0, 255, (4, 30, 50), dtype=np.uint8), name="stack"
    )
    panel.input.image.choose(stack)
    viewer.dims.set_point(0, 2)
    shapes = viewer.add_shapes(ndim=3)
    shapes.add_rectangles([np.insert(rectangle(4.6, 9.6, 14.4, 19.4), 0, 2, axis=1)])
    labels = segment()
    assert labels.shape == (1, 30, 50)
    made = panel.input.regions.layer
    assert made.world_to_data((2, 5, 10))[0] == 0
    assert labels[0, 5:15, 10:20].all()
    assert panel.input.line.text().startswith("1 region")
    viewer.dims.order = (0, 2, 1)
    assert segment().shape == (1, 30, 50)
    assert panel.input.regions.layer.data[0, 5:15, 10:20].all()
    assert (panel.input.regions.layer.data > 0).sum() == 100


def test_points_layers_of_ours_start_empty():
    layer = new_points(ViewerModel(), Image(np.zeros((60, 80))), "negative")
    assert len(layer.data) == 0
    layer.add([1, 1])
    assert list(layer.features["label"]) == ["negative"]


def form_widgets(form):
    return {key: form[key] for key in form.values()}
