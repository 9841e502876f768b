"""Places and sizes that a sentence names, as ReCLIP counts them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from napari_maskinversion.base.errors import InputError
from napari_maskinversion.base.regions import Regions
from napari_maskinversion.bench.measures.relations import Phrase, by_words, load_parser, related


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
        ("car in front of the house", Phrase("car", "below", "the house")),
        ("cat behind the chair", Phrase("cat", "above", "the chair")),
        ("bench at the back of the bus", Phrase("bench", "above", "the bus")),
        ("bird inside the cage", Phrase("bird", "within", "the cage")),
        ("dot within box", Phrase("dot", "within", "box")),
        ("toy contained in the box", Phrase("toy", "within", "the box")),
        ("left dog behind the cat", Phrase("left dog", "above", "the cat", "left")),
        ("man in the front", Phrase("man", extreme="below")),
        ("goat on the left", Phrase("goat", extreme="left")),
        ("man on left side of the picture", Phrase("man", extreme="left")),
        # The hand is on the right, not the boy; ReCLIP's parse says so too.
        ("boy with right hand up", Phrase("boy with right hand up")),
        # ReCLIP's code computes this relation and drops it.
        ("dog between the cats", Phrase("dog between the cats")),
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


def test_an_extreme_counts_beside_sentence_and_head() -> None:
    """The product of ReCLIP: by the sentence, by the head, by what it exceeds."""
    masks = np.zeros((3, 10, 30), bool)
    for place in range(3):
        masks[place, 2:6, 10 * place + 1 : 10 * place + 5] = True
    shares = np.array([0.2, 0.45, 0.35])
    logits = np.log(np.array([shares, shares]))
    regions = Regions.from_masks(masks)
    (scores,) = related(logits, [Phrase("cat", extreme="left")], ["left cat", "cat"], regions)
    kind = shares * np.array([0.45 + 0.35, 0.35, 0])
    np.testing.assert_allclose(np.exp(scores), shares * kind, atol=1e-9)
    assert scores.argmax() == 1


def test_what_is_within_another_counts_by_its_share() -> None:
    masks = np.zeros((3, 20, 20), bool)
    masks[0, :10, :10], masks[1, 2:4, 2:4], masks[2, 8:12, :4] = True, True, True
    texts = ["dot within box", "dot", "box"]
    logits = np.array([[0.0, 0, 0], [0, 0, 0], [9, 0, 0]])
    regions = Regions.from_masks(masks)
    (scores,) = related(logits, [Phrase("dot", "within", "box")], texts, regions)
    inside = np.exp(scores) / np.exp(scores).sum()
    assert inside[1] > 1.9 * inside[2]  # half of the third is in the box


def test_a_parser_of_your_own_is_imported_and_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_parser.py").write_text(
        "from napari_maskinversion.bench.measures.relations import Phrase\n"
        "def parse(sentence):\n    return Phrase(sentence, extreme='smaller')\n"
        "def wrong(sentence):\n    return Phrase(sentence, extreme='red')\n"
        "def fails(sentence):\n    return sentence[99]\n"
    )
    assert load_parser("own_parser:parse")("dog") == Phrase("dog", extreme="smaller")
    for name, says in (
        ("own_parser", "takes MODULE:FUNCTION"),
        ("own_parser:none", "cannot be imported"),
        ("no_parser:parse", "cannot be imported"),
        ("own_parser:wrong", "must return a Phrase"),
        ("own_parser:fails", "failed at 'left dog': IndexError"),
    ):
        with pytest.raises(InputError, match=says):
            load_parser(name)


def test_without_a_relation_the_scores_decide(row: Regions) -> None:
    logits = np.array([[1.0, 3, 2, 0]])
    (scores,) = related(logits, [Phrase("dog")], ["dog"], row)
    assert scores.argsort().tolist() == [3, 0, 2, 1]
