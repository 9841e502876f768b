"""Places and sizes that a sentence names, as ReCLIP counts them."""

from __future__ import annotations

import numpy as np
import pytest

from napari_maskinversion.base.regions import Regions
from napari_maskinversion.bench.measures.relations import Phrase, by_words, related


@pytest.mark.parametrize(
    ("sentence", "phrase"),
    [
        ("dog", Phrase("dog")),
        ("Dog to the left of the  cat", Phrase("dog", "left", "the cat")),
        ("man right of tree", Phrase("man", "right", "tree")),
        ("lamp above the table", Phrase("lamp", "above", "the table")),
        ("cup on top of book", Phrase("cup", "above", "book")),
        ("cat under the chair", Phrase("cat", "below", "the chair")),
        ("dog bigger than the cat", Phrase("dog", "larger", "the cat")),
        ("left dog", Phrase("left dog", extreme="left")),
        ("the smallest apple", Phrase("the smallest apple", extreme="smaller")),
        ("red underwear", Phrase("red underwear")),  # a word in a word
        ("above the table", Phrase("above the table")),  # nothing is above it
    ],
)
def test_words_say_what_stands_where(sentence: str, phrase: Phrase) -> None:
    assert by_words(sentence) == phrase


@pytest.fixture
def row() -> Regions:
    """Four boxes from left to right; the third is the largest."""
    masks = np.zeros((4, 20, 40), bool)
    for place, size in enumerate((3, 3, 8, 3)):
        masks[place, 10 - place : 10 - place + size, 10 * place : 10 * place + size] = True
    return Regions.from_masks(masks)


def test_a_relation_decides_between_two_of_a_kind(row: Regions) -> None:
    texts = ["dog right of the cat", "dog", "the cat"]
    dogs, cat = [5.0, 0, 5, 0], [0.0, 9, 0, 0]  # dogs are first and third, the cat second
    logits = np.array([dogs, dogs, cat])
    (scores,) = related(logits, [Phrase("dog", "right", "the cat")], texts, row)
    assert scores.argmax() == 2
    (scores,) = related(logits, [Phrase("dog", "left", "the cat")], texts, row)
    assert scores.argmax() == 0
    (scores,) = related(logits, [Phrase("dog", "larger", "the cat")], texts, row)
    assert scores.argmax() == 2


def test_an_extreme_is_one_among_its_kind(row: Regions) -> None:
    logits = np.array([[5.0, 5, 0, 0]])  # two dogs on the left
    for extreme, place in (("left", 0), ("right", 1), ("below", 0), ("above", 1)):
        (scores,) = related(logits, [Phrase("dog", extreme=extreme)], ["dog"], row)
        assert scores[:2].argmax() == place, extreme
        assert scores.argmax() == place, extreme


def test_without_a_relation_the_scores_decide(row: Regions) -> None:
    logits = np.array([[1.0, 3, 2, 0]])
    (scores,) = related(logits, [Phrase("dog")], ["dog"], row)
    assert scores.argsort().tolist() == [3, 0, 2, 1]
