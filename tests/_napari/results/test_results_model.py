"""The panel's table and the layer's features show the columns of the one list."""

import numpy as np
import pytest
from napari.layers import Labels
from qtpy.QtCore import Qt

from napari_maskinversion._napari.results.result_features import write_features
from napari_maskinversion._napari.results.results_model import ResultsModel
from napari_maskinversion.results import columns
from tests.results.export.bundles import make_bundle
from tests.results.test_columns import DOUBLE


@pytest.fixture
def results(monkeypatch):
    monkeypatch.setattr(columns, "COLUMNS", [*columns.COLUMNS, DOUBLE])
    return make_bundle().results


def test_a_column_that_is_added_to_the_list_is_in_the_panel(results, qapp):
    model = ResultsModel()
    model.set_frame(results.to_frame())
    last = model.columnCount() - 1
    roles = Qt.ItemDataRole
    titles = [
        model.headerData(last, Qt.Orientation.Horizontal, role)
        for role in (roles.DisplayRole, roles.ToolTipRole)
    ]
    assert titles == ["Double", "Twice the id"]
    assert [model.data(model.index(row, last)) for row in range(4)] == ["2", "4", "6", "8"]


def test_a_column_that_is_added_to_the_list_is_in_the_features_of_the_layer(results):
    layer = Labels(np.arange(5, dtype=np.uint8)[None])
    assert "double_id" in write_features(layer, results)
    features = layer.features.set_index("index")
    assert features.loc[[1, 2, 3, 4], "double_id"].tolist() == [2, 4, 6, 8]
