"""Words that the demo model does not know are named."""

import pytest

from napari_maskinversion.language.labels.label import Label
from napari_maskinversion.language.labels.presets import preset, unknown_words, unknown_words_note


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


def test_its_own_preset_is_known_and_of_a_clip_nothing_is_said():
    assert unknown_words(preset("demo").vocabulary.full_labels, "demo") == ()
    assert unknown_words_note(labels("car"), "demo") == ""
    assert unknown_words(labels("qwertz"), "ViT-B-16/openai") == ()


def test_a_model_that_was_trained_here_knows_what_lies_beside_its_weights(tmp_path):
    (tmp_path / "vocabulary.txt").write_text("car\ngriffin\n")
    assert unknown_words(labels("griffin", "key", "car"), str(tmp_path)) == ("key",)
    assert "this model does not know: key" in unknown_words_note(labels("key"), str(tmp_path))
