"""How many tokens an image has along each side, wherever that is asked."""

import numpy as np
import pytest
import torch

from napari_maskinversion import MaskInverter, wrap_open_clip
from napari_maskinversion.engine.encode.token_grid import TokenGrid
from napari_maskinversion.engine.methods.factory import region_embedder
from napari_maskinversion.engine.models.towers import tower_of
from tests.engine.tiny import tiny_clip


@pytest.fixture(scope="module")
def model():
    return wrap_open_clip(tiny_clip())


def test_an_input_has_whole_tokens_only():
    grid = TokenGrid.of_input((447, 225), 16)
    assert (grid.height, grid.width, grid.tokens) == (27, 14, 378)
    assert grid.input_size(16) == (432, 224)


def test_an_image_is_seen_with_at_least_two_tokens_along_a_side():
    assert TokenGrid.for_image(10, 5000, patch=16, resolution=448, keep_aspect=True) == (2, 84)


def test_all_who_ask_for_the_tokens_of_an_image_get_those_of_the_backbone(model):
    image = np.zeros((120, 200, 3), np.uint8)
    size = model.input_size(120, 200, None, keep_aspect=True)
    grid = model.token_grid(size)
    assert grid.height < grid.width
    tower, tensor = tower_of(model.clip.visual), torch.zeros(1, 3, *size)
    assert tower.check_image(tensor) == grid
    assert tower.encode(tensor, 1).grid == grid
    inverter = MaskInverter(model)
    inverter.set_image(image)
    cropped = region_embedder("cls", model)
    cropped.set_image(image)
    assert inverter.grid == cropped.grid == grid
    assert inverter.input_size == grid.input_size(model.patch_size) == size
    assert f"{grid.height} x {grid.width} tokens" in repr(inverter)
    maps = inverter.explain(inverter.image_embedding[None])
    assert maps[0].shape == grid


@pytest.mark.parametrize(("pixels", "tokens"), [(33, 4), (37, 5), (1, 2), (0, 2)])
def test_a_side_of_whole_tokens_is_the_nearest_one(model, pixels, tokens):
    assert model.patch_size == 8
    assert model.nearest_side(pixels) == 8 * tokens
