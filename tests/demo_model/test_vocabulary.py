from __future__ import annotations

import pytest

from napari_maskinversion.demo_model.scene_words import (
    CANDIDATES,
    CHOSEN,
    DRAWN,
    OBJECTS,
    REAL,
    find,
    taught,
)


def test_there_are_hundreds_of_names_and_each_is_listed_once() -> None:
    names = [n.name for n in (*OBJECTS, *REAL)]
    assert len(OBJECTS) >= 300
    assert len(set(names)) == len(names)
    words = [w.lower() for n in (*OBJECTS, *REAL) for w in (n.name, *n.synonyms)]
    assert len(words) - len(set(words)) <= 6  # "bunch" of near namesakes, no more


def test_groups_are_those_a_first_look_wants() -> None:
    groups = {n.group for n in OBJECTS}
    wanted = {"animals", "food", "vehicles", "buildings", "tools", "plants", "household", "sport"}
    assert wanted <= groups
    assert {n.group for n in REAL} == {"aerial", "blood", "nuclei"}


def test_phrases_say_synonyms_in_every_template() -> None:
    car = find("car")
    assert "automobile" in car.synonyms
    assert car.phrases[0] == "car"
    assert {"a photo of a car", "a photo of a automobile"} <= set(car.phrases)
    assert "an aerial photo of a road" in find("road").phrases
    with pytest.raises(KeyError):
        find("no such thing")


def test_a_model_is_taught_the_chosen_objects_first_and_all_real_names() -> None:
    assert [n.name for n in taught()] == [*CHOSEN, *(n.name for n in REAL)]
    assert taught(5) == (*(find(n) for n in CHOSEN[:5]), *REAL)
    assert set(DRAWN) == set(OBJECTS)
    assert len(taught(len(CHOSEN) + 1)) == len(CHOSEN) + 1 + len(REAL)


def test_the_chosen_names_are_candidates_in_their_order() -> None:
    candidates = [n.name for n in OBJECTS[:CANDIDATES]]
    assert [n for n in candidates if n in CHOSEN] == list(CHOSEN)
    assert 40 <= len(CHOSEN) <= 56
