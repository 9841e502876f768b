"""Columns in the features of the user's layer: ours follow their regions, the user's stay."""

from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest
from napari.layers import Labels, Shapes

from napari_maskinversion.app.layer_input.layer_features import ACCEPTED, FeatureWriter, withdraw

SQUARE = np.array([[0, 0], [0, 5], [5, 5], [5, 0]])
THREE = {0: "cat", 1: "dog", 2: "bird"}


def squares(*places):
    return [SQUARE + 10 * place for place in places]


def labels_layer(**features):
    """Regions 1, 2 and 3."""
    return Labels(np.array([[0, 1], [2, 3]]), features=pd.DataFrame(features))


def counts_of(regions):
    """A column of whole numbers and one of words, as exports write them."""
    rows = {"count": [10 * region for region in regions], "suggestion": ["word"] * len(regions)}
    return pd.DataFrame(rows, index=list(regions))


def by_label(layer, column):
    return dict(zip(layer.features["index"], layer.features[column], strict=True))


# -- accepted words -----------------------------------------------------------------------------


def test_words_become_a_column_beside_the_users_own():
    layer = labels_layer()
    writer = FeatureWriter(layer)
    writer.write_words({1: "", 2: "", 3: ""})
    assert layer.features.shape[1] == 0  # nothing to say, nothing written
    layer.features = {"size": [0, 10, 20]}  # the row is the label
    writer.write_words({1: "dog", 2: "", 3: ""})
    assert layer.features["accepted_label"].tolist() == ["", "dog", ""]
    writer.write_words({1: "dog", 2: "", 3: "cat"})
    assert layer.features["index"].tolist() == [0, 1, 2, 3]
    assert layer.features["size"].tolist()[:3] == [0, 10, 20]
    assert layer.features["accepted_label"].tolist() == ["", "dog", "", "cat"]
    writer.write_words({1: "", 3: "cat"})  # undone
    assert layer.features["accepted_label"].tolist() == ["", "", "", "cat"]
    assert writer.note == ""


def test_a_word_of_a_region_that_the_run_left_out_stays():
    layer = labels_layer()
    FeatureWriter(layer).write_words({1: "dog", 2: "cat", 3: ""})
    FeatureWriter(layer).write_words({3: "cow"})  # a run of region 3 only
    assert by_label(layer, ACCEPTED) == {1: "dog", 2: "cat", 3: "cow"}


@pytest.mark.parametrize("kind", [Labels, Shapes])
def test_a_column_of_the_user_with_our_name_is_left_alone_and_told(kind):
    if kind is Labels:
        layer, first = labels_layer(index=[1, 2], accepted_label=["mine", "too"]), 1
    else:
        layer, first = Shapes(squares(0, 1), features={ACCEPTED: ["mine", "too"]}), 0
    writer = FeatureWriter(layer)
    assert "accepted_label_2" in writer.note
    writer.write_words({first: "dog", first + 1: ""})
    again = FeatureWriter(layer)  # another run
    again.write_words({first: "dog", first + 1: "cat"})
    assert [name for name in layer.features if name != "index"] == [ACCEPTED, "accepted_label_2"]
    assert layer.features["accepted_label"].tolist() == ["mine", "too"]
    assert layer.features["accepted_label_2"].tolist() == ["dog", "cat"]
    withdraw(layer)
    assert [name for name in layer.features if name != "index"] == [ACCEPTED]
    assert layer.features["accepted_label"].tolist() == ["mine", "too"]


def test_the_users_columns_stay_what_they_are_where_rows_are_added():
    layer = labels_layer()
    own = {
        "cells": np.array([3, 4], np.uint8),
        "seen": [True, False],
        "stage": pd.Categorical(["early", "late"]),
        "who": ["ann", None],
        "size": [0.5, 1.5],
    }
    layer.features = pd.DataFrame({"index": [1, 2]} | own)
    FeatureWriter(layer).write_words({3: "cat"})
    features = layer.features
    assert features["index"].tolist() == [1, 2, 3]
    assert [str(kind) for kind in features[["index", "cells", "seen", "stage", "size"]].dtypes] == [
        "int64",
        "UInt8",
        "boolean",
        "category",
        "float64",
    ]
    for name, values in own.items():
        assert [value for value in features[name][:2] if not pd.isna(value)] == [
            value for value in values if value is not None
        ]
        assert pd.isna(features[name][2])


@pytest.mark.parametrize(
    "index",
    [["cell 0", "cell 1", "cell 2"], [1.0, np.nan, 2.0]],
)
def test_rows_of_the_user_whose_index_is_no_whole_number_stay(index):
    layer = labels_layer(index=index, own=[10, 20, 30])
    writer = FeatureWriter(layer)
    assert "no whole number" in writer.note
    writer.write_words({1: "cat", 2: "", 3: "dog"})
    writer.write_words({1: "cat", 2: "cow", 3: "dog"})
    features = layer.features
    assert features["own"].tolist()[:3] == [10, 20, 30]
    assert all(
        value == before or pd.isna(before)
        for value, before in zip(features["index"], index, strict=False)
    )
    words = {label: word for label, word in by_label(layer, ACCEPTED).items() if word}
    assert words == {1: "cat", 2: "cow", 3: "dog"}


# -- all columns --------------------------------------------------------------------------------


def test_columns_keep_whole_numbers_and_are_empty_for_other_regions():
    layer = labels_layer(index=[0, 1, 3], own=[7, 8, 9])
    assert FeatureWriter(layer).write(counts_of([1, 2])) == ["count", "suggestion"]
    features = layer.features.set_index("index")
    assert features.loc[[1, 2], "count"].tolist() == [10, 20]
    assert str(features["count"].dtype) == "Int64"
    assert features.loc[[0, 3], ["count", "suggestion"]].isna().all(axis=None)
    assert features.loc[[0, 1, 3], "own"].tolist() == [7, 8, 9]
    FeatureWriter(layer).write(counts_of([3]))  # other regions were found
    features = layer.features.set_index("index")
    assert features["count"].dropna().to_dict() == {3: 30}


def test_columns_follow_their_shapes_where_one_is_removed_and_another_drawn():
    layer = Shapes(squares(0, 1, 2), features={"count": ["a", "b", "c"]})
    writer = FeatureWriter(layer)
    layer.selected_data = {0}
    layer.remove_selected()
    layer.add(SQUARE + 90)
    assert writer.write(counts_of([0, 1, 2])) == ["count_2", "suggestion"]
    assert layer.features["count_2"].tolist() == [10, 20, pd.NA]
    assert layer.features["count"].tolist()[:2] == ["b", "c"]


def test_columns_are_withdrawn_and_leave_what_was_there():
    layer = labels_layer(index=[1, 2], own=["a", "b"])
    before = layer.features.copy()
    writer = FeatureWriter(layer)
    writer.write(counts_of([1, 2]))
    writer.write_words({2: "dog"})
    withdraw(layer, keep={ACCEPTED})
    assert list(layer.features) == ["index", "own", ACCEPTED]
    withdraw(layer)
    pd.testing.assert_frame_equal(layer.features, before)
    withdraw(layer)  # a second time there is nothing
    pd.testing.assert_frame_equal(layer.features, before)


@pytest.mark.parametrize("kind", [Labels, Shapes])
def test_a_layer_without_features_has_none_again(kind):
    layer = labels_layer() if kind is Labels else Shapes(squares(0, 1, 2))
    rows = layer.features.shape
    writer = FeatureWriter(layer)
    writer.write(counts_of([1, 2]))
    writer.write_words({2: "dog"})
    withdraw(layer, keep={ACCEPTED})
    assert ACCEPTED in layer.features
    withdraw(layer)
    assert layer.features.shape == rows


# -- shapes -------------------------------------------------------------------------------------


def test_shapes_have_a_row_each_and_new_ones_no_word():
    layer = Shapes(squares(0, 1, 2), features={"size": [1, 2, 3]})
    writer = FeatureWriter(layer)
    writer.write_words({0: "", 1: "", 2: "cat"})
    layer.add(SQUARE + 50)
    assert layer.features["accepted_label"].tolist() == ["", "", "cat", ""]
    assert layer.features["size"].tolist()[:3] == [1, 2, 3]
    layer.selected_data = {0, 1}
    layer.remove_selected()  # rows are other shapes now
    writer.write_words({0: "bird", 1: "bird", 2: "dog"})
    assert layer.features["accepted_label"].tolist() == ["dog", ""]
    assert "2 shapes were removed" in writer.note
    assert writer.removed == {0, 1}


def test_the_next_shape_is_drawn_with_the_users_defaults_and_without_our_values():
    layer = Shapes(squares(0, 1), features={"stage": ["early", "late"]})
    layer.feature_defaults = {"stage": "middle"}
    writer = FeatureWriter(layer)
    writer.write_words({0: "cat", 1: "dog"})
    writer.write(counts_of([0, 1]))
    layer.add(SQUARE + 50)
    last = layer.features.iloc[-1]
    assert (last["stage"], last[ACCEPTED]) == ("middle", "")
    assert last[["count", "suggestion"]].isna().all()
    withdraw(layer)
    layer.add(SQUARE + 90)
    assert layer.features["stage"].tolist() == ["early", "late", "middle", "middle"]


@pytest.fixture
def three():
    """Three squares with words; only the words are read below."""
    layer = Shapes(squares(0, 1, 2))
    writer = FeatureWriter(layer)
    writer.write_words({0: "", 1: "", 2: "old"})
    return layer, writer


def rewritten(layer, writer):
    layer.features["accepted_label"] = "old"
    writer.write_words(THREE)
    return layer.features["accepted_label"].tolist()


@pytest.mark.parametrize(
    ("removed", "words"),
    [({0}, ["dog", "bird", "old"]), ({1}, ["cat", "bird", "old"]), ({2}, ["cat", "dog", "old"])],
)
def test_words_follow_their_shapes_where_one_is_removed_and_another_drawn(three, removed, words):
    layer, writer = three
    layer.selected_data = removed
    layer.remove_selected()
    layer.add(SQUARE + 90)
    assert rewritten(layer, writer) == words
    assert writer.removed == removed
    assert "1 shape was removed" in writer.note


def test_a_shape_that_is_moved_stays_the_same_one(three):
    layer, writer = three
    layer.selected_data = {0, 1, 2}
    # As napari drags them: onto each other's old places, and it says so at the end.
    layer._data_view.shift(0, [10, 10])
    layer._data_view.shift(1, [10, 10])
    layer._data_view.shift(2, [10, 10])
    layer.events.data(
        value=layer.data, action="changed", data_indices=(0, 1, 2), vertex_indices=((),)
    )
    assert rewritten(layer, writer) == ["cat", "dog", "bird"]
    assert writer.note == ""


@pytest.mark.parametrize(
    ("places", "words", "told"),
    [
        ([2, 0, 1], ["bird", "cat", "dog"], True),
        ([1, 2], ["dog", "bird"], True),
        ([1, 2], ["dog", "bird"], False),  # napari's events were blocked
        ([0, 1.5, 2], ["cat", "dog", "bird"], True),
        ([0, 1, 2, 0], ["cat", "dog", "bird", "old"], False),
    ],
)
def test_shapes_that_are_set_at_once_are_known_by_their_outlines(three, places, words, told):
    layer, writer = three
    with nullcontext() if told else layer.events.data.blocker():
        layer.data = squares(*places)
    assert rewritten(layer, writer) == words
