"""Outlines go along the edges of pixels and lead back to the same pixels."""

import numpy as np
import pytest
import shapely
from hypothesis import given, settings

from napari_maskinversion.base.regions import Region
from napari_maskinversion.regions.annotations.polygons import (
    fill,
    fill_polygons,
    outline,
    polygons_of,
)

from .shapes import PLANE, regions, same


@settings(max_examples=60, deadline=None)
@given(regions())
def test_filling_an_outline_gives_back_the_mask(region):
    shape = outline(region)
    assert shapely.is_valid(shape)
    assert shape.area == region.area
    same(fill_polygons(region.id, polygons_of(shape), PLANE), region)


def test_a_pixel_is_the_square_between_its_edges():
    shape = outline(Region(1, (2, 5, 3, 6), np.ones((1, 1), bool)))
    assert shape.bounds == (5, 2, 6, 3)
    assert len(shape.exterior.coords) == 5


def test_only_corners_are_kept():
    shape = outline(Region(1, (0, 0, 30, 40), np.ones((30, 40), bool)))
    assert len(shape.exterior.coords) == 5


def test_a_pixel_belongs_to_a_polygon_if_its_centre_does():
    slanted = shapely.Polygon([(0, 0), (4, 0), (0, 4)])
    mask = fill_polygons(1, [slanted], (4, 4)).mask
    # The centres of the diagonal lie on the edge itself.
    assert np.tril(np.ones((3, 3)))[::-1].astype(bool).tolist() == mask[:3, :3].tolist()


def test_a_polygon_smaller_than_a_pixel_is_that_pixel():
    tiny = shapely.box(3.1, 2.1, 3.3, 2.2)
    assert fill_polygons(1, [tiny], (9, 9)).bbox == (2, 3, 3, 4)


def test_a_polygon_beyond_the_plane_is_cut_and_one_outside_is_none():
    assert fill_polygons(1, [shapely.box(-5, -5, 2, 3)], (9, 9)).bbox == (0, 0, 3, 2)
    assert fill_polygons(1, [shapely.box(20, 20, 22, 23)], (9, 9)) is None
    flat = shapely.Polygon([(1, 1), (20, 1), (20, 1), (1, 1)])
    assert fill_polygons(1, [flat], (9, 9)) is None


def test_half_covered_pixels_count():
    coverage = np.array([[0.2, 0.5, 0.9]], np.float32)
    assert outline(Region(1, (0, 0, 1, 3), coverage)).bounds == (1, 0, 3, 1)


def test_a_region_far_out_on_a_large_plane_costs_its_box_alone():
    region = Region(1, (99_000, 99_000, 99_010, 99_010), np.ones((10, 10), bool))
    same(fill_polygons(1, [outline(region)], (100_000, 100_000)), region)


@pytest.mark.parametrize("turn", [1, -1])
def test_the_direction_of_a_ring_does_not_count(turn):
    ring = [(1, 1), (5, 1), (5, 4), (1, 4)][::turn]
    assert fill_polygons(1, [shapely.Polygon(ring)], (9, 9)).bbox == (1, 1, 4, 5)


def test_edges_that_cross_too_many_rows_are_refused(monkeypatch):
    monkeypatch.setattr(np, "repeat", lambda *_: pytest.fail("it takes gigabytes"))
    ring = np.tile([[0, 0], [9, 20_000]], (3000, 1)).astype(float)
    with pytest.raises(ValueError, match="too many long edges"):
        fill([ring], (20_000, 10))
