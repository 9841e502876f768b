"""Regions: boxes and crops that lose nothing."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from napari_maskinversion.core.errors import EmptyMaskError, InputError, MaskShapeError
from napari_maskinversion.core.regions import Region, Regions

shapes = st.tuples(st.integers(1, 12), st.integers(1, 12))


@given(
    st.sampled_from([np.uint8, np.int16, np.int32, np.uint32, np.int64]).flatmap(
        lambda kind: arrays.arrays(
            kind,
            shapes,
            elements=st.sampled_from([0, 0, 1, 2, 7, int(np.iinfo(kind).max)]),
        )
    )
)
@settings(deadline=None)
def test_labels_come_back_pixel_for_pixel(labels):
    regions = Regions.from_labels(labels)
    assert regions.ids == [int(value) for value in np.unique(labels) if value != 0]
    for index, region in enumerate(regions):
        np.testing.assert_array_equal(regions.full_mask(index), labels == region.id)
        assert region.area == (labels == region.id).sum()


def test_a_bool_image_is_one_region():
    labels = np.zeros((4, 5), bool)
    labels[1:3, 2:] = True
    regions = Regions.from_labels(labels)
    assert regions.ids == [1]
    np.testing.assert_array_equal(regions.full_mask(0), labels)


@given(arrays.arrays(bool, st.tuples(st.integers(1, 4), st.integers(1, 9), st.integers(1, 9))))
@settings(deadline=None)
def test_masks_come_back_pixel_for_pixel_even_where_they_overlap(stack):
    if not stack.any((1, 2)).all():
        with pytest.raises(EmptyMaskError, match=f"Mask {int((~stack.any((1, 2))).argmax())} "):
            Regions.from_masks(stack)
        return
    regions = Regions.from_masks(stack)
    assert len(regions) == len(stack)
    for index, mask in enumerate(stack):
        np.testing.assert_array_equal(regions.full_mask(index), mask)


def test_soft_masks_keep_their_coverage():
    stack = np.zeros((1, 4, 4), np.float32)
    stack[0, 1, 2] = 0.25
    assert Regions.from_masks(stack)[0].area == 0.25


def test_a_slice_is_regions_of_the_same_plane():
    regions = Regions.from_masks(np.ones((3, 4, 5), bool), ids=[7, 8, 9])
    assert regions[1:].ids == [8, 9]
    assert regions[1:].shape == (4, 5)


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: Regions.from_labels(np.zeros((2, 3, 4), int)), InputError, "2-D"),
        (lambda: Regions.from_labels(np.zeros((3, 4))), InputError, "float64"),
        (lambda: Regions.from_masks(np.ones((2, 3, 4), bool), ids=[1]), MaskShapeError, "1 ids"),
        (
            lambda: Regions((4, 4), [Region(5, (0, 0, 5, 4), np.ones((5, 4), bool))]),
            MaskShapeError,
            "Region 5",
        ),
        (
            lambda: Regions((4, 4), [Region(6, (0, 0, 2, 2), np.zeros((2, 2), bool))]),
            EmptyMaskError,
            "Region 6",
        ),
    ],
)
def test_what_is_no_region_is_refused_by_name(make, error, says):
    with pytest.raises(error, match=says):
        make()
