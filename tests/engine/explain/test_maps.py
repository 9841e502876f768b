"""Maps other than the default, against plain autograd in float64."""

import subprocess
import sys
from importlib import import_module

import numpy as np
import pytest
import torch

from napari_maskinversion import InversionConfig
from napari_maskinversion.base.errors import ConfigError
from napari_maskinversion.engine import explain
from napari_maskinversion.engine.explain.registry import MAPS, make_map, maps_for
from napari_maskinversion.engine.invert.map_builder import MapBuilder
from napari_maskinversion.engine.models.towers import tower_of
from tests.engine import oracle_maps
from tests.engine.towers import assert_same_embeddings, image, inverter, masks, tower

ORACLES = {
    "legrad": oracle_maps.legrad,
    "gradcam": oracle_maps.gradcam,
    "gradcam-no-relu": lambda *a, layers=1: oracle_maps.gradcam(*a, relu=False),
    "chefer": oracle_maps.chefer,
}
BUILDS = {"gelu": {}, "quick-gelu-layer-scale": {"quick_gelu": True, "layer_scale": 0.5}}
CASES = [("legrad", 3), ("gradcam", 1), ("gradcam-no-relu", 1), ("chefer", 3)]


def double_tower(build="gelu"):
    return tower(layers=3, dtype=torch.float64, **BUILDS[build])


def picture():
    return image(dtype=torch.float64)


def embeddings(count=3, seed=5):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, 24, generator=generator, dtype=torch.float64)


def oracle_of(name, layers):
    return (
        ORACLES[name]
        if name.startswith("gradcam")
        else (lambda *a: ORACLES[name](*a, layers=layers))
    )


def encode(visual, picture, layers):
    return tower_of(visual).encode(picture, layers)


@pytest.mark.parametrize(
    ("name", "layers", "build"),
    [
        ("legrad", 3, "quick-gelu-layer-scale"),
        ("gradcam", 1, "gelu"),
        ("gradcam-no-relu", 1, "quick-gelu-layer-scale"),
        ("chefer", 1, "quick-gelu-layer-scale"),
        ("chefer", 3, "gelu"),
    ],
)
def test_a_map_is_that_of_plain_autograd(name, layers, build):
    visual = double_tower(build)
    engine = inverter(visual)
    engine.set_image_tensor(picture())
    vectors = embeddings()
    maps = engine.explain(vectors.numpy(), layers=layers, explainer=name)
    for one, mine in zip(vectors, maps, strict=True):
        expected = oracle_of(name, layers)(visual, picture(), one / one.norm())
        scale = expected.abs().max().item()
        np.testing.assert_allclose(mine.ravel(), expected.detach().numpy(), atol=1e-6 * scale)


def made(name, layers):
    """The map of an image, as an inversion gets it."""
    encoding = encode(double_tower(), picture(), layers)
    if name != "legrad":
        return make_map(name, encoding, 1 << 20)
    return MapBuilder(encoding, 16 * 2**20).exact(InversionConfig(layers=layers), 3)


@pytest.mark.parametrize(
    ("name", "layers", "count"),
    [
        ("legrad", 3, 3),
        ("legrad", 3, 1),
        ("gradcam", 1, 1),
        ("gradcam-no-relu", 1, 3),
        ("chefer", 1, 1),
        ("chefer", 3, 3),
    ],
)
def test_its_gradient_in_the_embedding_is_the_numerical_one(name, layers, count):
    """Also where all masks share one embedding, as at the start."""
    explained = made(name, layers)
    vectors, eps = embeddings()[:count], 1e-6
    maps = explained.forward(vectors)
    weights = torch.randn(3, maps.shape[1], dtype=torch.float64, generator=torch.manual_seed(0))
    gradient = explained.vjp(weights).clone()
    maps = maps.clone()
    assert gradient.shape == (3, 24)
    direction = embeddings(3, seed=6)
    above = explained.forward(vectors + eps * direction).clone()
    below = explained.forward(vectors - eps * direction)
    numerical = ((above - below) / (2 * eps) * weights).sum(1)
    expected = (gradient * direction).sum(1)
    np.testing.assert_allclose(numerical.numpy(), expected.numpy(), rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize(("name", "layers"), CASES[1:])  # LeGrad's stands in test_inversion
def test_an_inversion_is_that_of_plain_autograd(name, layers):
    visual, stack = double_tower(), masks(2)
    engine = inverter(visual)
    engine.set_image_tensor(picture())
    config = InversionConfig(steps=4, explainer=name, layers=layers)
    result = engine.invert(stack, config)
    start = torch.tensor(engine.image_embedding, dtype=torch.float64)
    for index, mask in enumerate(stack):
        embedding, losses = oracle_maps.invert(
            lambda one: oracle_of(name, layers)(visual, picture(), one),
            start,
            torch.tensor(mask, dtype=torch.float64),
            result.grid_maps.shape[1:],
            steps=4,
        )
        np.testing.assert_allclose(result.losses[index], losses, atol=1e-5)
        np.testing.assert_allclose(result.raw_embeddings[index], embedding.numpy(), atol=1e-4)


@pytest.mark.parametrize("name", MAPS)
def test_an_embedding_does_not_depend_on_the_other_masks(name):
    stack, results = masks(5), []
    for memory in (1024, 0):
        engine = inverter(tower(), memory_mb=memory)
        engine.set_image_tensor(image())
        results.append(engine.invert(stack, InversionConfig(explainer=name)))
    alone = engine.invert(stack[3:4], InversionConfig(explainer=name))
    assert_same_embeddings(results[0].raw_embeddings, results[1].raw_embeddings)
    assert_same_embeddings(alone.raw_embeddings[0], results[0].raw_embeddings[3])


@pytest.mark.parametrize(("name", "layers"), CASES)
def test_returned_maps_are_those_of_the_returned_embeddings(name, layers):
    engine = inverter(tower(layers=3))
    engine.set_image_tensor(image())
    result = engine.invert(masks(2), InversionConfig(explainer=name, layers=layers))
    again = engine.explain(result.raw_embeddings, explainer=name, layers=layers)
    np.testing.assert_allclose(result.grid_maps, again, atol=1e-5 * abs(again).max())


def test_rollout_is_that_of_plain_attention():
    visual = double_tower()
    engine = inverter(visual)
    engine.set_image_tensor(picture())
    relevance = engine.rollout()
    assert relevance.shape == engine.grid
    expected = oracle_maps.rollout(visual, picture()).detach().numpy()
    np.testing.assert_allclose(relevance.ravel(), expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"explainer": "rollout"}, "does not depend on the embedding"),
        ({"explainer": "gradcam++"}, "'gradcam-no-relu'"),
        ({"explainer": "gradcam", "layers": 2}, "last layer only"),
    ],
)
def test_what_a_map_cannot_do_is_refused(settings, words):
    with pytest.raises(ConfigError, match=words):
        InversionConfig(**settings)


def test_every_map_can_be_made_and_says_what_it_is():
    for name, spec in MAPS.items():
        assert spec.name == name
        assert spec.title
        assert spec.about.endswith(".")
        module, _, function = spec.factory.partition(":")
        assert callable(getattr(import_module(f"{explain.__name__}.{module}"), function))


def test_a_tower_is_offered_the_maps_whose_needs_it_meets():
    assert maps_for() == ("legrad",)
    assert maps_for("class query") == ("legrad", "chefer")
    assert maps_for("class query", "block inputs") == tuple(MAPS)


def test_the_table_loads_neither_maps_nor_torch():
    code = (
        "import sys, napari_maskinversion.engine.settings; "
        "print([n for n in sys.modules if n == 'torch' or n.endswith('.chefer')])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
