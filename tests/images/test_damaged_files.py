"""Damaged files and files of other things are refused in one line that names them."""

import numpy as np
import pytest
import skimage.io
import tifffile
import zarr

from napari_maskinversion.base.errors import InputError
from napari_maskinversion.images.decoding import decode
from napari_maskinversion.images.opening import open_image, open_labels
from tests.ndpi import write_ndpi
from tests.scenes import picture

COLOURS = np.random.default_rng(0).integers(0, 255, (150, 140, 3), dtype=np.uint8)
LABELS = np.kron(np.arange(210).reshape(15, 14), np.ones((10, 10), int)).astype(np.uint16)
CODECS = (None, "deflate", "lzw", "jpeg2000", "png")


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


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_a_narrow_picture_in_colours_is_no_stack(tmp_path, width):
    skimage.io.imsave(tmp_path / "a.png", COLOURS[:50, :width], check_contrast=False)
    with open_image(tmp_path / "a.png") as stack:
        assert stack.shape == (50, width)
        assert stack.axes == ("y", "x", "s")


def test_a_slide_of_ndpi_is_read_in_the_same_pixels_by_windows_and_whole(tmp_path):
    write_ndpi(tmp_path / "a.ndpi", picture(64, 96), 2)
    whole = decode(tmp_path / "a.ndpi", "image", colours=True)
    np.testing.assert_array_equal(read_image(tmp_path / "a.ndpi")[0], whole)
    assert np.abs(whole - picture(64, 96).astype(float)).mean() < 10


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


def test_a_tiff_head_that_claims_more_than_the_memory_is_refused(tmp_path):
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, np.zeros((64, 64), np.uint8), compression="zlib", rowsperstrip=64)
    with tifffile.TiffFile(path, mode="r+") as file:
        for name in ("ImageWidth", "ImageLength", "RowsPerStrip"):
            file.pages[0].tags[name].overwrite(600_000)
    for read in (read_image, read_labels):
        with pytest.raises(InputError, match=r"a\.tif needs 360.0 GB of memory"):
            read(path)


def test_chunks_larger_than_the_memory_are_refused(tmp_path):
    array = zarr.open(
        str(tmp_path / "a.zarr"), mode="w", shape=(10**6,) * 2, chunks=(10**6,) * 2, dtype="u1"
    )
    assert array.shape == (10**6, 10**6)
    with pytest.raises(InputError, match=r"a\.zarr needs 1,000\.0 GB of memory"):
        read_labels(tmp_path / "a.zarr")


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
