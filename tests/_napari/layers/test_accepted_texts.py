"""Accepted words as text on the canvas, in a layer of ours."""

from types import SimpleNamespace

import numpy as np
import pytest
from napari.components import ViewerModel

from napari_maskinversion._napari.layers.accepted_texts import (
    MOST,
    AcceptedText,
    AcceptedTexts,
    nearest,
)
from napari_maskinversion.app.layer_input.coordinates import Grid, ViewPoint
from napari_maskinversion.app.layer_input.layer_facts import is_ours
from napari_maskinversion.app.layer_input.run_input import PlaneFinder
from tests._napari.review.reviewing import canvas, press, switch_on

PLACE = {"scale": (3, 0.5, 0.7), "translate": (5, -2, 8), "rotate": (0, 0, 20)}
AFFINE = np.array([[1, 0, 0, 0], [0, 1.1, 0.2, 3], [0, 0, 1, 4], [0, 0, 0, 1]], dtype=float)


def region_result(number, middle, position):
    return SimpleNamespace(id=number, centroid=middle, position=position)


def finder_of(viewer, image, labels, *, all_planes):
    view = ViewPoint.of(viewer)
    return PlaneFinder(view, Grid.of(image, view), Grid.of(labels, view), all_planes)


def words(layer):
    return layer.text.string.array.tolist()


@pytest.mark.parametrize("all_planes", [True, False])
def test_texts_lie_at_the_middle_of_their_regions_on_their_planes(all_planes):
    viewer = ViewerModel()
    image = viewer.add_image(np.zeros((4, 30, 40)), affine=AFFINE, **PLACE)
    labels = viewer.add_labels(np.zeros((4, 30, 40), int), affine=AFFINE, **PLACE)
    viewer.dims.set_point(0, 5 + 3 * 2)  # plane 2
    shown = AcceptedTexts(viewer)
    position = (("axis 0", 3),) if all_planes else ()
    texts = [
        AcceptedText(region_result(7, (10.5, 20.0), position), "cell"),
        AcceptedText(region_result(8, (2.0, 33.0), position), "dust"),
    ]
    shown.show(texts, image, finder_of(viewer, image, labels, all_planes=all_planes), labels)
    layer, plane = shown.layer, 3 if all_planes else 2
    assert words(layer) == ["cell", "dust"]
    for point, middle in zip(layer.data, [(10.5, 20), (2, 33)], strict=True):
        np.testing.assert_allclose(
            layer.data_to_world(point), labels.data_to_world((plane, *middle)), atol=1e-6
        )
    # The image is moved: its texts follow.
    image.translate = (5, 0, 0)
    shown.show(texts, image, finder_of(viewer, image, labels, all_planes=all_planes), labels)
    np.testing.assert_allclose(
        layer.data_to_world(layer.data[0]), image.data_to_world((plane, 10.5, 20)), atol=1e-6
    )


@pytest.mark.parametrize(
    ("look", "colors"),
    [
        pytest.param({"opacity": 0.1}, ["white", "black"], id="the image counts"),
        pytest.param({"opacity": 1.0}, ["black", "white"], id="the regions' colours count"),
        pytest.param({"opacity": 1.0, "contour": 1}, ["white", "black"], id="borders do not"),
        pytest.param({"opacity": 1.0, "visible": False}, ["white", "black"], id="hidden do not"),
    ],
)
def test_texts_are_white_where_it_is_dark_and_black_where_it_is_bright(look, colors):
    viewer = ViewerModel()
    pixels = np.zeros((40, 80), np.uint8)
    pixels[:, 40:] = 255  # wider than high: the thumbnail is padded
    image = viewer.add_image(pixels, contrast_limits=(0, 255))
    cells = (pixels > 0) + np.uint8(1)
    labels = viewer.add_labels(cells, colormap={1: "#ffffaa", 2: "#300030", None: "red"})
    for name, value in look.items():
        setattr(labels, name, value)
    shown = AcceptedTexts(viewer)
    centres = {1: (20.0, 10.0), 2: (20.0, 79.0)}
    texts = [AcceptedText(region_result(key, at, ()), "x") for key, at in centres.items()]
    shown.show(texts, image, finder_of(viewer, image, labels, all_planes=False), labels)
    is_bright = shown.layer.text.color.array[:, 0] == 1
    assert ["white" if bright else "black" for bright in is_bright] == colors


def test_of_many_texts_those_around_a_region_are_shown():
    position = (("z", 1),)
    texts = [AcceptedText(region_result(k, (0.0, float(k)), position), "x") for k in range(300)]
    texts.append(AcceptedText(region_result(301, (0.0, 200.0), (("z", 2),)), "elsewhere"))
    near = nearest(texts, texts[200].region)
    assert len(near) == MOST
    assert {text.region.id for text in near} <= set(range(149, 252))
    assert {text.word for text in nearest(texts[290:], texts[0].region)} == {"x", "elsewhere"}


def test_the_check_box_shows_texts_that_follow_every_decision(qtbot, reviewing):
    part, viewer = reviewing.review.part, reviewing._viewer
    marks = viewer.layers["marks"]
    viewer.layers.selection.active = marks
    marks.mode = "pan_zoom"
    press(qtbot, canvas(reviewing), "A2")
    part.form["words_on_canvas"].click()
    layer = reviewing.canvas.texts.layer
    assert words(layer) == ["dog", "dog"]
    np.testing.assert_allclose(layer.data, [(7.5, 7.5), (7.5, 25.5)], rtol=0, atol=1e-9)
    assert np.all(layer.face_color[:, 3] == 0)  # nothing of it but the texts is seen
    assert viewer.layers.index(layer) > viewer.layers.index(marks)
    # It is ours: nobody works in it, nothing takes it for points or regions of the user's.
    assert viewer.layers.selection.active is marks
    assert is_ours(layer)
    assert not layer.editable
    assert reviewing.segment.part.points.layer is None
    press(qtbot, canvas(reviewing), "A")
    qtbot.waitUntil(lambda: len(words(layer)) == 3)
    press(qtbot, canvas(reviewing), "UU")
    qtbot.waitUntil(lambda: words(layer) == ["dog"])
    part.form["words_on_canvas"].click()
    assert reviewing.canvas.texts.layer is None
    assert layer not in viewer.layers
    part.form["words_on_canvas"].click()
    reviewing.review.stop()  # also when the review ends
    assert [one.name for one in viewer.layers if "accepted" in one.name] == []


def test_words_of_shapes_are_in_a_layer_of_ours_and_go_with_their_shapes(qtbot, opened, run_to_end):
    widget = opened()
    square = np.array([(0, 0), (0, 9), (9, 9), (9, 0)], dtype=float)
    drawn = widget._viewer.add_shapes([square + 4, square + 40, square + 80])
    widget.session.choose(regions=drawn)
    run_to_end(widget)
    switch_on(qtbot, widget)
    widget.review.part.form["words_on_canvas"].click()
    press(qtbot, canvas(widget), "11")
    qtbot.waitUntil(lambda: widget.canvas.texts.layer is not None)
    layer = widget.canvas.texts.layer
    qtbot.waitUntil(lambda: len(words(layer)) == 2)
    accepted = drawn.features["accepted_label"].tolist()
    assert words(layer) == accepted[:2]
    drawn.selected_data = {0}
    drawn.remove_selected()
    qtbot.waitUntil(lambda: words(layer) == accepted[1:2])
    # Below the texts of the user, if there are any.
    drawn.text = {"string": {"constant": "mine"}}
    widget.review.write_layer()
    assert words(layer) == [f"\n\n{accepted[1]}"]
    drawn.text.visible = False
    widget.review.write_layer()
    assert words(layer) == accepted[1:2]
