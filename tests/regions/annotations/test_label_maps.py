"""Regions to label images, and boxes to regions."""

import numpy as np
import pytest
import tifffile

from napari_maskinversion.base.errors import InputError
from napari_maskinversion.base.regions import Region
from napari_maskinversion.regions.annotations.label_maps import draw_labels, write_labels
from napari_maskinversion.regions.region_reading import read_regions
from napari_maskinversion.regions.sam.prompts import BoxMark, Prompt, gather, regions_of_boxes
from tests.disk import full_after


def square(name, y, x, side):
    return Region(name, (y, x, y + side, x + side), np.ones((side, side), bool))


def test_smaller_regions_lie_over_larger_ones_whatever_their_order():
    labels, hidden = draw_labels([square(1, 2, 2, 3), square(2, 0, 0, 10)], (20, 20))
    assert hidden == []
    assert labels[3, 3] == 1
    assert labels[8, 8] == 2


def test_regions_that_cannot_be_seen_are_told():
    assert draw_labels([square(1, 2, 2, 3), square(2, 2, 2, 3)], (20, 20))[1] == [1]


@pytest.mark.parametrize("name", [7, 70_000])
def test_a_label_tiff_is_read_back_as_regions(tmp_path, name):
    path = tmp_path / "labels.tif"
    assert write_labels(path, [square(name, 2, 3, 4)], (20, 30)) == []
    assert tifffile.imread(path).shape == (20, 30)
    (region,) = read_regions(path, (20, 30))
    assert (region.id, region.bbox) == (name, (2, 3, 6, 7))


def test_a_label_tiff_is_painted_as_layers_are_and_tells_what_is_hidden(tmp_path):
    regions = [square(1, 2, 2, 3), square(2, 0, 0, 10), square(3, 500, 505, 30), square(4, 2, 2, 3)]
    hidden = write_labels(tmp_path / "labels.tif", regions, (700, 800))
    expected, covered = draw_labels(regions, (700, 800))
    assert covered == hidden == [1]
    np.testing.assert_array_equal(tifffile.imread(tmp_path / "labels.tif"), expected)


def test_no_more_than_a_tile_of_a_large_plane_is_in_memory(tmp_path, monkeypatch):
    sizes, real = [], np.zeros
    monkeypatch.setattr(
        np, "zeros", lambda s, *a, **k: (sizes.append(np.prod(s)), real(s, *a, **k))[1]
    )
    monkeypatch.setattr(tifffile, "memmap", lambda *_, **__: pytest.fail("a full disk would kill"))
    write_labels(tmp_path / "labels.tif", [square(1, 8_000, 8_000, 9)], (9_000, 9_000))
    assert max(sizes) <= 512 * 512


def test_a_disk_that_fills_leaves_the_file_that_was_there(tmp_path):
    path = tmp_path / "labels.tif"
    path.write_text("before")
    with full_after(200), pytest.raises(InputError, match="labels.tif could not be written"):
        write_labels(path, [square(7, 2, 3, 4)], (20, 30))
    assert [file.read_text() for file in tmp_path.iterdir()] == ["before"]


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
