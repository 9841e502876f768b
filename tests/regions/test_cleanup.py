"""Cleaning masks: erosion, dilation, holes, the largest piece."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage

from napari_maskinversion.base.errors import ConfigError
from napari_maskinversion.base.regions import Region
from napari_maskinversion.regions.cleanup import CleanUp, clean_region

SHAPE = (40, 50)


def region_of(mask):
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    box = (int(rows[0]), int(columns[0]), int(rows[-1]) + 1, int(columns[-1]) + 1)
    return Region(3, box, mask[box[0] : box[2], box[1] : box[3]].copy(), (3, 4))


def cleaned(mask, **how):
    region = clean_region(region_of(mask), SHAPE, CleanUp(**how))
    out = np.zeros(SHAPE, bool)
    if region is not None:
        y0, x0, y1, x1 = region.bbox
        assert (region.id, region.members) == (3, (3, 4))
        assert region.mask.any(0)[[0, -1]].all()
        out[y0:y1, x0:x1] = region.mask
    return out


def disk(radius):
    y, x = np.mgrid[-radius : radius + 1, -radius : radius + 1]
    return y**2 + x**2 <= radius**2


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 4))
def test_eroding_and_dilating_are_those_by_a_disk(seed, radius):
    noise = np.random.default_rng(seed).normal(size=SHAPE)
    mask = ndimage.gaussian_filter(noise, 3) > 0
    # What lies beyond the edge counts as part of a region that reaches it, as in OpenCV.
    expected = ndimage.binary_erosion(mask, disk(radius), border_value=1)
    np.testing.assert_array_equal(cleaned(mask, erode=radius), expected)
    np.testing.assert_array_equal(
        cleaned(mask, dilate=radius), ndimage.binary_dilation(mask, disk(radius))
    )


def test_both_remove_bridges_and_specks():
    mask = np.zeros(SHAPE, bool)
    mask[5:15, 5:15] = mask[5:15, 20:30] = mask[9, 15:20] = mask[30, 30] = True
    out = cleaned(mask, erode=1, dilate=1)
    assert ndimage.label(out)[1] == 2
    assert not out[30, 30]
    assert out[10, 10]


def test_holes_are_filled_and_bays_are_not():
    mask = np.zeros(SHAPE, bool)
    mask[5:20, 5:20] = True
    mask[8:10, 8:10] = False
    mask[5:12, 14] = False
    out = cleaned(mask, fill_holes=True)
    assert out[8:10, 8:10].all()
    assert not out[5:12, 14].any()


def test_the_largest_piece_is_kept():
    mask = np.zeros(SHAPE, bool)
    mask[2:5, 2:5] = mask[10:20, 10:20] = True
    out = cleaned(mask, keep_largest=True)
    assert out.sum() == 100
    assert out[15, 15]


def test_nothing_may_be_left_and_nothing_may_be_done():
    mask = np.zeros(SHAPE, bool)
    mask[5:8, 5:8] = True
    assert clean_region(region_of(mask), SHAPE, CleanUp(erode=9)) is None
    region = region_of(mask)
    assert clean_region(region, SHAPE, CleanUp()) is region


def test_distances_that_cannot_work_are_refused():
    with pytest.raises(ConfigError, match="erode.*-1"):
        CleanUp(erode=-1)
    with pytest.raises(ConfigError, match="dilate"):
        CleanUp(dilate=float("nan"))
