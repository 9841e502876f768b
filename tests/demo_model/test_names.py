"""Names in sentences."""

import pytest

from napari_maskinversion.demo_model.scene_words import (
    NAMES,
    find,
    names_in,
    names_of,
    with_article,
)


@pytest.mark.parametrize(
    ("name", "phrase"),
    [("frog", "a frog"), ("apple", "an apple"), ("water", "water"), ("grapes", "grapes")],
)
def test_names_have_their_article(name, phrase):
    assert with_article(name) == phrase


def test_a_name_of_another_version_stands_alone():
    frog, thing = names_of(["frog", "teapot"])
    assert frog == find("frog")
    assert (thing.name, thing.group) == ("teapot", "")


def test_names_are_listed_in_the_order_of_the_sentence():
    assert names_in("A frog, an apple and a car.", names_of(NAMES)) == ["frog", "apple", "car"]


def test_a_name_within_a_longer_one_is_not_mentioned():
    assert names_in("A red blood cell in a blood smear.", names_of(["red blood cell"])) == [
        "red blood cell"
    ]
    assert names_in("A carpet and a category.", names_of(["car", "cat"])) == []
