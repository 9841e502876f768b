"""Pascal VOC's boxes, and CVAT's XML for images."""

import numpy as np
import pytest

from napari_maskinversion.base.errors import InputError, ManyImagesError, MaskShapeError

from .files import POLYGON, box, cvat, voc
from .shapes import full

SHAPE = (20, 30)


def test_boxes_of_voc_count_from_one_and_hold_their_last_pixel(read):
    result = read(voc(box("Hund 犬", 1, 1, 20, 10), box("cat", 3, 4, 3, 4)))
    assert [item.region.bbox for item in result.items] == [(0, 0, 10, 20), (3, 2, 4, 3)]
    assert [item.label for item in result.items] == ["Hund 犬", "cat"]
    assert [item.region.id for item in result.items] == [1, 2]
    assert not result.notes


def test_a_box_of_voc_may_be_drawn_from_its_lower_corner(read):
    (item,) = read(voc(box("dog", 9, 12, 2, 5))).items
    assert item.region.bbox == (4, 1, 12, 9)


def test_boxes_of_voc_count_from_zero_if_one_begins_there(read):
    result = read(voc(box("dog", 0, 5, 9, 9), box("cat", 3, 4, 6, 8)))
    assert [item.region.bbox for item in result.items] == [(5, 0, 9, 9), (4, 3, 8, 6)]
    assert "all boxes were read as counted from 0" in result.notes_text


def test_the_file_says_how_large_its_image_is(read):
    for page in (voc(box("dog", 2, 2, 5, 5)), cvat(POLYGON)):
        assert read(page, shape=None).shape == SHAPE
        with pytest.raises(MaskShapeError, match="20 x 30 px; this one is 30 x 20 px"):
            read(page, shape=(30, 20))
    result = read(cvat(POLYGON, size='width="wide" height="20"'), shape=None)
    assert "has no image size; 9 x 8 px contain all regions" in result.notes_text


def test_a_second_box_of_an_object_is_said(read):
    more = "<bndbox><xmin>9</xmin><ymin>9</ymin><xmax>12</xmax><ymax>10</ymax></bndbox>"
    result = read(voc(box("dog", 2, 2, 5, 5), box("cat", 3, 4, 3, 4).replace("</o", f"{more}</o")))
    assert [item.region.bbox for item in result.items] == [(1, 1, 5, 5), (3, 2, 4, 3)]
    assert len(result.notes) == 1
    assert "object 2 (cat) has more than one box" in result.notes[0]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("<annotation><object>", "broken XML: .* line 1"),
        ("<svg></svg>", "a root 'svg'"),
        (voc(), "contains no region"),
        (
            '<!DOCTYPE a [<!ENTITY b "b"><!ENTITY c "&b;&b;">]><annotation>&c;</annotation>',
            "broken XML: Entit.*without entities",
        ),
        *(
            (f'<?xml version="1.0" encoding="{name}"?>{voc(box("dog", 1, 1, 3, 4))}', "as UTF-8")
            for name in ("foo-bar", "big5", "utf-7")
        ),
    ],
)
def test_what_is_broken_is_refused_by_file_and_record(read, text, reason):
    with pytest.raises(InputError, match=f"theirs.xml.*{reason}"):
        read(text)


def test_every_kind_of_area_is_a_region_with_its_label(read):
    result = read(
        cvat(
            POLYGON.format('<attribute name="age">3</attribute>'),
            '<box label="tree" xtl="20" ytl="10" xbr="25" ybr="12"/>',
            '<ellipse label="dog" cx="15" cy="10" rx="5" ry="4"/>',
            '<mask label="dog" rle="1, 2, 1, 2" left="4" top="12" width="3" height="2"/>',
        )
    )
    square, box, disc, cut = (full(item.region, SHAPE) for item in result.items)
    assert (square[3:9, 2:8].all(), square.sum()) == (True, 36)
    assert (box[10:12, 20:25].all(), box.sum()) == (True, 10)
    y, x = np.mgrid[:20, :30] + 0.5
    np.testing.assert_array_equal(disc, ((x - 15) / 5) ** 2 + ((y - 10) / 4) ** 2 < 1)
    assert cut[12:14, 4:7].astype(int).tolist() == [[0, 1, 1], [0, 1, 1]]
    assert [item.label for item in result.items] == ["dog", "tree", "dog", "dog"]
    assert result.items[0].values == {"age": "3"}
    assert not result.notes


def test_labels_are_those_of_the_task_with_their_colours(read):
    assert read(cvat(POLYGON)).vocabulary == {"tree": "#aa00bb", "dog": "#00ff00"}


def test_a_turned_box_is_turned_about_its_centre(read):
    (item,) = read(
        cvat('<box label="dog" xtl="10" ytl="9" xbr="20" ybr="11" rotation="90"/>')
    ).items
    assert (item.region.bbox, item.region.area) == ((5, 14, 15, 16), 20)


def test_of_several_images_the_one_of_that_name_is_read(read):
    other = '<image id="1" name="sub/b.png" width="30" height="20"><tag label="x"/></image>'
    both = cvat(POLYGON).replace("</annotations>", f"{other}</annotations>")
    assert len(read(both).items) == 1
    with pytest.raises(InputError, match="contains no region"):
        read(both, image="b.png")
    with pytest.raises(ManyImagesError, match=r"about 2 images \(a.png, sub/b.png\)"):
        read(both, image="c.png")


def test_a_file_of_cvat_without_images_and_tracks_says_so(read):
    with pytest.raises(InputError, match="is of CVAT, and has neither images nor tracks"):
        read("<annotations><version>1.1</version></annotations>")
