"""labelme's JSON, built to its format."""

import base64
import io

import numpy as np
import pytest
from PIL import Image

from napari_maskinversion.base.errors import MaskShapeError

from .files import labelme, shape
from .shapes import full

SHAPE = (20, 30)


def mask(pixels, x, y, label="cat"):
    file = io.BytesIO()
    Image.fromarray(np.asarray(pixels, np.uint8) * 255).save(file, "PNG")
    high, wide = np.shape(pixels)
    text = base64.b64encode(file.getvalue()).decode()
    return shape([[x, y], [x + wide - 1, y + high - 1]], "mask", label, mask=text)


def test_every_kind_of_area_is_a_region_with_its_label(read):
    ring = np.array([[1, 1, 1], [1, 0, 1], [1, 1, 1]])
    result = read(
        labelme(
            shape(),
            shape([[25, 12], [20, 10]], "rectangle", "Haus"),
            shape([[15, 10], [15, 6]], "circle"),
            mask(ring, 4, 12),
        )
    )
    square, box, disc, cut = (full(item.region, SHAPE) for item in result.items)
    assert (square[3:9, 2:8].all(), square.sum()) == (True, 36)
    assert (box[10:12, 20:25].all(), box.sum()) == (True, 10)
    y, x = np.mgrid[:20, :30] + 0.5
    np.testing.assert_array_equal(disc, np.hypot(x - 15, y - 10) < 4)
    np.testing.assert_array_equal(cut[12:15, 4:7], ring == 1)
    assert [item.label for item in result.items] == ["dog", "Haus", "dog", "cat"]
    assert [item.region.id for item in result.items] == [1, 2, 3, 4]
    assert not result.notes


@pytest.mark.parametrize("kind", ["rectangle", "rotation"])
def test_rectangles_of_four_corners_are_read_also_turned_ones(read, kind):
    upright = [[20, 10], [25, 10], [25, 12], [20, 12]]
    turned = [[15, 2], [19, 6], [15, 10], [11, 6]]
    box, diamond = (
        full(item.region, SHAPE)
        for item in read(labelme(shape(upright, kind), shape(turned, kind))).items
    )
    assert (box[10:12, 20:25].all(), box.sum()) == (True, 10)
    assert (diamond[5:7, 14:16].all(), diamond[2:4, 11:13].any()) == (True, False)
    assert diamond.sum() == 32


def test_shapes_of_one_group_and_label_are_one_region(read):
    far = [[20, 10], [24, 10], [24, 12], [20, 12]]
    result = read(
        labelme(shape(group_id=1), shape(far, group_id=1), shape(label="cat", group_id=1))
    )
    assert [(item.label, item.region.area) for item in result.items] == [("dog", 44), ("cat", 36)]


def test_the_file_says_how_large_its_image_is_and_what_it_is_called(read):
    assert read(labelme(shape()), shape=None).shape == SHAPE
    with pytest.raises(MaskShapeError, match="20 x 30 px; this one is 30 x 20 px"):
        read(labelme(shape()), shape=(30, 20))
    assert read(labelme(shape(), imageHeight=None, imageWidth=None)).shape == SHAPE
    assert "says it is about" in read(labelme(shape()), image="b.png").notes_text
    assert read(labelme(shape(), imageHeight=None, imageWidth=None), shape=None).shape == (9, 8)


def test_flags_descriptions_and_groups_are_attributes(read):
    about = {"group_id": 4, "description": "old roof", "flags": {"sure": True, "cut": False}}
    (item,) = read(labelme(shape(**about, difficult=False, score=0.5))).items
    assert item.score == 0.5
    assert item.values == {
        "group_id": 4,
        "description": "old roof",
        "sure": True,
        "cut": False,
    }
    (item,) = read(labelme(shape(description=""))).items
    assert item.values == {}
