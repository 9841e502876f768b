"""Images and annotations of a data set: as `run` reads them, and the broken one is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from PIL import Image

from napari_maskinversion.bench.datasets.base import BadRecordError
from napari_maskinversion.bench.datasets.label_images import ImageFolder
from napari_maskinversion.cli.bench import data_sets
from napari_maskinversion.engine.encode.preprocessing import to_rgb_tensor
from tests.scenes import demo_model

from .conftest import Bench
from .sets import folder_call, ok, one_line


@pytest.fixture
def bench(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Call ``bench`` with a model that is loaded once."""
    monkeypatch.setattr(data_sets, "load", lambda *_: demo_model())
    return bench


def folder(own: Path) -> ImageFolder:
    return ImageFolder(own / "images", own / "masks", own / "names.txt")


def shades(own: Path) -> dict[str, np.ndarray]:
    """Grey levels of each image, from black to white, instead of its file."""
    tensors = {}
    for file in sorted((own / "images").iterdir()):
        grey = np.asarray(Image.open(file).convert("L")).astype(float)
        grey = (grey - grey.min()) / (grey.max() - grey.min()) * 255
        tensors[file.stem] = grey.round().astype(np.uint8)
        file.unlink()
    return tensors


def save(file: Path, grey: np.ndarray, bits: str) -> None:
    """Write eight bits in another type; microscopes use a part of sixteen bits."""
    whole = grey.astype(np.float64)
    if bits == "8":
        Image.fromarray(grey).save(file.with_suffix(".png"))
    elif bits == "16, PNG":
        Image.fromarray((whole * 10 + 300).astype(np.uint16)).save(file.with_suffix(".png"))
    elif bits == "16, TIFF":
        tifffile.imwrite(file.with_suffix(".tif"), (whole * 10 + 300).astype(np.uint16))
    elif bits == "16, colours":
        rgb = np.repeat((whole * 257).astype(np.uint16)[..., None], 3, 2)
        tifffile.imwrite(file.with_suffix(".tif"), rgb, photometric="rgb")
    elif bits == "float":
        tifffile.imwrite(file.with_suffix(".tif"), (whole / 255).astype(np.float32))


def input_of(own: Path, key: str) -> np.ndarray:
    """What the model would take: (3, H, W) in 0..1."""
    seen = to_rgb_tensor(folder(own).read(key).image)
    return (seen if seen.is_floating_point() else seen / 255).numpy()


@pytest.mark.parametrize("bits", ["8", "16, PNG", "16, TIFF", "16, colours", "float"])
def test_an_image_is_the_same_input_in_any_type(own: Path, bits: str) -> None:
    for key, grey in shades(own).items():
        save(own / "images" / key, grey, bits)
        pixels = input_of(own, key)
        assert pixels.shape == (3, 60, 80)
        low, high = 0.0, 255.0
        if bits in ("16, PNG", "16, TIFF"):  # grey of more bits is stretched, as everywhere
            low, high = np.percentile(grey.astype(float), (0.1, 99.9))
        expected = np.clip((grey - low) / (high - low), 0, 1)
        np.testing.assert_allclose(pixels, np.stack([expected] * 3), atol=1e-5)


def test_a_stack_and_a_picture_that_is_not_finite_are_refused(own: Path) -> None:
    place = own / "images"
    for name in ("p0", "p1"):
        (place / f"{name}.jpg").unlink()
    tifffile.imwrite(place / "p0.tif", np.zeros((4, 60, 80), np.uint8), photometric="minisblack")
    tifffile.imwrite(place / "p1.tif", np.full((60, 80), np.nan, np.float32))
    with pytest.raises(BadRecordError, match=r"^p0: \S*p0\.tif contains an .*\(4, 60, 80\)"):
        folder(own).read("p0")
    with pytest.raises(BadRecordError, match=r"^p1: \S*p1\.tif: .* no finite value"):
        folder(own).read("p1")


@pytest.mark.parametrize("which", ["images", "masks"])
def test_a_compressed_tiff_that_was_cut_off_can_be_left_out(
    bench: Bench, own: Path, which: str
) -> None:
    old = next((own / which).glob("p1.*"))
    pixels = np.random.default_rng(0).integers(1, 4, (60, 80), np.uint8)
    old.unlink()
    file = own / which / "p1.tif"
    tifffile.imwrite(file, pixels, compression="lzw")
    # The strip stands at the end, and is short of what its head says.
    file.write_bytes(file.read_bytes()[:-40])
    call = folder_call(own, "--methods", "cls")
    one_line(bench(*call), "p1: ", f"{which}/p1.tif could not be read", "cut off", "--skip-bad")
    out = ok(bench(*call, "--skip-bad"))
    assert f"- p1: {file} could not be read" in out


def test_a_decoder_that_lacks_memory_does_not_make_a_file_a_broken_one(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def short(*_: Any, **__: Any) -> Any:
        raise MemoryError("9 GB")

    next((own / "images").glob("p0.*")).unlink()
    tifffile.imwrite(own / "images" / "p0.tif", np.ones((60, 80), np.uint8), compression="zlib")
    monkeypatch.setattr(tifffile.TiffPage, "decode", property(short))
    with pytest.raises(MemoryError):
        folder(own).read("p0")
