"""Settings of pictures that make no sense are refused, each in one line."""

import pytest

from napari_maskinversion.base.errors import ConfigError
from napari_maskinversion.diffusion.decoders import DECODERS, decoder_that_fits
from napari_maskinversion.diffusion.settings import PictureSettings
from napari_maskinversion.engine.models.specs import MODELS


def test_values_that_are_left_open_are_the_decoders():
    filled = PictureSettings(decoder="kandinsky22").filled()
    assert (filled.steps, filled.guidance, filled.size) == (50, 7.5, 512)
    own = PictureSettings(decoder="unclip-l", steps=3, guidance=0.0, size=64).filled()
    assert (own.steps, own.guidance, own.size) == (3, 0.0, 64)


def test_pictures_have_seeds_of_their_own():
    assert list(PictureSettings(seed=7, pictures=3).seeds) == [7, 8, 9]


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"decoder": "kandinsky"}, "use kandinsky22"),
        ({"seed": -1}, "seed must be greater than or equal to 0; got -1"),
        ({"seed": 2**32 - 1, "pictures": 2}, "last picture"),
        ({"pictures": 0}, "pictures must be greater"),
        ({"size": 32}, "size must be .* 64"),
        ({"size": 500}, "size must be a multiple of 64; got 500"),
        ({"guidance": float("nan")}, "guidance must be a finite number; got nan"),
        ({"dtype": "int8"}, "'float16' or 'bfloat16'; got 'int8'"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused(values, says):
    with pytest.raises(ConfigError, match=says) as caught:
        PictureSettings(**values)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("decoder", DECODERS.values(), ids=str)
def test_each_decoder_is_for_a_model_that_can_be_loaded_by_name(decoder):
    assert decoder.clip_model in MODELS
    assert decoder_that_fits(decoder.clip_model) is decoder


def test_precision_follows_the_device():
    assert PictureSettings().dtype_on("cuda:1") == "float16"
    assert PictureSettings().dtype_on("cpu") == "float32"
    assert PictureSettings(dtype="bfloat16").dtype_on("cuda:0") == "bfloat16"
