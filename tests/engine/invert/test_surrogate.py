"""Fast inversions: close where estimates are trusted, exact where not."""

import numpy as np
import pytest
import torch

from napari_maskinversion import InversionConfig
from napari_maskinversion.base.regions import Regions
from napari_maskinversion.base.steps import drive
from napari_maskinversion.engine.explain.projections import DirectRoute
from napari_maskinversion.engine.invert import map_builder, surrogate
from napari_maskinversion.engine.invert.dice import MaskTargets
from napari_maskinversion.engine.invert.loop import invert_steps
from napari_maskinversion.engine.invert.sampling import coarsest_stride
from tests.engine.towers import assert_same_embeddings, masks

from .test_sampling import SIDE, cosines, engine, smooth_image, smooth_tower

EXACT, FAST = InversionConfig(), InversionConfig(fast=True)


@pytest.fixture(autouse=True)
def estimating(monkeypatch):
    monkeypatch.setattr(map_builder, "estimates_pay", lambda *_: True)


@pytest.fixture
def stack():
    return masks(6, SIDE, SIDE)


def levels(monkeypatch):
    """Note what each mask was evaluated with in the end: an estimate's number, or -1."""
    levels, update = [], surrogate._SurrogateInversion.update

    def noting(self):
        update(self)
        levels.append(self._level.clone())

    monkeypatch.setattr(surrogate._SurrogateInversion, "update", noting)
    return levels


def plan_of(made, config=None):
    """What an inversion of the image that is set evaluates."""
    config = config or FAST
    encoding = made._current(config.layers)
    return encoding, drive(made._map_builder.make(encoding, 4, config))


def test_cheap_estimates_are_used_where_they_agree(stack, monkeypatch):
    seen = levels(monkeypatch)
    fast = engine().invert(stack, FAST)
    assert (seen[-1] >= 0).any()
    exact = engine().invert(stack, EXACT)
    assert cosines(fast, exact).min() > 0.99
    # The first step is exact, and so is where it leads.
    np.testing.assert_allclose(fast.losses[:, :2], exact.losses[:, :2], atol=1e-5)


@pytest.mark.parametrize("alpha", [0.0, 5.0])
@pytest.mark.parametrize("memory_mb", [0, 1024])
def test_masks_whose_gradient_disagrees_go_on_exactly(stack, monkeypatch, alpha, memory_mb):
    monkeypatch.setattr(map_builder, "GRADIENT_TOLERANCES", (0.0, 0.0))
    fast = engine(memory_mb=memory_mb).invert(stack, InversionConfig(fast=True, alpha=alpha))
    exact = engine().invert(stack, InversionConfig(alpha=alpha))
    assert_same_embeddings(fast.raw_embeddings, exact.raw_embeddings)
    np.testing.assert_allclose(fast.losses, exact.losses, atol=1e-5)
    np.testing.assert_allclose(fast.grid_maps, exact.grid_maps, rtol=1e-3, atol=1e-8)


@pytest.mark.parametrize("alpha", [0.0, 5.0])
@pytest.mark.parametrize("memory_mb", [0, 1024])
def test_masks_whose_map_vanishes_are_taken_back_and_on_exactly(
    stack, monkeypatch, alpha, memory_mb
):
    """All are, as late as it goes: an estimate is good for the second step and then never."""
    trusted = surrogate._SurrogateInversion._is_spread

    def until_late(self, maps):
        late = self.losses[:, 6].any()
        return torch.zeros(len(maps), dtype=torch.bool) if late else trusted(self, maps)

    monkeypatch.setattr(map_builder, "GRADIENT_TOLERANCES", (1e9, 1e9))
    monkeypatch.setattr(surrogate._SurrogateInversion, "_is_spread", until_late)
    seen = levels(monkeypatch)
    config = InversionConfig(fast=True, alpha=alpha, weight_decay=0.01)
    fast = engine(memory_mb=memory_mb).invert(stack, config)
    assert (seen[5] >= 0).any()
    assert (seen[-1] == -1).all()
    exact = engine().invert(stack, InversionConfig(alpha=alpha, weight_decay=0.01))
    assert_same_embeddings(fast.raw_embeddings, exact.raw_embeddings)
    np.testing.assert_allclose(fast.losses, exact.losses, atol=1e-5)


def test_a_map_that_has_nearly_vanished_or_grown_beyond_all_is_not_trusted(stack, monkeypatch):
    seen = levels(monkeypatch)
    monkeypatch.setattr(map_builder, "GRADIENT_TOLERANCES", (1e9, 1e9))
    for spreads in ((2.0, 20.0), (0.1, 0.5)):
        monkeypatch.setattr(surrogate, "_SPREADS", spreads)
        fast = engine().invert(stack, FAST)
        exact = engine().invert(stack, EXACT)
        gone = (seen[-1] == -1).numpy()
        assert gone.any()
        assert_same_embeddings(fast.raw_embeddings[gone], exact.raw_embeddings[gone])


def test_an_estimate_is_exact_where_masks_start():
    encoding, plan = plan_of(engine(torch.float64))
    start = plan.exact.forward_start().clone()
    whole = plan.surrogates.estimates[-1].explained
    torch.testing.assert_close(whole.forward(encoding.embedding[None]), start)
    torch.testing.assert_close(whole.forward_start(), start)
    sampled = plan.surrogates.estimates[0].explained
    mean = sampled.forward_start().clone()
    torch.testing.assert_close(sampled.forward(encoding.embedding[None]), mean)


def test_fewer_queries_must_agree_better_and_are_tried_first():
    _, plan = plan_of(engine())
    sampled, whole = plan.surrogates.estimates
    assert sampled.tolerance < whole.tolerance
    assert sampled.explained._layers[0]._route.num_queries == 50
    assert whole.explained._layers[0]._route.num_queries == 197
    for grid, strides in (((9, 20), [1]), ((10, 20), [2, 1]), ((24, 30), [3, 2, 1])):
        assert coarsest_stride(grid) == strides[0]
    made = engine()
    made.set_image_tensor(smooth_image(27))
    _, plan = plan_of(made)
    queries = [one.explained._layers[0]._route.num_queries for one in plan.surrogates.estimates]
    assert queries == [1 + 9 * 9, 1 + 14 * 14, 1 + 27 * 27]


def test_the_map_it_is_compared_with_is_the_exact_one():
    encoding, plan = plan_of(engine(torch.float64))
    moved = encoding.embedding + 0.3 * torch.randn(
        3, len(encoding.embedding), dtype=torch.float64, generator=torch.manual_seed(0)
    )
    expected = plan.exact.forward(moved).clone()
    weights = torch.rand(expected.shape, dtype=torch.float64, generator=torch.manual_seed(1))
    gradient = plan.exact.vjp(weights)
    torch.testing.assert_close(plan.surrogates.reference.forward(moved), expected)
    cheap = plan.surrogates.reference.vjp(weights)
    assert not torch.allclose(cheap, gradient)
    assert torch.cosine_similarity(cheap, gradient).min() > 0.9


def test_a_shift_is_added_to_every_query_vector():
    made = engine(torch.float64)
    encoding = made._current(1)
    layer = encoding.layers[0]
    shift = torch.randn(layer.offset.shape, dtype=torch.float64)
    plain, moved = torch.empty(2, 2, *layer.offset.shape, dtype=torch.float64)
    vectors = torch.randn(2, len(encoding.embedding), dtype=torch.float64)
    DirectRoute(layer).project(vectors, plain)
    DirectRoute(layer).shifted(shift).project(vectors, moved)
    torch.testing.assert_close(moved, plain + shift)


def test_many_masks_that_fail_are_worth_a_decomposition(monkeypatch):
    monkeypatch.setattr(map_builder, "GRADIENT_TOLERANCES", (0.0, 0.0))
    asked, choose = [], map_builder.choose_route

    def noting(layer, passes, count, *rest, **keywords):
        asked.append((layer.coefficients is None, passes, count))
        return choose(layer, passes, count, *rest, **keywords)

    monkeypatch.setattr(map_builder, "choose_route", noting)
    engine().invert(masks(9, SIDE, SIDE), FAST)
    # Three exact passes a mask; then a forward and a backward in each of nine steps.
    assert [one for one in asked if one[0]] == [(True, 27, 9), (True, 162, 9)]


def test_two_explained_layers_are_estimated_too(stack, monkeypatch):
    seen = levels(monkeypatch)
    fast = engine().invert(stack, InversionConfig(fast=True, layers=2))
    assert (seen[-1] >= 0).any()
    exact = engine().invert(stack, InversionConfig(layers=2))
    assert cosines(fast, exact).min() > 0.98


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_few_steps_work(stack, steps):
    fast = engine().invert(
        stack, InversionConfig(fast=True, steps=steps, keep_last_step_heatmaps=True)
    )
    exact = engine().invert(stack, InversionConfig(steps=steps))
    assert cosines(fast, exact).min() > 0.999
    assert fast.losses.shape == (6, steps + 1)
    assert fast.last_step_grid_maps is not None


def test_what_it_shows_on_the_way_is_where_it_is(stack):
    made = engine()
    shown = {}

    def note(state):
        assert 0 <= state.step <= state.steps
        if state.embeddings is not None:
            shown[state.step] = state.embeddings()

    result = drive(made.invert_steps(stack, FAST), note)
    assert sorted(shown) == list(range(11))
    np.testing.assert_array_equal(shown[10], result.raw_embeddings)
    np.testing.assert_allclose(shown[0], np.tile(made.image_embedding, (6, 1)))


def test_it_stops_where_it_is_told_to_and_the_image_stays(stack):
    made = engine()
    for ends in (1, 4, 9):
        work = made.invert_steps(stack, FAST)
        for _ in range(ends):
            next(work)
        work.close()
    expected = engine().invert(stack, FAST)
    np.testing.assert_allclose(
        made.invert(stack, FAST).raw_embeddings, expected.raw_embeddings, atol=1e-6
    )


def test_weights_that_ask_for_gradients_get_none(stack):
    from tests.engine.towers import inverter

    visual = smooth_tower()
    visual.requires_grad_(True)
    made = inverter(visual)
    made.set_image_tensor(smooth_image())
    made.invert(stack, FAST)
    assert all(parameter.grad is None for parameter in visual.parameters())


class Linear:
    """A map that is linear in the embedding; its gradient is off by the same in every step."""

    def __init__(self, start, matrix, bias=0.0):
        self.group_size = 2
        self._start, self._matrix, self._bias = start, matrix, bias

    def forward(self, embeddings):
        return embeddings @ self._matrix

    def forward_start(self):
        return self.forward(self._start[None])

    def vjp(self, grad):
        return grad @ self._matrix.T + self._bias


def linear_problem(stack, bias, tolerance=0.01, again=None, **settings):
    """Arguments of an exact and of an estimated inversion of a linear map."""
    generator = torch.manual_seed(3)
    start = torch.randn(8, generator=generator, dtype=torch.float64)
    matrix = torch.randn(8, 196, generator=generator, dtype=torch.float64)
    regions = Regions.from_masks(stack)
    targets = MaskTargets(regions, (SIDE, SIDE), (SIDE, SIDE), (14, 14), start)
    exact = Linear(start, matrix)
    biased = Linear(start, matrix, bias)

    def prepare_exact(*_):
        yield surrogate.StepState(0, 10, None)
        return again

    estimates = [surrogate.Estimate(biased, tolerance)]
    maps = surrogate.SurrogateMaps(exact, biased, estimates, prepare_exact)
    config = InversionConfig(learning_rate=0.02, **settings)
    return maps, (targets, start, config, (SIDE, SIDE))


def test_what_the_gradient_lacked_in_the_first_step_is_added_to_it(stack, monkeypatch):
    monkeypatch.setattr(surrogate, "_SPREADS", (0.0, 1e9))
    maps, arguments = linear_problem(stack, 0.3)
    exact = drive(invert_steps(maps.exact, *arguments))
    result = drive(surrogate.invert_with_surrogates(maps, *arguments))
    np.testing.assert_allclose(result.raw_embeddings, exact.raw_embeddings, atol=1e-6)
    np.testing.assert_allclose(result.losses, exact.losses, atol=1e-6)


def test_masks_that_fail_are_evaluated_with_the_map_that_was_prepared_for_them(stack):
    other = Linear(torch.ones(8, dtype=torch.float64), torch.eye(8, 196, dtype=torch.float64))
    maps, arguments = linear_problem(stack, 0.3, tolerance=-1.0, again=other)
    result = drive(surrogate.invert_with_surrogates(maps, *arguments))
    expected = result.raw_embeddings @ np.eye(8, 196, dtype=np.float32)
    expected /= np.linalg.norm(result.raw_embeddings, axis=1, keepdims=True)
    np.testing.assert_allclose(result.grid_maps.reshape(6, -1), expected, atol=1e-6)
