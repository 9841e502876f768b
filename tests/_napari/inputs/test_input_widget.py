"""The choice of image and regions: counted, and images of shape (3, y, x) offered as colours."""

import numpy as np
import pytest
from napari.components import ViewerModel
from qtpy.QtCore import Qt

from napari_maskinversion._napari.inputs.input_widget import InputWidget
from napari_maskinversion.app.session import Session

LEFT = Qt.MouseButton.LeftButton


@pytest.fixture
def viewer():
    return ViewerModel()


@pytest.fixture
def panel(qtbot, viewer):
    made = InputWidget(viewer, Session())
    qtbot.addWidget(made)
    made.follow()
    made.show()
    yield made
    made.stop()


def test_counting_the_same_number_of_regions_again_changes_nothing(panel, viewer):
    viewer.add_image(np.zeros((9, 9)))
    cells = viewer.add_labels(np.eye(9, dtype=int), name="cells")
    session, numbers = panel._session, []
    session.run.events.region_count.connect(numbers.append)
    panel.count()
    assert session.run.region_count == 1
    assert numbers == []
    cells.data[0, 8] = 7
    panel.count()
    assert numbers == [2]


def test_three_planes_become_one_colour_image_in_the_same_place(panel, viewer, qtbot):
    data = np.random.default_rng(0).integers(0, 255, (3, 20, 30), np.uint8)
    stack = viewer.add_image(
        data, name="photo", scale=(7, 2, 0.5), translate=(1, 2, 3), rotate=(0, 0, 30)
    )
    assert panel.three_planes.isVisible()
    qtbot.mouseClick(panel.in_colour, LEFT)
    image = panel.image.layer
    assert image is viewer.layers["photo (RGB)"]
    assert image.rgb
    np.testing.assert_array_equal(image.data, np.moveaxis(data, 0, -1))
    np.testing.assert_allclose(
        image.data_to_world((4, 9)), stack.data_to_world((0, 4, 9))[1:], rtol=0, atol=1e-9
    )
    assert not stack.visible
    assert not panel.three_planes.isVisible()
    panel.image.choose(stack)  # the offer is still there for the stack
    assert panel.three_planes.isVisible()


def test_one_of_several_channels_is_offered_to_be_seen_with_the_others(panel, viewer, qtbot):
    viewer.add_image(np.zeros((9, 9), np.uint8))
    assert not panel.other_channels.isVisible()
    channels = viewer.add_image(np.zeros((3, 20, 30), np.uint8), channel_axis=0)
    assert panel.image.layer is channels[-1]
    assert panel.other_channels.isVisible()
    qtbot.mouseClick(panel.as_displayed, LEFT)
    assert panel._session.run.scope.channels == "displayed"
    assert not panel.other_channels.isVisible()


@pytest.mark.parametrize(
    ("shape", "more"),
    [
        ((20, 30), {}),
        ((4, 20, 30), {}),
        ((2, 3, 20, 30), {}),
        ((20, 30, 3), {"rgb": True}),
        ((3, 20, 30, 3), {"rgb": True}),
    ],
)
def test_other_images_get_no_offer(panel, viewer, shape, more):
    viewer.add_image(np.zeros(shape, np.uint8), **more)
    assert not panel.three_planes.isVisible()
