"""Reading caption files."""

import csv
import io
from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from napari_maskinversion.base.errors import InputError
from napari_maskinversion.language.captions.caption_files import (
    Captions,
    read_captions,
    skipped_lines,
)

words = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=8)
some_words = st.lists(words, min_size=1, max_size=3)
lines = st.lists(
    some_words.map(lambda parts: normalize("NFC", " ".join(parts))), min_size=1, unique=True
)


@pytest.fixture
def write(tmp_path):
    def make(content, name="captions.txt"):
        file = tmp_path / name
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return file

    return make


@given(lines, st.sampled_from(["\n", "\r\n", "\r", " \n\n"]))
def test_a_text_file_holds_one_caption_a_line_whatever_ends_it(tmp_path_factory, texts, end):
    file = tmp_path_factory.mktemp("captions") / "captions.txt"
    file.write_bytes(end.join(texts).encode())
    assert read_captions(file).texts == tuple(texts)


def test_blank_lines_and_repetitions_are_counted_and_order_stays(write):
    captions = read_captions(write("a dog\n\n a   dog \n# 1 cat, old\n\t\na dog"))
    assert captions.texts == ("a dog", "# 1 cat, old")
    assert (captions.blank, captions.repeated) == (2, 2)
    assert skipped_lines(captions.blank, captions.repeated) == "2 blank and 2 repeated left out"
    assert captions.source == "captions.txt"
    assert skipped_lines(0, 0) == ""


def test_captions_that_look_the_same_are_one(write):
    captions = read_captions(write("a café\na cafe\u0301\na c\u200bafé\n\u200b\n"))
    assert captions.texts == ("a café",)
    assert (captions.blank, captions.repeated) == (1, 2)


@given(lines, st.sampled_from(",;\t"), st.sampled_from(["caption", "Text", "TITLE"]))
def test_a_csv_column_is_read_whatever_separates_and_quotes_it(
    tmp_path_factory, texts, separator, name
):
    out = io.StringIO()
    writer = csv.writer(out, delimiter=separator, quoting=csv.QUOTE_ALL)
    writer.writerow(["id", name, "note"])
    writer.writerows([i, text, f"other {i}, of {text}"] for i, text in enumerate(texts))
    file = tmp_path_factory.mktemp("captions") / "captions.csv"
    file.write_text(out.getvalue(), encoding="utf-8")
    assert read_captions(file).texts == tuple(texts)


@pytest.mark.parametrize("mark", [",", ";", "\t"])
@pytest.mark.parametrize("start", ["\ufeff", "sep=MARK\r\n", "\ufeffsep=MARK\n", "\n \n"])
def test_what_programs_write_above_a_table_is_left_out(write, mark, start):
    table = f'{start.replace("MARK", mark)}caption{mark}"a, b; c"\na dog{mark}1\n'
    assert read_captions(write(table, "a.csv"), encoding="utf-8").texts == ("a dog",)


def test_the_column_is_the_one_named_or_the_likeliest(write):
    table = "\ufefftitle,caption,what\nt1,c1,w1\nt2\nt3,c1,w3\n"
    assert read_captions(write(table, "a.csv")).texts == ("c1",)
    assert read_captions(write(table, "a.csv")).blank == 1  # the short row
    assert read_captions(write(table, "a.csv"), column="what").texts == ("w1", "w3")
    # A column makes a table of any file.
    assert read_captions(write(table, "a.dat"), column="title").texts == ("t1", "t2", "t3")
    assert read_captions(write("a, b\ttext\n1, 2\tdog, big\n", "a.tsv")).texts == ("dog, big",)
    assert read_captions(write('text\n"two\nlines"\n', "a.csv")).texts == ("two lines",)


@pytest.mark.parametrize(
    ("table", "column", "says"),
    [
        ("id,words\n1,dog\n", None, "no column caption or text or title; the columns are id, wor"),
        ("id,caption\n1,dog\n", "note", "no column note; the columns are id, caption"),
        ("", None, "the columns are missing"),
        ("caption\n", None, "There are no captions"),
        ("caption,n,caption\na dog,1,a cat\n", None, "two columns 'caption'; keep one"),
        ('caption\n"a dog' + "\nmore words" * 20000, None, "double quote"),
    ],
)
def test_a_unsuitable_table_is_refused_by_name(write, table, column, says):
    with pytest.raises(InputError, match=says) as error:
        read_captions(write(table, "a.csv"), column=column)
    assert "a.csv" in str(error.value)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_mark_says_the_encoding(write, encoding):
    content = "Wölfe\n犬\n".encode(encoding)
    assert read_captions(write(content)).texts == ("Wölfe", "犬")


def test_another_encoding_is_refused_and_read_when_it_is_named(write):
    latin = write(("a dog\n" * 9000 + "Wölfe\n").encode("latin-1"))
    with pytest.raises(InputError, match=r"captions\.txt is not UTF-8 text; .*--encoding latin-1"):
        read_captions(latin)
    assert read_captions(latin, encoding="latin-1").texts == ("a dog", "Wölfe")
    wide = write("a dog\nb\n".encode("utf-16-le"))
    with pytest.raises(InputError, match="--encoding utf-16-le"):
        read_captions(wide)
    assert read_captions(wide, encoding="utf-16-le").texts == ("a dog", "b")
    with pytest.raises(InputError, match="no encoding 'klingon'"):
        read_captions(wide, encoding="klingon")


@pytest.mark.parametrize("content", [b"", b"\n \n\t\n", b"\xef\xbb\xbf"])
def test_a_file_without_captions_is_refused(write, content):
    with pytest.raises(InputError, match=r"captions\.txt: There are no captions"):
        read_captions(write(content))


def test_a_file_of_another_kind_is_refused(write, tmp_path):
    assert len(read_captions(write("a" * 5000 + "\n")).texts) == 1
    with pytest.raises(InputError, match="Caption 2 has 100,00. characters"):
        read_captions(write("dog\n" + "a" * 100_000))
    with pytest.raises(InputError, match=r"There is no file of captions at .*gone\.txt"):
        read_captions(tmp_path / "gone.txt")
    with pytest.raises(InputError, match="is a folder; name one file"):
        read_captions(tmp_path)
    (tmp_path / "captions.json").write_text('["a dog"]')
    with pytest.raises(InputError, match=r"captions\.json is no file of captions; save them as te"):
        read_captions(tmp_path / "captions.json")


def test_the_hash_is_of_captions_and_order_alone():
    first = Captions.of(["a", "b"], "x.txt").sha256
    assert Captions.of(["a", "", "b", "a"], "y.csv").sha256 == first
    others = [["b", "a"], ["a"], ["ab"], ["a", "c"], ["a b"]]
    assert first not in {Captions.of(other).sha256 for other in others}
