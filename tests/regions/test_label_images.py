"""Label images block by block, plane by plane: the same regions, whatever the numbers."""

import weakref

import dask.array as da
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from napari_maskinversion.base.errors import EmptyMaskError, InputError
from napari_maskinversion.base.regions import Regions
from napari_maskinversion.regions.label_images import regions_by_plane, regions_of_labels

KINDS = [np.uint8, np.int8, np.uint16, np.int32, np.int64, np.uint64]


@st.composite
def label_images(draw):
    """Labels with values as users have them, and chunks."""
    kind = draw(st.sampled_from(KINDS))
    info = np.iinfo(kind)
    usual = [1, 2, 200, 65_537, 3_000_000, 2**31 - 1, info.max, info.max - 1]
    known = [value for value in usual if value <= min(info.max, 2**31 - 1)]
    values = [0, *draw(st.lists(st.sampled_from(known)))]
    shape = draw(st.tuples(st.integers(1, 12), st.integers(1, 12)))
    flat = draw(st.lists(st.sampled_from(values), min_size=shape[0] * shape[1],
                         max_size=shape[0] * shape[1]))  # fmt: skip
    chunks = draw(st.integers(1, shape[0])), draw(st.integers(1, shape[1]))
    return np.array(flat, dtype=kind).reshape(shape), chunks


@given(label_images(), st.sampled_from(["numpy", "dask", "zarr"]))
@settings(deadline=None, max_examples=60)
def test_labels_are_the_same_in_blocks_and_at_once(drawn, kind):
    labels, chunks = drawn
    lazy = {
        "numpy": lambda: labels,
        "dask": lambda: da.from_array(labels, chunks=chunks),
        "zarr": lambda: zarr.array(labels, chunks=chunks),
    }[kind]()
    regions = regions_of_labels(lazy)
    assert regions.ids == [int(value) for value in np.unique(labels) if value]
    for index, region in enumerate(regions):
        np.testing.assert_array_equal(
            regions.full_mask(index), labels == labels.dtype.type(region.id)
        )
    at_once = Regions.from_labels(labels)
    assert [region.bbox for region in at_once] == [region.bbox for region in regions]


def test_a_region_over_many_blocks_is_one(monkeypatch):
    monkeypatch.setattr("napari_maskinversion.base.label_blocks.BLOCK", 64)
    labels = np.zeros((70, 90), np.int32)
    labels[5:66, 3:80] = 12
    labels[30:40, 30:40] = 3
    regions = regions_of_labels(da.from_array(labels, chunks=(8, 8)))
    assert regions.ids == [3, 12]
    np.testing.assert_array_equal(regions.full_mask(1), labels == 12)


def test_the_order_of_bytes_does_not_count():
    labels = np.zeros((4, 5), ">i4")
    labels[1, 2:], labels[3] = 5_000_000, 7  # too far apart for a table
    assert regions_of_labels(labels).ids == [7, 5_000_000]
    assert Regions.from_labels(labels).ids == [7, 5_000_000]


def test_only_chosen_labels_are_cropped():
    labels = np.arange(12, dtype=np.int64).reshape(3, 4)
    assert regions_of_labels(labels, only={3, 7, 99}).ids == [3, 7]


def test_what_is_not_a_whole_number_is_refused():
    labels = np.zeros((4, 4))
    labels[1, 1] = 0.5
    with pytest.raises(InputError, match="whole numbers"):
        regions_of_labels(labels)


def test_whole_numbers_stored_as_floats_are_labels():
    labels = np.zeros((4, 4), np.float32)
    labels[1, 1:3], labels[3] = 7, np.nan  # which is no value
    assert regions_of_labels(labels).ids == [7]


def stack():
    """Four planes; 5 is largest on plane 2, 8 as large on 1 and 3, 9 on plane 3 alone."""
    labels = np.zeros((4, 10, 12), np.int32)
    labels[0, 0, 0:2] = labels[2, 0:3, 0:3] = labels[3, 0, 0] = 5
    labels[1, 5:7, 5:7] = labels[3, 5:7, 8:10] = 8
    labels[3, 9, 9:11] = 9
    return labels


def seen(planes):
    return {plane.position: plane.regions.ids for plane in planes}


@pytest.mark.parametrize("make", [np.asarray, lambda a: da.from_array(a, chunks=(2, 4, 5))])
def test_each_label_is_taken_where_it_is_largest_or_everywhere(make):
    labels = make(stack())
    names = ("z", "y", "x")
    largest = regions_by_plane(labels, names=names, mode="largest")
    assert seen(largest) == {(("z", 1),): [8], (("z", 2),): [5], (("z", 3),): [9]}
    np.testing.assert_array_equal(largest[1].regions.full_mask(0), stack()[2] == 5)
    each = regions_by_plane(labels, names=names, mode="each")
    assert seen(each) == {
        (("z", 0),): [5],
        (("z", 1),): [8],
        (("z", 2),): [5],
        (("z", 3),): [5, 8, 9],
    }
    chosen = regions_by_plane(labels, names=names, mode="each", only={9, 8})
    assert seen(chosen) == {(("z", 1),): [8], (("z", 3),): [8, 9]}


def test_planes_lie_along_any_axes():
    labels = np.zeros((10, 2, 12, 3), np.uint8)  # x, t, y, z
    labels[4:6, 1, 7, 2] = 3
    for array in (labels, da.from_array(labels, chunks=(3, 1, 5, 2))):
        (plane,) = regions_by_plane(array, names=("x", "t", "y", "z"), axes=(2, 0))
        assert plane.position == (("t", 1), ("z", 2))
        assert plane.regions.shape == (12, 10)
        assert plane.regions[0].bbox == (7, 4, 8, 6)


class Watched:
    """A lazy label stack that knows how many of the planes it gave are still held."""

    shape, dtype, chunks = (30, 64, 64), np.dtype(np.int32), (1, 64, 64)

    def __init__(self):
        self.planes, self.most = [], 0

    def __getitem__(self, key):
        plane = np.full(self.shape, 0, np.int32)[key].copy()
        plane[3:9, 3:9] = 1 + key[0]
        self.planes.append(weakref.ref(plane))
        self.most = max(self.most, sum(ref() is not None for ref in self.planes))
        return plane


@pytest.mark.parametrize("mode", ["largest", "each"])
def test_a_long_stack_is_not_kept_in_memory(mode):
    labels = Watched()
    assert len(regions_by_plane(labels, names=("z", "y", "x"), mode=mode)) == 30
    assert labels.most <= 4


@pytest.mark.parametrize(
    ("labels", "arguments", "error", "says"),
    [
        (stack() * 0, {}, EmptyMaskError, "every pixel is 0"),
        (stack(), {"only": {77}}, EmptyMaskError, "chosen"),
    ],
)
def test_planes_without_regions_say_why(labels, arguments, error, says):
    with pytest.raises(error, match=says):
        regions_by_plane(labels, names=("z", "y", "x"), **arguments)


@pytest.mark.parametrize(
    "value", [-1, 2**31, 2**63, 2**64 - 1, float(2**31), 1e300, float("inf"), -float("inf")]
)
def test_labels_that_other_programs_cannot_store_are_refused(value):
    labels = np.zeros((4, 4), np.asarray(value).dtype)
    labels[1, 1:3] = value, 1
    with pytest.raises(InputError, match=r"Labels are numbers from 1 to 2147483647.*contains"):
        regions_of_labels(labels)
