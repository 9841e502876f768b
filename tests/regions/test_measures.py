"""What regions measure: shape, and the values of each channel."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from napari_maskinversion.images.channels import Channel, ChannelPlane, as_source
from napari_maskinversion.images.lazy_plane import LazyPlane
from napari_maskinversion.regions import measures
from napari_maskinversion.regions.measures import explanation, measure


def rows_of(pixels):
    return lambda top, bottom: pixels[top:bottom]


@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 99))
def test_any_region_has_shape_and_values(height, width, seed):
    rng = np.random.default_rng(seed)
    mask = rng.random((height, width)) < 0.6
    mask[0, 0] = True
    pixels = rng.integers(0, 60_000, (height, width, 2)).astype(np.uint16)
    found = measure(mask, rows_of(pixels))
    assert all(np.isfinite(list(found.values())))
    assert all(map(explanation, found))
    assert 0 <= found["eccentricity"] <= 1
    assert 0 < found["solidity"] <= 1
    assert found["axis_minor"] <= found["axis_major"]
    np.testing.assert_allclose(found["mean_1"], pixels[mask][:, 1].mean(), rtol=1e-9)
    np.testing.assert_allclose(found["std_1"], pixels[mask][:, 1].std(), rtol=1e-9, atol=1e-9)


def test_a_huge_region_is_measured_from_every_nth_pixel(monkeypatch):
    y, x = np.mgrid[-60:60, -90:90]
    mask, pixels = (y / 50) ** 2 + (x / 80) ** 2 < 1, (x + 90.0)[..., None]
    fine = measure(mask, rows_of(pixels))
    shape = [fine[name] for name in ("axis_major", "axis_minor", "solidity", "eccentricity")]
    assert shape == pytest.approx([160, 100, 1, np.sqrt(1 - (50 / 80) ** 2)], rel=0.03)
    read = []
    monkeypatch.setattr(measures, "_MOST", 2000)

    def values(top, bottom):
        read.append(bottom - top)
        return pixels[top:bottom]

    rough = measure(mask, values)
    assert rough == pytest.approx(fine, rel=0.05)
    assert max(read) * 180 <= 4 * 2000


def test_values_are_those_of_the_file_not_of_the_picture():
    dim, bright = (np.full((4, 4), n, np.uint16) for n in (300, 40_000))
    bright[0, 0] = 9
    channels = [Channel(plane=LazyPlane([one], nodata=9)) for one in (dim, bright)]
    found = measure(np.ones((2, 2)), lambda a, b: ChannelPlane(channels).values((a, 0, b, 2)))
    assert (found["mean_0"], found["mean_1"], found["std_1"]) == (300, 40_000, 0)  # but no data
    colours = np.zeros((4, 4, 4), np.uint8)
    colours[..., 2], colours[..., 3] = 7, 255
    found = measure(np.ones((4, 4)), lambda a, b: as_source(colours).values((a, 0, b, 4)))
    assert [found[f"mean_{n}"] for n in range(3)] == [0, 0, 7]
    assert "mean_3" not in found  # opacity
