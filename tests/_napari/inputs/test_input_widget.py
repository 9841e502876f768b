"""The choice of image and regions, and the number of regions."""

import numpy as np
import pytest
from napari.components import ViewerModel

from napari_maskinversion._napari.inputs.input_widget import InputWidget
from napari_maskinversion._napari.session import Session


@pytest.fixture
def part(qtbot):
    viewer = ViewerModel()
    viewer.add_image(np.zeros((9, 9)))
    viewer.add_labels(np.eye(9, dtype=int), name="cells")
    made = InputWidget(viewer, Session())
    qtbot.addWidget(made)
    made.connect_viewer()
    yield made
    made.disconnect_viewer()


def test_counting_the_same_number_of_regions_again_changes_nothing(part):
    session, numbers = part._session, []
    session.events.region_count.connect(numbers.append)
    part.count()
    assert session.region_count == 1
    assert numbers == []
    part.regions.layer.data[0, 8] = 7
    part.count()
    assert numbers == [2]
