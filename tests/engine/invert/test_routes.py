"""The cheaper route is chosen, from the model, the grid, the masks and the budget alone."""

import pytest
import torch

from napari_maskinversion import InversionConfig
from napari_maskinversion.engine.encode.image_encoding import (
    BlockWeights,
    ImageEncoding,
    LayerConstants,
)
from napari_maskinversion.engine.invert.fast import estimates_pay
from napari_maskinversion.engine.invert.map_builder import MapBuilder, decomposed_bytes

GIB = 2**30


def layer(grid=(28, 28), width=768, joint=512):
    """A layer of ViT-B/16; only shapes matter here."""
    tokens, hidden = grid[0] * grid[1] + 1, 4 * width
    empty = torch.empty(0)
    return LayerConstants(
        values=empty,
        jacobian=torch.empty(joint, 1).expand(joint, width),
        weights=BlockWeights(torch.empty(width, 1).expand(width, width), empty, empty),
        slope=torch.empty(tokens, hidden),
        bend=torch.empty(tokens, hidden),
        offset=torch.empty(tokens, width),
    )


def encoding(count=1, **sizes):
    return ImageEncoding(torch.empty(512), (layer(**sizes),) * count, (28, 28), (448, 448))


def routes(masks, *, memory=3 * GIB, layers=1, **settings):
    config = InversionConfig(layers=layers, **settings)
    builder = MapBuilder(encoding(layers), memory)
    return builder.routes(config, masks, masks * (1 + 2 * config.steps))


def test_few_masks_go_direct_and_many_are_decomposed():
    assert routes(5) == ("direct",)
    assert routes(100) == ("decomposed",)


def test_more_steps_make_the_decomposition_pay_earlier():
    assert routes(20, steps=100) == ("decomposed",)
    assert routes(20, steps=5) == ("direct",)


def test_the_decomposition_must_fit_its_share_of_the_budget():
    nbytes = decomposed_bytes(layer())
    assert nbytes == 785 * 512 * 768 * 4
    assert routes(100, memory=nbytes * 10 // 6 + 10) == ("decomposed",)
    assert routes(100, memory=nbytes * 10 // 6 - 10) == ("direct",)
    assert routes(100, memory=0) == ("direct",)
    # Layers share the budget.
    assert routes(100, memory=2 * GIB, layers=2) == ("direct", "direct")
    assert routes(100, memory=4 * GIB, layers=2) == ("decomposed", "decomposed")


def test_an_eighth_of_sixteen_gigabytes_holds_that_of_vit_b_16_at_448_px():
    assert routes(100, memory=16 * GIB // 8) == ("decomposed",)


@pytest.mark.parametrize("route", ["direct", "decomposed"])
def test_a_route_can_be_forced(route):
    assert routes(5, route=route) == routes(100, memory=0, route=route) == (route,)


@pytest.mark.parametrize(
    ("grid", "width", "pay"),
    [
        ((14, 14), 768, True),  # ViT-B/16 at 224 px
        ((28, 28), 768, True),
        ((16, 16), 1024, True),  # ViT-L/14
        ((16, 16), 128, False),  # so small that its products are not what takes the time
    ],
)
def test_estimates_are_made_where_they_save_time(grid, width, pay):
    assert estimates_pay(encoding(grid=grid, width=width), 10) is pay


def test_estimates_need_steps_to_pay():
    assert not estimates_pay(encoding(), 2)
