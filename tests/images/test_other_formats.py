"""Files of microscopes that other packages read."""

import importlib.util

import numpy as np
import pytest
import tifffile

from napari_maskinversion.base.errors import InputError
from napari_maskinversion.images.opening import open_image
from tests.lif import write_lif
from tests.scenes import label_image, picture


@pytest.fixture
def scenes(tmp_path):
    """A file with two scenes of two channels."""
    pixels = [picture(height, 80, 3).transpose(2, 0, 1)[:2] for height in (60, 64)]
    write_lif(tmp_path / "a.lif", {"left": pixels[0], "right": pixels[1]})
    return pixels


def test_scenes_of_a_lif_file_are_images_with_channels_and_units(tmp_path, scenes):
    for series, expected in enumerate(scenes):
        with open_image(tmp_path / "a.lif", series) as stack:
            assert stack.images == ("left", "right")
            assert stack.channels == ("Green", "Red")
            assert stack.units.pixel == pytest.approx((0.5, 0.5))
            assert stack.units.unit == "µm"
            read = stack.source({}, ["Red"]).read(0, (5, 6, 50, 70))
            np.testing.assert_array_equal(read, expected[1, 5:50, 6:70])
    with pytest.raises(InputError, match=r"a\.lif has no image 2; it holds 2 \(0 left, 1 right\)"):
        open_image(tmp_path / "a.lif", 2)


def test_scenes_go_through_run_and_batch(tmp_path, scenes, call, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tifffile.imwrite("cells_0.tif", label_image(2, 60, 80))
    tifffile.imwrite("cells_1.tif", label_image(3, 64, 80))
    words = ("--labels", "car,dog", "--steps", 1, "--resolution", 64)
    code, _, err = call("run", "a.lif", "cells_0.tif", *words, "--out", "one")
    assert code == 0, err
    assert "a.lif holds 2 images (left, right); the first one is used" in " ".join(err.split())
    where = ("--images", "a.lif", "--regions", "cells_{series}.tif", "--positions")
    code, _, err = call("batch", *where, *words, "--out", "all")
    assert code == 0, err
    sizes = {
        file.parent.name: len(np.load(file)["embeddings"])
        for file in (tmp_path / "all").glob("archives/*/results.npz")
    }
    assert sizes == {"a_0": 2, "a_1": 3}


def test_a_damaged_file_is_one_line(tmp_path):
    (tmp_path / "a.lif").write_bytes(b"no lif")
    with pytest.raises(InputError, match=r"a\.lif could not be read as image"):
        open_image(tmp_path / "a.lif")


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("a.lif", 'Leica\'s LIF, .*: pip install "napari-maskinversion[bioio]"'),
        ("a.nd2", 'Nikon\'s ND2, .*: pip install "napari-maskinversion[bioio]"'),
        ("a.czi", "Zeiss' CZI, .*[bioio]\" bioio-czi (bioio-czi is under the GPL-3)"),
        ("a.VSI", "Olympus' VSI, .*[bioio]\" bioio-bioformats (bioio-bioformats needs Java"),
    ],
)
def test_without_its_reader_a_file_is_refused_with_the_command(
    tmp_path, monkeypatch, call, name, command
):
    real = importlib.util.find_spec

    def missing(module, *more):
        return None if module.startswith("bioio") else real(module, *more)

    monkeypatch.setattr("napari_maskinversion.images.other_formats.find_spec", missing)
    (tmp_path / name).write_bytes(b"")
    start, _, end = command.partition(".*")
    code, _, err = call("run", tmp_path / name, tmp_path, "--labels", "a,b")
    text = " ".join(err.split())
    assert code == 2
    assert f"{name} is {start}" in text
    assert end in text


def test_a_slide_of_a_scanner_is_a_pyramid(tmp_path):
    pixels = np.tile(picture(256, 320), (2, 2, 1))
    about = "Aperio Image Library v1\r\n640x512 (256x256) |MPP = 0.25"
    with tifffile.TiffWriter(tmp_path / "a.svs", bigtiff=False) as writer:
        for level in (pixels, pixels[::4, ::4]):
            writer.write(
                level, tile=(128, 128), photometric="rgb", description=about, metadata=None
            )
            if level is pixels:  # the thumbnail
                writer.write(level[::8, ::8], photometric="rgb", description=about, metadata=None)
    with open_image(tmp_path / "a.svs") as stack:
        source = stack.source()
        assert [level.shape for level in source.levels] == [(512, 640), (128, 160)]
        np.testing.assert_array_equal(source.read(0, (100, 90, 300, 400)), pixels[100:300, 90:400])
        assert stack.images[0] == "Baseline"
