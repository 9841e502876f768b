"""COCO panoptic: JSON and the PNG that its segments number."""

import json

import numpy as np
import pytest
from PIL import Image

from napari_maskinversion.base.errors import InputError, MaskShapeError
from napari_maskinversion.base.regions import Regions
from napari_maskinversion.regions.annotations.annotation_reading import read_annotations
from tests.scenes import label_image

from .shapes import same

FIRST = 256 * 256 * 7 + 256 * 3 + 11
LABELS = label_image(2).astype(np.int64)
NUMBERS = np.where(LABELS == 1, FIRST, LABELS * 40)


def page(*more, **changes):
    segments = [
        {"id": FIRST, "category_id": 9, "iscrowd": 0, "bbox": [0, 0, 1, 1], "area": 1},
        {"id": 80, "category_id": 4, "iscrowd": 1, "bbox": [0, 0, 1, 1], "area": 1},
        *more,
    ]
    return {
        "images": [{"id": 5, "file_name": "a.jpg", "height": 60, "width": 80}],
        "annotations": [{"image_id": 5, "file_name": "a.png", "segments_info": segments}],
        "categories": [
            {"id": 4, "name": "grass", "isthing": 0},
            {"id": 6, "name": "key", "isthing": 1},
            {"id": 9, "name": "dog", "isthing": 1},
        ],
    } | changes


@pytest.fixture
def read(tmp_path):
    def read(content, numbers=NUMBERS, folder="theirs", shape=(60, 80)):
        (tmp_path / folder).mkdir(exist_ok=True)
        if numbers is not None:
            colours = np.stack([numbers >> shift & 255 for shift in (0, 8, 16)], -1)
            Image.fromarray(colours.astype(np.uint8)).save(tmp_path / folder / "a.png")
        (tmp_path / "theirs.json").write_text(json.dumps(content))
        return read_annotations(tmp_path / "theirs.json", shape, image="a.jpg")

    return read


@pytest.mark.parametrize("folder", ["theirs", "."])
def test_segments_are_regions_with_their_names_and_ids(read, folder):
    result = read(page(), folder=folder)
    assert [(item.label, item.source_id) for item in result.items] == [
        ("dog", str(FIRST)),
        ("grass", "80"),
    ]
    expected = {region.id: region for region in Regions.from_labels(NUMBERS)}
    for item in result.items:
        same(item.region, expected[item.region.id])
    assert result.labels == ("grass", "key", "dog")
    assert "segment 2 is a crowd" in result.notes_text


def test_colours_that_no_segment_lists_are_left_out_with_a_note(read):
    numbers = NUMBERS.copy()
    numbers[0, 0] = 5
    assert (
        "does not list 1 of the colours of its picture; left out"
        in read(page(), numbers).notes_text
    )


def test_segments_without_a_pixel_are_left_out_with_a_note(read):
    loose = ({"id": 77, "category_id": 4}, {"id": 80, "category_id": 4}, {"category_id": 4}, "x")
    result = read(page(*loose))
    assert [item.region.id for item in result.items] == [FIRST, 80]
    assert "segment 3 (77) has no pixel in its picture; left out." in result.notes_text


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (page(annotations=[{"image_id": 5, "segments_info": []}]), "needs the picture None"),
        (
            page(annotations=[{"image_id": 1, "file_name": "a.png", "segments_info": []}]),
            "contains no region",
        ),
    ],
)
def test_what_is_broken_is_refused_by_file_and_record(read, content, reason):
    with pytest.raises(InputError, match=f"theirs.json.*{reason}"):
        read(content)


def test_a_picture_that_is_missing_or_of_another_size_is_refused_by_name(read, tmp_path):
    with pytest.raises(InputError, match="needs the picture a.png; put it at .*theirs.a.png"):
        read(page(), None)
    with pytest.raises(MaskShapeError, match="a.png is about an image of 30 x 80 px"):
        read(page(), NUMBERS[:30])
    Image.fromarray(np.zeros((60, 80), np.uint8)).save(tmp_path / "theirs" / "a.png")
    with pytest.raises(InputError, match="a.png is not a picture of colours"):
        read(page(), None)
