import numpy as np
import pytest

from napari_maskinversion.engine.invert.dice import area_matrix


@pytest.mark.parametrize("source", [1, 2, 3, 7, 10, 14, 97, 448])
@pytest.mark.parametrize("target", [1, 2, 3, 7, 10, 97])
def test_a_pixel_of_a_resampled_raster_averages_what_it_covers(source, target):
    steps = source * target
    fine = np.arange(steps)
    # Parts so small that each lies in one pixel of both rasters.
    expected = np.zeros((target, source))
    np.add.at(expected, (fine // source, fine // target), 1 / source)
    np.testing.assert_allclose(area_matrix(source, target), expected, atol=1e-12)


def test_a_matrix_belongs_to_its_caller():
    area_matrix(4, 2)[:] = 0
    assert area_matrix(4, 2).any()
