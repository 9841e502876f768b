"""Image towers other than open_clip's own class-token ViT, against plain autograd in float64."""

import copy
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from open_clip.transformer import VisionTransformer

from napari_maskinversion import InversionConfig, MaskInverter
from napari_maskinversion.base.errors import ConfigError, ModelError
from napari_maskinversion.engine.explain.registry import make_map
from napari_maskinversion.engine.models.towers import tower_of
from tests.engine import oracle_maps
from tests.engine.oracle import forward_with_attention
from tests.engine.timm_towers import (
    BUILDS,
    TOKENS,
    build,
    embedding_of,
    pooled_map,
    product,
    token_map,
)
from tests.engine.tiny import snapshot
from tests.engine.towers import image, masks

# Each tower, and each other map with each kind of tower.
CASES = [*((name, "legrad") for name in BUILDS), ("class-token", "chefer"), ("pe", "chefer")]


@pytest.fixture(scope="module")
def towers():
    return {name: build(name) for name in BUILDS}


def picture(height=32, width=32, dtype=torch.float64):
    return image(height, width, dtype=dtype)


def engine(visual, pixels=None, empty=None):
    model = SimpleNamespace(
        clip=SimpleNamespace(visual=visual),
        device=torch.device("cpu"),
        empty_prompt=lambda: empty,
    )
    made = MaskInverter(model)
    made.set_image_tensor(picture() if pixels is None else pixels)
    return made


def encode(visual):
    return tower_of(visual).encode(picture(), 1)


def oracle_of(name):
    return token_map if name in TOKENS else pooled_map


def size_of(name):
    return 32 if name == "siglip" else 24


def embeddings(name, count=3, seed=5):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, size_of(name), generator=generator, dtype=torch.float64)


@pytest.mark.parametrize(("name", "explainer"), CASES)
def test_a_map_is_that_of_plain_autograd(towers, name, explainer):
    vectors = embeddings(name)
    actual = engine(towers[name]).explain(vectors.numpy(), explainer=explainer)
    for one, mine in zip(vectors, actual, strict=True):
        expected = oracle_of(name)(towers[name], picture(), one / one.norm(), explainer)
        scale = expected.abs().max().item()
        assert scale > 0
        np.testing.assert_allclose(mine.ravel(), expected.detach().numpy(), atol=1e-5 * scale)


@pytest.mark.parametrize(("place", "case"), enumerate(CASES))
def test_its_gradient_in_the_embedding_is_the_numerical_one(towers, place, case):
    """Also, for every other case, where all masks share one embedding, as at the start."""
    name, explainer = case
    encoding = encode(towers[name])
    if name == "siglip":
        encoding = replace(encoding, empty=embeddings(name, 1, seed=9)[0])
    actual = make_map(explainer, encoding, 1 << 20)
    vectors, eps = embeddings(name)[: 1 if place % 2 else 3], 1e-6
    maps = actual.forward(vectors)
    weights = torch.randn(3, maps.shape[1], dtype=torch.float64, generator=torch.manual_seed(0))
    gradient = actual.vjp(weights)
    direction = embeddings(name, seed=6)
    above = actual.forward(vectors + eps * direction)
    below = actual.forward(vectors - eps * direction)
    numerical = ((above - below) / (2 * eps) * weights).sum(1)
    expected = (gradient * direction).sum(1)
    np.testing.assert_allclose(numerical.numpy(), expected.numpy(), rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("name", ["eva", "mean", "siglip", "coca"])
def test_an_inversion_is_that_of_plain_autograd_whatever_masks_share_it(towers, name):
    visual, stack = towers[name], masks(2, 32, 32)
    result = engine(visual).invert(stack, InversionConfig(steps=3))
    for index, mask in enumerate(stack):
        embedding, losses = oracle_maps.invert(
            lambda one: oracle_of(name)(visual, picture(), one),
            embedding_of(visual, picture()),
            torch.tensor(mask, dtype=torch.float64),
            (4, 4),
            steps=3,
        )
        np.testing.assert_allclose(result.losses[index], losses, atol=1e-5)
        np.testing.assert_allclose(result.raw_embeddings[index], embedding.numpy(), atol=1e-4)


@pytest.mark.parametrize("name", BUILDS)
def test_sizes_and_layers_leave_the_tower_and_its_embedding_as_they_were(towers, name):
    visual = towers[name]
    before = snapshot(visual)
    made = engine(visual, picture(24, 48))
    assert made.grid == (3, 6)
    result = made.invert(masks(1, 24, 48), InversionConfig(steps=1, layers=2))
    assert np.isfinite(result.raw_embeddings).all()
    assert made.rollout().shape == (3, 6)
    assert snapshot(visual) == before
    again = engine(visual)
    expected = embedding_of(visual, picture())
    np.testing.assert_allclose(again.image_embedding, expected.numpy(), rtol=1e-5)


@pytest.mark.parametrize("name", ["class-token", "eva", "mean", "siglip", "pe"])
def test_another_size_is_what_timm_makes_of_it(towers, name):
    resized = copy.deepcopy(towers[name])
    resized.trunk.set_input_size(img_size=(24, 48))
    actual = engine(towers[name], picture(24, 48)).image_embedding
    expected = embedding_of(resized, picture(24, 48)).numpy()
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["eva", "pe", "coca"])
def test_a_half_precision_tower_is_inverted_in_float32(name):
    half = engine(build(name, dtype=torch.bfloat16), picture(dtype=torch.bfloat16))
    full = engine(build(name, dtype=torch.float32), picture(dtype=torch.float32))
    vectors = embeddings(name).numpy()
    one, other = half.explain(vectors), full.explain(vectors)
    assert np.corrcoef(one.ravel(), other.ravel())[0, 1] > 0.98
    assert half.invert(masks(1, 32, 32)).raw_embeddings.dtype == np.float32


@pytest.mark.parametrize("explainer", ["legrad", "chefer"])
def test_siglip_maps_are_zero_where_that_of_an_empty_prompt_is_high(towers, explainer):
    visual, empty = towers["siglip"], embeddings("siglip", 1, seed=9)[0]
    actual = pooled_map(visual, picture(), empty, explainer).detach()
    high = ((actual - actual.min()) / (actual.max() - actual.min()) > 0.8).numpy()
    assert 0 < high.sum() < high.size
    corrected = engine(visual, empty=empty.float().numpy())
    plain = engine(visual)
    vectors = embeddings("siglip").numpy()
    one, other = (
        made.explain(vectors, explainer=explainer).reshape(3, -1) for made in (corrected, plain)
    )
    assert (one[:, high] == 0).all()
    np.testing.assert_array_equal(one[:, ~high], other[:, ~high])
    assert (other[:, high] > 0).any()
    config = InversionConfig(steps=2, explainer=explainer)
    result = corrected.invert(masks(2, 32, 32), config)
    assert (result.grid_maps.reshape(2, -1)[:, high] == 0).all()


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("eva", {"explainer": "gradcam"}, "last block of open_clip's own ViT. Choose legrad or"),
        ("siglip", {"explainer": "gradcam-no-relu"}, "it needs the channels"),
        ("mean", {"explainer": "chefer"}, "needs a class token. Choose legrad"),
        ("siglip", {"explainer": "chefer", "layers": 2}, "layers must be 1"),
        ("pe", {"layers": 3}, "the model has 2 layers"),
    ],
)
def test_what_a_tower_does_not_offer_is_refused(towers, name, settings, words):
    with pytest.raises(ConfigError, match=words):
        engine(towers[name]).invert(masks(1, 32, 32), InversionConfig(**settings))


def test_attention_that_torch_does_not_compute_is_refused():
    visual = build("class-token")
    for block in visual.trunk.blocks:
        block.attn.fused_attn = False
    with pytest.raises(ModelError, match="not call torch's attention once"):
        engine(visual)


@pytest.mark.parametrize("name", ["mean", "siglip", "pe", "coca"])
def test_the_image_s_own_embedding_has_a_map_though_it_is_the_feature(towers, name):
    made = engine(towers[name])
    actual = made.explain(made.image_embedding[None])
    assert actual.max() > 1e-6
    losses = made.invert(masks(2, 32, 32)).losses
    assert (np.abs(np.diff(losses, axis=1)) > 1e-5).mean() > 0.8


def test_a_mean_pooled_tower_of_open_clips_own_is_inverted():
    torch.manual_seed(0)
    visual = VisionTransformer(
        32, 8, 32, 2, 2, 4.0, no_ln_pre=True, pool_type="avg", final_ln_after_pool=True,
        output_dim=24,
    ).double().eval()  # fmt: skip
    made = engine(visual)
    expected = embedding_of(visual, picture())
    np.testing.assert_allclose(made.image_embedding, expected.numpy(), rtol=1e-5)
    vectors = embeddings("eva")
    for one, mine in zip(vectors, made.explain(vectors.numpy()), strict=True):
        expected = mean_pooled_map(visual, picture(), one / one.norm())
        np.testing.assert_allclose(mine.ravel(), expected.detach().numpy(), rtol=1e-4, atol=1e-9)
    assert (np.abs(np.diff(made.invert(masks(1, 32, 32)).losses[0])) > 1e-5).all()


def mean_pooled_map(visual, image, embedding):
    ((attention, tokens),), _ = forward_with_attention(visual, image, 1)
    feature = visual.ln_post(tokens[0].mean(0)) @ visual.proj
    score = product(embedding, feature)
    (gradient,) = torch.autograd.grad(score, attention)
    return gradient.relu().mean((0, 1))[1:]


def test_embeddings_beyond_one_batch_of_autograd_are_computed_as_alone(towers):
    layer, vectors = encode(towers["eva"]).general[0], embeddings("eva", 11)
    layer.evaluate(vectors)
    together, weights = layer.p, torch.randn(layer.p.shape, dtype=torch.float64)
    gradients = layer.route.vjp(weights)
    for index, vector in enumerate(vectors):
        layer.evaluate(vector[None])
        torch.testing.assert_close(layer.p, together[index : index + 1])
        alone = layer.route.vjp(weights[index : index + 1])
        torch.testing.assert_close(alone, gradients[index : index + 1])
