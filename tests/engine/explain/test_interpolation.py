"""From tokens to pixels: as torch and the published code do it, whatever the sizes."""

import tracemalloc

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from napari_maskinversion.engine.explain import interpolation
from napari_maskinversion.engine.explain.interpolation import (
    heatmap,
    interpolated,
    normalised,
    weights_at,
    weights_of_pixels,
)

SIDES = st.integers(1, 40)


def by_torch(values, size):
    tensor = torch.from_numpy(np.asarray(values, np.float64))[None, None]
    return F.interpolate(tensor, size=size, mode="bilinear", align_corners=False)[0, 0].numpy()


def map_of(height, width, seed=0):
    return np.random.default_rng(seed).random((height, width), np.float32)


@given(SIDES, SIDES, SIDES, SIDES)
@settings(deadline=None)
def test_pixels_of_another_raster_are_those_of_torch(height, width, rows, columns):
    values = map_of(height, width)
    weights = weights_of_pixels(rows, height), weights_of_pixels(columns, width)
    expected = by_torch(values, (rows, columns))
    np.testing.assert_allclose(interpolated(values, *weights), expected, atol=3e-7)
    by_matrices = weights[0].matrix @ values @ weights[1].matrix.T
    np.testing.assert_allclose(by_matrices, expected, atol=1e-12)


@given(SIDES, SIDES, SIDES, SIDES, st.sampled_from([(56, 42), (17, 90)]))
@settings(deadline=None)
def test_a_heatmap_is_normalised_at_the_inputs_pixels_as_published(height, width, y, x, size):
    values = map_of(height, width)
    seen = by_torch(values, size)
    spread = np.ptp(seen)
    seen = (seen - seen.min()) / spread if spread > 1e-6 else np.zeros_like(seen)
    np.testing.assert_allclose(heatmap(values, size), seen, atol=2e-5)
    np.testing.assert_allclose(heatmap(values, size, (y, x)), by_torch(seen, (y, x)), atol=2e-5)


def test_places_beyond_the_outermost_samples_have_their_values():
    values = np.array([[1.0, 3.0, 7.0]])
    columns = weights_at([-5, -0.2, 0, 0.5, 1.75, 2, 9], 3)
    along = interpolated(values, weights_at([0], 1), columns)
    np.testing.assert_allclose(along, [[1, 1, 1, 2, 6, 7, 7]], atol=1e-6)


@given(SIDES, SIDES)
@settings(deadline=None)
def test_an_interpolated_map_has_its_extremes_at_the_places_that_are_named(samples, pixels):
    values = map_of(1, samples, seed=samples)
    weights = weights_of_pixels(pixels, samples)
    along = interpolated(values, weights_at([0], 1), weights)[0]
    named = along[weights.extremes]
    assert (named.min(), named.max()) == (along.min(), along.max())


def test_maps_are_stretched_to_0_and_1_each_by_itself_and_constant_ones_are_0():
    maps = np.stack([map_of(3, 4), 5 + 0.01 * map_of(3, 4), np.full((3, 4), 7), np.zeros((3, 4))])
    stretched = normalised(maps)
    assert stretched.dtype == np.float32
    assert stretched.min((1, 2)).tolist() == [0, 0, 0, 0]
    assert stretched.max((1, 2)).tolist() == [1, 1, 0, 0]


def test_heatmaps_of_several_maps_are_those_of_each():
    maps = np.stack([map_of(4, 5, seed) for seed in range(6)]).reshape(2, 3, 4, 5)
    several = heatmap(maps, (32, 40), (20, 30))
    assert several.shape == (2, 3, 20, 30)
    np.testing.assert_array_equal(several[1, 2], heatmap(maps[1, 2], (32, 40), (20, 30)))
    assert heatmap(np.zeros((0, 4, 5)), (32, 40)).shape == (0, 32, 40)


def test_how_many_pixels_are_computed_at_once_changes_no_bit(monkeypatch):
    values, weights = map_of(9, 11), (weights_of_pixels(50, 9), weights_of_pixels(70, 11))
    expected = interpolated(values, *weights)
    monkeypatch.setattr(interpolation, "_AT_ONCE", 100)
    np.testing.assert_array_equal(interpolated(values, *weights), expected)


@pytest.mark.parametrize("shape", [(3000, 2500), (2500, 3000)])
def test_a_large_heatmap_takes_little_more_memory_than_its_pixels(shape):
    tracemalloc.start()
    heat = heatmap(map_of(28, 28), (448, 448), shape)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 1.6 * heat.nbytes
