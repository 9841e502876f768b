"""Damaged files and files of other things are refused in one line that names them."""

import io
import struct
import zlib

import imagecodecs
import numpy as np
import pytest
import skimage.io
import tifffile
import zarr
from PIL import Image

from napari_maskinversion.base.errors import InputError
from napari_maskinversion.images.decoding import decode
from napari_maskinversion.images.opening import open_image, open_labels
from tests.ndpi import jpeg_with_restarts, write_ndpi
from tests.scenes import picture

COLOURS = np.random.default_rng(0).integers(0, 255, (150, 140, 3), dtype=np.uint8)
LABELS = np.kron(np.arange(210).reshape(15, 14), np.ones((10, 10), int)).astype(np.uint16)
CODECS = (None, "deflate", "lzw", "lzma", "zstd", "packbits", "jpeg2000", "png", "jpegxl", "lerc")


def read_image(path):
    with open_image(path) as stack:
        source = stack.source()
        source.check()
        return [source.read(n, (0, 0, *level.shape)) for n, level in enumerate(source.levels)]


def read_labels(path):
    with open_labels(path) as stack:
        return np.asarray(stack.levels[0][:, :])


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(("read", "pixels"), [(read_image, COLOURS), (read_labels, LABELS)])
def test_a_tiff_that_is_cut_off_is_refused(tmp_path, codec, read, pixels):
    path, cut = tmp_path / "whole.tif", tmp_path / "cut.tif"
    kind = "rgb" if pixels.ndim == 3 else "minisblack"
    tifffile.imwrite(path, pixels, compression=codec, tile=(64, 64), photometric=kind)
    read(path)
    content = path.read_bytes()
    for share in (0.1, 0.5, 0.9):
        cut.write_bytes(content[: int(share * len(content))])
        with pytest.raises(InputError, match=r"cut\.tif could not be read"):
            read(cut)


def _jpeg(tile):
    place = tile.index(b"\xff\xc0") + 5
    return tile[:place] + struct.pack(">HH", 65500, 65500) + tile[place + 4 :]


def _jpeg2000(tile):
    place = tile.index(b"\xff\x4f\xff\x51") + 8
    size = struct.pack(">II", 12000, 12000)
    return tile[:place] + size + tile[place + 8 : place + 16] + size + tile[place + 24 :]


def _png(tile):
    place = tile.index(b"IHDR")
    head = b"IHDR" + struct.pack(">II", 12000, 12000) + tile[place + 12 : place + 17]
    check = struct.pack(">I", zlib.crc32(head))
    return tile[:place] + head + check + tile[place + 21 :]


@pytest.mark.parametrize(
    ("codec", "enlarge"), [("jpeg", _jpeg), ("jpeg2000", _jpeg2000), ("png", _png)]
)
def test_a_tile_that_declares_more_pixels_than_it_has_is_refused(
    tmp_path, monkeypatch, codec, enlarge
):
    path = tmp_path / "tiles.tif"
    tifffile.imwrite(path, COLOURS, compression=codec, tile=(64, 64), photometric="rgb")
    read_image(path)
    path.write_bytes(enlarge(path.read_bytes()))
    for name in ("jpeg_decode", "jpeg2k_decode", "png_decode", "jpegxl_encode_jpeg"):
        monkeypatch.setattr(imagecodecs, name, lambda *_, **__: pytest.fail("it is allocated"))
    with pytest.raises(InputError, match=r"tiles\.tif could not .*(declares more|exceeds limit)"):
        read_image(path)


@pytest.mark.parametrize("kind", ["png", "jpg", "bmp", "gif"])
def test_a_picture_that_is_cut_off_is_refused(tmp_path, kind):
    path, cut = tmp_path / f"whole.{kind}", tmp_path / f"cut.{kind}"
    skimage.io.imsave(path, COLOURS, check_contrast=False)
    read_image(path)
    content = path.read_bytes()
    for share in (0.1, 0.5, 0.9):
        cut.write_bytes(content[: int(share * len(content))])
        with pytest.raises(InputError, match=rf"cut\.{kind} could not be read"):
            read_image(cut)


def test_a_damaged_chunk_of_a_zarr_folder_is_refused(tmp_path):
    array = zarr.open(str(tmp_path / "a.zarr"), mode="w", shape=(99, 99), chunks=(50, 50))
    array[:] = np.arange(99.0 * 99).reshape(99, 99)
    chunks = [path for path in (tmp_path / "a.zarr").rglob("*") if path.suffix != ".json"]
    for chunk in (path for path in chunks if path.is_file()):
        chunk.write_bytes(chunk.read_bytes()[:10])
    with pytest.raises(InputError, match=r"a\.zarr could not be read"):
        read_image(tmp_path / "a.zarr")


@pytest.mark.parametrize(
    "array",
    [
        np.array([["a", "b"], ["c", "d"]]),
        np.zeros((4, 4), [("a", int)]),
        np.zeros((4, 4), "datetime64[s]"),
        np.zeros((4, 4), "S3"),
    ],
    ids=["texts", "structs", "dates", "bytes"],
)
def test_an_array_of_other_things_than_numbers_is_refused(tmp_path, array):
    np.save(tmp_path / "a.npy", array)
    for read in (read_image, read_labels):
        with pytest.raises(InputError, match=r"a\.npy contains values of type"):
            read(tmp_path / "a.npy")


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_a_narrow_picture_in_colours_is_no_stack(tmp_path, width):
    skimage.io.imsave(tmp_path / "a.png", COLOURS[:50, :width], check_contrast=False)
    with open_image(tmp_path / "a.png") as stack:
        assert stack.shape == (50, width)
        assert stack.axes == ("y", "x", "s")


def jpeg(**options):
    data = io.BytesIO()
    Image.fromarray(COLOURS).save(data, "jpeg", **options)
    return data.getvalue()


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"restart_marker_rows": 2}])
def test_a_jpeg_whose_pixels_are_damaged_in_the_middle_is_refused(tmp_path, options):
    """libjpeg only warns of them, and Pillow reads grey where they were."""
    whole = jpeg(**options)
    middle = len(whole) // 2
    (tmp_path / "a.jpg").write_bytes(whole[:middle] + bytes(2000) + whole[middle + 2000 :])
    with pytest.raises(InputError, match=r"a\.jpg could not be read as image: its pixels are dam"):
        read_image(tmp_path / "a.jpg")


@pytest.mark.parametrize(
    ("options", "more"),
    [
        ({"exif": b"Exif\0\0" + b"x" * 99}, b""),
        ({"icc_profile": b"no profile" * 9000}, b""),
        ({"comment": b"by hand", "quality": 100, "subsampling": 0}, b"trailing bytes"),
        ({"progressive": True, "quality": 5}, b""),
        ({"progressive": True}, b"a film" * 1_000_000),
    ],
)
def test_an_intact_jpeg_of_any_kind_is_read(tmp_path, options, more):
    (tmp_path / "a.jpg").write_bytes(jpeg(**options) + more)
    read_image(tmp_path / "a.jpg")
    Image.fromarray(COLOURS).convert("CMYK").save(tmp_path / "cmyk.jpg")
    read_image(tmp_path / "cmyk.jpg")


@pytest.mark.parametrize("height", [200, 220, 224])
def test_an_intact_jpeg_that_ends_in_codes_of_zeros_is_read_and_one_cut_off_is_not(
    tmp_path, height
):
    """Optimised tables have them for flat areas."""
    pixels = np.zeros((height, 16), np.uint8)
    pixels[:16:2, ::3] = 200
    data = io.BytesIO()
    Image.fromarray(pixels).save(data, "jpeg", optimize=True)
    (tmp_path / "a.jpg").write_bytes(data.getvalue())
    read_image(tmp_path / "a.jpg")
    (tmp_path / "a.jpg").write_bytes(data.getvalue()[:-22] + data.getvalue()[-2:])
    with pytest.raises(InputError, match=r"a\.jpg could not be read as image"):
        read_image(tmp_path / "a.jpg")


MODES = ("RGB", "L", "CMYK")


@pytest.mark.parametrize("blocks", [1, 7, 50_000])
@pytest.mark.parametrize("mode", MODES)
def test_a_jpeg_with_restarts_is_read_and_refused_if_one_is_wrong_or_missing(
    tmp_path, mode, blocks
):
    for subsampling in (0, 2):
        whole, starts = jpeg_with_restarts(picture(64, 200), blocks, mode, subsampling=subsampling)
        (tmp_path / "a.jpg").write_bytes(whole)
        read_whole(tmp_path / "a.jpg")
    if len(starts) < 4:
        return
    turned = whole[: starts[2] - 1] + whole[starts[1] - 1 : starts[1]] + whole[starts[2] :]
    missing = whole[: starts[1]] + whole[starts[2] :]
    codes = starts[2] - 2 - starts[1]
    impossible = whole[: starts[1]] + (b"\xff\0" * codes)[:codes] + whole[starts[2] - 2 :]
    for damaged in (turned, missing, impossible):
        (tmp_path / "a.jpg").write_bytes(damaged)
        with pytest.raises(InputError, match=r"a\.jpg could not be read as image: its pixels are"):
            read_whole(tmp_path / "a.jpg")


@pytest.mark.parametrize("blocks", [2, 6])
def test_a_slide_of_ndpi_is_read_in_the_same_pixels_and_refused_if_damaged(tmp_path, blocks):
    path = tmp_path / "a.ndpi"
    first, last = write_ndpi(path, picture(64, 96), blocks)
    np.testing.assert_array_equal(read_pieces(path)[0], read_whole(path))
    assert np.abs(read_whole(path) - picture(64, 96).astype(float)).mean() < 10
    content = path.read_bytes()
    middle = (first + last) // 2
    path.write_bytes(content[:middle] + b"\xff\0" * 20 + content[middle + 40 :])
    for read in (read_pieces, read_whole):
        with pytest.raises(InputError, match=r"a\.ndpi could not be read as image: its pixels are"):
            read(path)


def test_a_jpeg_with_colours_at_a_quarter_of_the_width_is_read(tmp_path):
    (tmp_path / "a.jpg").write_bytes(imagecodecs.jpeg8_encode(COLOURS, subsampling="411"))
    read_image(tmp_path / "a.jpg")


JPEG_TIFFS = {
    "tiles": {"tile": (64, 64)},
    "strips": {"rowsperstrip": 48},
    "colours stored as RGB": {"tile": (64, 64), "photometric": "rgb"},
    "colours at half the width": {"tile": (64, 64), "subsampling": (2, 2)},
    "planes of colours": {"photometric": "rgb", "planarconfig": "separate"},
    "several planes": {"tile": (64, 64), "photometric": "minisblack"},
    "a pyramid": {"tile": (64, 64), "subifds": 1},
}


def write_jpeg_tiff(path, kind):
    """Write a TIFF of JPEG parts with shared tables; return its pages."""
    options = {"photometric": "ycbcr", "compression": "jpeg", **JPEG_TIFFS[kind]}
    colours_first = kind in ("planes of colours", "several planes")
    pixels = COLOURS.transpose(2, 0, 1) if colours_first else COLOURS
    with tifffile.TiffWriter(path) as file:
        file.write(pixels, **options)
        if kind == "a pyramid":
            file.write(COLOURS[::2, ::2], **{**options, "subifds": 0, "subfiletype": 1})
    with tifffile.TiffFile(path) as file:
        return [page.aspage() for level in file.series[0].levels for page in level.pages]


def read_pieces(path):
    """Read each plane of each level as windows are read."""
    with open_image(path) as stack:
        return [np.asarray(level[(slice(None),) * len(level.shape)]) for level in stack.levels]


def read_whole(path):
    return decode(path, "image", colours=True)


@pytest.mark.parametrize("read", [read_pieces, read_whole])
@pytest.mark.parametrize("kind", JPEG_TIFFS)
def test_a_tiff_with_a_damaged_jpeg_in_its_last_plane_is_refused(tmp_path, kind, read):
    path = tmp_path / "a.tif"
    pages = write_jpeg_tiff(path, kind)
    read(path)
    page = pages[0 if read is read_whole and kind == "a pyramid" else -1]
    size, start = max(zip(page.databytecounts, page.dataoffsets, strict=True))
    middle = start + size // 2
    content = bytearray(path.read_bytes())
    content[middle : middle + 99] = b"\xfe" * 99
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"a\.tif could not be read as image: its pixels are dam"):
        read(path)


def with_shared_tables(tile):
    """Split a tile's JPEG into its tables, as a stream of their own, and the rest."""
    tables = rest = tile[:2]
    place = 2
    while (marker := tile[place + 1]) != 0xDA:
        end = place + 2 + int.from_bytes(tile[place + 2 : place + 4])
        if marker in (0xDB, 0xC4):
            tables += tile[place:end]
        else:
            rest += tile[place:end]
        place = end
    return tables + b"\xff\xd9", rest + tile[place:]


GREY_12_BITS = COLOURS[:, :, 0].astype(np.uint16) * 16


def write_tiles(path, tiles, tables=None):
    """Write a TIFF of two JPEG tiles."""
    tifffile.imwrite(
        path,
        iter(tiles),
        shape=(64, 128, 3),
        dtype=np.uint8,
        tile=(64, 64),
        compression="jpeg",
        photometric="ycbcr",
        subsampling=(1, 1),
        extratags=[(347, 7, len(tables), tables, True)] if tables else [],
    )


@pytest.mark.parametrize("read", [read_pieces, read_whole])
def test_a_damaged_tile_is_refused_where_all_share_their_tables(tmp_path, read):
    """As whole slides do."""
    path, tile = tmp_path / "a.tif", imagecodecs.jpeg8_encode(COLOURS[:64, :64])
    tables, rest = with_shared_tables(tile)
    write_tiles(path, [rest, rest], tables)
    read(path)
    middle = len(rest) // 2
    write_tiles(path, [rest, rest[:middle] + b"\xfe" * 99 + rest[middle + 99 :]], tables)
    with pytest.raises(InputError, match=r"a\.tif could not be read as image: its pixels are dam"):
        read(path)


@pytest.mark.parametrize("read", [read_pieces, read_whole])
@pytest.mark.parametrize(
    ("pixels", "options"),
    [
        (COLOURS, {"photometric": "ycbcr", "subsampling": (4, 1)}),
        (COLOURS, {"photometric": "rgb", "compressionargs": {"lossless": True}}),
        (GREY_12_BITS, {"compressionargs": {"bitspersample": 12, "lossless": False}}),
    ],
    ids=["colours at a quarter of the width", "lossless", "12 bits"],
)
def test_a_tiff_of_any_form_of_jpeg_is_read(tmp_path, read, pixels, options):
    tifffile.imwrite(tmp_path / "a.tif", pixels, compression="jpeg", tile=(64, 64), **options)
    read(tmp_path / "a.tif")


@pytest.mark.parametrize("read", [read_pieces, read_whole])
def test_tiles_of_jpeg_without_an_end_are_read(tmp_path, read):
    tile = imagecodecs.jpeg8_encode(COLOURS[:64, :64])[:-2]
    write_tiles(tmp_path / "a.tif", [tile, tile])
    read(tmp_path / "a.tif")


@pytest.mark.parametrize("compression", [None, "zlib", "packbits"])
@pytest.mark.parametrize("more", [{}, {"tile": (16, 16)}, {"metadata": None}])
def test_a_stack_that_is_cut_off_is_not_read_as_its_first_plane(tmp_path, compression, more):
    stack = np.random.default_rng(0).integers(0, 255, (4, 60, 80), np.uint8)
    tifffile.imwrite(tmp_path / "whole.tif", stack, compression=compression, **more)
    content = (tmp_path / "whole.tif").read_bytes()
    for share in (0.4, 0.6, 0.9):
        (tmp_path / "a.tif").write_bytes(content[: int(share * len(content))])
        with pytest.raises(InputError, match=r"a\.tif"), open_image(tmp_path / "a.tif") as opened:
            np.asarray(opened.levels[0])
    with open_image(tmp_path / "whole.tif") as opened:
        assert opened.shape == (60, 80)


def test_a_png_with_one_wrong_byte_is_refused(tmp_path):
    skimage.io.imsave(tmp_path / "a.png", COLOURS, check_contrast=False)
    content = bytearray((tmp_path / "a.png").read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "a.png").write_bytes(content)
    with pytest.raises(InputError, match=r"a\.png could not be read"):
        read_image(tmp_path / "a.png")


def test_a_tiff_head_that_claims_more_than_the_memory_is_refused(tmp_path):
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, np.zeros((64, 64), np.uint8), compression="zlib", rowsperstrip=64)
    with tifffile.TiffFile(path, mode="r+") as file:
        for name in ("ImageWidth", "ImageLength", "RowsPerStrip"):
            file.pages[0].tags[name].overwrite(600_000)
    for read in (read_image, read_labels):
        with pytest.raises(InputError, match=r"a\.tif needs 360.0 GB of memory"):
            read(path)


@pytest.mark.parametrize("options", [{"rowsperstrip": 60}, {"tile": (64, 64)}])
def test_a_tiff_with_fewer_parts_than_its_head_claims_is_refused(tmp_path, options):
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, COLOURS, compression="lzw", photometric="rgb", **options)
    read_image(path)
    with tifffile.TiffFile(path, mode="r+") as file:
        file.pages[0].tags["ImageLength"].overwrite(2**31 + 60)
    with pytest.raises(InputError, match=r"a\.tif could not be read as image"), open_image(path):
        pass


def test_an_array_head_that_claims_more_than_the_file_has_is_refused(tmp_path):
    with (tmp_path / "a.npy").open("wb") as file:
        about = {"descr": "|u1", "fortran_order": False, "shape": (10**6, 10**6)}
        np.lib.format.write_array_header_1_0(file, about)
    for read in (read_image, read_labels):
        with pytest.raises(InputError, match=r"a\.npy could not be read"):
            read(tmp_path / "a.npy")


def test_chunks_larger_than_the_memory_are_refused(tmp_path):
    array = zarr.open(
        str(tmp_path / "a.zarr"), mode="w", shape=(10**6,) * 2, chunks=(10**6,) * 2, dtype="u1"
    )
    assert array.shape == (10**6, 10**6)
    with pytest.raises(InputError, match=r"a\.zarr needs 1,000\.0 GB of memory"):
        read_labels(tmp_path / "a.zarr")


@pytest.mark.parametrize(("codec", "name"), [("webp", "WebP"), ("jpeg2000", "JPEG 2000")])
def test_pixels_without_a_checksum_are_told(tmp_path, codec, name):
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, COLOURS, compression=codec, tile=(64, 64), photometric="rgb")
    with open_image(path) as stack:
        assert f"a.tif stores its pixels as {name}" in stack.notes[0]
    tifffile.imwrite(path, COLOURS, compression="zlib", photometric="rgb")
    with open_image(path) as stack:
        assert stack.notes == ()


@pytest.mark.parametrize("version", [2, 3])
def test_missing_chunks_of_a_zarr_folder_are_told(tmp_path, version):
    folder = tmp_path / "a.zarr"
    zarr.create_array(
        folder, data=np.ones((99, 99), np.uint8), chunks=(50, 50), zarr_format=version
    )
    with open_image(folder) as stack:
        assert stack.notes == ()
    (folder / ("0.1" if version == 2 else "c/0/1")).unlink()
    with open_image(folder) as stack:
        assert "a.zarr: 1 of 4 chunks are not stored and are read as 0" in stack.notes[0]
