"""Vocabularies that come along, and words that the demo model does not know."""

from importlib.resources import files

import pytest

from napari_maskinversion.base.errors import InputError
from napari_maskinversion.engine.models.specs import DEMO, MODELS
from napari_maskinversion.language.labels.label import TEMPLATES, Label
from napari_maskinversion.language.labels.presets import (
    preset,
    presets,
    unknown_words,
    unknown_words_note,
)

SIZES = {
    "voc": (20, "photo"),
    "coco": (80, "photo"),
    "pascal-context": (59, "photo"),
    "dota": (15, "aerial"),
    "isaid": (15, "aerial"),
    "blood-cells": (3, "microscopy"),
    "blood-cell-types": (9, "microscopy"),
    "cell-biology": (24, "microscopy"),
}


def test_each_list_has_the_size_of_its_source_and_the_prompts_that_suit_it():
    by_name = {one.name: one for one in presets()}
    assert set(by_name) == {*SIZES, "demo"}
    for name, (count, templates) in SIZES.items():
        assert len(by_name[name].vocabulary.labels) == count
        assert by_name[name].vocabulary.templates == TEMPLATES[templates]
    for one in by_name.values():
        assert one.description
        assert "\n" not in one.description
        assert one.source


def test_names_are_those_of_the_data_sets():
    assert preset("voc").vocabulary.labels[0] == "aeroplane"
    assert "airplane" in preset("voc").vocabulary.synonyms[0]
    coco = preset("preset:COCO").vocabulary
    assert (coco.labels[0], coco.labels[-1]) == ("person", "toothbrush")
    assert set(preset("dota").vocabulary.labels) == set(preset("isaid").vocabulary.labels)


def test_the_demo_list_is_what_the_bundled_weights_know():
    file = files("napari_maskinversion") / "demo_model" / "weights" / "vocabulary.txt"
    demo = preset("demo").vocabulary
    assert list(demo.labels) == file.read_text("utf-8").splitlines()
    assert "automobile" in demo.synonyms[demo.labels.index("car")]
    assert "erythrocyte" in demo.words
    assert demo.groups[demo.labels.index("elephant")] == "animals"


def test_an_unknown_preset_is_refused_by_name():
    with pytest.raises(InputError, match="no preset 'cocoa'; choose from voc, coco"):
        preset("preset:cocoa")


# -- unknown words -------------------------------------------------------------------------------


def labels(*words):
    return [Label(*([word] if isinstance(word, str) else (word[0], word[1:]))) for word in words]


@pytest.mark.parametrize(
    "word",
    ["car", "Car", "red blood cells", "erythrocyte", "red-blood_cell", ("RBC", "erythrocyte")],
)
def test_names_synonyms_and_plurals_that_were_taught_are_known(word):
    assert unknown_words(labels(word), "demo") == ()


def test_other_words_are_unknown_in_their_order():
    words = labels("person", "car", "helmet", "space shuttle", "apple", "cars of glass")
    unknown = ("person", "helmet", "space shuttle", "cars of glass")
    assert unknown_words(words, "demo") == unknown
    note = "4 words that the demo model does not know: person, helmet, space shuttle and 1 more"
    assert unknown_words_note(words, "demo") == note
    assert unknown_words_note(words[:1], "demo").startswith("1 word that the demo model")


def test_a_word_that_is_part_of_a_known_one_is_told_it_and_nuclei_are_known():
    note = unknown_words_note(labels("dead cell", "nucleus"), "demo")
    assert note.endswith("dead cell, nucleus; it knows fluorescent nucleus, stained nucleus")
    words = preset("cell-biology").vocabulary.full_labels
    assert "nucleus" not in unknown_words(words, "demo")
    assert "nuclei" in MODELS[DEMO].title


def test_its_own_preset_is_known_and_of_a_clip_nothing_is_said():
    assert unknown_words(preset("demo").vocabulary.full_labels, "demo") == ()
    assert unknown_words_note(labels("car"), "demo") == ""
    assert unknown_words(labels("qwertz"), "ViT-B-16/openai") == ()


def test_a_model_that_was_trained_here_knows_what_lies_beside_its_weights(tmp_path):
    (tmp_path / "vocabulary.txt").write_text("car\ngriffin\n")
    assert unknown_words(labels("griffin", "key", "car"), str(tmp_path)) == ("key",)
    assert "this model does not know: key" in unknown_words_note(labels("key"), str(tmp_path))
