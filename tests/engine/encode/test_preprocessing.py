"""Images in: number types, channels, proportions, and what is refused."""

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from open_clip.transform import PreprocessCfg, image_transform_v2
from PIL import Image

from napari_maskinversion.base.errors import InputError
from napari_maskinversion.engine.encode.preprocessing import to_rgb_tensor
from napari_maskinversion.engine.encode.token_grid import TokenGrid
from napari_maskinversion.engine.models.loading import wrap_open_clip
from tests.engine.tiny import tiny_clip


@pytest.fixture(scope="module")
def model():
    return wrap_open_clip(tiny_clip())


@pytest.mark.parametrize("interpolation", ["bicubic", "bilinear"])
def test_a_squashed_image_is_what_open_clips_own_transform_makes(interpolation):
    settings_ = PreprocessCfg(size=64, resize_mode="squash", interpolation=interpolation)
    transform = image_transform_v2(settings_, is_train=False)
    model = wrap_open_clip(tiny_clip(image_size=64), preprocess=transform)
    image = np.random.default_rng(0).integers(60, 196, (90, 130, 3), np.uint8)
    expected = transform(Image.fromarray(image))[None]
    made = model.preprocess(image, resolution=64, keep_aspect=False)
    assert made.dtype == torch.float32
    # open_clip rounds to 8 bits after each direction; one grey level is 0.015 here.
    torch.testing.assert_close(made, expected, atol=0.03, rtol=0)
    assert abs(float((made - expected).mean())) < 1e-3


@pytest.mark.parametrize(
    "same",
    [
        lambda grey: grey[:, :, None],
        lambda grey: np.stack([grey] * 3, axis=2),
        lambda grey: np.stack([grey, grey, grey, np.full_like(grey, 255)], axis=2),
        lambda grey: grey.astype(np.uint16) * 257,
        lambda grey: (grey.astype(np.uint16) * 257).astype(">u2"),
        lambda grey: (grey / 255).astype(np.float32),
        lambda grey: grey / 255,
        lambda grey: np.ascontiguousarray(grey[::-1])[::-1],
    ],
    ids=["(H, W, 1)", "RGB", "RGBA", "uint16", "big-endian", "float32", "float64", "flipped view"],
)
def test_grey_and_every_number_type_give_the_same_picture(model, same):
    grey = np.random.default_rng(0).integers(60, 196, (40, 50)).astype(np.uint8)
    grey.setflags(write=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = model.preprocess(same(grey), resolution=32)
    # Images of 8 bits are rounded to 8 bits when resized, as open_clip does: 0.015 a level.
    torch.testing.assert_close(made, model.preprocess(grey, resolution=32), atol=0.03, rtol=0)


def test_true_is_white_and_false_black(model):
    mask = np.zeros((32, 32), bool)
    mask[:, 16:] = True
    assert set(to_rgb_tensor(mask).unique().tolist()) == {0.0, 1.0}


def test_transparency_shows_black():
    image = np.full((4, 4, 4), 255, np.uint8)
    image[:, 2:, 3] = 0
    rgb = to_rgb_tensor(image)
    assert rgb[:, :, :2].unique().tolist() == [1.0]
    assert rgb[:, :, 2:].unique().tolist() == [0.0]


def test_the_callers_image_is_not_written_to(model):
    image = np.random.default_rng(0).random((30, 30, 3)) * 1.005
    image = image.astype(np.float32)
    before = image.copy()
    model.preprocess(image)
    np.testing.assert_array_equal(image, before)


@pytest.mark.parametrize(
    ("image", "words"),
    [
        (np.zeros((3, 20, 30), np.uint8), "channels last"),
        (np.zeros((20, 30, 2), np.uint8), r"\(20, 30, 2\)"),
        (np.zeros(5, np.uint8), r"\(5,\)"),
        (np.zeros((0, 30, 3), np.uint8), "no pixels"),
        (np.full((20, 30), np.nan), "600 values that are not finite"),
        (np.where(np.eye(20) > 0, np.inf, 0), "20 values"),
        (np.full((20, 30, 3), 255.0), "0..1"),
        (np.full((20, 30, 3), -1.0), "0..1"),
        (np.zeros((20, 30, 3), np.int64), "int64"),
        (np.zeros((20, 30), complex), "complex"),
        (np.array([["a"]]), "U1"),
    ],
)
def test_an_image_that_cannot_be_used_is_refused_with_the_reason(model, image, words):
    with pytest.raises(InputError, match=words):
        model.preprocess(image)


@settings(max_examples=200, deadline=None)
@given(
    height=st.integers(1, 4000),
    width=st.integers(1, 4000),
    patch=st.sampled_from([8, 14, 16, 32]),
    multiple=st.integers(2, 64),
)
def test_the_grid_keeps_proportions_and_number_of_tokens(height, width, patch, multiple):
    rows, columns = TokenGrid.for_image(
        height, width, patch=patch, resolution=patch * multiple, keep_aspect=True
    )
    assert 2 <= rows <= 3 * multiple
    assert 2 <= columns <= 3 * multiple
    sides = multiple * (height / width) ** 0.5, multiple * (width / height) ** 0.5
    if min(sides) >= 2 and max(sides) <= 3 * multiple:
        assert abs(rows - sides[0]) <= 0.5
        assert abs(columns - sides[1]) <= 0.5


def test_a_wide_image_gets_a_wide_grid_and_a_squashed_one_a_square(model):
    image = np.zeros((100, 200, 3), np.uint8)
    assert model.preprocess(image, resolution=64).shape == (1, 3, 48, 88)
    assert model.preprocess(image, resolution=64, keep_aspect=False).shape == (1, 3, 64, 64)


def test_the_default_is_the_working_resolution(model):
    side = model.working_resolution
    assert model.preprocess(np.zeros((50, 50, 3), np.uint8)).shape == (1, 3, side, side)


def test_a_resolution_under_two_patches_is_refused(model):
    with pytest.raises(InputError, match="at least 16"):
        model.preprocess(np.zeros((50, 50), np.uint8), resolution=8)
