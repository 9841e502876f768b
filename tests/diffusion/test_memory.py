"""Memory is checked before anything is loaded, and the refusal says what would fit."""

import re

import pytest

from napari_maskinversion.base.errors import NotEnoughMemoryError
from napari_maskinversion.diffusion.decoders import DECODERS
from napari_maskinversion.diffusion.folders import DecoderFolder
from napari_maskinversion.diffusion.memory import check_memory, chosen_dtype, needed_memory
from napari_maskinversion.diffusion.settings import PictureSettings

GB = 10**9


@pytest.fixture
def folder(tmp_path):
    """Kandinsky 2.2 as published: 1.32 thousand million numbers."""
    return DecoderFolder(
        decoder=DECODERS["kandinsky22"],
        path=tmp_path,
        clip_model="ViT-bigG-14/laion2b_s39b_b160k",
        width=1280,
        parameters=1_253_057_288 + 67_832_495,
    )


def check(folder, free, device="cpu", **settings):
    return check_memory(folder, PictureSettings(**settings).filled(), device, "this device", free)


def test_it_counts_weights_and_a_picture(folder):
    # 5.3 GB of weights; decoding 512 px took up to 1.5 GB in float32 (see docs/lab/imagine.md).
    assert check(folder, 24 * GB) == pytest.approx(6.8 * GB, rel=0.02)
    assert check(folder, 24 * GB, "cuda:0") == pytest.approx(3.4 * GB, rel=0.02)
    assert check(folder, None) == check(folder, 24 * GB)


@pytest.mark.parametrize(
    ("free", "settings", "advice"),
    [
        (4 * GB, {}, "in bfloat16 at 512 px it would fit"),
        (8 * GB, {"size": 1024}, "in bfloat16 at 1024 px it would fit"),
        (6 * GB, {"size": 1024}, "in bfloat16 at 1024 px it would fit"),
        (3 * GB, {}, "in bfloat16 at 256 px it would fit"),
        (1 * GB, {}, "use a device with 3.5 GB free"),
    ],
)
def test_what_would_fit_is_named(folder, free, settings, advice):
    with pytest.raises(NotEnoughMemoryError, match=advice) as caught:
        check(folder, free, **settings)
    text = str(caught.value)
    assert "this device has" in text
    # The advice keeps its promise.
    if side := re.search(r"at (\d+) px it would fit", text):
        assert needed_memory(folder, int(side[1]), "bfloat16") <= free


def test_precision_follows_the_device():
    assert chosen_dtype(PictureSettings(), "cuda:1") == "float16"
    assert chosen_dtype(PictureSettings(), "cpu") == "float32"
    assert chosen_dtype(PictureSettings(dtype="bfloat16"), "cuda:0") == "bfloat16"
