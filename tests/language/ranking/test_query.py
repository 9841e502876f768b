"""What is typed to find regions: several words, "not", quotes."""

import numpy as np
import pytest

from napari_maskinversion.base.errors import InputError
from napari_maskinversion.language.ranking.query import (
    check_query,
    direction,
    embed_expression,
    embed_query,
    wanted_and_not,
)


@pytest.mark.parametrize(
    ("typed", "wanted", "unwanted"),
    [
        ("the dog on  the left", ["the dog on the left"], []),
        ("red cell, white cell,not debris ,", ["red cell", "white cell"], ["debris"]),
        ('"a dog, running", Not "a cat, asleep"', ["a dog, running"], ["a cat, asleep"]),
        ('"not a dog"', ["not a dog"], []),
        ('a 5" pipe, not rust', ['a 5" pipe'], ["rust"]),
        ('nothing, notch, "not"', ["nothing", "notch", "not"], []),
        ("", [], []),
        (' ,"", \u200b', [], []),
    ],
)
def test_commas_separate_and_not_avoids_unless_quoted(typed, wanted, unwanted):
    assert wanted_and_not(typed) == (wanted, unwanted)
    assert wanted_and_not(typed, "not x") == (wanted, [*unwanted, "x"])


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (" ,", "The expression is blank"),
        ("not a dog", "Name a word or a region"),
        ("a dog, Not ,", "Nothing follows 'not'"),
    ],
)
def test_what_names_nothing_is_refused(typed, said):
    with pytest.raises(InputError, match=said):
        check_query(typed)


def test_a_query_is_the_mean_minus_what_is_to_be_avoided():
    a, b, c = np.eye(3, dtype=np.float32)
    np.testing.assert_allclose(direction([a, b]), [0.5**0.5, 0.5**0.5, 0], atol=1e-6)
    np.testing.assert_allclose(direction([a, b], [c]), np.array([1, 1, -2]) / 6**0.5, atol=1e-6)

    class Model:
        def encode_text(self, texts):
            return np.stack([np.array([text in "x y", text == "z", 1.0]) for text in texts])

    model = Model()
    x, y, z = (embed_expression(model, one) for one in ("x", "y", "z"))
    np.testing.assert_allclose(embed_query(model, "x, y, not z"), direction([x, y], [z]), atol=1e-6)
