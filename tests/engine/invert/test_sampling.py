"""What a fast inversion promises: close embeddings, exact results, every mask on its own."""

import numpy as np
import pytest
import torch

from napari_maskinversion import InversionConfig
from napari_maskinversion.engine.explain.legrad import LeGrad, MapLayer
from napari_maskinversion.engine.explain.projections import DirectRoute
from napari_maskinversion.engine.invert import map_builder
from napari_maskinversion.engine.invert.routes import RoutePlan
from napari_maskinversion.engine.invert.sampling import sample_queries, sampled_rows
from tests.engine import oracle
from tests.engine.towers import assert_same_embeddings, image, inverter, masks, tower

SIDE = 224  # 14 x 14 tokens
FAST = InversionConfig(fast=True)


def smooth_image(tokens=14):
    """A picture whose neighbouring patches look alike, as those of photographs do."""
    coarse, side = image(7, 7, seed=5), 16 * tokens
    return torch.nn.functional.interpolate(coarse, size=(side, side), mode="bicubic")


def smooth_tower(dtype=torch.float32):
    visual = tower(image_size=SIDE, sharpen=2.0, mlp_ratio=8.0)
    with torch.no_grad():
        visual.positional_embedding.mul_(0.1)
    return visual.to(dtype)


def engine(dtype=torch.float32, **keywords):
    made = inverter(smooth_tower(dtype), **keywords)
    made.set_image_tensor(smooth_image().to(dtype))
    return made


@pytest.fixture(autouse=True)
def small_models_estimate(monkeypatch):
    """Products are so small here that nothing would be estimated."""
    monkeypatch.setattr(map_builder, "estimates_pay", lambda *_: True)


@pytest.fixture(scope="module")
def shared_engine():
    return engine()


def cosines(one, other):
    return (one.embeddings * other.embeddings).sum(1)


@pytest.mark.parametrize("alpha", [0.0, 5.0])
def test_embeddings_stay_close_to_the_exact_ones(shared_engine, alpha):
    stack = masks(12, SIDE, SIDE)
    exact = shared_engine.invert(stack, InversionConfig(alpha=alpha))
    fast = shared_engine.invert(stack, InversionConfig(fast=True, alpha=alpha))
    assert cosines(exact, fast).mean() > 0.995
    assert cosines(exact, fast).min() > 0.98
    # And it is a mode of its own, not the exact one by another name.
    assert not np.array_equal(exact.raw_embeddings, fast.raw_embeddings)


def test_what_is_returned_is_exact_for_the_returned_embedding():
    made = engine(torch.float64)
    visual, picture = smooth_tower(torch.float64), smooth_image().double()
    stack = masks(2, SIDE, SIDE)
    result = made.invert(stack, InversionConfig(fast=True, steps=5))
    explained, grid = oracle.forward_with_attention(visual, picture, 1)
    for index, mask in enumerate(stack):
        embedding = torch.tensor(result.raw_embeddings[index], dtype=torch.float64)
        heat = oracle.heatmap(visual, explained, embedding, grid, (SIDE, SIDE)).detach().numpy()
        np.testing.assert_allclose(result.heatmap(index), heat, atol=1e-4)
        dice = 1 - (2 * (heat * mask).sum() + 1) / (heat.sum() + mask.sum() + 1)
        assert result.losses[index, -1] == pytest.approx(dice, abs=1e-5)
        hot = heat > 0.5
        assert result.mask_ious[index] == pytest.approx(
            (hot & mask).sum() / (hot | mask).sum(), abs=1e-3
        )


def test_fast_does_not_depend_on_the_route(monkeypatch):
    stack, results = masks(3, SIDE, SIDE), []
    for whole, part in ((False, False), (True, True), (False, True), (True, False)):

        def choose(layer, *_, whole=whole, part=part, **__):
            return RoutePlan(whole if layer.coefficients is None else part, rows_at_once=5)

        monkeypatch.setattr(map_builder, "choose_route", choose)
        results.append(engine(torch.float64).invert(stack, FAST).raw_embeddings)
    for other in results[1:]:
        np.testing.assert_allclose(other, results[0], atol=1e-6)


@pytest.mark.parametrize("memory_mb", [0, 1, 1024])
def test_embeddings_depend_on_neither_batch_mates_nor_memory(memory_mb):
    stack = masks(5, SIDE, SIDE)
    expected = engine().invert(stack, FAST)
    made = engine(memory_mb=memory_mb)
    for index in range(2):
        alone = made.invert(stack[index : index + 1], FAST)
        assert_same_embeddings(alone.raw_embeddings[0], expected.raw_embeddings[index])
    together = made.invert(stack, FAST)
    assert_same_embeddings(together.raw_embeddings, expected.raw_embeddings)


def test_the_same_call_gives_the_same_numbers(shared_engine):
    stack = masks(3, SIDE, SIDE)
    one, other = (shared_engine.invert(stack, FAST) for _ in range(2))
    np.testing.assert_array_equal(one.raw_embeddings, other.raw_embeddings)
    np.testing.assert_array_equal(one.losses, other.losses)


def test_the_default_is_exact_and_so_is_fast_where_estimates_would_not_pay(monkeypatch):
    stack = masks(3, SIDE, SIDE)
    expected = engine().invert(stack).raw_embeddings
    assert not np.array_equal(engine().invert(stack, FAST).raw_embeddings, expected)
    monkeypatch.setattr(map_builder, "estimates_pay", lambda *_: False)
    np.testing.assert_array_equal(engine().invert(stack, FAST).raw_embeddings, expected)


def test_fast_is_exact_where_tokens_have_nothing_in_common():
    made = inverter(tower())
    made.set_image_tensor(image())
    expected = made.invert(masks(3)).raw_embeddings
    np.testing.assert_array_equal(made.invert(masks(3), FAST).raw_embeddings, expected)


def test_the_subgrid_is_central_and_keeps_the_class_token():
    assert sampled_rows((5, 8), 3).tolist() == [
        0,
        *(1 + 8 * y + x for y in (0, 3) for x in (0, 3, 6)),
    ]


def test_a_sampled_map_is_the_weighted_average_over_the_kept_queries(shared_engine):
    layer, grid = shared_engine._current(1).layers[0], (14, 14)
    kept, weight = sample_queries(layer, grid, 3)
    rows = sampled_rows(grid, 3)
    embedding = torch.tensor(shared_engine.image_embedding)[None]
    p = torch.empty(1, 197, 32)
    DirectRoute(layer).project(embedding, p)
    legrad = LeGrad([MapLayer(kept, DirectRoute(kept), weight, p[0, rows])], 2**28)
    maps = legrad.forward(embedding)
    torch.testing.assert_close(legrad.forward_start(), maps, rtol=1e-4, atol=1e-9)
    heads = p[0, rows].reshape(len(rows), 2, 16).transpose(0, 1)
    positive = (heads @ layer.values.transpose(1, 2)).relu().mean(0)
    # [CLS] is one token of 197; the patches kept stand for the other 196.
    expected = positive[0] / 197 + positive[1:].mean(0) * 196 / 197
    torch.testing.assert_close(maps[0], expected[1:], rtol=1e-4, atol=1e-9)
