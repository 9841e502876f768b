"""What a file says of its pixels and does not have, or that its pixels do not show."""

import re

import numpy as np
import pytest
import tifffile
from PIL import Image

from napari_maskinversion.base.errors import InputError
from napari_maskinversion.images.decoding import decode
from napari_maskinversion.images.opening import open_image, open_labels, read_image
from tests.scenes import picture

OME = '<?xml version="1.0"?><OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06">'
PLANES = np.stack([np.full((60, 80), n, np.uint8) for n in (7, 8)])


def ome(path, parts, **sizes):
    """Write two planes and what OME-XML says of them."""
    declared = {"SizeZ": 1, "SizeC": 1, "SizeT": 1, **sizes}
    about = " ".join(f'{name}="{value}"' for name, value in declared.items())
    pixels = (
        f'<Pixels ID="Pixels:0" DimensionOrder="XYZCT" Type="uint8" SizeX="80" SizeY="60" {about}>'
    )
    xml = f'{OME}<Image ID="Image:0">{pixels}{parts}</Pixels></Image></OME>'
    tifffile.imwrite(path, PLANES, description=xml, metadata=None)
    return path


def part(page, place, count=1, axis="Z"):
    return f'<TiffData IFD="{page}" First{axis}="{place}" PlaneCount="{count}"/>'


@pytest.mark.parametrize("read", [open_image, open_labels, lambda p: decode(p, "x", colours=True)])
@pytest.mark.parametrize(
    ("parts", "axis", "place"),
    [
        (part(0, 0) + part(1, 2), "Z", 2),
        (part(0, 0) + part(1, 1), "Z", 3),
        (part(0, 1) + part(1, 2), "Z", 1),
        (part(0, 0, axis="C") + part(1, 2, axis="C"), "C", 2),
    ],
    ids=["middle", "last", "first", "channel"],
)
def test_a_plane_that_is_missing_is_named(tmp_path, read, parts, axis, place):
    path = ome(tmp_path / "a.ome.tif", parts, **{f"Size{axis}": 3})
    with pytest.raises(InputError, match=rf"a\.ome\.tif .*plane {place} of 3 is missing \(1 in al"):
        read(path)


def test_all_planes_are_read(tmp_path):
    with open_image(ome(tmp_path / "a.ome.tif", part(0, 0) + part(1, 1), SizeZ=2)) as stack:
        np.testing.assert_array_equal(np.asarray(stack.levels[0][:, 0, 0]), [7, 8])


@pytest.mark.parametrize(
    ("parts", "sizes"),
    [
        (part(0, 0), {"SizeZ": 50_000, "SizeT": 50_000}),
        (part(0, 0, 10**9), {}),
    ],
    ids=["planes and times", "of a part"],
)
def test_planes_that_fit_into_no_list_are_refused_before_one_is_made(
    tmp_path, monkeypatch, parts, sizes
):
    path = ome(tmp_path / "a.ome.tif", parts, **sizes)
    wanted = property(lambda _: pytest.fail("the list is made"))
    monkeypatch.setattr(tifffile.TiffFile, "series", wanted)
    with pytest.raises(InputError, match=r"a\.ome\.tif declares more than 2,000,000 planes"):
        open_image(path)


def test_a_palette_is_refused_for_an_image_and_holds_the_numbers_of_labels(tmp_path):
    path = tmp_path / "a.tif"
    numbers = np.arange(60 * 80, dtype=np.uint8).reshape(60, 80)
    table = np.random.default_rng(0).integers(0, 2**16, (3, 256), np.uint16)
    tifffile.imwrite(path, numbers, photometric="palette", colormap=table)
    with pytest.raises(InputError, match=r"a\.tif stores its colours as a palette; save it as RGB"):
        open_image(path)
    np.testing.assert_array_equal(decode(path, "masks", colours=False), numbers)
    with open_labels(path) as stack:
        np.testing.assert_array_equal(np.asarray(stack.levels[0][:, :]), numbers)


def test_that_0_is_white_is_said(tmp_path):
    tifffile.imwrite(tmp_path / "a.tif", picture(60, 80)[:, :, 0], photometric="miniswhite")
    with open_image(tmp_path / "a.tif") as stack:
        assert "a.tif has 0 for white" in stack.notes[0]


TILES = {"tile": (16, 16), "compression": "zlib"}
PLANAR = {"planarconfig": "separate"}


def write_samples(path, pixels, kind, extra=None, **how):
    """Write samples last, or with `PLANAR` plane by plane."""
    pixels = np.moveaxis(pixels, -1, 0) if "planarconfig" in how else pixels
    how = {"planarconfig": "contig", **how}
    tifffile.imwrite(path, pixels, photometric=kind, extrasamples=extra, **how)


def half_opaque(channels):
    """Return samples with a last one that is 0 on the left."""
    samples = np.dstack([channels, np.full((60, 80), 255, np.uint8)])
    samples[:, :40, -1] = 0
    return samples


def on_black(colours):
    return np.where(np.arange(80)[:, None] < 40, 0, colours)


@pytest.mark.filterwarnings("ignore:.*fourth band")
@pytest.mark.parametrize("how", [{}, TILES, PLANAR, PLANAR | TILES])
@pytest.mark.parametrize(
    ("extra", "expected"),
    [("unassalpha", on_black(picture())), ("assocalpha", picture()), ("unspecified", picture())],
    ids=["opacity", "opacity that is applied", "near infrared"],
)
def test_a_fourth_sample_makes_colours_darker_only_if_it_is_opacity(tmp_path, how, extra, expected):
    path = tmp_path / "a.tif"
    write_samples(path, half_opaque(picture()), "rgb", [extra], **how)
    with open_image(path) as stack:
        np.testing.assert_array_equal(stack.source().read(0, (0, 0, 60, 80)), expected)
        said = ["a.tif has a fourth band that is no opacity" in note for note in stack.notes]
    assert said == ([True] if extra == "unspecified" else [])
    np.testing.assert_array_equal(read_image(path), expected)


def test_a_fourth_sample_that_a_file_does_not_explain_is_opacity(tmp_path, monkeypatch):
    """Some programs write RGBA without the tag ExtraSamples."""
    path = tmp_path / "a.tif"
    write_samples(path, half_opaque(picture()), "rgb")
    tag = np.array([338, 3], "<u2").tobytes()
    content = path.read_bytes()
    assert content.count(tag) == 1
    path.write_bytes(content.replace(tag, np.array([65_000, 3], "<u2").tobytes()))
    with open_image(path) as stack:
        assert stack.notes == ()
    np.testing.assert_array_equal(read_image(path), on_black(picture()))


@pytest.mark.parametrize("how", [{}, TILES])
def test_four_bands_of_grey_are_channels(tmp_path, how):
    write_samples(tmp_path / "a.tif", half_opaque(picture()), "minisblack", **how)
    with open_image(tmp_path / "a.tif") as stack:
        assert stack.channel_names == ["0", "1", "2", "3"]
        green = stack.source(channels=["1"]).read(0, (0, 0, 60, 80))
    np.testing.assert_array_equal(green, picture()[:, :, 1])
    with pytest.raises(InputError, match=r"shape \(4, 60, 80\); one plane"):
        read_image(tmp_path / "a.tif")


@pytest.mark.parametrize("how", [{}, TILES, PLANAR])
@pytest.mark.parametrize("extra", ["unassalpha", "assocalpha", "unspecified"])
def test_grey_with_opacity_is_grey(tmp_path, how, extra):
    grey = picture()[:, :, :1]
    write_samples(tmp_path / "a.tif", half_opaque(grey), "minisblack", [extra], **how)
    with open_image(tmp_path / "a.tif") as stack:
        if extra == "unspecified":
            assert stack.channel_names == ["0", "1"]
            return
        shown = stack.source().read(0, (10, 0, 60, 70))
    expected = np.repeat(on_black(grey) if extra == "unassalpha" else grey, 3, 2)
    np.testing.assert_array_equal(shown, expected[10:, :70])
    np.testing.assert_array_equal(read_image(tmp_path / "a.tif"), expected)


@pytest.mark.parametrize(("mode", "says"), [("CMYK", "CMYK"), ("LAB", "L*a*b*"), ("YCbCr",) * 2])
def test_colours_that_would_be_taken_for_others_are_refused(tmp_path, mode, says):
    path = tmp_path / "a.tif"
    Image.fromarray(picture()).convert(mode).save(path)
    for read in (open_image, lambda p: decode(p, "image", colours=True)):
        with pytest.raises(InputError, match=f"a.tif stores its colours as {re.escape(says)}; sav"):
            read(path)


def test_a_table_of_colours_by_imagej_leaves_intensities_with_a_note(tmp_path):
    path = tmp_path / "a.tif"
    numbers = np.arange(60 * 80, dtype=np.uint8).reshape(60, 80)
    table = np.zeros((3, 256), np.uint16)
    table[1] = np.arange(256) * 257
    about = "ImageJ=1.53t\nimages=1\n"
    tifffile.imwrite(
        *(path, numbers), photometric="palette", colormap=table, description=about, metadata=None
    )
    with open_image(path) as stack:
        assert stack.axes == ("y", "x")
        assert "a.tif has a table of colours by ImageJ" in stack.notes[0]


@pytest.mark.parametrize("kind", ["jpg", "png", "webp", "tif"])
@pytest.mark.parametrize("orientation", [0, 1, 3, 6, 9])
def test_an_image_that_viewers_turn_is_used_as_stored_and_said(tmp_path, kind, orientation):
    path, exif = tmp_path / f"a.{kind}", Image.Exif()
    exif[274] = orientation
    picture_file = Image.fromarray(picture(60, 80))
    if kind == "tif":
        extra = [(274, 3, 1, orientation, True)]
        tifffile.imwrite(path, picture(60, 80), photometric="rgb", extratags=extra)
    else:
        picture_file.save(path, exif=exif)
    with open_image(path) as stack:
        assert stack.levels[0].shape == (60, 80, 3)
        said = [note for note in stack.notes if f"{path} says that it is to be turned" in note]
    assert bool(said) == (orientation in (3, 6))


@pytest.mark.parametrize("kind", ["png", "webp", "jpg"])
def test_exif_that_cannot_be_read_is_ignored(tmp_path, kind):
    path = tmp_path / f"a.{kind}"
    Image.fromarray(picture()).save(path, exif=b"Exif\0\0garbage" if kind == "jpg" else b"garbage")
    with open_image(path) as stack:
        assert stack.notes == ()


@pytest.mark.parametrize("kind", ["gif", "webp", "png"])
def test_of_an_animation_the_first_picture_is_used_and_said(tmp_path, kind):
    path = tmp_path / f"a.{kind}"
    first, *others = (Image.fromarray(np.roll(picture(60, 80), 9 * n, 1)) for n in range(3))
    first.save(path, save_all=True, append_images=others, duration=50)
    with open_image(path) as stack:
        assert stack.notes == (f"{path} is an animation of 3 pictures; the first one is used.",)
    first.save(path)
    assert open_image(path).notes == ()
