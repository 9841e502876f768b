"""A review leaves the user's layers as they look: colours, texts, edges, defaults, own columns."""

import numpy as np
import pytest
from qtpy.QtCore import Qt

from .reviewing import canvas, press, switch_on

SQUARE = np.array([(0, 0), (0, 9), (9, 9), (9, 0)], dtype=float)
STAGES = ["early", "late", "late"]
# What napari does not save
STATE = (
    *("mode", "editable", "text", "contour", "selected_label", "brush_size", "selected_data"),
    *("current_face_color", "face_color_mode", "face_color_cycle", "current_edge_width"),
    *("current_edge_color", "edge_color_mode", "edge_color_cycle"),
)


def plain(value):
    """A value of a layer as numbers, texts and containers, which can be compared."""
    if hasattr(value, "model_dump"):
        return plain(value.model_dump())
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, (list, tuple, set)):
        return [plain(part) for part in value]
    return value


def look(layer):
    """All that napari saves of a layer and what the next shape gets, but for columns of ours."""
    data, state, _ = layer.as_layer_data_tuple()
    state["data"] = data
    for name in ("metadata", "features", "feature_defaults", "properties", "property_choices"):
        state.pop(name, None)
    for name in STATE:
        if hasattr(layer, name):
            state[name] = getattr(layer, name)
    # Rows of further labels may have been added below the user's.
    state["column of the user"] = layer.features["accepted_label"].tolist()[: len(STAGES)]
    if hasattr(layer, "feature_defaults"):
        state["default of the user"] = layer.feature_defaults["accepted_label"].tolist()
    return plain(state)


@pytest.fixture
def marks(viewer, opened):
    """A Labels layer in colours of the user, with a column that is named like ours."""
    widget = opened()
    layer = viewer.layers["marks"]
    layer.features = {"index": [1, 2, 3], "accepted_label": STAGES}
    layer.colormap = {0: "transparent", 1: "red", 2: "lime", None: "blue"}
    layer.opacity, layer.contour, layer.blending = 0.6, 2, "additive"
    layer.selected_label, layer.brush_size = 2, 7
    return widget, layer


@pytest.fixture
def shapes(viewer, opened, run_to_end):
    """A Shapes layer coloured by a column of the user, with a text and a default."""
    widget = opened()
    layer = viewer.add_shapes(
        [SQUARE + 40 * place for place in range(3)],
        name="drawn",
        features={"accepted_label": STAGES},
        edge_color="accepted_label",
        edge_color_cycle=["red", "lime"],
        edge_width=[1, 2, 3],
        face_color=["yellow", "#00000000", "cyan"],
        text={"string": "stage: {accepted_label}", "color": "orange", "size": 7},
        z_index=[0, 2, 1],
    )
    layer.feature_defaults = {"accepted_label": "middle"}
    layer.current_face_color = "magenta"
    widget.session.choose(regions=layer)
    run_to_end(widget)
    return widget, layer


@pytest.mark.parametrize("kind", ["marks", "shapes"])
def test_accepting_correcting_undoing_and_closing_leave_the_layer_as_it_looks(
    window, qtbot, request, kind
):
    widget, layer = request.getfixturevalue(kind)
    before = look(layer)

    def check():
        widget.review.write_layer()  # it waits a moment after a decision
        np.testing.assert_equal(look(layer), before)

    switch_on(qtbot, widget)
    widget.review.part.form.set_values({"words_on_canvas": True})
    check()
    press(qtbot, canvas(widget), "A")
    check()
    assert {"dog", "cat"} & set(layer.features["accepted_label_2"])
    assert layer.features["accepted_label"].tolist()[:3] == STAGES
    press(qtbot, canvas(widget), "B2")  # another word for the same region
    check()
    press(qtbot, canvas(widget), "R")
    check()
    press(qtbot, canvas(widget), "UU")
    check()
    widget.exports.features.click()
    widget.exports.to_features()
    check()
    widget.exports.features.click()
    widget.review.part.form.set_values({"words_on_canvas": False})
    check()
    qtbot.keyClick(canvas(widget), Qt.Key.Key_Escape)
    check()
    widget.shut_down()
    check()
    assert "accepted_label_2" in layer.features  # what was decided is there still
