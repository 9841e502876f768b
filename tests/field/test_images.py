"""Pixels that people of this field met in public are seen right, and alike by every way in.

Sources: opengeos/segment-geospatial #26, torchgeo #549, localtileserver #127, labelme PR #1949
(colours of 10 to 14 bits); nasaharvest/dora #58, solaris #328, salem #171 (GDAL_NODATA);
deck.gl-raster #168 (masks in COGs); MONAILabel #1230, qupath-extension-sam #20 (large PNGs).
"""

import warnings

import imagecodecs
import numpy as np
import pytest
import tifffile
from dask.array import from_array
from napari.components import ViewerModel
from PIL import Image

from napari_maskinversion import read_image, read_regions
from napari_maskinversion.app.layer_input.coordinates import ViewPoint, plane_of
from napari_maskinversion.app.layer_input.input_pictures import copy_picture
from napari_maskinversion.app.layer_input.layer_facts import FILE, count_regions
from napari_maskinversion.app.layer_input.run_input import copy_regions
from napari_maskinversion.app.requests.preparing import prepare
from napari_maskinversion.app.session import Session
from napari_maskinversion.base.errors import InputError
from napari_maskinversion.images import decoding
from napari_maskinversion.images.channels import as_source
from napari_maskinversion.images.opening import open_image
from napari_maskinversion.images.tiff import without_nodata

SEEN = (np.indices((48, 64)).sum(0) % 97)[..., None] * [1, 2, 2.5] + [150, 50, 10]
EIGHT = SEEN.astype(np.uint8)
BORDER = np.indices((48, 64))[1] < 4


def save(path, pixels, nodata=None):
    tags = [] if nodata is None else [(42113, "s", 0, nodata, True)]
    kind = "rgb" if pixels.ndim == 3 else "minisblack"
    tifffile.imwrite(path, pixels, photometric=kind, extratags=tags, metadata=None)
    return path


def whole(source):
    pixels = source.read(0, (0, 0, *source.shape))
    return pixels / (255 if pixels.dtype == np.uint8 else 1)


def ways(path, *, array=True):
    """Return what a model sees of a file: by command, in Python, of an array, of a layer."""
    with open_image(path) as stack:
        seen = {"command": whole(stack.source())}
    pixels = read_image(path)
    seen["read_image"] = whole(as_source(pixels))
    stored = tifffile.imread(path)
    if array:
        seen["array"] = whole(as_source(stored))
    viewer = ViewerModel()
    layer = viewer.add_image(stored, rgb=stored.ndim == 3, metadata={FILE: str(path)})
    view = ViewPoint.of(viewer)
    picture = copy_picture(layer, view)
    seen["layer"] = whole(picture.source(plane_of(picture.grid, view), view))
    return seen


@pytest.mark.parametrize(
    ("factor", "top"), [(1, 255), (4, 1023), (12, 4095), (60, 16383), (257, 65535)]
)
def test_colours_of_any_depth_are_seen_as_those_of_eight_bits(tmp_path, factor, top):
    path = save(tmp_path / "a.tif", EIGHT.astype(np.uint16) * factor)
    for way, seen in ways(path).items():
        np.testing.assert_allclose(seen, EIGHT * (factor / top), atol=1e-6, err_msg=way)
    deep = np.dstack([EIGHT.astype(np.uint16) * factor, np.full((48, 64), 65535, np.uint16)])
    for pixels in (deep, np.ascontiguousarray(deep[..., :3])):
        (tmp_path / "a.png").write_bytes(imagecodecs.png_encode(pixels))
        np.testing.assert_allclose(
            read_image(tmp_path / "a.png"),
            EIGHT * (factor / top),
            atol=1e-6,
        )
    save(path, np.where(BORDER[..., None], 65535, EIGHT.astype(np.uint16) * factor), "65535")
    expected = np.where(BORDER[..., None], 0, EIGHT * (factor / top))
    for way, seen in ways(path, array=False).items():
        np.testing.assert_allclose(seen, expected, atol=1e-6, err_msg=way)


def test_a_deep_picture_with_opacity_is_as_bright(tmp_path):
    opaque = np.dstack([EIGHT.astype(np.uint16) * 16, np.full((48, 64), 65535, np.uint16)])
    for alpha in (65535, 4095):
        opaque[..., 3] = alpha
        np.testing.assert_allclose(whole(as_source(opaque)), EIGHT * (16 / 4095), atol=1e-4)


def test_colours_of_other_numbers_are_stretched_alike(tmp_path):
    wide = (EIGHT * 7.3 - 100).astype(np.float32)
    seen = ways(save(tmp_path / "a.tif", wide))
    low, high = np.percentile(wide, (0.1, 99.9))
    for way, pixels in seen.items():
        expected = np.clip((wide - low) / (high - low), 0, 1)
        np.testing.assert_allclose(pixels, expected, atol=1e-4, err_msg=way)


GREY = EIGHT[..., 0]


@pytest.mark.parametrize(
    ("values", "nodata", "text"),
    [
        ((GREY / 3).astype(np.float32), -9999, "-9999"),
        ((GREY / 3).astype(np.float32), np.nan, "nan"),
        (GREY.astype(np.float32), np.finfo(np.float32).min, "-3.40282346600000016e+38 "),
        (GREY.astype(np.float32), np.finfo(np.float32).min, "-3.40282e+38"),
        (GREY.astype(np.int16) * 7 - 900, -32768, "-32768"),
        (GREY.astype(np.uint16) * 7, 0, "0"),
        (GREY.astype(np.uint16) * 7, 65535, "65535"),
        (GREY, 255, "255"),
    ],
    ids=["float", "nan", "lowest", "lowest, rounded", "int16", "zero", "highest", "byte"],
)
def test_no_data_is_black_and_moves_no_limits(tmp_path, values, nodata, text):
    path = save(tmp_path / "a.tif", np.where(BORDER, values.dtype.type(nodata), values), text)
    without = whole(open_image(save(tmp_path / "b.tif", values)).source())
    for way, seen in ways(path, array=False).items():
        assert not seen[BORDER].any(), way
        np.testing.assert_allclose(seen[~BORDER], without[~BORDER], atol=0.02, err_msg=way)


def test_no_data_beyond_the_type_is_no_message_of_tifffile(tmp_path, caplog):
    read_image(save(tmp_path / "a.tif", GREY.astype(np.uint16) * 7, "-9999"))
    assert caplog.text == ""


def test_an_image_without_any_data_is_refused(tmp_path):
    path = save(tmp_path / "a.tif", np.full((9, 9), -9999.0, np.float32), "-9999")
    with pytest.raises(InputError, match=r"a\.tif: The image has no finite value"):
        read_image(path)
    with pytest.raises(InputError, match="no finite value"), open_image(path) as stack:
        stack.source().check()


@pytest.mark.parametrize("nodata", ["255", "-9999", "nan", "-128", ""])
@pytest.mark.parametrize("kind", [np.uint8, np.float32, np.int16])
def test_no_data_is_no_region(tmp_path, nodata, kind):
    if kind is not np.float32 and (nodata in ("nan", "") or float(nodata) not in np.arange(256)):
        nodata = "255"
    empty = float(nodata or "nan")
    labels = np.zeros((48, 64), kind)
    labels[:10], labels[20:30, 5:20], labels[31:40, 5:20] = empty, 1, 3
    for more in ({}, {"tile": (16, 16), "compression": "zlib"}):
        tags = [(42113, "s", 0, nodata, True)] if nodata else []
        tifffile.imwrite(tmp_path / "a.tif", labels, extratags=tags, **more)
        assert read_regions(tmp_path / "a.tif", labels.shape).ids == [1, 3]
    if kind is not np.float32:  # napari refuses those
        viewer = ViewerModel()
        layer = viewer.add_labels(labels, metadata={FILE: str(tmp_path / "a.tif")})
        view = ViewPoint.of(viewer)
        assert count_regions(layer, view) == 2
        session = Session()
        session.choose(image=viewer.add_image(np.float32(SEEN[..., 0])), regions=layer)
        (task,) = prepare(viewer, session).tasks()
        assert task.regions.ids == [1, 3]
        lazy = viewer.add_labels(from_array(labels), metadata={FILE: str(tmp_path / "a.tif")})
        session.choose(image=session.run.image, regions=lazy)
        (task,) = prepare(viewer, session).tasks()
        assert task.regions.ids == [1, 3]
        # Pixels are compared in the worker; and not at all with 0, which is no region anyway.
        assert np.shares_memory(copy_regions(layer, view, snapshot=False).data, layer.data)
        assert without_nodata(labels, 0.0) is labels
    (tmp_path / "masks").mkdir()
    mask = np.where(labels == 3, kind(0), labels)
    tifffile.imwrite(tmp_path / "masks/a.tif", mask, extratags=tags)
    if nodata:  # NaN in a mask is refused, unless the file says what it is
        (region,) = read_regions(tmp_path / "masks", labels.shape)
        assert region.area == 150


@pytest.mark.parametrize("pixels", [EIGHT, GREY.astype(np.uint16)], ids=["colours", "grey"])
def test_a_mask_and_overviews_in_a_cog_are_no_images(tmp_path, pixels):
    kind = "rgb" if pixels.ndim == 3 else "minisblack"
    with tifffile.TiffWriter(tmp_path / "a.tif") as file:
        for step, part in ((1, 0), (2, 1), (4, 1)):
            tiles = {"tile": (16, 16), "metadata": None, "compression": "zlib"}
            file.write(pixels[::step, ::step], photometric=kind, subfiletype=part, **tiles)
            mask = ~BORDER[::step, ::step]
            file.write(mask, photometric="mask", subfiletype=part | 4, **tiles)
    with open_image(tmp_path / "a.tif") as stack, warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(stack.images) == 1
        assert [level.shape[:2] for level in stack.levels] == [(48, 64), (24, 32), (12, 16)]
        assert read_image(tmp_path / "a.tif").shape == pixels.shape
    if pixels.ndim == 2:
        regions = read_regions(tmp_path / "a.tif", pixels.shape)
        assert regions.ids == np.unique(pixels[~BORDER]).tolist()


@pytest.mark.parametrize("beside", [False, True], ids=["inside", "beside"])
@pytest.mark.parametrize(
    "pixels", [EIGHT, GREY.astype(np.uint16) * 9, GREY.astype(np.float32)], ids=["u1", "u2", "f4"]
)
def test_what_a_mask_of_gdal_hides_has_no_value(tmp_path, pixels, beside):
    hidden = BORDER if pixels.ndim == 2 else BORDER[..., None]
    kind = "rgb" if pixels.ndim == 3 else "minisblack"
    with tifffile.TiffWriter(tmp_path / "a.tif") as file:
        bright = np.where(hidden, pixels.dtype.type(255), pixels)
        file.write(bright, photometric=kind, metadata=None)
        if not beside:
            file.write(~BORDER, photometric="mask", subfiletype=4, metadata=None)
    if beside:
        tifffile.imwrite(tmp_path / "a.tif.msk", np.where(BORDER, 0, 255).astype(np.uint8))
    nothing = 0 if pixels.dtype == np.uint8 else np.nan
    known = save(
        tmp_path / "known.tif",
        np.where(hidden, nothing, pixels).astype(pixels.dtype.type if nothing == 0 else np.float32),
    )
    with open_image(tmp_path / "a.tif") as stack, open_image(known) as expected:
        np.testing.assert_allclose(whole(stack.source()), whole(expected.source()), atol=1e-6)
    np.testing.assert_array_equal(read_image(tmp_path / "a.tif"), read_image(known))
    if pixels.ndim == 3:  # a grey layer has the contrast of its own
        for way, seen in ways(tmp_path / "a.tif", array=False).items():
            np.testing.assert_array_equal(seen, pixels * ~hidden / 255, err_msg=way)


@pytest.mark.parametrize("make", [np.array, from_array])
def test_what_a_mask_of_gdal_hides_is_no_region_of_a_layer(tmp_path, make):
    labels = np.where(BORDER, 9, 0).astype(np.uint8)
    labels[20:30, 15:20] = 1
    with tifffile.TiffWriter(tmp_path / "a.tif") as file:
        file.write(labels, photometric="minisblack", metadata=None)
        file.write(~BORDER, photometric="mask", subfiletype=4, metadata=None)
    viewer, session = ViewerModel(), Session()
    layer = viewer.add_labels(make(labels), metadata={FILE: str(tmp_path / "a.tif")})
    assert count_regions(layer, ViewPoint.of(viewer)) in (1, None)
    session.choose(image=viewer.add_image(np.float32(SEEN[..., 0])), regions=layer)
    (task,) = prepare(viewer, session).tasks()
    assert task.regions.ids == [1]


def test_what_is_transparent_moves_no_limits(tmp_path):
    deep = np.dstack([(SEEN * 12).astype(np.uint16), np.where(BORDER, 0, 65535).astype(np.uint16)])
    expected = whole(as_source(np.where(BORDER[..., None], np.uint16(0), deep[..., :3])))
    deep[BORDER, :3] = 65535
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, deep, photometric="rgb", extrasamples=["unassalpha"], metadata=None)
    np.testing.assert_allclose(whole(as_source(read_image(path))), expected, atol=1e-6)


def test_a_jpeg_2000_keeps_its_bits_and_shows_no_infrared(tmp_path):
    # klokantech/iiifserver #18, python-pillow/Pillow PR #625
    deep, bands = tmp_path / "deep.jp2", tmp_path / "bands.jp2"
    deep.write_bytes(imagecodecs.jpeg2k_encode((SEEN * 12).astype(np.uint16), level=0))
    infrared = (GREY % 100 + 50).astype(np.uint8)
    bands.write_bytes(imagecodecs.jpeg2k_encode(np.dstack([EIGHT, infrared]), level=0))
    np.testing.assert_allclose(whole(as_source(read_image(deep))), SEEN * 12 / 4095, atol=0.001)
    with pytest.warns(UserWarning, match="a fourth band that is no opacity"):
        np.testing.assert_array_equal(read_image(bands), EIGHT)


def test_a_png_is_read_if_it_fits_into_memory(tmp_path, monkeypatch):
    Image.fromarray(EIGHT).save(tmp_path / "a.png")
    mask = np.where(GREY[0, 0] == GREY, 0, GREY)
    Image.fromarray(mask).save(tmp_path / "mask.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)  # 179 million otherwise
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(read_image(tmp_path / "a.png"), EIGHT)
        assert len(read_regions(tmp_path / "mask.png", mask.shape)) == len(np.unique(mask)) - 1
    assert Image.MAX_IMAGE_PIXELS == 100
    monkeypatch.setattr(decoding, "_ALWAYS_FITS", 100)
    monkeypatch.setattr(decoding, "free_memory", lambda: 1000)
    with pytest.raises(InputError, match=r"a\.png needs .* of memory .*tiled TIFF"):
        read_image(tmp_path / "a.png")


def test_a_picture_that_is_nearly_black_or_white_says_so(tmp_path):
    dark = EIGHT.astype(np.uint16) * 4
    dark[0, 0] = 65535  # a hot pixel
    with pytest.warns(UserWarning, match="nearly black as the model sees it"):
        read_image(save(tmp_path / "a.tif", dark))
    with pytest.warns(UserWarning, match="nearly white"):
        read_image(save(tmp_path / "a.tif", 255 - EIGHT // 16))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        spots = np.zeros((48, 64), np.uint8)
        spots[::8, ::8] = 200  # cells in the dark are a picture
        read_image(save(tmp_path / "a.tif", spots))
