"""Which regions belong to which image."""

from pathlib import Path

import pytest

from napari_maskinversion.base.errors import InputError
from napari_maskinversion.batch.pairing import pair, read_table


@pytest.fixture
def touch(tmp_path, monkeypatch):
    """Make empty files: only their names count."""
    monkeypatch.chdir(tmp_path)

    def make(*names):
        for name in names:
            file = tmp_path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()

    return make


def names(pairs):
    return {one.name: one.regions and one.regions.as_posix() for one in pairs.pairs}


def test_files_belong_to_the_image_that_their_names_begin_or_end_with(touch):
    touch("in/cell.tif", "in/cell-1.tif", "in/cell-10.tif", "in/x.ome.tif")
    touch("of/cell_mask.png", "of/cell-1_mask.png", "of/labels cell-10.geojson", "of/x.xml")
    assert names(pair("in/*", "of")) == {
        "cell.tif": "of/cell_mask.png",
        "cell-1.tif": "of/cell-1_mask.png",
        "cell-10.tif": "of/labels cell-10.geojson",
        "x.ome.tif": "of/x.xml",
    }


def test_a_template_says_the_name(touch):
    touch("a.png", "b.png", "of/a.b.png", "of/b.b.png")
    assert names(pair("*.png", "of/{name}.b.png")) == {"a.png": "of/a.b.png", "b.png": "of/b.b.png"}


@pytest.mark.parametrize(
    ("images", "regions"),
    [
        ("nest/*/img.png", "nest/*/img_mask.png"),
        ("nest/*/img.png", "nest/{folder}/{name}_mask.png"),
        ("nest", "nest/*/*_mask.png"),
        ("nest/*/img.png", "masks"),
        ("nest/*/img.png", "masks/{folder}/of_{name}.png"),
        ("nest/**/img.png", "{folder}/../masks/{folder}/of_{name}.png"),
    ],
)
def test_files_of_one_name_in_several_folders_belong_to_their_folders(touch, images, regions):
    touch("nest/A/img.png", "nest/B/img.png", "nest/A/img_mask.png", "nest/B/img_mask.png")
    touch("masks/A/of_img.png", "masks/B/of_img.png", "A/x.txt", "B/x.txt")
    pairs = pair(images, regions).pairs
    assert [one.name for one in pairs] == ["A/img.png", "B/img.png"]
    assert [one.image.parent.name for one in pairs] == ["A", "B"]
    assert [one.regions.parent.name for one in pairs] == ["A", "B"]


def test_regions_that_are_as_near_to_images_of_two_folders_are_refused(touch):
    touch("nest/A/img.png", "nest/B/img.png", "masks/img.png")
    with pytest.raises(InputError, match=r"masks/img.png may be the regions of nest/A/img.png"):
        pair("nest/*/img.png", "masks")


def test_regions_whose_name_fits_two_images_are_refused(touch):
    touch("01.png", "02.png", "masks/01_roi_02.png")
    with pytest.raises(InputError, match=r"may be the regions of 0[12].png and of 0[12].png"):
        pair("*.png", "masks")


def test_only_images_whose_names_repeat_are_named_with_their_folders(touch, tmp_path):
    touch("nest/A/img.png", "nest/B/img.png", "nest/B/other.png", "all.json")
    assert list(names(pair("nest/*/*", "all.json"))) == ["A/img.png", "B/img.png", "other.png"]
    table = tmp_path / "table.csv"
    table.write_text("image,regions\nnest/A/img.png,\n../x/B/img.png,\nother.png,\n")
    assert list(names(read_table(table))) == ["nest/A/img.png", "x/B/img.png", "other.png"]


def test_regions_beside_the_images_are_no_images(touch):
    touch("a.png", "a_mask.png", "b.png", "b_mask.png")
    expected = {"a.png": "a_mask.png", "b.png": "b_mask.png"}
    assert names(pair("*.png", "*_mask.png")) == expected
    assert names(pair("*.png", "{name}_mask.png")) == expected


def test_one_file_is_about_all_images(touch):
    touch("a.png", "b.jpg", "all.json")
    pairs = pair("*", "all.json")
    assert names(pairs) == {"a.png": "all.json", "b.jpg": "all.json"}


def test_an_image_that_is_a_link_to_nothing_is_not_left_out(touch):
    touch("in/a.png", "of/a.png", "of/b.png")
    Path("in/b.png").symlink_to("a disk that is gone.png")
    assert names(pair("in", "of")) == {"a.png": "of/a.png", "b.png": "of/b.png"}


def test_what_is_left_out_or_missing_is_said_in_a_line_each(touch):
    touch("in/a.png", "in/notes.txt", "in/lonely.png", "of/a.png", "of/stranger.png")
    touch("in/a.png.maskinversion.jsonl", "of/a.png.maskinversion.jsonl")  # decisions: no word
    pairs = pair("in", "of")
    assert pairs.notes == (
        "in/notes.txt is not an image and was left out.",
        "of/stranger.png belongs to no image and was left out.",
        "in/lonely.png has no regions at of.",
    )
    assert names(pairs) == {"a.png": "of/a.png", "lonely.png": None}


@pytest.mark.parametrize(
    ("images", "regions", "message"),
    [
        ("nowhere/*", None, "There is no file at nowhere"),
        ("text", None, "There is no image at text"),
        ("in", "nowhere", "There is no file at nowhere"),
        ("in", "strange", "No file at strange has the name of an image, such as a; give other"),
        ("in", "of", "of/a.png and of/a_2.png may both be the regions of in/a.png"),
        ("in", "of/{name}.xml", "There is no file at of/{name}.xml for any image"),
    ],
)
def test_what_cannot_be_paired_is_refused(touch, images, regions, message):
    touch("in/a.png", "text/notes.txt", "strange/b.png", "of/a.png", "of/a_2.png")
    with pytest.raises(InputError) as refused:
        pair(images, regions)
    assert message in str(refused.value)


def test_a_table_names_images_regions_and_names(touch, tmp_path):
    table = tmp_path / "in" / "table.csv"
    touch("in/table.csv")
    table.write_text("\ufeffimage,regions,name\na/x.png,a/x.xml,a x\nb/x.png,,\n", "utf-8")
    pairs = read_table(table)
    assert [(one.name, one.image, one.regions) for one in pairs.pairs] == [
        ("a x", tmp_path / "in/a/x.png", tmp_path / "in/a/x.xml"),
        ("x.png", tmp_path / "in/b/x.png", None),
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"image\na.png\n", "has no column 'regions'"),
        (b"image,regions\n,a.xml\n", "line 2, names no image"),
        (b"image,regions\n", "has no rows"),
        (b"\xff\xfe", "is not text in UTF-8"),
        (b'image,regions\n"a\n', "is not CSV"),
    ],
)
def test_a_bad_table_is_refused(tmp_path, content, message):
    table = tmp_path / "table.csv"
    table.write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_table(table)


@pytest.mark.parametrize("pattern", ["run [2024]/imgs/*.png", "run [2024]/imgs/cell [1]*.png"])
def test_brackets_in_a_folder_are_its_name(tmp_path, monkeypatch, pattern):
    """ilastik #2391, TomographicImaging/CIL #1207."""
    folder = tmp_path / "run [2024]"
    for name in ("imgs/cell [1].png", "masks/cell [1]_mask.png"):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).touch()
    monkeypatch.chdir(tmp_path)
    for regions in ("run [2024]/masks/{name}_mask.png", "run [2024]/masks/*_mask.png"):
        (one,) = pair(pattern, regions).pairs
        assert one.regions.name == "cell [1]_mask.png"
        assert one.folder == ""
    assert not pair("run [2024]/*/*.png", None).notes
