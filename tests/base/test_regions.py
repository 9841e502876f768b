"""Regions: boxes and crops that lose nothing."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from napari_maskinversion.base.errors import EmptyMaskError, InputError, MaskShapeError
from napari_maskinversion.base.regions import Region, Regions, as_array

shapes = st.tuples(st.integers(1, 12), st.integers(1, 12))


@given(
    st.sampled_from([np.uint8, np.int16, np.int32, np.uint32, np.int64]).flatmap(
        lambda kind: arrays.arrays(
            kind,
            shapes,
            elements=st.sampled_from([0, 0, 1, 2, 7, min(2**31 - 1, np.iinfo(kind).max)]),
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


MASK = np.zeros((4, 5), bool)
MASK[1:3, 2:] = True


class OnDevice:
    """A tensor on a device as NumPy sees it: it has to come to the CPU first."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __array__(self, *_):
        raise TypeError("can't convert device type tensor to numpy; use Tensor.cpu()")

    def detach(self):
        return self

    def cpu(self):
        return self.tensor


@pytest.mark.parametrize(
    "masks",
    [
        MASK,
        MASK[None],
        [MASK],
        MASK.astype(np.uint8),
        MASK.astype(np.uint8) * 255,
        MASK.astype(np.float64) * 255,
        MASK[None].astype(np.int32) * 255,
        torch.from_numpy(MASK),
        torch.from_numpy(MASK).float().requires_grad_(),
        torch.from_numpy(MASK).to(torch.bfloat16)[None],
        [torch.from_numpy(MASK).byte() * 255],
        OnDevice(torch.from_numpy(MASK)),
        [OnDevice(torch.from_numpy(MASK))],
    ],
)
def test_one_mask_is_taken_in_any_usual_form(masks):
    regions = Regions.from_masks(masks)
    assert (regions.ids, regions.shape) == ([0], (4, 5))
    np.testing.assert_array_equal(regions.full_mask(0), MASK)


def test_a_label_image_may_be_a_tensor():
    regions = Regions.from_labels(torch.from_numpy(MASK).long() * 7)
    assert regions.ids == [7]
    assert Regions.from_labels(OnDevice(torch.from_numpy(MASK).long())).ids == [1]


@pytest.mark.parametrize(
    ("masks", "error", "says"),
    [
        (MASK * 3, InputError, "Mask 0 must be .* 0 and 255; its values go from 0 to 3.*labels"),
        (MASK * 254.0, InputError, "from 0 to 254"),
        (np.stack([MASK, np.where(MASK, -1.0, 0.0)]), InputError, "Mask 1 .* from -1 to 0"),
        (MASK * 1j, InputError, "complex"),
        (MASK[0], MaskShapeError, r"\(5,\)"),
        ([MASK, MASK[:2]], MaskShapeError, "one size"),
        ("mask.png", InputError, r"got 'mask.png'.*read_regions\(path\)"),
        (
            Path("mask.png"),
            InputError,
            r"got 'mask.png'.*read_image\(path\); of regions, read_regions",
        ),
    ],
)
def test_values_that_are_no_mask_are_refused(masks, error, says):
    with pytest.raises(error, match=says):
        Regions.from_masks(masks)


def test_a_ragged_image_is_refused_as_an_image_not_as_masks():
    ragged = [[0.1, 0.2], [0.3]]
    with pytest.raises(InputError, match=r"^Rows of an image must have one size"):
        as_array(ragged)
    with pytest.raises(InputError, match=r"^Rows of a label image must have one size"):
        Regions.from_labels(ragged)
    with pytest.raises(InputError, match=r"^Masks must have one size"):
        Regions.from_masks(ragged)


def test_regions_print_in_one_line_without_pixels():
    regions = Regions.from_masks(np.ones((3, 4, 5), bool))
    assert repr(regions) == "<Regions: 3 on a plane of 4 x 5 px>"
    assert repr(regions[0]) == "Region(id=0, bbox=(0, 0, 4, 5), members=())"


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


def three_squares():
    labels = np.zeros((20, 30), np.int32)
    labels[2:5, 3:6], labels[10:14, 20:25], labels[15:18, 1:4] = 4, 7, 9
    return labels, Regions.from_labels(labels)


def test_only_keeps_the_plane_and_its_order():
    labels, regions = three_squares()
    few = regions.only(iter([9, 4]))
    assert few.ids == [4, 9]
    assert few.shape == (20, 30)
    np.testing.assert_array_equal(few.full_mask(1), labels == 9)


def test_merged_regions_are_the_union_where_the_first_member_stood():
    labels, regions = three_squares()
    merged = regions.merged([[7, 4]])
    assert merged.ids == [7, 9]
    assert merged[0].members == (7, 4)
    assert merged[1].members == ()
    np.testing.assert_array_equal(merged.full_mask(0), np.isin(labels, (4, 7)))
    np.testing.assert_array_equal(merged.full_mask(1), labels == 9)


def test_merging_overlapping_soft_masks_takes_the_larger_coverage():
    stack = np.zeros((2, 6, 6), np.float32)
    stack[0, 1:4, 1:4], stack[1, 2:5, 2:5] = 0.25, 0.75
    merged = Regions.from_masks(stack).merged([[0, 1]])
    np.testing.assert_array_equal(merged.full_mask(0), stack.max(0))


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda regions: regions.only([4, 5]), "no region 5 on this plane; it has 4, 7, 9"),
        (lambda regions: regions.merged([[4, 6]]), "no region 6"),
        (lambda regions: regions.merged([[4, 4]]), "two ids or more; got 4"),
        (lambda regions: regions.merged([[4, 7], [7, 9]]), "Region 7 is in two"),
    ],
)
def test_choosing_what_is_not_there_names_it(ask, says):
    with pytest.raises(InputError, match=says):
        ask(three_squares()[1])


def test_the_centroid_is_the_centre_of_coverage():
    mask = np.zeros((1, 9, 9), np.float32)
    mask[0, 2, 3], mask[0, 4, 7] = 1, 0.5
    y, x = Regions.from_masks(mask)[0].centroid
    assert (y, x) == pytest.approx(((2 + 0.5 * 4) / 1.5, (3 + 0.5 * 7) / 1.5))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Regions.from_masks(torch.zeros(6, 8, device="meta")), "Masks cannot be read"),
        (lambda: Regions.from_masks(torch.ones(6, 8).to_sparse()), "cannot be read .* a dense"),
        (lambda: Regions.from_labels(np.full((6, 8), "a")), "must be numbers; got type <U1"),
        (
            lambda: Regions.from_labels(np.ma.masked_equal(np.ones((6, 8), int), 1)),
            "has masked values; fill them first",
        ),
        (lambda: Regions.from_masks(np.ones((2, 6, 8)), ids=[3, 3]), "different numbers"),
        (lambda: Regions.from_masks(np.ones((1, 6, 8)), ids=[2**31]), "from 0 to 2147483647"),
    ],
)
def test_what_would_be_read_as_other_regions_is_refused(make, says):
    with pytest.raises(InputError, match=says):
        make()
