"""Fast inversions: close where estimates are trusted, exact where not."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from napari_maskinversion import InversionConfig
from napari_maskinversion.base.progress import listening
from napari_maskinversion.base.regions import Regions
from napari_maskinversion.engine.encode.token_grid import TokenGrid
from napari_maskinversion.engine.explain.legrad import LeGrad, MapLayer
from napari_maskinversion.engine.explain.routes import DirectRoute
from napari_maskinversion.engine.invert import fast, map_builder
from napari_maskinversion.engine.invert.dice import MaskTargets
from napari_maskinversion.engine.invert.loop import Descent, StepState, descend
from napari_maskinversion.engine.invert.map_builder import MapBuilder
from tests.engine import oracle
from tests.engine.towers import (
    SMOOTH_SIDE,
    assert_same_embeddings,
    image,
    inverter,
    masks,
    smooth_image,
    smooth_tower,
    tower,
)
from tests.listeners import stopped

SIDE = SMOOTH_SIDE

EXACT, FAST = InversionConfig(), InversionConfig(fast=True)


def engine(dtype=torch.float32, **keywords):
    made = inverter(smooth_tower(dtype), "cpu", **{"memory_mb": 1024, **keywords})
    made.set_image_tensor(smooth_image().to(dtype))
    return made


@pytest.fixture(autouse=True)
def small_models_estimate(monkeypatch):
    """Products are so small here that nothing would be estimated."""
    monkeypatch.setattr(map_builder, "estimates_pay", lambda *_: True)


@pytest.fixture
def stack():
    return masks(6, SIDE, SIDE)


@pytest.fixture
def failed(monkeypatch):
    """Note which masks failed in each inversion."""
    noted, original = [], fast.descend_fast

    def noting(*arguments):
        result = original(*arguments)
        noted.append(result[0].tolist())
        return result

    monkeypatch.setattr("napari_maskinversion.engine.invert.inverter.descend_fast", noting)
    return noted


def tolerate(monkeypatch, tolerance):
    monkeypatch.setattr(fast, "_GRADIENT_TOLERANCES", (tolerance, tolerance))


def cosines(one, other):
    return (one.embeddings * other.embeddings).sum(1)


def maps_of(made, config=FAST):
    maps = made._current().maps
    return maps.encoding, maps.fast(config, 4)


@pytest.mark.parametrize("alpha", [0.0, 5.0])
def test_embeddings_stay_close_to_the_exact_ones(failed, alpha):
    made, stack = engine(), masks(12, SIDE, SIDE)
    exact = made.invert(stack, InversionConfig(alpha=alpha))
    estimated = made.invert(stack, InversionConfig(fast=True, alpha=alpha))
    assert len(failed[0]) < 12
    assert cosines(exact, estimated).mean() > 0.995
    assert cosines(exact, estimated).min() > 0.98
    # And it is a mode of its own, not the exact one by another name.
    assert not np.array_equal(exact.raw_embeddings, estimated.raw_embeddings)
    # The first step is exact, and so is where it leads.
    np.testing.assert_allclose(estimated.losses[:, :2], exact.losses[:, :2], atol=1e-5)


def test_the_result_is_exact_for_the_returned_embedding():
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


def test_fast_does_not_depend_on_the_route():
    stack = masks(3, SIDE, SIDE)
    results = [
        engine(torch.float64).invert(stack, InversionConfig(fast=True, route=route)).raw_embeddings
        for route in ("direct", "decomposed")
    ]
    np.testing.assert_allclose(*results, atol=1e-6)


@pytest.mark.parametrize("memory_mb", [0, 1024])
def test_embeddings_depend_on_neither_batch_mates_nor_memory(memory_mb):
    stack = masks(5, SIDE, SIDE)
    expected = engine().invert(stack, FAST)
    made = engine(memory_mb=memory_mb)
    for index in range(2):
        alone = made.invert(stack[index : index + 1], FAST)
        assert_same_embeddings(alone.raw_embeddings[0], expected.raw_embeddings[index])
    together = made.invert(stack, FAST)
    assert_same_embeddings(together.raw_embeddings, expected.raw_embeddings)


def test_the_default_is_exact_and_so_is_fast_where_estimates_would_not_pay(monkeypatch):
    stack = masks(3, SIDE, SIDE)
    expected = engine().invert(stack).raw_embeddings
    assert not np.array_equal(engine().invert(stack, FAST).raw_embeddings, expected)
    monkeypatch.setattr(map_builder, "estimates_pay", lambda *_: False)
    np.testing.assert_array_equal(engine().invert(stack, FAST).raw_embeddings, expected)


def test_fast_is_exact_where_tokens_have_nothing_in_common():
    made = inverter(tower(), "cpu")
    made.set_image_tensor(image())
    expected = made.invert(masks(3)).raw_embeddings
    np.testing.assert_array_equal(made.invert(masks(3), FAST).raw_embeddings, expected)


@pytest.mark.parametrize(("alpha", "memory_mb"), [(0.0, 1024), (5.0, 0)])
def test_masks_whose_gradient_disagrees_go_through_the_exact_loop(
    stack, monkeypatch, alpha, memory_mb
):
    tolerate(monkeypatch, 0.0)
    config = InversionConfig(fast=True, alpha=alpha, keep_last_step_heatmaps=True)
    estimated = engine(memory_mb=memory_mb).invert(stack, config)
    exact = engine().invert(stack, InversionConfig(alpha=alpha, keep_last_step_heatmaps=True))
    assert_same_embeddings(estimated.raw_embeddings, exact.raw_embeddings)
    np.testing.assert_allclose(estimated.losses, exact.losses, atol=1e-5)
    np.testing.assert_allclose(estimated.grid_maps, exact.grid_maps, rtol=1e-3, atol=1e-8)
    np.testing.assert_allclose(
        estimated.last_step_heatmaps, exact.last_step_heatmaps, rtol=0, atol=1e-3
    )


def test_masks_whose_map_vanishes_late_go_through_the_exact_loop_too(stack, monkeypatch, failed):
    trusted, calls = fast._is_spread, []

    def until_late(maps, first_spread):
        calls.append(1)
        late = len(calls) == 9
        return torch.zeros(len(maps), dtype=torch.bool) if late else trusted(maps, first_spread)

    tolerate(monkeypatch, 1e9)
    monkeypatch.setattr(fast, "_is_spread", until_late)
    config = {"weight_decay": 0.01}
    estimated = engine().invert(stack, InversionConfig(fast=True, **config))
    assert len(calls) == 9  # the second step, and the eight after it before the last map
    assert failed == [list(range(6))]
    assert estimated.route == "fast, direct, 6 of 6 exact"
    exact = engine().invert(stack, InversionConfig(**config))
    assert_same_embeddings(estimated.raw_embeddings, exact.raw_embeddings)
    np.testing.assert_allclose(estimated.losses, exact.losses, atol=1e-5)


@pytest.mark.parametrize("spreads", [(2.0, 20.0), (0.1, 0.5)], ids=["vanished", "grown"])
def test_a_map_that_has_nearly_vanished_or_grown_beyond_all_is_not_trusted(
    stack, monkeypatch, failed, spreads
):
    tolerate(monkeypatch, 1e9)
    monkeypatch.setattr(fast, "_SPREADS", spreads)
    estimated, exact = engine().invert(stack, FAST), engine().invert(stack, EXACT)
    assert failed[0]
    assert_same_embeddings(estimated.raw_embeddings[failed[0]], exact.raw_embeddings[failed[0]])


def test_an_estimate_is_exact_where_masks_start():
    encoding, maps = maps_of(engine(torch.float64))
    start = maps.exact.forward_start().clone()
    whole = maps.estimates[-1]
    torch.testing.assert_close(whole.forward(encoding.embedding[None]), start)
    torch.testing.assert_close(whole.forward_start(), start)
    sampled = maps.estimates[0]
    mean = sampled.forward_start().clone()
    torch.testing.assert_close(sampled.forward(encoding.embedding[None]), mean)


@pytest.mark.parametrize(
    ("grid", "strides"),
    [
        (TokenGrid(9, 20), [1]),
        (TokenGrid(10, 20), [2, 1]),
        (TokenGrid(24, 30), [3, 2, 1]),
    ],
)
def test_fewer_queries_are_tried_first(grid, strides):
    made = inverter(smooth_tower(), "cpu")
    made.set_image_tensor(
        torch.nn.functional.interpolate(
            image(7, 7, seed=5), size=grid.input_size(16), mode="bicubic"
        )
    )
    _, maps = maps_of(made)
    queries = [estimate._layers[0]._route.num_queries for estimate in maps.estimates]
    assert queries == [len(fast.sample_queries(grid, s, torch.device("cpu"))[0]) for s in strides]


def test_the_reference_is_the_exact_map_with_a_cheap_backward_pass():
    encoding, maps = maps_of(engine(torch.float64))
    moved = encoding.embedding + 0.3 * torch.randn(
        3, len(encoding.embedding), dtype=torch.float64, generator=torch.manual_seed(0)
    )
    expected = maps.exact.forward(moved).clone()
    weights = torch.rand(expected.shape, dtype=torch.float64, generator=torch.manual_seed(1))
    gradient = maps.exact.vjp(weights)
    torch.testing.assert_close(maps.reference.forward(moved), expected)
    cheap = maps.reference.vjp(weights)
    assert not torch.allclose(cheap, gradient, rtol=1e-3)
    assert torch.cosine_similarity(cheap, gradient).min() > 0.9


def test_the_subgrid_is_central_and_keeps_the_class_token():
    rows, weight = fast.sample_queries(TokenGrid(5, 8), 3, torch.device("cpu"))
    assert rows.tolist() == [0, *(1 + 8 * y + x for y in (0, 3) for x in (0, 3, 6))]
    assert weight == pytest.approx(40 / 41 / 6)


def test_a_sampled_map_is_the_weighted_average_over_the_kept_queries():
    from dataclasses import replace

    made = engine()
    layer = made._current().maps.encoding.layers[0]
    rows, weight = fast.sample_queries(TokenGrid(14, 14), 3, torch.device("cpu"))
    kept = replace(layer, slope=layer.slope[rows], bend=layer.bend[rows], offset=layer.offset[rows])
    embedding = torch.tensor(made.image_embedding)[None]
    p = torch.empty(1, 197, 32)
    DirectRoute(layer).project(embedding, p)
    sample = MapLayer(layer.values, DirectRoute(kept), p[0, rows], weight, 1 / 197)
    legrad = LeGrad([sample], 2**28)
    maps = legrad.forward(embedding)
    torch.testing.assert_close(legrad.forward_start(), maps, rtol=1e-4, atol=1e-9)
    heads = p[0, rows].reshape(len(rows), 2, 16).transpose(0, 1)
    positive = (heads @ layer.values.transpose(1, 2)).relu().mean(0)
    # [CLS] is one token of 197; the patches kept stand for the other 196.
    expected = positive[0] / 197 + positive[1:].mean(0) * 196 / 197
    torch.testing.assert_close(maps[0], expected[1:], rtol=1e-4, atol=1e-9)


def test_a_shift_is_added_to_every_query_vector():
    encoding = engine(torch.float64)._current().maps.encoding
    layer = encoding.layers[0]
    shift = torch.randn(layer.offset.shape, dtype=torch.float64)
    plain, moved = torch.empty(2, 2, *layer.offset.shape, dtype=torch.float64)
    vectors = torch.randn(2, len(encoding.embedding), dtype=torch.float64)
    DirectRoute(layer).project(vectors, plain)
    DirectRoute(layer, shift).project(vectors, moved)
    torch.testing.assert_close(moved, plain + shift)


def test_the_route_of_masks_that_fail_follows_from_their_number(monkeypatch):
    tolerate(monkeypatch, 0.0)
    planned, routes = [], map_builder.MapBuilder.routes

    def noting(self, config, count, passes):
        planned.append((count, passes))
        return routes(self, config, count, passes)

    monkeypatch.setattr(map_builder.MapBuilder, "routes", noting)
    engine().invert(masks(9, SIDE, SIDE), FAST)
    # Three exact passes a mask; then an exact inversion of those that failed.
    assert planned == [(9, 27), (9, 9 * 21)]


def test_two_explained_layers_are_estimated_too(stack, failed):
    estimated = engine().invert(stack, InversionConfig(fast=True, layers=2))
    assert len(failed[0]) < 6
    exact = engine().invert(stack, InversionConfig(layers=2))
    assert cosines(estimated, exact).min() > 0.98


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_few_steps_work(stack, steps, monkeypatch):
    monkeypatch.setattr(
        map_builder, "estimates_pay", lambda encoding, count: count >= fast.FEWEST_STEPS
    )
    estimated = engine().invert(
        stack, InversionConfig(fast=True, steps=steps, keep_last_step_heatmaps=True)
    )
    exact = engine().invert(stack, InversionConfig(steps=steps))
    assert cosines(estimated, exact).min() > 0.999
    assert estimated.losses.shape == (6, steps + 1)
    assert estimated.last_step_grid_maps is not None


@pytest.mark.parametrize("tolerance", [None, 0.0], ids=["estimated", "exact"])
def test_progress_counts_the_steps_and_shows_their_embeddings(stack, monkeypatch, tolerance):
    if tolerance is not None:
        tolerate(monkeypatch, tolerance)
    made, shown, order = engine(), {}, []

    def note(state):
        if isinstance(state, StepState):
            order.append(state.done)
            shown[state.done] = state.embeddings()
            assert shown[state.done].shape == (6, 24)

    with listening(note):
        result = made.invert(stack, FAST)
    assert sorted(shown) == list(range(11))
    np.testing.assert_array_equal(shown[10], result.raw_embeddings)
    np.testing.assert_array_equal(shown[0], np.tile(made.image_embedding, (6, 1)))


def test_it_can_be_stopped_anywhere_and_the_image_stays(stack):
    made = engine()
    for ends in (1, 4, 9):
        stopped(lambda: made.invert(stack, FAST), ends)
    expected = engine().invert(stack, FAST)
    np.testing.assert_array_equal(made.invert(stack, FAST).raw_embeddings, expected.raw_embeddings)


def test_weights_that_ask_for_gradients_get_none(stack):
    visual = smooth_tower()
    visual.requires_grad_(True)
    made = inverter(visual, "cpu")
    made.set_image_tensor(smooth_image())
    made.invert(stack, FAST)
    assert all(parameter.grad is None for parameter in visual.parameters())


class Linear:
    """A map that is linear in the embedding; its gradient is off by the same in every step."""

    def __init__(self, start, matrix, bias=0.0):
        self.group_size, self.calls = 2, 0
        self._start, self._matrix, self._bias = start, matrix, bias

    def forward(self, embeddings):
        self.calls += 1
        return embeddings @ self._matrix

    def forward_start(self):
        return self.forward(self._start[None])

    def vjp(self, grad):
        return grad @ self._matrix.T + self._bias


def linear(stack):
    """Return start, matrix and targets for maps that are linear."""
    generator = torch.manual_seed(3)
    start = torch.randn(8, generator=generator, dtype=torch.float64)
    matrix = torch.randn(8, 196, generator=generator, dtype=torch.float64)
    targets = MaskTargets(Regions.from_masks(stack), (SIDE, SIDE), (SIDE, SIDE), (14, 14), start)
    return start, matrix, targets


def test_what_the_gradient_lacked_in_the_first_step_is_added_to_it(stack, monkeypatch):
    monkeypatch.setattr(fast, "_SPREADS", (0.0, 1e9))
    start, matrix, targets = linear(stack)
    exact, biased = Linear(start, matrix), Linear(start, matrix, 0.3)
    config = InversionConfig(learning_rate=0.02)
    expected, estimated = Descent(targets, start, config), Descent(targets, start, config)
    descend(exact, expected)
    maps = fast.FastMaps(exact, biased, (biased,))
    failed, _ = fast.descend_fast(maps, estimated)
    assert not len(failed)
    torch.testing.assert_close(estimated.embeddings, expected.embeddings)
    torch.testing.assert_close(estimated.losses, expected.losses)


@pytest.mark.parametrize(
    ("tolerances", "used"), [((1.0, 0.0), "all queries"), ((0.0, 1.0), "a sample")]
)
def test_a_sample_of_queries_has_a_tolerance_of_its_own(stack, monkeypatch, tolerances, used):
    monkeypatch.setattr(fast, "_SPREADS", (0.0, 1e9))
    monkeypatch.setattr(fast, "_GRADIENT_TOLERANCES", tolerances)
    start, matrix, targets = linear(stack)
    exact, sample, every = Linear(start, matrix), *(Linear(start, 1.1 * matrix) for _ in range(2))
    maps = fast.FastMaps(exact, exact, (sample, every))
    failed, _ = fast.descend_fast(maps, Descent(targets, start, EXACT))
    assert not len(failed)
    assert (every.calls > sample.calls) == (used == "all queries")


def test_on_a_gpu_fast_is_what_exact_is_and_says_so():
    """Estimates took longer there than exact maps (docs/decisions/0013-fast.md)."""
    inverter = engine()
    encoding = inverter._current().maps.encoding
    assert MapBuilder(encoding, 2**30).fast(FAST, 4) is not None
    for kind in ("cuda", "mps"):
        with FakeTensorMode(allow_non_fake_inputs=True):
            on_gpu = replace(encoding, embedding=torch.empty(24, device=kind))
            assert MapBuilder(on_gpu, 2**30).fast(FAST, 4) is None
        with pytest.warns(UserWarning, match=f"fast changes nothing on a GPU \\({kind}\\)"):
            inverter._check(FAST, torch.device(kind))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        inverter._check(FAST, torch.device("cpu"))
        inverter._check(EXACT, torch.device("cuda"))
