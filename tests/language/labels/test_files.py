"""Labels as text, CSV and YAML."""

import csv
import io
from unicodedata import normalize

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from napari_maskinversion.base.errors import InputError
from napari_maskinversion.language.labels.files import read_label_file, unsupported_fields
from napari_maskinversion.language.labels.presets import vocabulary_of
from napari_maskinversion.language.labels.vocabulary import TEMPLATES, Label, Vocabulary

# Whatever people write, and more of what has a meaning in one of the forms.
letters = st.one_of(
    st.sampled_from([*",;|\\\"'#:-[]{}&*!%@ \u00a0äß犬", "🐕", "é"]),
    st.characters(exclude_categories=("Cc", "Cf", "Cs", "Zl", "Zp")),
)
word = st.one_of(
    st.text(letters, min_size=1, max_size=8), st.sampled_from(["no", "~", "1.0", "null", "label"])
).map(lambda text: normalize("NFC", text).strip())
words = word.filter(bool)
colors = st.one_of(st.just(""), st.integers(0, 0xFFFFFF).map("#{:06x}".format))


@st.composite
def vocabularies(draw):
    flat = draw(st.lists(words, min_size=1, max_size=12, unique=True))
    entries = []
    while flat:
        taken = draw(st.integers(1, len(flat)))
        own, flat = flat[:taken], flat[taken:]
        entries.append(Label(own[0], tuple(own[1:]), draw(word), draw(colors)))
    templates = draw(
        st.sampled_from([TEMPLATES["photo"], TEMPLATES["ensemble"], ("# {}: a", "{}")])
    )
    threshold = draw(st.one_of(st.none(), st.floats(-1, 1)))
    return Vocabulary.of(entries, templates, threshold)


@pytest.mark.parametrize("suffix", [".txt", ".csv", ".yaml", ".yml"])
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(vocabulary=vocabularies())
def test_what_is_written_is_read_again_whatever_it_holds(tmp_path, suffix, vocabulary):
    path = tmp_path / f"labels{suffix}"
    vocabulary.save(path, overwrite=True)
    loaded = Vocabulary.read(path)
    assert (loaded.labels, loaded.synonyms) == (vocabulary.labels, vocabulary.synonyms)
    if suffix != ".txt":
        assert loaded.full_labels == vocabulary.full_labels
    if suffix.startswith(".y"):
        assert loaded == vocabulary
    # What is not read back is listed.
    same = loaded == vocabulary
    assert same == (not unsupported_fields(vocabulary.content, suffix))


def read(tmp_path, name, text):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return Vocabulary.read(path)


@pytest.mark.parametrize("mark", [",", ";", "\t"])
@pytest.mark.parametrize("start", ["", "\ufeff", "\ufeffsep=MARK\r\n", "\n\n"])
def test_a_table_is_read_as_spreadsheets_write_it(tmp_path, mark, start):
    out = io.StringIO()
    writer = csv.writer(out, delimiter=mark, lineterminator="\r\n")
    writer.writerow(["Group", "LABEL", "color", "Synonyms", "remarks"])
    writer.writerow(["things, small", 'a "cup"; blue', "#AABBCC", "mug | be\\|cher", "x"])
    writer.writerow(["", "", "", "", ""])
    writer.writerow(["", "two\nlines", "", "", ""])
    loaded = read(tmp_path, "a.csv", start.replace("MARK", mark) + out.getvalue())
    assert loaded.full_labels == (
        Label('a "cup"; blue', ("mug", "be|cher"), "things, small", "#aabbcc"),
        Label("two lines"),
    )


def test_a_csv_without_our_columns_is_text_and_a_tsv_a_table(tmp_path):
    plain = read(tmp_path, "a.csv", '"cup, red",plate\n# no\ndog | hound').words
    assert plain == ("cup, red", "plate", "dog", "hound")
    assert read(tmp_path, "a.tsv", "label\tgroup\ncar\ta\ndog\tb\n").words == ("car", "dog")


@pytest.mark.parametrize(
    "text",
    [
        "label;notes (free, text, any)\ndog;x\ncat;y\n",
        "sep=;\nlabel;notes, more\ndog;x\ncat;y\n",
        "label,note,note\ndog,a,b\ncat,c,d\n",
    ],
)
def test_other_columns_of_a_table_do_not_matter(tmp_path, text):
    (tmp_path / "a.csv").write_text(text)
    assert [one.name for one in read_label_file(tmp_path / "a.csv").labels] == ["dog", "cat"]


def test_words_that_would_be_read_as_others_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"a\.csv has semicolons between its cells and no column"):
        read(tmp_path, "a.csv", "car;dog\ncat;bus\n")
    with pytest.raises(InputError, match=r"a\.json is no label file; save the words as text"):
        read(tmp_path, "a.json", '["car", "dog"]')


def test_a_word_that_is_also_a_file_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "car").write_text("apple\nkey\n")
    with pytest.raises(InputError, match=r"'car' is a word and also a file; write \./car for"):
        vocabulary_of("car")
    assert vocabulary_of("./car").labels == ("apple", "key")
    assert vocabulary_of("car,").labels == ("car",)


@pytest.mark.parametrize("name", ["gone.txt", "gone.TSV", "gone.json"])
def test_the_name_of_a_file_that_is_missing_is_no_word(name):
    with pytest.raises(InputError, match=f"There is no label file at {name}; check the path"):
        vocabulary_of(name)


def test_a_path_is_a_file_and_one_template_is_a_text(tmp_path):
    (tmp_path / "a.txt").write_text("apple")
    found = vocabulary_of(tmp_path / "a.txt", "aerial")
    assert found == vocabulary_of(["apple"], ["aerial"])


def test_semicolons_between_labels_are_refused(tmp_path):
    with pytest.raises(InputError, match="Write commas between labels, not semicolons"):
        vocabulary_of("car;dog")
    assert vocabulary_of("a; b, dog").labels == ("a; b", "dog")


def test_excel_reads_what_we_write(tmp_path):
    Vocabulary(("Wölfe", "a, b")).save(tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_bytes().startswith(b"\xef\xbb\xbf")  # or it guesses


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("label,group\ndog,pets\n,pets\n", "line 3: A label is blank"),
        ('label\ndog\n"cat\nbird', "line 3: this is not CSV .* double quote"),
        ('label\n"dog"x\n', "line 2: this is not CSV"),
        ("label,colour\ndog,#ff0000\ncat,blue", "line 3: The colour 'blue' of 'cat'"),
        ("sep=;\nlabel;group\ndog;\ncat;a;b", "line 4 has more cells than there are columns"),
        ("label\ndog\n\ndog", r"line 4: The label 'dog' appears twice \(see line 2\)"),
        ("label,synonyms\ndog,cat|pet\ncat,", "line 3: 'cat' is a label and also a synonym"),
        ("synonyms,group\ndog,cat", "no column 'label'"),
        ("label\n", "no rows"),
        ("Wölfe\n".encode("utf-16"), "save it as UTF-8"),
        ("label\ndog\nWölfe\n".encode("cp1252"), "save it as UTF-8"),
    ],
)
def test_a_broken_table_is_refused_by_line(tmp_path, text, says):
    with pytest.raises(InputError, match=says):
        read(tmp_path, "a.csv", text)


@pytest.mark.parametrize(
    "text",
    [
        "- dog | hound\n- no\n- 1.0",
        "- dog|hound\n- label: 'no'\n- name: 1.0\n  synonyms:",
        "dog: hound\nno:\n1.0: []",
        "dog: [hound]\nno: {}\n1.0: ~",
        "dog: {synonyms: [hound]}\nno: ''\n1.0: null",
        "labels: [dog | hound, no, 1.0]\ntemplates: photo",
        "labels:\n  dog: hound\n  no:\n  1.0:\ndescription: some\n",
    ],
)
def test_yaml_is_a_list_or_a_mapping_and_every_word_a_text(tmp_path, text):
    loaded = read(tmp_path, "a.yaml", text)
    assert loaded.labels == ("dog", "no", "1.0")
    assert loaded.synonyms == (("hound",), (), ())
    assert loaded.templates == TEMPLATES["photo"]


def test_yaml_brings_groups_colours_prompts_and_threshold(tmp_path):
    text = (
        "labels:\n- {label: dog, group: pets, colour: '#00FF00'}\n- cat\n"
        "templates: ['a {}', 'the {}']\nthreshold: 0.2\n"
    )
    loaded = read(tmp_path, "a.yml", text)
    assert (loaded.groups, loaded.colors) == (("pets", ""), ("#00ff00", ""))
    assert (loaded.templates, loaded.threshold) == (("a {}", "the {}"), 0.2)
    assert Vocabulary.read(tmp_path / "a.yml", ("{}",)).templates == ("{}",)
    assert (
        read(tmp_path, "b.yaml", "labels: [a]\ntemplates: aerial").templates
        == (TEMPLATES["aerial"])
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "There are no labels"),
        ("- dog\n- [cat\n", "not YAML in line 3"),
        ("- dog\n- ''", "label 2: A label is blank"),
        ("- dog\n- cat: kitty\n", "label 2: 'cat' is not known .* a label has label, synonyms"),
        ("- dog\n- {label: cat, name: dog}", "label 2: 'label' is .* written twice"),
        ("- dog\n- [cat, kitty]", "label 2: the label must be a text"),
        ("- dog\n- {label: cat, colour: 7}", "label 2: The colour '7' of 'cat'"),
        ("dog:\ncat:\ndog: x", "has 'dog' twice, in the lines 1 and 3"),
        ("- dog\n- cat\n- dog", r"label 3: The label 'dog' appears twice \(see label 1\)"),
        ("labels: [dog]\nlables: [cat]", "'lables' is not known; use labels"),
        ("labels: [dog]\nthreshold: high", "the threshold 'high' is not a number"),
        ("labels: [dog]\ntemplates:\n- 'a photo'", "Unknown template 'a photo'"),
        ("labels: [dog]\ntemplates: {a: b}", "templates must be a list"),
    ],
)
def test_broken_yaml_is_refused_with_its_place(tmp_path, text, says):
    with pytest.raises(InputError, match=rf"a\.yaml.*{says}"):
        read(tmp_path, "a.yaml", text)


def test_a_file_is_replaced_only_on_request_and_never_half(tmp_path, monkeypatch):
    path = tmp_path / "mine.yaml"
    path.write_text("mine")
    words = Vocabulary(("dog",))
    with pytest.raises(InputError, match=r"mine\.yaml exists"):
        words.save(path)
    assert path.read_text() == "mine"

    def full(self, data):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.write_bytes", full)
        with pytest.raises(InputError, match="No space left"):
            words.save(path, overwrite=True)
    assert path.read_text() == "mine"
    assert list(tmp_path.iterdir()) == [path]
    words.save(path, overwrite=True)
    assert Vocabulary.read(path) == words


def test_a_file_name_decides_the_form_and_an_unknown_one_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"\.txt, \.csv, \.yaml, \.yml; got .* '\.xls'"):
        Vocabulary(("dog",)).save(tmp_path / "a.xls")
    assert not list(tmp_path.iterdir())
