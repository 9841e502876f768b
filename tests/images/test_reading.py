"""Images and masks as they come from files."""

import numpy as np
import pytest
import skimage.io
import tifffile
from PIL import Image

from napari_maskinversion.base.errors import EmptyMaskError, InputError, MaskShapeError
from napari_maskinversion.images.opening import read_image
from napari_maskinversion.regions.region_reading import read_regions
from tests.scenes import label_image, picture

SHAPE = (60, 80)


@pytest.mark.parametrize("name", ["a.png", "a.tif", "a.npy"])
def test_an_rgb_image_comes_as_it_is(tmp_path, name):
    rgb = picture()
    if name.endswith("npy"):
        np.save(tmp_path / name, rgb)
    else:
        skimage.io.imsave(tmp_path / name, rgb, check_contrast=False)
    np.testing.assert_array_equal(read_image(tmp_path / name), rgb)


def test_more_than_eight_bits_are_stretched_colours_by_their_depth(tmp_path):
    twelve_bit = picture()[:, :, 0].astype(np.uint16) * 16
    tifffile.imwrite(tmp_path / "grey.tif", twelve_bit)
    image = read_image(tmp_path / "grey.tif")
    assert (image.min(), image.max()) == (0, 1)
    colours = picture().astype(np.uint16) * 16
    tifffile.imwrite(tmp_path / "colours.tif", colours, photometric="rgb")
    expected = colours / np.float32(4095)
    np.testing.assert_allclose(read_image(tmp_path / "colours.tif"), expected, atol=1e-6)
    np.save(tmp_path / "big-endian.npy", colours.astype(">u2"))
    np.testing.assert_allclose(read_image(tmp_path / "big-endian.npy"), expected, atol=1e-6)


def test_colours_stored_plane_by_plane_are_colours_and_a_stack_is_not(tmp_path):
    planes = np.moveaxis(picture(), -1, 0)
    tifffile.imwrite(tmp_path / "a.tif", planes, photometric="rgb", planarconfig="separate")
    np.testing.assert_array_equal(read_image(tmp_path / "a.tif"), picture())
    for count in (3, 4):
        stack = np.stack([planes[0]] * count)
        tifffile.imwrite(tmp_path / "stack.tif", stack, photometric="minisblack")
        with pytest.raises(InputError, match="one plane"):
            read_image(tmp_path / "stack.tif")


def test_a_palette_is_colours_in_an_image(tmp_path):
    few = Image.fromarray(picture()).quantize(16)
    for name in ("a.png", "a.gif"):
        few.save(tmp_path / name)
        np.testing.assert_array_equal(read_image(tmp_path / name), np.asarray(few.convert("RGB")))


@pytest.mark.parametrize("mode", ["CMYK", "L", "LA", "1"])
def test_other_ways_to_store_a_picture_are_understood(tmp_path, mode):
    stored = Image.fromarray(picture()).convert(mode)
    name = tmp_path / ("a.jpg" if mode == "CMYK" else "a.png")
    stored.save(name)
    image = read_image(name).astype(float)
    expected = np.asarray(stored.convert("RGB" if mode in ("CMYK", "LA") else mode)).astype(float)
    assert image.shape == expected.shape
    assert np.abs(image - expected).mean() < (8 if mode == "CMYK" else 0.01)


def test_an_image_that_cannot_be_used_is_named(tmp_path):
    with pytest.raises(InputError, match="no image at .*gone.png"):
        read_image(tmp_path / "gone.png")
    (tmp_path / "text.png").write_text("not an image")
    with pytest.raises(InputError, match="text.png could not be read"):
        read_image(tmp_path / "text.png")
    (tmp_path / "text.npy").write_text("not an array")
    with pytest.raises(InputError, match=r"text.npy could not be read as image: it is no .npy"):
        read_image(tmp_path / "text.npy")
    tifffile.imwrite(tmp_path / "stack.tif", np.zeros((7, 60, 80), np.uint8))
    with pytest.raises(InputError, match=r"\(7, 60, 80\); one plane"):
        read_image(tmp_path / "stack.tif")
    np.save(tmp_path / "nan.npy", np.full(SHAPE, np.nan))
    with pytest.raises(InputError, match=r"nan.npy: The image has no finite value"):
        read_image(tmp_path / "nan.npy")
    with pytest.raises(InputError, match="folder"):
        read_image(tmp_path)


@pytest.mark.parametrize("name", ["a.png", "a.tif"])
@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
def test_a_label_image_gives_a_region_per_value(tmp_path, name, kind):
    labels = label_image(5).astype(kind)
    skimage.io.imsave(tmp_path / name, labels, check_contrast=False)
    regions = read_regions(tmp_path / name, SHAPE)
    assert regions.ids == [1, 2, 3, 4, 5]
    np.testing.assert_array_equal(regions.full_mask(2), labels == 3)


@pytest.mark.parametrize("kind", ["png", "tif"])
@pytest.mark.parametrize("mode", ["RGB", "RGBA", "LA"])
def test_a_mask_in_colours_is_read_as_grey(tmp_path, kind, mode):
    grey = Image.fromarray(label_image(5).astype(np.uint8))
    grey.convert("RGBA").convert(mode).save(tmp_path / f"a.{kind}")
    assert read_regions(tmp_path / f"a.{kind}", SHAPE).ids == [1, 2, 3, 4, 5]
    Image.fromarray(picture()).convert(mode if mode != "LA" else "RGB").save(tmp_path / f"b.{kind}")
    with pytest.raises(InputError, match=rf"b\.{kind} is a colour picture"):
        read_regions(tmp_path / f"b.{kind}", SHAPE)


@pytest.mark.parametrize("how", [{"photometric": "minisblack"}, {"photometric": "rgb"}])
def test_planes_of_three_masks_stay_apart_even_if_they_are_called_colours(tmp_path, how):
    """tifffile calls three planes red, green and blue if it is not told otherwise."""
    tifffile.imwrite(tmp_path / "a.tif", overlapping(), planarconfig="separate", **how)
    assert read_regions(tmp_path / "a.tif", SHAPE).ids == [1, 2, 3]


def test_a_palette_image_keeps_its_numbers(tmp_path):
    image = Image.fromarray(label_image(5).astype(np.uint8), mode="P")
    image.putpalette([value for i in range(256) for value in (i, 255 - i, 7)])
    image.save(tmp_path / "voc.png")
    assert read_regions(tmp_path / "voc.png", SHAPE).ids == [1, 2, 3, 4, 5]


def test_a_black_and_white_jpeg_is_one_mask(tmp_path):
    mask = label_image(5) == 2
    name = tmp_path / "mask.jpg"
    Image.fromarray((mask * 255).astype(np.uint8)).save(name, quality=60)
    regions = read_regions(name, SHAPE)
    assert regions.ids == [1]
    assert (regions.full_mask(0) != mask).sum() < 20


@pytest.mark.parametrize("value", [1, 255])
def test_one_binary_mask_is_region_one(tmp_path, value):
    mask = (label_image(5) == 2).astype(np.uint8) * value
    skimage.io.imsave(tmp_path / "mask.png", mask, check_contrast=False)
    regions = read_regions(tmp_path / "mask.png", SHAPE)
    assert regions.ids == [1]
    np.testing.assert_array_equal(regions.full_mask(0), mask > 0)


def overlapping():
    stack = np.zeros((3, *SHAPE), np.uint8)
    for index, page in enumerate(stack):
        page[10 + 5 * index : 40, 10:40] = 255
    return stack


def test_a_folder_and_a_stack_of_binary_masks_stay_apart(tmp_path):
    stack = overlapping()
    (tmp_path / "masks").mkdir()
    for index, page in enumerate(stack):
        skimage.io.imsave(tmp_path / "masks" / f"{index}.png", page, check_contrast=False)
    tifffile.imwrite(tmp_path / "masks.tif", stack, photometric="minisblack")
    for place in ("masks", "masks.tif"):
        regions = read_regions(tmp_path / place, SHAPE)
        assert regions.ids == [1, 2, 3]
        for index, page in enumerate(stack):
            np.testing.assert_array_equal(regions.full_mask(index), page > 0)


def test_masks_that_cannot_be_used_are_named(tmp_path):
    save = skimage.io.imsave
    save(tmp_path / "small.png", label_image(3, 30, 40), check_contrast=False)
    with pytest.raises(MaskShapeError, match="30 x 40 px but the image is 60 x 80"):
        read_regions(tmp_path / "small.png", SHAPE)
    stack = overlapping()
    stack[1] = 0
    tifffile.imwrite(tmp_path / "stack.tif", stack, photometric="minisblack")
    with pytest.warns(UserWarning, match="without a pixel were left out: .*stack.tif, page 2"):
        assert 2 not in read_regions(tmp_path / "stack.tif", SHAPE).ids
    (tmp_path / "masks").mkdir()
    with pytest.raises(InputError, match="no mask pictures"):
        read_regions(tmp_path / "masks", SHAPE)
    save(tmp_path / "masks" / "void.png", np.zeros(SHAPE, np.uint8), check_contrast=False)
    with pytest.raises(EmptyMaskError, match="void.png"):
        read_regions(tmp_path / "masks", SHAPE)
    save(tmp_path / "empty.png", np.zeros(SHAPE, np.uint8), check_contrast=False)
    with pytest.raises(EmptyMaskError, match="every pixel is 0"):
        read_regions(tmp_path / "empty.png", SHAPE)
    pages = np.stack([label_image(5), label_image(4)])
    tifffile.imwrite(tmp_path / "labels.tif", pages, photometric="minisblack")
    with pytest.raises(InputError, match=r"page 1 contains more than two values"):
        read_regions(tmp_path / "labels.tif", SHAPE)
    pages = np.ones((2, *SHAPE), np.float32)
    pages[1, 0, 0] = np.nan
    tifffile.imwrite(tmp_path / "nan.tif", pages, photometric="minisblack")
    with pytest.raises(InputError, match=r"page 2 contains NaN"):
        read_regions(tmp_path / "nan.tif", SHAPE)
    save(tmp_path / "colour.png", picture(), check_contrast=False)
    with pytest.raises(InputError, match="colour picture"):
        read_regions(tmp_path / "colour.png", SHAPE)
    with pytest.raises(InputError, match="no masks at"):
        read_regions(tmp_path / "gone.png", SHAPE)


def test_a_picture_that_is_called_tiff_is_told_to_be_renamed(tmp_path):
    Image.new("L", (4, 4)).save(tmp_path / "a.png")
    (tmp_path / "a.png").rename(tmp_path / "a.tif")
    with pytest.raises(InputError, match="a.tif is a PNG file; rename it to a.png"):
        read_image(tmp_path / "a.tif")
