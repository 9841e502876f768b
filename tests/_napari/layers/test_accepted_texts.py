"""Accepted labels of a Labels layer as text on the canvas."""

from types import SimpleNamespace

import numpy as np
import pytest
from napari.components import ViewerModel

from napari_maskinversion._napari.layers.overlays import (
    MOST,
    AcceptedText,
    AcceptedTexts,
    nearest,
)
from napari_maskinversion.app.layer_input.coordinates import Grid, ViewPoint
from napari_maskinversion.app.layer_input.layer_facts import is_ours
from napari_maskinversion.app.layer_input.run_input import PlaneFinder
from tests._napari.review.reviewing import canvas, press

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
        AcceptedText(region_result(7, (10.5, 20.0), position), "cell", "#a0ff20"),
        AcceptedText(region_result(8, (2.0, 33.0), position), "dust", "#a01020"),
    ]
    shown.show(texts, image, finder_of(viewer, image, labels, all_planes=all_planes), labels)
    layer, plane = shown.layer, 3 if all_planes else 2
    assert words(layer) == ["cell", "dust"]
    assert layer.text.color.array[:, 0].tolist() == [0, 1]  # dark on light, light on dark
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


def test_of_many_texts_those_around_a_region_are_shown():
    position = (("z", 1),)
    texts = [AcceptedText(region_result(k, (0.0, float(k)), position), "x") for k in range(300)]
    texts.append(AcceptedText(region_result(301, (0.0, 200.0), (("z", 2),)), "elsewhere"))
    near = nearest(texts, texts[200].region)
    assert len(near) == MOST
    assert {text.region.id for text in near} <= set(range(149, 252))
    assert {text.label for text in nearest(texts[290:], texts[0].region)} == {"x", "elsewhere"}


def test_the_check_box_shows_texts_that_follow_every_decision(qtbot, reviewing):
    part, viewer = reviewing.review.part, reviewing._viewer
    marks = viewer.layers["marks"]
    viewer.layers.selection.active = marks
    marks.mode = "pan_zoom"
    press(qtbot, canvas(reviewing), "A2")
    part.form["colors"].click()
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
    part.form["colors"].click()
    assert reviewing.canvas.texts.layer is None
    assert layer not in viewer.layers
    part.form["colors"].click()
    reviewing.review.stop()  # also when the review ends
    assert [one.name for one in viewer.layers if "accepted" in one.name] == []
