"""CVAT's XML for images, built to its specification."""

import numpy as np
import pytest

from napari_maskinversion.base.errors import (
    EmptyMaskError,
    InputError,
    ManyImagesError,
    MaskShapeError,
)
from napari_maskinversion.regions.annotations.reading import read_annotations

from .shapes import full

SHAPE = (20, 30)
META = """<meta><task><labels>
<label><name>tree</name><color>#AA00BB</color><attributes></attributes></label>
<label><name>dog</name><color>#00ff00</color><attributes></attributes></label>
<label><name>cat</name><color>#00ff00</color><type>skeleton</type></label>
<label><name>paw</name><color>#00ff00</color><parent>dog</parent></label>
</labels></task></meta>"""
SQUARE = '<polygon label="dog" points="2.00,3.00;8.00,3.00;8.00,9.00;2.00,9.00">{}</polygon>'


def page(*shapes, name="a.jpg", size='width="30" height="20"'):
    images = f'<image id="0" name="{name}" {size}>{"".join(shapes)}</image>'
    return f'<?xml version="1.0"?><annotations><version>1.1</version>{META}{images}</annotations>'


@pytest.fixture
def read(tmp_path):
    def read(text, shape=SHAPE, image="a.jpg"):
        path = tmp_path / "theirs.xml"
        path.write_text(text, "utf-8")
        return read_annotations(path, shape, image=image)

    return read


def test_every_kind_of_area_is_a_region_with_its_label(read):
    result = read(
        page(
            SQUARE.format('<attribute name="age">3</attribute>'),
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
    assert read(page(SQUARE)).vocabulary == {"tree": "#aa00bb", "dog": "#00ff00"}


def test_a_turned_box_is_turned_about_its_centre(read):
    (item,) = read(
        page('<box label="dog" xtl="10" ytl="9" xbr="20" ybr="11" rotation="90"/>')
    ).items
    assert (item.region.bbox, item.region.area) == ((5, 14, 15, 16), 20)


def test_of_several_images_the_one_of_that_name_is_read(read):
    other = '<image id="1" name="sub/b.jpg" width="30" height="20"><tag label="x"/></image>'
    both = page(SQUARE).replace("</annotations>", f"{other}</annotations>")
    assert len(read(both).items) == 1
    with pytest.raises(InputError, match="contains no region"):
        read(both, image="b.jpg")
    with pytest.raises(ManyImagesError, match=r"about 2 images \(a.jpg, sub/b.jpg\)"):
        read(both, image="c.jpg")


def test_lines_and_points_are_left_out_by_record(read):
    result = read(page('<polyline label="dog" points="1,1;5,5"/>', SQUARE))
    assert len(result.items) == 1
    says = "a.jpg, polyline 1 (dog) is a polyline and was left out; regions are areas."
    assert says in result.notes_text


def test_video_names_the_way_out(read):
    track = '<annotations><track id="0" label="car"><box frame="0"/></track></annotations>'
    with pytest.raises(InputError, match="XML for video; .* export .* as 'CVAT for images 1.1'"):
        read(track)


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        ('<polygon label="dog" points="1,1;2,2"/>', "its outline has 2 corners"),
        ('<polygon label="dog" points="1,1;2,x;3,3"/>', "not pairs of numbers"),
        ('<polygon label="dog" points="1,1;2;3,3"/>', "not pairs of numbers"),
        ('<polygon label="dog"/>', "not pairs of numbers"),
        ('<box label="dog" xtl="1" ytl="1" xbr="wide" ybr="3"/>', "its xbr is 'wide'"),
        ('<box label="dog" xtl="1" ytl="1" xbr="nan" ybr="3"/>', "its xbr is 'nan'"),
        ('<ellipse label="dog" cx="1" cy="1" rx="1"/>', "its ry is ''"),
        ('<mask label="dog" rle="1,2" left="1" top="1" width="2" height="2"/>', "add up to 3 px"),
        ('<mask label="dog" rle="a" left="1" top="1" width="2" height="2"/>', "is broken"),
        (
            '<mask label="dog" rle="1" left="1" top="1" width="99999999" height="9999"/>',
            "its box of 9999 x 99999999 px is too large",
        ),
        ('<blob label="dog"/>', "shapes of this kind are unknown"),
    ],
)
def test_what_is_broken_is_refused_by_file_and_record(read, shape, reason):
    tag = shape[1:].split()[0]
    with pytest.raises(InputError, match=rf"theirs.xml, a.jpg, {tag} 1 \(dog\).*{reason}"):
        read(page(shape))


def test_another_size_is_refused_and_none_is_that_of_the_regions(read):
    with pytest.raises(MaskShapeError, match="20 x 30 px; this one is 30 x 20 px"):
        read(page(SQUARE), shape=(30, 20))
    result = read(page(SQUARE, size='width="wide" height="20"'), shape=None)
    assert "has no image size; 9 x 8 px contain all regions" in result.notes_text
    with pytest.raises(EmptyMaskError, match=r"box 1 \(dog\) covers no pixel"):
        read(page('<box label="dog" xtl="50" ytl="1" xbr="60" ybr="3"/>'))
