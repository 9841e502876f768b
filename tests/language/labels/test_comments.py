"""Labels that are changed in a text whose comments stay."""

from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from napari_maskinversion.language.labels.comments import rewrite
from napari_maskinversion.language.labels.label import Label
from napari_maskinversion.language.labels.text_format import parse_text

TEXT = """# what lives here
cat | kitten

# second thoughts
dog, "red, round"
  cow
# the end
"""


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda rows: rows, TEXT.replace('dog, "red, round"', 'dog\n"red, round"')),
        (
            lambda rows: [Label("lion"), *rows[1:]],
            TEXT.replace("cat | kitten", "lion").replace('dog, "red', 'dog\n"red'),
        ),
        (
            lambda rows: [*rows[:1], *rows[2:]],
            TEXT.replace('dog, "red, round"', '"red, round"'),
        ),
        (lambda rows: [], "# what lives here\n\n# second thoughts\n# the end\n"),
        (
            lambda rows: [rows[0], Label("fox"), *rows[1:], Label("owl")],
            "# what lives here\ncat | kitten\nfox\n\n# second thoughts\ndog\n"
            '"red, round"\n  cow\nowl\n# the end\n',
        ),
    ],
    ids=["none", "renamed", "removed", "all removed", "added"],
)
def test_comments_stay_above_their_labels(change, expected):
    assert rewrite(TEXT, change(parse_text(TEXT))) == expected


names = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=4).map(
    lambda text: normalize("NFC", text)
)
labels = st.lists(
    st.lists(names, min_size=1, max_size=3, unique=True).map(
        lambda words: Label(words[0], tuple(words[1:]))
    ),
    unique_by=lambda label: label.name,
    max_size=6,
)
lines = st.one_of(names, names.map(lambda text: f"# {text}"), st.just(""), st.just("a | b, c"))


@given(st.lists(lines, max_size=8).map("\n".join), labels)
def test_whatever_was_written_the_labels_are_the_new_ones_and_no_comment_is_lost(text, wanted):
    made = rewrite(text, wanted)
    assert parse_text(made) == wanted

    def comments(text):
        return [line for line in text.split("\n") if line.strip().startswith("#")]

    assert comments(made) == comments(text)
