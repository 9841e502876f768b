"""Planes read piece by piece: the same pixels, and no more tiles than needed."""

import dask.array as da
import numpy as np
import pytest
import tifffile
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from napari_maskinversion.base.errors import InputError
from napari_maskinversion.images.lazy_plane import LazyPlane
from napari_maskinversion.images.opening import open_image

KINDS = {
    "numpy": lambda array, chunks: array,
    "dask": lambda array, chunks: da.from_array(array, chunks=chunks),
    "zarr": lambda array, chunks: zarr.array(array, chunks=chunks),
}


@st.composite
def planes(draw):
    """An array, which plane of it, a box on that plane, and chunks that fit nothing."""
    count = draw(st.integers(2, 4))
    samples = draw(st.booleans())
    shape = tuple(draw(st.integers(1, 9)) for _ in range(count)) + ((3,) if samples else ())
    array = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    axes = tuple(draw(st.permutations(range(count)))[:2])
    index = [draw(st.integers(0, shape[axis] - 1)) for axis in range(count)]
    chunks = tuple(draw(st.integers(1, size)) for size in shape)
    rows = sorted(draw(st.tuples(*[st.integers(0, shape[axes[0]])] * 2)))
    columns = sorted(draw(st.tuples(*[st.integers(0, shape[axes[1]])] * 2)))
    return array, axes, index, samples, chunks, (rows[0], columns[0], rows[1], columns[1])


def taken_apart(array, axes, index):
    """The plane by the slow way: rows and columns first, then one index after the other."""
    others = [axis for axis in range(len(index)) if axis not in axes]
    turned = np.moveaxis(array, (*axes, *others), range(len(index)))
    for axis in others:
        turned = np.take(turned, index[axis], axis=2)
    return turned


@pytest.mark.parametrize("kind", KINDS)
@given(drawn=planes())
@settings(deadline=None, max_examples=40)
def test_a_box_is_the_part_of_the_plane_it_names(kind, drawn):
    array, axes, index, samples, chunks, box = drawn
    plane = LazyPlane([KINDS[kind](array, chunks)], axes=axes, index=index, samples=samples)
    expected = taken_apart(array, axes, index)
    assert plane.shape == expected.shape[:2]
    pixels = plane.read(0, box)
    assert pixels.dtype == array.dtype
    np.testing.assert_array_equal(pixels, expected[box[0] : box[2], box[1] : box[3]])
    # Again: now from what was kept.
    np.testing.assert_array_equal(plane.read(0, box), pixels)


@pytest.mark.parametrize("kind", KINDS)
def test_every_level_of_a_pyramid_is_read_on_the_same_plane(kind):
    fine = np.arange(6 * 40 * 31).reshape(6, 40, 31)
    coarse = fine[::2, ::4, ::4]  # fewer planes too, as some writers have it
    levels = [KINDS[kind](level, (1, 7, 8)) for level in (fine, coarse)]
    plane = LazyPlane(levels, index=(4, 0, 0))
    np.testing.assert_array_equal(plane.read(0, (3, 2, 30, 31)), fine[4, 3:30, 2:31])
    np.testing.assert_array_equal(plane.read(1, (1, 0, 10, 8)), coarse[2, 1:10])
    assert [level.step for level in plane.levels] == [(1, 1), (4, 31 / 8)]


@pytest.mark.parametrize(
    ("shape", "arguments", "says"),
    [
        ((0, 4), {}, "no pixels"),
        ((10**9, 80), {}, "declares 1000000000 x 80 px"),
    ],
)
def test_a_plane_that_is_not_there_is_refused(shape, arguments, says):
    with pytest.raises(InputError, match=says):
        LazyPlane([da.zeros(shape)], **arguments)


@pytest.fixture
def pyramid(tmp_path):
    """A tiled, compressed TIFF of two levels, and its pixels."""
    pixels = np.random.default_rng(0).integers(0, 255, (512, 640, 3), dtype=np.uint8)
    path = tmp_path / "pyramid.tif"
    options = {"tile": (64, 64), "compression": "zlib", "photometric": "rgb"}
    with tifffile.TiffWriter(path) as writer:
        writer.write(pixels, subifds=1, **options)
        writer.write(pixels[::2, ::2], subfiletype=1, **options)
    return path, pixels


@pytest.fixture
def tiles_read(monkeypatch):
    """Names of the tiles that were taken from TIFF files, in order."""
    from tifffile.zarr import ZarrTiffStore

    read, original = [], ZarrTiffStore.get

    async def get(self, key, *args, **kwargs):
        if key[-1].isdigit():
            read.append(key)
        return await original(self, key, *args, **kwargs)

    monkeypatch.setattr(ZarrTiffStore, "get", get)
    return read


def test_a_tiled_pyramid_gives_the_pixels_of_each_level(pyramid):
    path, pixels = pyramid
    source = open_image(path).source()
    assert [level.shape for level in source.levels] == [(512, 640), (256, 320)]
    np.testing.assert_array_equal(source.read(0, (60, 100, 300, 513)), pixels[60:300, 100:513])
    np.testing.assert_array_equal(source.read(1, (3, 5, 256, 320)), pixels[::2, ::2][3:, 5:])


def test_only_the_tiles_a_box_touches_are_read_and_each_once(pyramid, tiles_read):
    source = open_image(pyramid[0]).source()
    assert tiles_read == []  # opening reads no pixel
    source.read(0, (70, 130, 120, 190))  # inside one tile
    assert len(tiles_read) == 1
    source.read(0, (60, 130, 130, 260))  # 3 x 3 tiles around it
    assert len(tiles_read) == 9
    source.read(0, (64, 128, 128, 192))  # the first tile again, to its very edges
    assert len(tiles_read) == 9
    assert len(set(tiles_read)) == 9


@pytest.mark.parametrize(
    ("shape", "how", "tiles"),
    [
        ((3, 512, 640), {"photometric": "rgb", "planarconfig": "separate"}, 3),
        ((512, 640, 4), {"photometric": "rgb", "extrasamples": ["unspecified"]}, 1),
        ((512, 640), {"photometric": "miniswhite"}, 1),
    ],
    ids=["colours plane by plane", "a fourth band", "0 is white"],
)
def test_colours_that_are_stored_in_other_ways_are_read_by_tiles_too(
    tmp_path, tiles_read, shape, how, tiles
):
    pixels = np.random.default_rng(0).integers(0, 255, shape, dtype=np.uint8)
    tifffile.imwrite(tmp_path / "a.tif", pixels, tile=(64, 64), compression="zlib", **how)
    (level,) = open_image(tmp_path / "a.tif").levels
    assert tiles_read == []
    LazyPlane([level], samples=len(level.shape) == 3).read(0, (70, 130, 120, 190))
    assert len(tiles_read) == tiles


@pytest.mark.parametrize("compression", [None, "zlib"])
@pytest.mark.parametrize("axes", ["ZCYX", "CZYX", "TZCYX"])
def test_ome_tiff_planes_and_channels_are_found_by_name(tmp_path, axes, compression):
    sizes = {"T": 2, "Z": 3, "C": 2, "Y": 20, "X": 30}
    data = np.random.default_rng(1).integers(0, 60000, [sizes[a] for a in axes], dtype=np.uint16)
    path = tmp_path / "stack.ome.tif"
    tifffile.imwrite(
        path, data, ome=True, metadata={"axes": axes, "Channel": {"Name": ["DNA", "actin"]}},
        compression=compression,
    )  # fmt: skip
    stack = open_image(path)
    assert stack.channels == ("DNA", "actin")
    assert stack.shape == (20, 30)
    place = {"Z": 2, "T": 1, "C": 1}
    expected = data[tuple(place[a] for a in axes[:-2])].astype(float)
    plane = stack.source(stack.position("z=2,t=1" if "T" in axes else "z=2"), ["actin"])
    low, high = plane.limits[0]
    np.testing.assert_allclose(
        plane.read(0, (2, 3, 20, 30)),
        np.clip((expected[2:, 3:] - low) / (high - low), 0, 1),
        atol=1e-5,
    )


def test_channels_without_names_go_by_their_numbers(tmp_path):
    data = np.zeros((3, 20, 30), np.uint8)
    data[0, 0], data[1, 1], data[2, 2] = 10, 20, 30
    path = tmp_path / "channels.ome.tif"
    tifffile.imwrite(path, data, ome=True, metadata={"axes": "CYX"}, photometric="minisblack")
    stack = open_image(path)
    for number in range(3):
        seen = stack.source(channels=[str(number)]).read(0, (0, 0, 20, 30))
        np.testing.assert_array_equal(seen, data[number])


def test_tiles_are_kept_up_to_a_limit_in_bytes_those_used_last(monkeypatch):
    monkeypatch.setattr("napari_maskinversion.images.lazy_plane._CACHE_BYTES", 2 * 64)
    read = []

    class Tiles:
        shape, dtype, chunks = (8, 24), np.dtype(np.uint8), (8, 8)

        def __getitem__(self, key):
            read.append(key[1].start // 8)
            return np.zeros((8, 8), np.uint8)

    plane = LazyPlane([Tiles()])
    for tile in (0, 1, 0, 2, 0, 1):  # 2 takes the place of 1, and 1 that of 2
        plane.read(0, (0, 8 * tile, 8, 8 * tile + 8))
    assert read == [0, 1, 2, 1]
    plane.forget()
    plane.read(0, (0, 8, 8, 16))
    assert read == [0, 1, 2, 1, 1]
