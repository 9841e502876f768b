"""Labels as people write them."""

from unicodedata import normalize

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from napari_maskinversion.base.errors import InputError
from napari_maskinversion.language.labels.label import choose_templates
from napari_maskinversion.language.labels.vocabulary import (
    NONE_OF_THESE,
    TEMPLATES,
    Label,
    Vocabulary,
    to_text,
)

words = st.text(
    st.characters(exclude_characters=',"#|', exclude_categories=("C", "Z")),
    min_size=1,
    max_size=8,
).map(lambda text: normalize("NFC", text))


@given(
    st.lists(words, min_size=1, unique=True), st.sampled_from([",", ", ", "\n", "\r\n", " \n\n"])
)
def test_labels_come_back_in_order_whatever_separates_them(labels, separator):
    assert Vocabulary.parse(separator.join(labels)).labels == tuple(labels)


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("\ufeff dog \n\n# animals above\ncat,, dog\nbig  cat\n", ("dog", "cat", "big  cat")),
        ('"red, round thing", apple\n5" disk', ("red, round thing", "apple", '5" disk')),
        ('"cat\ndog\nbird', ("cat", "dog", "bird")),  # a quote left open ends with its line
    ],
)
def test_blanks_comments_and_repetitions_are_dropped_and_quotes_protect_a_comma(text, labels):
    assert Vocabulary.parse(text).labels == labels


anything = st.text(st.characters(exclude_categories=("C", "Zl", "Zp")), min_size=1, max_size=8).map(
    lambda text: normalize("NFC", text).strip()
)


@given(st.lists(anything.filter(bool), min_size=1, unique=True))
def test_labels_written_as_text_are_read_back_whatever_they_hold(labels):
    assert Vocabulary.parse(to_text(labels)).labels == tuple(labels)


@pytest.mark.parametrize("text", ["", "\n , \n", "# only a comment"])
def test_no_label_is_refused(text):
    with pytest.raises(InputError, match="no labels"):
        Vocabulary.parse(text)


def test_a_line_that_is_no_list_of_words_is_refused_by_its_number():
    with pytest.raises(InputError, match="Line 2 of the labels cannot be read"):
        Vocabulary.parse("dog\n" + "x" * 200_000)


def test_a_file_is_read_and_named_when_it_cannot_be(tmp_path):
    file = tmp_path / "labels.txt"
    file.write_text("Wölfe\n犬\n", encoding="utf-8")
    assert Vocabulary.read(file).labels == ("Wölfe", "犬")
    file.write_bytes(b"\xff\xfe\x00dog")
    with pytest.raises(InputError, match="labels.txt is not text in UTF-8"):
        Vocabulary.read(file)
    file.write_text("")
    with pytest.raises(InputError, match=r"labels\.txt: There are no labels"):
        Vocabulary.read(file)
    with pytest.raises(InputError, match="gone.txt"):
        Vocabulary.read(tmp_path / "gone.txt")


@pytest.mark.parametrize(
    ("labels", "templates", "says"),
    [
        (("dog", "dog"), ("{}",), "twice: dog"),
        (("dog", " "), ("{}",), "blank"),
        (("dog",), ("a photo",), "a photo"),
        (("dog",), ("{} and {}",), "exactly one"),
        (("dog",), (), "no prompt template"),
        ("dog", ("{}",), "list of names"),
        ((), ("{}",), "no labels"),
        (("dog\ncat",), ("{}",), "line end"),
    ],
)
def test_a_vocabulary_that_cannot_work_is_refused(labels, templates, says):
    with pytest.raises(InputError, match=says):
        Vocabulary(labels, templates)


def test_synonyms_follow_a_pipe_and_belong_to_the_first_word():
    parsed = Vocabulary.parse(r"car | automobile|auto, dog, a\|b | or, | , cup |" + '\n"x, y | z"')
    assert parsed.labels == ("car", "dog", "a|b", "cup", "x, y")
    assert parsed.synonyms == (("automobile", "auto"), (), ("or",), (), ("z",))
    assert parsed.words == ("car", "automobile", "auto", "dog", "a|b", "or", "cup", "x, y", "z")
    assert parsed.owners == (0, 0, 0, 1, 2, 2, 3, 4, 4)
    assert len(parsed.prompts()) == 9


def test_a_label_repeated_in_text_gathers_its_synonyms():
    parsed = Vocabulary.parse("car | auto\ndog\ncar | automobile | auto | car")
    assert (parsed.labels, parsed.synonyms) == (("car", "dog"), (("auto", "automobile"), ()))


def test_without_synonyms_a_vocabulary_is_what_it_was():
    plain = Vocabulary(("dog", "cat"))
    assert plain == Vocabulary.parse("dog, cat") == Vocabulary.of(plain.full_labels)
    assert plain.words == plain.labels == ("dog", "cat")
    assert (plain.synonyms, plain.groups, plain.colors) == ((), (), ())


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"synonyms": (("cat",), ())}, "'cat' is a label and also a synonym of 'dog'"),
        ({"synonyms": (("pet",), ("pet",))}, "'pet' is a synonym of 'dog' and of 'cat'"),
        ({"synonyms": (("dog",), ())}, "written twice for the label 'dog'"),
        ({"synonyms": ((" ",), ())}, "blank"),
        ({"colors": ("red", "")}, "'red' of 'dog'"),
        ({"threshold": 1.5}, "from -1 to 1; got 1.5"),
        ({"threshold": float("nan")}, "from -1 to 1"),
        ({"labels": ("dog", NONE_OF_THESE), "threshold": 0.2}, "leave out the label"),
    ],
)
def test_columns_of_labels_are_checked(changes, says):
    with pytest.raises(InputError, match=says):
        Vocabulary(**({"labels": ("dog", "cat")} | changes))


def test_default_colours_differ_and_chosen_ones_stay():
    count = 5000
    colors = ("#FF8800", *[""] * (count - 1))
    vocabulary = Vocabulary(tuple(map(str, range(count))), colors=colors).with_colors()
    assert vocabulary.colors[0] == "#ff8800"
    assert len(set(vocabulary.colors)) == count
    # The first ones can be told apart by eye, and stay when labels are added.
    first = np.array([[int(c[i : i + 2], 16) for i in (1, 3, 5)] for c in vocabulary.colors[:12]])
    apart = np.linalg.norm(first[:, None] - first[None], axis=2)[np.triu_indices(12, 1)]
    assert apart.min() > 40
    assert Vocabulary(("a", "b", "c")).with_colors().colors[1:] == vocabulary.colors[1:3]


def test_a_default_colour_is_never_one_that_was_chosen():
    _, second, _ = Vocabulary(("a", "b", "c")).with_colors().colors
    colors = Vocabulary(("a", "b", "c"), colors=(second, "", "")).with_colors().colors
    assert (len(set(colors)), colors[0]) == (3, second)


def test_sets_and_own_sentences_are_chosen_together():
    assert choose_templates(["photo"]) == TEMPLATES["photo"]
    assert choose_templates(["photo", "a {} here", "photo"]) == ("a photo of a {}.", "a {} here")
    with pytest.raises(InputError, match="'phto'; choose from photo, aerial"):
        choose_templates(["phto"])
    with pytest.raises(InputError, match="exactly one"):
        choose_templates(["{} and {}"])


def test_prompts_put_each_label_into_each_template():
    prompts = Vocabulary(("dog", "{weird}"), ("a {}.", "{}")).prompts()
    assert prompts == [["a dog.", "dog"], ["a {weird}.", "{weird}"]]
    assert len(TEMPLATES["ensemble"]) == 7
    for templates in TEMPLATES.values():
        Vocabulary(("dog",), templates)


def test_labels_that_look_the_same_are_the_same():
    """An accent may be a sign of its own (NFD, as in file names of macOS) or part of a letter."""
    two = "cafe\u0301"
    assert Vocabulary.parse(f"café, {two} | {two}s").full_labels == (Label("café", ("cafés",)),)
    with pytest.raises(InputError, match="appear twice: café"):
        Vocabulary(("café", two))


@pytest.mark.parametrize("word", ["c\u200bar", "car\u200d"])
def test_signs_without_a_width_are_refused(word):
    with pytest.raises(InputError, match="character that cannot be shown; remove it"):
        Vocabulary.parse(word)


@pytest.mark.parametrize("word", ["ماهی\u200cها", "👩\u200d👧"])
def test_joiners_that_shape_letters_stay(word):
    assert Vocabulary.parse(word).labels == (word,)
