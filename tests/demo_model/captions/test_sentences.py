"""Sentences about the names of a demo model, and how names are read from them."""

import pytest
import torch

from napari_maskinversion.demo_model.captions.sentences import (
    as_text,
    names_in,
    names_of,
    sentence_about,
    sentences_about,
    with_article,
)
from napari_maskinversion.demo_model.vocabulary import NAMES

ALL = names_of(NAMES)


@pytest.mark.parametrize(
    ("name", "phrase"),
    [("frog", "a frog"), ("apple", "an apple"), ("water", "water"), ("grapes", "grapes")],
)
def test_names_have_their_article(name, phrase):
    assert with_article(name) == phrase


def test_real_things_are_named_with_their_place():
    (cell,) = names_of(["red blood cell"])
    assert "a red blood cell in a blood smear ." in sentences_about(cell)
    (road,) = names_of(["road"])
    assert "a road seen from above ." in sentences_about(road)


def test_a_name_of_another_version_is_a_thing_too():
    (thing,) = names_of(["teapot"])
    assert "a drawing of a teapot ." in sentences_about(thing)


def test_every_sentence_mentions_its_name_alone():
    for entry in ALL:
        for sentence in sentences_about(entry):
            assert names_in(as_text(sentence), ALL) == [entry.name]


def test_several_things_are_listed_in_order():
    frog, apple, car = names_of(["frog", "apple", "car"])
    text = as_text(sentence_about([frog, apple, car], torch.Generator().manual_seed(0)))
    assert text.endswith("a frog, an apple and a car")
    assert names_in(text.capitalize() + ".", ALL) == ["frog", "apple", "car"]


def test_a_name_within_a_longer_one_is_not_mentioned():
    assert names_in("A red blood cell in a blood smear.", names_of(["red blood cell"])) == [
        "red blood cell"
    ]
    assert names_in("A carpet and a category.", names_of(["car", "cat"])) == []
