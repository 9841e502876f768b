"""Labels as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from napari_maskinversion.core.errors import InputError
from napari_maskinversion.retrieval.vocabulary import TEMPLATES, Vocabulary, to_text

words = st.text(
    st.characters(exclude_characters=',"#', exclude_categories=("C", "Z")), min_size=1, max_size=8
)


@given(
    st.lists(words, min_size=1, unique=True), st.sampled_from([",", ", ", "\n", "\r\n", " \n\n"])
)
def test_labels_come_back_in_order_whatever_separates_them(labels, separator):
    assert Vocabulary.parse(separator.join(labels)).labels == tuple(labels)


def test_blanks_comments_and_repetitions_are_dropped():
    text = "\ufeff dog \n\n# animals above\ncat,, dog\nbig  cat\n"
    assert Vocabulary.parse(text).labels == ("dog", "cat", "big  cat")


def test_quotes_protect_a_comma_and_stay_elsewhere():
    assert Vocabulary.parse('"red, round thing", apple\n5" disk').labels == (
        "red, round thing",
        "apple",
        '5" disk',
    )


anything = st.text(st.characters(exclude_categories=("C", "Zl", "Zp")), min_size=1, max_size=8)


@given(st.lists(anything.map(str.strip).filter(bool), min_size=1, unique=True))
def test_labels_written_as_text_are_read_back_whatever_they_hold(labels):
    assert Vocabulary.parse(to_text(labels)).labels == tuple(labels)


def test_a_quote_left_open_ends_with_its_line():
    assert Vocabulary.parse('"cat\ndog\nbird').labels == ("cat", "dog", "bird")


@pytest.mark.parametrize("text", ["", "\n , \n", "# only a comment"])
def test_no_label_is_refused(text):
    with pytest.raises(InputError, match="no labels"):
        Vocabulary.parse(text)


def test_a_file_is_read_and_named_when_it_cannot_be(tmp_path):
    file = tmp_path / "labels.txt"
    file.write_text("Wölfe\n犬\n", encoding="utf-8")
    assert Vocabulary.read(file).labels == ("Wölfe", "犬")
    file.write_bytes(b"\xff\xfe\x00dog")
    with pytest.raises(InputError, match="labels.txt is not UTF-8"):
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
    ],
)
def test_a_vocabulary_that_cannot_work_is_refused(labels, templates, says):
    with pytest.raises(InputError, match=says):
        Vocabulary(labels, templates)


def test_prompts_put_each_label_into_each_template():
    found = Vocabulary(("dog", "{weird}"), ("a {}.", "{}")).prompts()
    assert found == [["a dog.", "dog"], ["a {weird}.", "{weird}"]]
    assert len(TEMPLATES["ensemble"]) == 7
    for templates in TEMPLATES.values():
        Vocabulary(("dog",), templates)
