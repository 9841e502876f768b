"""The cheaper route is chosen, within the memory there is."""

import pytest
import torch

from napari_maskinversion.engine.encode.image_encoding import LayerConstants
from napari_maskinversion.engine.invert.routes import choose_route, estimates_pay
from napari_maskinversion.engine.invert.sampling import sample_queries

GIB = 2**30


def layer(grid=(28, 28), width=768, joint=512):
    """A layer of ViT-B/16; only shapes matter here."""
    tokens, hidden = grid[0] * grid[1] + 1, 4 * width
    empty = torch.empty(0)
    return LayerConstants(
        values=empty,
        jacobian=torch.empty(joint, 1).expand(joint, width),
        out=torch.empty(width, 1).expand(width, width),
        down=empty,
        mixed=empty,
        slope=torch.empty(tokens, hidden),
        bend=torch.empty(tokens, hidden),
        offset=torch.empty(tokens, width),
    )


def decomposed(masks, steps=10, stride=1, memory=8 * GIB, **keywords):
    kept = sample_queries(layer(), (28, 28), stride)[0]
    return choose_route(kept, 2 * masks * steps, masks, memory, **keywords).decomposed


def test_few_masks_go_direct_and_many_are_decomposed():
    assert not decomposed(5)
    assert decomposed(100)


def test_more_steps_make_the_decomposition_pay_earlier():
    assert decomposed(20, steps=100)
    assert not decomposed(20, steps=5)


def test_a_decomposition_that_is_there_serves_fewer_masks():
    assert decomposed(10, cached=True)
    assert not decomposed(10)


def test_memory_decides_and_sampling_makes_it_fit():
    assert not decomposed(100, memory=GIB)
    assert decomposed(100, memory=GIB, stride=3)
    assert not decomposed(100, memory=0, stride=3)
    assert choose_route(layer(), 2000, 100, -1).rows_at_once == 1


@pytest.mark.parametrize(
    ("grid", "width", "joint", "pay"),
    [
        ((14, 14), 768, 512, True),  # ViT-B/16 at 224 px
        ((28, 28), 768, 512, True),
        ((16, 16), 1024, 768, True),  # ViT-L/14
        ((16, 16), 128, 128, False),  # so small that its products are not what takes the time
        ((80, 80), 768, 512, False),  # the ReLU products take most, and are not saved
    ],
)
def test_estimates_are_made_where_they_save_time(grid, width, joint, pay):
    assert estimates_pay(layer(grid, width, joint), 10) is pay


def test_estimates_need_steps_to_pay():
    assert not estimates_pay(layer(), 2)
