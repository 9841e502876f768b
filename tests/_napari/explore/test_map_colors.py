"""Colours of the points on the map."""

import numpy as np
import pandas as pd

from napari_maskinversion._napari.explore.map_window import (
    NOTHING,
    by_column,
    columns_of,
    groups,
)


def test_words_have_their_colours_and_are_counted_the_most_frequent_first():
    colored = groups(["cat", "dog", "dog", ""], {"dog": "#ff0000", "cat": "#0000ff"})
    assert colored.rgba[:3].tolist() == [[0, 0, 1, 1], [1, 0, 0, 1], [1, 0, 0, 1]]
    assert list(colored.legend) == [("#ff0000", "dog 2"), (NOTHING, "none 1"), ("#0000ff", "cat 1")]
    many = groups([f"word {number}" for number in range(30)], {})
    assert (len(many.rgba), many.legend[-1]) == (30, (NOTHING, "and 18 more"))


def test_numbers_go_from_dark_to_bright_whatever_is_missing_or_far_off():
    values = pd.Series([*range(100), np.nan, np.inf])
    colored = by_column(values)
    light = colored.rgba[:100, :3].sum(1)
    assert (np.diff(light) >= -0.02).all()
    assert light[-1] > light[0] + 1
    grey = colored.rgba[100]
    assert grey[0] == grey[1] == grey[2]
    assert [text for _, text in colored.legend if text] == ["1.98", "97.02"]
    assert (by_column(pd.Series([3.0, 3.0])).rgba[:, 3] == 1).all()


def test_columns_are_offered_that_tell_points_apart():
    frame = pd.DataFrame(
        {
            "region": [1, 2, 3],
            "area": [4.0, 5.0, 6.0],
            "same": ["x"] * 3,
            "flag": [True, False, True],
            "stage": pd.Series([1, None, 2], dtype="Int64"),
            "name": ["a", "b", None],
        }
    )
    assert columns_of(frame) == ["area", "flag", "stage", "name"]
    assert by_column(frame["stage"]).rgba.shape == (3, 4)
    assert [text for _, text in by_column(frame["flag"]).legend] == ["True 2", "False 1"]
    names = frame["name"].tolist() + [f"name {number}" for number in range(30)]
    assert columns_of(pd.DataFrame({"name": names})) == []
