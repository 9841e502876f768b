"""Where the pixels of a file lie on earth, for an image that another program has read."""

from napari_maskinversion.base.units import Units
from napari_maskinversion.images.opening import georeference_of, open_image, with_georeference
from tests.base.test_units import UTM, geotiff

YX = (0, 1)


def shape_of(path):
    with open_image(path) as stack:
        return stack.shape


def test_a_layer_keeps_its_own_pixel_size_and_gets_the_place_of_its_file(tmp_path):
    units, path = geotiff(tmp_path / "utm.tif", keys=UTM), tmp_path / "utm.tif"
    assert georeference_of(path, shape_of(path)) == units.geo
    assert with_georeference(None, path, shape_of(path), YX) == units
    own = Units(pixel=(2.0, 2.0), unit="m")
    assert with_georeference(own, path, shape_of(path), YX) == Units(
        pixel=(2.0, 2.0), unit="m", geo=units.geo
    )


def test_of_a_transposed_plane_rows_and_columns_are_exchanged(tmp_path):
    units, path = geotiff(tmp_path / "utm.tif", keys=UTM), tmp_path / "utm.tif"
    height, width = shape_of(path)
    turned = with_georeference(None, path, (width, height), (1, 0))
    assert turned.pixel == (0.5, 0.25)
    assert turned.geo.world(4, 10) == units.geo.world(10, 4)


def test_pixels_that_are_not_those_of_the_file_lie_nowhere(tmp_path):
    geotiff(tmp_path / "utm.tif", keys=UTM)
    (tmp_path / "no.tif").write_bytes(b"II*")
    for path, shape in (
        (None, (7, 7)),
        (tmp_path / "utm.tif", (3, 3)),
        (tmp_path / "gone.tif", (7, 7)),
        (tmp_path / "no.tif", (7, 7)),
    ):
        assert georeference_of(path, shape) is None
        assert with_georeference(None, path, shape, YX) is None


def test_a_file_that_is_written_again_is_read_again(tmp_path):
    path = tmp_path / "utm.tif"
    geotiff(path, keys=UTM)
    shape = shape_of(path)
    before = georeference_of(path, shape)
    units = geotiff(path, keys=UTM, tie=(0, 0, 0, 7.0, 9.0, 0))
    assert georeference_of(path, shape) == units.geo != before
