"""Physical sizes and places on earth, from the file to the table."""

import numpy as np
import pytest
import tifffile
from PIL import Image, TiffImagePlugin

from napari_maskinversion import InversionConfig
from napari_maskinversion.base.errors import InputError
from napari_maskinversion.base.regions import Regions
from napari_maskinversion.base.units import Georeference, Units, short_unit
from napari_maskinversion.images.opening import open_image, stack_of
from napari_maskinversion.images.windows import WindowConfig
from tests.scenes import demo_model, picture, run


def written(path, pixels=None, **how):
    tifffile.imwrite(path, picture()[..., 0] if pixels is None else pixels, **how)
    return open_image(path).units


@pytest.mark.parametrize(
    ("metadata", "units"),
    [
        ({"PhysicalSizeX": 0.25, "PhysicalSizeY": 0.5}, Units(pixel=(0.5, 0.25), unit="µm")),
        (
            {
                "PhysicalSizeX": 3.0,
                "PhysicalSizeXUnit": "nm",
                "PhysicalSizeY": 4.0,
                "PhysicalSizeYUnit": "nm",
            },
            Units(pixel=(4, 3), unit="nm"),
        ),
        # One of them in other units would be a thousand times wrong.
        (
            {"PhysicalSizeX": 3.0, "PhysicalSizeXUnit": "nm", "PhysicalSizeY": 4.0},
            None,
        ),
        ({}, None),
        ({"PhysicalSizeX": 0.0, "PhysicalSizeY": 0.0}, None),
        ({"PhysicalSizeX": 0.5}, None),
    ],
)
def test_ome_says_the_pixel_size_or_nothing(tmp_path, metadata, units):
    path = tmp_path / "cells.ome.tif"
    assert written(path, ome=True, metadata={"axes": "YX", **metadata}) == units


def test_imagej_and_plain_resolutions_are_read(tmp_path):
    units = written(
        tmp_path / "ij.tif", imagej=True, resolution=(4, 2), metadata={"unit": "micron"}
    )
    assert units == Units(pixel=(0.5, 0.25), unit="µm")
    units = written(tmp_path / "cm.tif", resolution=(20000, 10000), resolutionunit="CENTIMETER")
    assert units == Units(pixel=(1, 0.5), unit="µm")
    # A printer's resolution is no pixel size.
    assert written(tmp_path / "dpi.tif", resolution=(72, 72), resolutionunit="INCH") is None


@pytest.mark.parametrize(("kind", "value"), [(11, 72.0), (2, "72 dpi")])
def test_a_resolution_that_cannot_be_read_is_none(tmp_path, kind, value):
    tags = TiffImagePlugin.ImageFileDirectory_v2()
    for tag in (282, 283):
        tags.tagtype[tag], tags[tag] = kind, value
    Image.fromarray(picture()[..., 0]).save(tmp_path / "a.tif", tiffinfo=tags)
    with open_image(tmp_path / "a.tif") as stack:
        assert stack.units is None
        np.testing.assert_array_equal(np.asarray(stack.levels[0]), picture()[..., 0])


def test_broken_ome_xml_says_nothing_and_leaves_the_pixels(tmp_path):
    about = '<?xml version="1.0"?><OME xmlns="x"><Image Name="A&B"/></OME>'
    assert written(tmp_path / "a.ome.tif", metadata=None, description=about) is None
    with open_image(tmp_path / "a.ome.tif") as stack:
        assert stack.images == ("60 x 80",)
        np.testing.assert_array_equal(np.asarray(stack.levels[0]), picture()[..., 0])


def geotiff(path, *, keys=(), tie=(0, 0, 0, 500_000, 4_200_000, 0), matrix=None):
    """A GeoTIFF as the standard has it: tags 33550, 33922, 34264 and the key directory 34735."""
    directory = (1, 1, 0, len(keys), *(n for key, value in keys for n in (key, 0, 1, value)))
    tags = [(34735, "H", len(directory), directory, True)]
    if matrix is None:
        tags += [(33550, "d", 3, (0.5, 0.25, 0.0), True), (33922, "d", 6, tie, True)]
    else:
        tags.append((34264, "d", 16, matrix, True))
    tifffile.imwrite(path, picture(), photometric="rgb", tile=(16, 16), extratags=tags)
    return open_image(path).units


UTM = ((1024, 1), (1025, 1), (3072, 32633))


def test_a_geotiff_gives_the_place_of_each_pixel(tmp_path):
    units = geotiff(tmp_path / "utm.tif", keys=UTM)
    assert units.pixel == (0.25, 0.5)
    assert units.unit == "m"
    assert units.geo.epsg == 32633
    # The outer corner of the first pixel is tied: its centre is half a pixel further.
    assert units.geo.world(0, 0) == (500_000.25, 4_199_999.875)
    assert units.geo.world(10, 4) == (500_002.25, 4_199_997.375)


def test_a_geotiff_tied_at_pixel_centres_lies_there(tmp_path):
    keys = (UTM[0], (1025, 2), UTM[2])
    units = geotiff(tmp_path / "centre.tif", keys=keys, tie=(2, 4, 0, 500_000, 4_200_000, 0))
    assert units.geo.world(4, 2) == (500_000, 4_200_000)


def test_a_turned_geotiff_keeps_its_pixel_size(tmp_path):
    matrix = (0, -2, 0, 100, 3, 0, 0, 50, 0, 0, 0, 0, 0, 0, 0, 1)
    units = geotiff(tmp_path / "turned.tif", keys=UTM, matrix=matrix)
    assert units.pixel == (2, 3)
    assert units.geo.world(-0.5, -0.5) == (100, 50)
    assert units.geo.world(0.5, -0.5) == (98, 50)


def test_degrees_are_no_pixel_size_and_a_private_system_has_no_code(tmp_path):
    degrees = geotiff(tmp_path / "wgs.tif", keys=((1024, 2), (1025, 1), (2048, 4326)))
    assert degrees.pixel is None
    assert degrees.geo.epsg == 4326
    own = geotiff(tmp_path / "own.tif", keys=((1024, 1), (1025, 1), (3072, 32767)))
    assert own.geo.epsg is None


def test_the_table_has_areas_in_square_units_and_places_in_the_world():
    mask = np.zeros((1, 60, 80), bool)
    mask[0, 10:20, 30:50] = True
    geo = Georeference(transform=(0.5, 0, 1000, 0, -0.25, 2000))
    units = Units(pixel=(0.25, 0.5), unit="m", geo=geo)
    results = run(
        demo_model(), picture(), Regions.from_masks(mask), None, InversionConfig(steps=1),
        units=units, window=WindowConfig(mode="whole"),
    )  # fmt: skip
    frame = results.to_frame()
    row = frame.iloc[0]
    assert row["area_px"] == 200
    assert row["area"] == pytest.approx(200 * 0.25 * 0.5)
    assert (row["height"], row["width"]) == pytest.approx((2.5, 10))
    assert row["diameter"] == pytest.approx(2 * np.sqrt(25 / np.pi))
    assert row["unit"] == "m"
    # The middle of rows 10..19 is the edge 15, of columns 30..49 the edge 40.
    assert (row["world_x"], row["world_y"]) == pytest.approx((1020, 1996.25))


def test_units_of_a_layer_are_those_of_its_rows_and_columns():
    assert Units.of_layer((-0.5, 2), ("micrometer", "um")) == Units(pixel=(0.5, 2), unit="µm")
    assert Units.of_layer((1, 1), ("pixel", "pixel")) is None
    assert Units.of_layer((1, 1), ("m", "second")) is None
    assert [short_unit(name) for name in ("\\u00B5m", "μm", "Metre", "px", "parsec")] == [
        "µm", "µm", "m", "", "parsec",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("pixel", "unit", "says"),
    [((0, 1), "m", "above 0; got 0"), ((1, np.nan), "m", "got nan"), ((2, 2), "", "needs a unit")],
)
def test_a_size_that_is_none_is_refused(pixel, unit, says):
    with pytest.raises(InputError, match=says):
        Units(pixel=pixel, unit=unit)


STACK = stack_of(np.zeros((3, 5, 20, 30)), name="cells")


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda: STACK.position("z=5"), "z goes from 0 to 4"),
        (lambda: STACK.position("z=-1"), "'z=-1'"),
        (lambda: STACK.position("q=1"), r"'q=1'; it has t \(0 to 2\), z \(0 to 4\)"),
        (lambda: STACK.position("1,2,3"), "'3'"),
        (lambda: STACK.source({"t": 1}), "5 planes along z"),
        (lambda: STACK.source({"t": 1, "z": 0}, ["DAPI"]), "no channel 'DAPI'"),
        (lambda: stack_of(np.zeros((9, 9, 3))).source(channels=["0"]), "colour image"),
        (lambda: stack_of(np.zeros(7)), r"\(7,\)"),
        (lambda: stack_of(np.zeros((4, 5)), axes=("z", "x")), "do not fit"),
    ],
)
def test_a_plane_or_channel_that_is_not_there_is_named(ask, says):
    with pytest.raises(InputError, match=says):
        ask()


def test_positions_are_read_by_name_or_in_order():
    assert STACK.position("z=4, t=0") == {"z": 4, "t": 0}
    assert STACK.position("2,3") == {"t": 2, "z": 3}
