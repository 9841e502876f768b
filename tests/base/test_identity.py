"""Regions and images are told apart by their pixels."""

import numpy as np
import pytest
import zarr

from napari_maskinversion.base.identity import RegionKey, identify, identify_image
from napari_maskinversion.base.regions import Region
from tests.review.decided import picture, square


def test_a_region_is_its_pixels_and_their_place_not_its_id():
    assert square(1, 4, 4).mask == square(2, 4, 4).mask
    assert square(1, 4, 4).mask != square(1, 4, 5).mask
    one, other = np.ones((3, 3), bool), np.ones((3, 3), bool)
    other[0, 2] = False
    shapes = (one, other, one.astype(np.float32) * 0.5)
    assert len({identify(Region(1, (0, 0, 3, 3), mask)).mask for mask in shapes}) == 3


def test_the_same_outline_on_two_planes_is_two_regions():
    region = Region(1, (0, 0, 3, 3), np.ones((3, 3), bool))
    low, high = identify(region, (("z", 1),)), identify(region, (("z", 2),))
    assert low.mask != high.mask
    assert str(high.key) == "1 at z 2"
    assert str(RegionKey(7)) == "7"


def test_an_image_is_its_pixels_whatever_its_name_or_container(tmp_path):
    pixels = picture()
    stored = zarr.open(str(tmp_path / "a.zarr"), mode="w", shape=pixels.shape, dtype=pixels.dtype)
    stored[:] = pixels
    one = identify_image("a", pixels)
    assert one == identify_image("b", stored)
    assert one == identify_image("a", np.asfortranarray(pixels))
    changed = pixels.copy()
    changed[59, 79, 2] ^= 1
    assert one != identify_image("a", changed)
    assert one != identify_image("a", pixels.astype(np.int16))
    swapped = pixels.astype(">u2")
    assert identify_image("a", swapped) == identify_image("a", swapped.astype("<u2"))


class Huge:
    """A lazy stack of 800 GB that counts what is read."""

    shape, dtype, read = (5, 200, 20_000, 20_000, 2), np.dtype(np.uint8), 0

    def __init__(self, seed):
        self.seed, self.blocks = seed, []

    def __getitem__(self, block):
        sides = tuple(part.stop - part.start for part in block)
        assert all(p.start >= 0 and p.stop <= s for p, s in zip(block, self.shape, strict=True))
        self.blocks.append(tuple(part.start for part in block))
        self.read += int(np.prod(sides))
        return np.full(sides, self.seed, np.uint8)


def test_a_huge_image_is_told_apart_by_less_than_a_megabyte():
    one, same, other = Huge(1), Huge(1), Huge(2)
    assert identify_image("a", one) == identify_image("a", same)
    assert identify_image("a", one) != identify_image("a", other)
    assert 0 < one.read < 1_000_000
    # Over all planes, not in one corner.
    starts = np.array(one.blocks)
    assert len(np.unique(starts[:, 0])) == 5
    for axis in (1, 2, 3):
        spread = starts[:, axis] / Huge.shape[axis]
        assert spread.min() < 0.1
        assert spread.max() > 0.9
        assert len(np.unique(starts[:, axis])) > 25


@pytest.mark.parametrize("shape", [(5000, 5000), (3000, 4000, 3), (20_000_000,), (3, 3000, 3000)])
def test_a_large_image_of_any_shape_has_an_identity(shape):
    pixels = np.zeros(shape, np.uint8)
    before = identify_image("a", pixels)
    pixels[...] = 1
    assert before != identify_image("a", pixels)
