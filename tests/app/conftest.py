"""A viewer without a window; region sources are tested on projects of the tab Images."""

import pytest
from napari.components import ViewerModel

from tests._napari.conftest import inverted, scene  # noqa: F401
from tests._napari.explore.conftest import results, shared, show  # noqa: F401
from tests._napari.images.conftest import computed, computed_once, one_model  # noqa: F401


@pytest.fixture
def viewer():
    """napari's model of a viewer."""
    return ViewerModel()
