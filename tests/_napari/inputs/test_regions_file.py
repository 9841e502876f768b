"""Regions from file: onto the image that is open, where it lies, under its names."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tifffile
from napari.components import ViewerModel
from napari.layers._source import layer_source
from qtpy.QtWidgets import QFileDialog, QInputDialog
from roifile import ImagejRoi, roiwrite

from napari_maskinversion._napari.inputs.input_widget import InputWidget
from napari_maskinversion._napari.inputs.regions_file import RegionsFileController
from napari_maskinversion._napari.plugin.annotation_files import annotations_of_layer
from napari_maskinversion.app.requests.preparing import prepare
from napari_maskinversion.app.session import Scope
from napari_maskinversion.base.regions import Regions
from napari_maskinversion.images.opening import open_image
from napari_maskinversion.regions.annotations.annotation import Annotation, Annotations
from napari_maskinversion.regions.annotations.coco_writing import write_coco
from napari_maskinversion.regions.annotations.geojson import write_geojson
from napari_maskinversion.regions.annotations.label_maps import write_label_maps
from tests.base.test_units import UTM, geotiff
from tests.regions.annotations.shapes import RING, drawn, full

FIELD = Path(__file__).parents[2] / "field"
SHAPE = (7, 7)
PLACE = {"scale": (2.0, 0.5), "rotate": 30, "translate": (7.0, -3.0)}
DOT = drawn(
    ".......", ".......", ".......", ".......", ".......", ".......", "##.....", region_id=9
)
ITEMS = (
    Annotation(region=RING, label="車", score=0.5),
    Annotation(region=DOT, label="Äpfel, rote"),
)


@pytest.fixture
def panel(qtbot, monkeypatch, messages, sessions):
    """Part 1 of the panel with the button, of a viewer without a window."""
    viewer = ViewerModel()
    viewer.add_image(np.zeros(SHAPE), name="photo", **PLACE)
    session = sessions()
    chosen = InputWidget(viewer, session)
    qtbot.addWidget(chosen)
    chosen.follow()
    control = RegionsFileController(viewer, session, chosen, chosen)

    def press(path, image=None):
        if image is not None:
            chosen.image.choose(image)
        monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: (str(path), ""))
        control.ask()
        qtbot.waitUntil(lambda: not control.reading.busy)
        return chosen.regions.layer

    yield SimpleNamespace(viewer=viewer, input=chosen, press=press, control=control)
    control.stop()
    chosen.stop()


def save(path, write=write_coco, items=ITEMS, image="photo.png", **more):
    write(Annotations(shape=SHAPE, items=tuple(items), image=image, **more), path)
    return path


def coco(path, *names, sizes=None):
    """A COCO file with a dot in another place in each of several images."""
    images = [
        {"id": n, "file_name": name, "height": size[0], "width": size[1]}
        for n, (name, size) in enumerate(zip(names, sizes or [SHAPE] * len(names), strict=True), 1)
    ]
    records = [
        {"id": n, "image_id": n, "category_id": 1, "segmentation": [[n, 0, n + 1, 0, n + 1, 7]]}
        | {"segmentation": [[n, 0, n + 1, 0, n + 1, 7, n, 7]]}
        for n in range(1, len(names) + 1)
    ]
    categories = [{"id": 1, "name": "dog"}]
    path.write_text(
        json.dumps({"images": images, "annotations": records, "categories": categories})
    )
    return path


def names_of(layer):
    return dict(zip(layer.features["index"], layer.features["label"], strict=True))


@pytest.mark.parametrize(
    ("write", "name"),
    [(write_coco, "a.json"), (write_geojson, "a.geojson"), (write_label_maps, "a.tif")],
)
def test_regions_lie_on_the_image_with_their_names_and_are_chosen(panel, tmp_path, write, name):
    panel.viewer.add_labels(np.ones(SHAPE, int), name="mine")
    panel.input.regions.activated.emit(0)  # the user has chosen one
    layer = panel.press(save(tmp_path / name, write))
    image = panel.viewer.layers["photo"]
    expected = full(RING, SHAPE) + 9 * full(DOT, SHAPE)
    np.testing.assert_array_equal(layer.data, expected)
    for point in ([0, 0], [3, 5]):
        np.testing.assert_allclose(
            layer.data_to_world(point), image.data_to_world(point), rtol=0, atol=1e-9
        )
    assert layer.name == "a"
    assert layer.opacity < 0.5  # the heatmap lies below
    assert {k: v for k, v in names_of(layer).items() if k} == {1: "車", 9: "Äpfel, rote"}
    assert layer.features["score"].iloc[0] == 0.5
    assert layer.metadata["vocabulary"] == ["車", "Äpfel, rote"]
    assert panel.input.line.text().startswith("2 regions")


def test_regions_are_not_chosen_for_an_image_that_was_chosen_meanwhile(
    panel, tmp_path, qtbot, messages
):
    panel.control.open_file(save(tmp_path / "a.json"))
    panel.viewer.add_image(np.zeros((30, 30)), name="other")
    mine = panel.viewer.add_labels(np.eye(30, dtype=int), name="mine")
    qtbot.waitUntil(lambda: not panel.control.reading.busy)
    assert panel.viewer.layers[-1].name == "a"
    assert panel.input.image.layer.name == "other"
    assert panel.input.regions.layer is mine
    assert messages[-1].endswith("Choose 'photo' to use them.")


def test_a_file_is_looked_for_beside_the_image(panel, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *ask: asked.append(ask) or ("", ""))
    (tmp_path / "photo.tif").touch()
    with layer_source(path=str(tmp_path / "photo.tif")):
        panel.input.image.choose(panel.viewer.add_image(np.zeros(SHAPE)))
    panel.control.ask()
    assert asked[0][2] == str(tmp_path)


def test_of_several_images_the_one_with_the_name_is_taken(panel, tmp_path, monkeypatch):
    monkeypatch.setattr(QInputDialog, "getItem", lambda *_: pytest.fail("nothing to ask"))
    layer = panel.press(coco(tmp_path / "a.json", "cat.png", "train/photo.jpg", "dog.png"))
    assert layer.data.any(axis=0).nonzero()[0].tolist() == [2]


def test_where_the_name_says_nothing_the_images_of_the_right_size_are_asked_about(
    panel, tmp_path, monkeypatch, messages
):
    asked = []

    def answer(parent, title, text, names, *_):
        asked.append((text, names))
        return names[-1], True

    monkeypatch.setattr(QInputDialog, "getItem", answer)
    path = coco(tmp_path / "a.json", "a.png", "b.png", "c.png", sizes=[(9, 9), SHAPE, SHAPE])
    layer = panel.press(path)
    assert asked[0][1] == ["b.png", "c.png"]
    assert "a.json is about several images. 'photo' is:" in asked[0][0]
    assert layer.data.any(axis=0).nonzero()[0].tolist() == [3]
    # The same name in two folders.
    layer = panel.press(coco(tmp_path / "b.json", "x/photo.png", "y/photo.png", "c.png"))
    assert asked[1][1] == ["x/photo.png", "y/photo.png"]
    assert layer.data.any(axis=0).nonzero()[0].tolist() == [2]
    monkeypatch.setattr(QInputDialog, "getItem", lambda *_: ("", False))
    assert panel.press(path) is layer
    panel.press(coco(tmp_path / "c.json", "a.png", "b.png", sizes=[(9, 9), (8, 8)]))
    assert "None of them has 7 x 7 px" in messages[-1]


def test_of_several_positions_of_one_file_the_user_says_which(panel, tmp_path, monkeypatch):
    path = coco(tmp_path / "a.json", "photo.tif", "photo.tif")
    page = json.loads(path.read_text())
    for number, image in enumerate(page["images"]):
        image["series"] = number
    path.write_text(json.dumps(page))
    asked = []
    monkeypatch.setattr(
        QInputDialog, "getItem", lambda *args: (asked.extend(args[3]), (args[3][1], True))[1]
    )
    layer = panel.press(path)
    assert asked == ["photo.tif (series 0)", "photo.tif (series 1)"]
    assert layer.data.any(axis=0).nonzero()[0].tolist() == [2]


def test_world_coordinates_go_through_the_georeference_of_the_image_s_file(
    panel, tmp_path, messages
):
    geotiff(tmp_path / "utm.tif", keys=UTM)
    with open_image(tmp_path / "utm.tif") as stack:
        geo, shape = stack.units.geo, stack.shape
    labels = np.zeros(shape, int)
    labels[1:3, 2:4] = 5
    items = tuple(Annotation(region=region, label="Haus") for region in Regions.from_labels(labels))
    annotations = Annotations(shape=shape, items=items, image="utm.tif", geo=geo)
    write_geojson(annotations, tmp_path / "a.geojson", world=True)
    with layer_source(path=str(tmp_path / "utm.tif")):  # as File > Open does
        image = panel.viewer.add_image(np.zeros(shape), name="utm")
    layer = panel.press(tmp_path / "a.geojson", image)
    np.testing.assert_array_equal(layer.data, labels)
    # The same pixels from elsewhere lie nowhere in the world.
    bare = panel.viewer.add_image(np.zeros(shape), name="bare")
    before = list(panel.viewer.layers)
    panel.press(tmp_path / "a.geojson", bare)
    assert "the image has no georeference" in messages[-1]
    assert list(panel.viewer.layers) == before


def test_a_geojson_without_crs_is_longitude_and_latitude_and_keeps_its_attributes(panel, messages):
    folder = FIELD / "geojson-without-crs"
    with layer_source(path=str(folder / "map.tif")):
        image = panel.viewer.add_image(tifffile.imread(folder / "map.tif"), name="map")
    layer = panel.press(folder / "drawn.geojson", image)
    rows, columns = np.nonzero(layer.data == 1)
    assert (rows.min(), columns.min(), len(rows)) == (30, 12, 5940)
    assert "were read as longitude and latitude" in messages[-1]
    image = panel.viewer.add_image(np.zeros((160, 192)), name="photo")
    layer = panel.press(FIELD / "geojson-attributes/objects.geojson", image)
    about = {"features": layer.features, "metadata": layer.metadata}
    saved = annotations_of_layer(layer.data, about)
    assert [one.values for one in saved.items] == [{"height_m": 6.5}, {"height_m": 9.0}]


def test_regions_of_a_mask_in_colours_keep_them(panel):
    image = panel.viewer.add_image(np.zeros((60, 80)), name="picture")
    layer = panel.press(FIELD / "masks-in-colours/mask.png", image)
    colours = [one for one in layer.features["source_id"] if one]
    assert len(colours) == len(np.unique(layer.data)) - 1
    assert {len(one.removeprefix("#")) for one in colours} == {6}


@pytest.mark.parametrize("write", [write_coco, write_geojson, write_label_maps])
def test_an_image_of_another_size_is_told(panel, tmp_path, messages, write):
    suffix = {write_coco: ".json", write_geojson: ".geojson", write_label_maps: ".tif"}[write]
    path = save(tmp_path / f"a{suffix}", write)
    other = panel.viewer.add_image(np.zeros((9, 8)), name="other")
    count = len(panel.viewer.layers)
    panel.press(path, other)
    assert "a" + suffix in messages[-1]
    assert "9 x 8 px" in messages[-1]
    assert len(panel.viewer.layers) == count


@pytest.mark.parametrize("planes", ["shown", "largest", "each"])
def test_regions_that_overlap_are_one_set_of_whole_regions(panel, tmp_path, messages, planes):
    over = drawn(".......", "..###..", "..#.#..", region_id=4)
    twin = replace(RING, id=5)
    items = [Annotation(region=one) for one in (RING, DOT, over, twin)]
    image = panel.viewer.layers["photo"]
    if planes != "shown":
        image = panel.viewer.add_image(np.zeros((2, *SHAPE)), name="stack")
        items = [replace(one, position=(("axis 0", 1),)) for one in items]
        panel.viewer.dims.set_point(0, 1)
    layer = panel.press(save(tmp_path / "a.json", items=items), image)
    shown = layer.data if planes == "shown" else layer.data[1]
    assert layer.name == "a"
    assert panel.input.number.text() == "4"
    assert "Some overlap: the smaller ones lie on top, and each is used whole." in messages[-1]
    session = panel.input._session
    session.run.scope = Scope(planes=planes)

    def used():
        (task,) = prepare(panel.viewer, session).tasks()
        return {region.id: full(region, SHAPE) for region in task.regions}

    for item in items:
        np.testing.assert_array_equal(used()[item.region.id], full(item.region, SHAPE))
    hidden = 1 if (shown == 5).any() else 5
    shown[shown == 4] = 0  # somebody erases one, and paints at another
    shown[6, :2] = [9, 0]
    layer.refresh()
    now = used()
    assert set(now) == {1, 5, 9}
    np.testing.assert_array_equal(now[hidden], full(RING, SHAPE))
    np.testing.assert_array_equal(now[9], shown == 9)
    session.run.scope = Scope(planes=planes, limited=True, ids="9")
    assert set(used()) == {9}
    session.run.scope = Scope(planes=planes)
    shown[1, 1] = 0  # of one that lay below: what is visible of it counts now
    np.testing.assert_array_equal(used()[6 - hidden], shown == 6 - hidden)


def test_overlapping_regions_are_whole_where_their_layer_was_moved(panel, tmp_path):
    over = drawn(".......", "..###..", "..#.#..", region_id=4)
    layer = panel.press(save(tmp_path / "a.json", items=(*ITEMS[:1], Annotation(region=over))))
    layer.translate = layer.data_to_world((1, 0))  # one row down
    (task,) = prepare(panel.viewer, panel.input._session).tasks()
    for region, before in zip(task.regions, (RING, over), strict=True):
        np.testing.assert_array_equal(full(region, SHAPE)[1:], full(before, SHAPE)[:-1])


@pytest.mark.parametrize(("write", "name"), [(write_coco, "a.json"), (write_label_maps, "a.tif")])
def test_regions_of_planes_lie_on_their_planes_of_a_stack(panel, tmp_path, write, name):
    stack = panel.viewer.add_image(np.zeros((3, 5, *SHAPE)), name="stack", scale=(1, 4, 2, 2))
    panel.viewer.dims.axis_labels = ("t", "z", "y", "x")
    items = [
        Annotation(region=RING, label=label, position=(("t", t), ("z", z)))
        for label, t, z in (("one", 0, 3), ("two", 2, 1))
    ]
    layer = panel.press(save(tmp_path / name, write, items), stack)
    assert layer.data.shape == stack.data.shape
    assert np.argwhere(layer.data.any(axis=(2, 3))).tolist() == [[0, 3], [2, 1]]
    np.testing.assert_array_equal(layer.data[2, 1] > 0, full(RING, SHAPE))
    for point in ([0, 0, 0, 0], [2, 1, 3, 5]):
        np.testing.assert_allclose(
            layer.data_to_world(point), stack.data_to_world(point), rtol=0, atol=1e-9
        )


def test_regions_without_a_plane_lie_on_the_one_shown(panel, tmp_path):
    stack = panel.viewer.add_image(np.zeros((5, *SHAPE)), name="stack")
    panel.viewer.dims.set_point(0, 3)
    panel.viewer.dims.order = (0, 2, 1)  # a file's rows are the data's, however they are shown
    layer = panel.press(save(tmp_path / "a.json"), stack)
    assert layer.data.shape == (1, *SHAPE)
    assert layer.data_to_world((0, 2, 4)) == stack.data_to_world((3, 2, 4))
    np.testing.assert_array_equal(layer.data[0] == 1, full(RING, SHAPE))


def test_a_label_stack_beside_a_stack_is_taken_plane_by_plane(panel, tmp_path):
    labels = np.zeros((5, *SHAPE), np.uint8)
    labels[1, :2, :2], labels[4, 3:, 3:] = 6, 8
    tifffile.imwrite(tmp_path / "a.tif", labels, photometric="minisblack")
    stack = panel.viewer.add_image(np.zeros((5, *SHAPE)), name="stack")
    np.testing.assert_array_equal(panel.press(tmp_path / "a.tif", stack).data, labels)


def test_what_cannot_be_laid_on_the_image_is_refused_by_name(panel, tmp_path, messages):
    items = [Annotation(region=RING, position=(("z", 12),))]
    path = save(tmp_path / "a.json", items=items)
    panel.press(path)
    assert "a.json has planes along z; 'photo' has planes along no axis" in messages[-1]
    panel.press(path, panel.viewer.add_image(np.zeros((5, *SHAPE)), name="stack"))
    assert "region 1 on plane 12, and 'stack' has 5 planes" in messages[-1]
    (tmp_path / "b.json").write_text("{")
    panel.press(tmp_path / "b.json")
    assert "b.json is broken JSON" in messages[-1]
    panel.viewer.layers.clear()
    panel.press(path)
    assert "First open the image" in messages[-1]


def test_slice_numbers_of_imagej_count_the_only_axis_or_the_channels(panel, tmp_path, messages):
    square = np.array([[2, 3], [5, 3], [5, 6], [2, 6]], float)
    rois = [ImagejRoi.frompoints(square, name="cell", position=at) for at in (0, 2)]
    roiwrite(tmp_path / "RoiSet.zip", rois)
    stack = panel.viewer.add_image(np.zeros((5, *SHAPE)), name="time")
    layer = panel.press(tmp_path / "RoiSet.zip", image=stack)
    assert np.flatnonzero(layer.data.any((1, 2))).tolist() == [0, 2]
    colours = panel.viewer.add_image(np.zeros((*SHAPE, 3), np.uint8), rgb=True, name="colours")
    layer = panel.press(tmp_path / "RoiSet.zip", image=colours)
    assert layer.data.shape == SHAPE
    assert "slice numbers count the channels of 'colours'" in messages[-1]


def test_shapes_that_napari_saved_are_regions(panel, tmp_path):
    rows = "0,rectangle,0,1,1\n0,rectangle,1,1,3\n0,rectangle,2,3,3\n0,rectangle,3,3,1\n"
    (tmp_path / "Shapes.csv").write_text(f"index,shape-type,vertex-index,axis-0,axis-1\n{rows}")
    layer = panel.press(tmp_path / "Shapes.csv")
    shapes = panel.viewer.add_shapes([[[1, 1], [1, 3], [3, 3], [3, 1]]], shape_type="rectangle")
    assert layer.data.sum() == 9
    np.testing.assert_array_equal(layer.data > 0, shapes.to_masks(SHAPE)[0])
