"""YOLO's text files with the layouts of folders that trainers use."""

import pytest

from napari_maskinversion.base.errors import InputError
from napari_maskinversion.regions.annotations import yolo
from napari_maskinversion.regions.annotations.annotation_reading import read_annotations

SHAPE = (20, 40)
BOX = "1 0.5 0.5 0.25 0.5"


@pytest.fixture
def read(tmp_path):
    (tmp_path / "labels" / "train").mkdir(parents=True)

    def read(*lines, shape=SHAPE, sep="\n", **files):
        for name, text in files.items():
            (
                tmp_path / name.replace("__", "/", name.count("__") - 1).replace("__", ".")
            ).write_text(text)
        path = tmp_path / "labels" / "train" / "a.txt"
        path.write_text(sep.join(lines))
        return read_annotations(path, shape, image="a.png")

    return read


def test_boxes_and_outlines_are_shares_of_the_image(read):
    result = read(
        BOX, "", "0 0.1 0.1 0.3 0.1 0.3 0.4 0.1 0.4", data__yaml="names: {0: dog, 1: cat, 2: key}"
    )
    box, outline = result.items
    assert (box.label, box.region.bbox, box.region.area) == ("cat", (5, 15, 15, 25), 100)
    assert (outline.label, outline.region.bbox, outline.region.area) == ("dog", (2, 4, 8, 12), 48)
    assert result.labels == ("dog", "cat", "key")
    assert box.values == {"class": 1}


@pytest.mark.parametrize(
    "files",
    [
        {"data__yaml": "path: x\nnames: [dog, cat]"},
        {"dataset__yaml": "names:\n  0: dog\n  1: cat"},
        {"classes__txt": "dog\ncat\n"},
        {"obj__names": "dog\ncat\n"},
    ],
)
def test_names_come_from_the_files_that_trainers_write(read, files):
    assert read(BOX, **files).items[0].label == "cat"


def test_a_file_of_names_in_a_folder_above_is_said(read, tmp_path):
    result = read(BOX, classes__txt="dog\ncat")
    assert f"names of its classes are those in {tmp_path / 'classes.txt'}." in result.notes_text
    assert not read(BOX, labels__train__classes__txt="dog\ncat").notes


def test_without_names_classes_stay_numbers_with_a_note(read):
    result = read(BOX)
    assert (result.items[0].label, result.items[0].values) == ("", {"class": 1})
    assert "classes have no names; put data.yaml or classes.txt into" in result.notes_text


def test_predictions_bring_their_confidence(read):
    box, outline = read(f"{BOX} 0.75", "0 0.1 0.1 0.3 0.1 0.3 0.4 0.5").items
    assert (box.score, outline.score) == (0.75, 0.5)
    assert outline.region.bbox == (2, 5, 8, 12)


def test_of_poses_the_box_is_read(read):
    (item,) = read(
        "0 0.5 0.5 0.25 0.5 0.5 0.5 2 0.6 0.6 1", data__yaml="names: [dog]\nkpt_shape: [2, 3]"
    ).items
    assert item.region.bbox == (5, 15, 15, 25)


def test_numbers_of_tracks_end_all_lines_of_a_file(read):
    outline = "0 0.1 0.1 0.3 0.1 0.3 0.4 0.1 0.4"
    for lines, scores in (
        ((f"{BOX} 0.75 1", f"{BOX} 0.5 2"), [0.75, 0.5]),
        ((f"{BOX} 1", f"{BOX} 2"), [None, None]),
        ((f"{outline} 0.91 1", f"{outline} 0.8 2"), [0.91, 0.8]),
    ):
        result = read(*lines)
        assert [item.source_id for item in result.items] == ["1", "2"]
        assert [item.score for item in result.items] == scores
        assert {item.region.area for item in result.items} == {48 if lines[0][0] == "0" else 100}
        assert "with confidence and track" in result.notes_text or scores == [None, None]
        assert "track numbers." in result.notes_text


@pytest.mark.parametrize(
    ("line", "area"),
    [
        ("0 0.2 0.6 0.6 0.6 0.7 0.9 0.5 1", 92),
        ("0 0.3 0.1 0.3 0.4 0.1 0.4 0 0.1 0.3 0", 72),
        ("0 0 0 1 0 1 1 0 1 0 0", 800),
    ],
)
def test_outlines_at_the_edge_of_the_image_are_no_tracks_or_poses(read, line, area):
    result = read(line)
    (item,) = result.items
    assert (item.region.area, item.score, item.source_id) == (area, None, "")
    assert "its lines were read as outlines." in result.notes_text


def test_points_with_their_visibility_are_those_of_poses(read):
    result = read(f"{BOX} 0.45 0.4 2 0.55 0.4 1", f"{BOX} 0.45 0.4 2 0.55 0.4 0")
    assert [item.region.bbox for item in result.items] == [(5, 15, 15, 25)] * 2
    assert "read as poses; the boxes are used" in result.notes_text


def test_oriented_boxes_reach_beyond_the_image(read):
    corners = [(4, -4), (44, 16), (40, 24), (0, 4)]  # in pixels; sides are square to each other
    result = read("0", *(f"{x / 40:.6f} {y / 20:.6f}" for x, y in corners), "0.5 3", sep=" ")
    (item,) = result.items
    assert (item.score, item.source_id) == (0.5, "3")
    assert "read as oriented boxes with confidence and track numbers" in result.notes_text
    assert "reaches beyond the image and was cut" in result.notes_text


def test_files_of_a_data_set_tell_together_what_a_line_is(read, tmp_path):
    """One pose whose box and points could be the corners of an outline."""
    line = "0 0.5 0.5 0.6 0.7 0.7 0.4 0.4 0.3"
    assert "as outlines" in read(line, data__yaml="names: [dog]").notes_text
    other = "0 0.8 0.7 0.1 0.2 0.8 0.7 0.82 0.75"
    (tmp_path / "labels" / "train" / "b.txt").write_text(other)
    result = read(line)
    assert "read as poses" in result.notes_text
    assert result.items[0].region.bbox == (3, 8, 17, 32)


def test_a_file_of_a_data_set_is_read_once_for_all_others(read, tmp_path, monkeypatch):
    read("0 0.1 0.1 0.3 0.1 0.3 0.4", data__yaml="names: [dog]")
    folder = tmp_path / "labels" / "train"
    for name in "bcd":
        (folder / f"{name}.txt").write_text("0 0.1 0.1 0.3 0.1 0.3 0.4")
    files, lines_of = [], yolo.read_lines
    monkeypatch.setattr(yolo, "read_lines", lambda path: files.append(path) or lines_of(path))
    for name in "bcd":
        read_annotations(folder / f"{name}.txt", SHAPE)
    assert sorted(files) == sorted(folder.glob("*.txt"))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("1 0.5 0.5 0.2", "not YOLO"),
        ("0.5 0.5 0.5 0.2 0.2", "not YOLO"),
        ("1 12.5 30.5 5.5 5.5", "coordinates outside 0 to 1"),
        ("0 0.5 0.5 0.0 0.0", "covers no pixel"),
    ],
)
def test_a_line_that_is_broken_is_left_out_with_a_note(read, line, reason):
    result = read(BOX, line, data__yaml="names: [dog, cat]")
    assert len(result.items) == 1
    assert [note for note in result.notes if "a.txt, line 2 " in note and reason in note]
    with pytest.raises(InputError, match=f"contains no region.*{reason}"):
        read(line, data__yaml="names: [dog, cat]")


def test_a_class_without_a_name_is_said(read):
    result = read("7 0.5 0.5 0.2 0.2", data__yaml="names: [dog, cat]")
    assert "line 1 is of class 7, which" in result.notes_text


def test_the_size_of_the_image_is_needed(read):
    with pytest.raises(InputError, match="does not have the size of its image; open the image"):
        read(BOX, shape=None)


def test_an_empty_file_is_refused(read):
    with pytest.raises(InputError, match="contains no region"):
        read("")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("names: [", "names the classes of "),
        ("names: {a: dog}", "names are a list, or names by class"),
        ("names: [no, off]", "with quotes such as 'no'; got .False, False"),
        ("names: [a]\nnames: [b, c]", "has 'names' twice, in the lines 1 and 2; keep one"),
    ],
)
def test_names_that_could_be_taken_for_others_are_refused(read, text, message):
    with pytest.raises(InputError, match=f"data.yaml.*{message}"):
        read(BOX, data__yaml=text)
