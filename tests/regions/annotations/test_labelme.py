"""labelme's JSON, built to its format."""

import base64
import io
import json

import numpy as np
import pytest
from PIL import Image

from napari_maskinversion.base.errors import EmptyMaskError, InputError, MaskShapeError
from napari_maskinversion.regions.annotations.reading import read_annotations

from .shapes import full

SHAPE = (20, 30)
SQUARE = [[2.0, 3.0], [8.0, 3.0], [8.0, 9.0], [2.0, 9.0]]


def shape(points=SQUARE, kind="polygon", label="dog", **more):
    return {
        "label": label,
        "points": points,
        "group_id": None,
        "shape_type": kind,
        "flags": {},
        **more,
    }


def page(*shapes, **more):
    return {
        "version": "5.5.0",
        "flags": {},
        "shapes": list(shapes),
        "imagePath": "..\\a.jpg",
        "imageData": None,
        "imageHeight": 20,
        "imageWidth": 30,
        **more,
    }


def mask(pixels, x, y, label="cat"):
    file = io.BytesIO()
    Image.fromarray(np.asarray(pixels, np.uint8) * 255).save(file, "PNG")
    high, wide = np.shape(pixels)
    text = base64.b64encode(file.getvalue()).decode()
    return shape([[x, y], [x + wide - 1, y + high - 1]], "mask", label, mask=text)


@pytest.fixture
def read(tmp_path):
    def read(content, size=SHAPE, image="a.jpg"):
        path = tmp_path / "theirs.json"
        path.write_text(json.dumps(content))
        return read_annotations(path, size, image=image)

    return read


def test_every_kind_of_area_is_a_region_with_its_label(read):
    ring = np.array([[1, 1, 1], [1, 0, 1], [1, 1, 1]])
    result = read(
        page(
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
        for item in read(page(shape(upright, kind), shape(turned, kind))).items
    )
    assert (box[10:12, 20:25].all(), box.sum()) == (True, 10)
    assert (diamond[5:7, 14:16].all(), diamond[2:4, 11:13].any()) == (True, False)
    assert diamond.sum() == 32


def test_shapes_of_one_group_and_label_are_one_region(read):
    far = [[20, 10], [24, 10], [24, 12], [20, 12]]
    result = read(page(shape(group_id=1), shape(far, group_id=1), shape(label="cat", group_id=1)))
    assert [(item.label, item.region.area) for item in result.items] == [("dog", 44), ("cat", 36)]


def test_points_and_lines_are_left_out_by_record(read):
    result = read(page(shape([[1, 1], [5, 5]], "line", "wire"), shape()))
    assert [item.label for item in result.items] == ["dog"]
    assert "theirs.json, shape 1 (wire) is a line and was left out" in result.notes_text


def test_the_file_says_how_large_its_image_is_and_what_it_is_called(read):
    assert read(page(shape()), size=None).shape == SHAPE
    with pytest.raises(MaskShapeError, match="20 x 30 px; this one is 30 x 20 px"):
        read(page(shape()), size=(30, 20))
    assert read(page(shape(), imageHeight=None, imageWidth=None)).shape == SHAPE
    assert "says it is about" in read(page(shape()), image="b.jpg").notes_text
    assert read(page(shape(), imageHeight=None, imageWidth=None), size=None).shape == (9, 8)


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (5, "shape 1 is not an object"),
        (shape([[1, 1], [2, 2]]), r"shape 1 \(dog\) is broken: its outline has 2 corners"),
        (shape([[1, "a"], [2, 2], [3, 3]]), "are not pairs of coordinates"),
        (shape([[1, float("nan")], [2, 2], [3, 3]]), "are not pairs of coordinates"),
        (shape("here"), "are not pairs of coordinates"),
        (
            shape([[1, 1]], "rectangle"),
            "it has 1 points, and a rectangle has 2 or 4 corners; save it as a",
        ),
        (shape([[5, 5], [5, 5]], "rectangle"), r"shape 1 \(dog\) is broken: it has no area"),
        (shape(kind="blob"), "its shape_type is 'blob'; save it as a polygon"),
        (shape(label=["dog"]), "its label is a list"),
        (shape(group_id={}), "its group is an object"),
        (shape([[1, 1], [1, 1], [1, 1]]), "covers no pixel"),
        (mask(np.ones((2, 2)), 1, 1) | {"mask": "AAAA"}, "not a PNG in base64"),
        (mask(np.ones((2, 2)), 1, 1) | {"mask": "ä"}, "not a PNG in base64"),
        (mask(np.ones((2, 2)), 1, 1) | {"points": [[1, 1], [9, 9]]}, "its mask has"),
    ],
)
def test_what_is_broken_is_refused_by_file_and_record(read, record, reason):
    with pytest.raises(InputError, match=f"theirs.json, shape 1.*{reason}|theirs.json, {reason}"):
        read(page(record))


def test_a_shape_outside_the_image_is_refused_by_record(read):
    with pytest.raises(EmptyMaskError, match=r"shape 2 \(far\) covers no pixel"):
        read(page(shape(), shape(np.add(SQUARE, 90).tolist(), label="far")))
    with pytest.raises(InputError, match="contains no region"):
        read(page())
