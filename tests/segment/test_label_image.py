"""Regions to label images, and boxes to regions."""

import numpy as np
import pytest
import tifffile

from napari_maskinversion.core.errors import InputError
from napari_maskinversion.core.regions import Region
from napari_maskinversion.images.reading import read_regions
from napari_maskinversion.segment import label_image
from napari_maskinversion.segment.label_image import paint, regions_of_boxes, write_labels
from napari_maskinversion.segment.prompts import BoxMark, Prompt, gather


def square(name, y, x, side):
    return Region(name, (y, x, y + side, x + side), np.ones((side, side), bool))


def test_smaller_regions_lie_over_larger_ones_whatever_their_order():
    labels = np.zeros((20, 20), np.uint16)
    assert paint(labels, [square(1, 2, 2, 3), square(2, 0, 0, 10)]) == []
    assert labels[3, 3] == 1
    assert labels[8, 8] == 2


def test_regions_that_cannot_be_seen_are_told():
    labels = np.zeros((20, 20), np.uint16)
    assert paint(labels, [square(1, 2, 2, 3), square(2, 2, 2, 3)]) == [1]


@pytest.mark.parametrize("limit", [64_000_000, 10], ids=["in memory", "through the disk"])
@pytest.mark.parametrize("name", [7, 70_000])
def test_a_label_tiff_is_read_back_as_regions(tmp_path, monkeypatch, limit, name):
    monkeypatch.setattr(label_image, "_IN_MEMORY", limit)
    path = tmp_path / "labels.tif"
    assert write_labels(path, [square(name, 2, 3, 4)], (20, 30)) == []
    assert tifffile.imread(path).shape == (20, 30)
    (found,) = read_regions(path, (20, 30))
    assert (found.id, found.bbox) == (name, (2, 3, 6, 7))


def test_boxes_are_regions_of_the_pixels_whose_centres_they_hold():
    boxes = [
        BoxMark(box=(1.5, 2.5, 5.5, 6.5), name="a"),
        BoxMark(box=(7.1, 7.1, 7.4, 7.4), name="a sliver"),
        BoxMark(box=(-9, -9, 2, 2), name="sticks out"),
    ]
    regions = regions_of_boxes(gather(boxes, [], (20, 30)))
    assert [region.bbox for region in regions] == [(2, 3, 6, 7), (7, 7, 8, 8), (0, 0, 3, 3)]
    assert all(region.mask.all() for region in regions)


def test_points_alone_are_no_regions_without_a_model():
    with pytest.raises(InputError, match="Object 4 has points but no box.*no SAM checkpoint"):
        regions_of_boxes([Prompt(id=4, positive=((1.0, 1.0),))])
