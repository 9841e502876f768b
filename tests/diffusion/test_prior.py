"""The prior of lambda-ECLIPSE: published names and sizes, and what it computes."""

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.nn.functional import gelu, layer_norm, linear

from napari_maskinversion.base.errors import InputError, ModelError
from napari_maskinversion.diffusion.prior import (
    SubjectPrior,
    load_prior,
    places_of,
    predict,
    text_states,
)
from tests import tiny_decoders
from tests.scenes import demo_model

SIZES = (tiny_decoders.WIDTH, tiny_decoders.LENGTH)


@pytest.fixture
def weights(tmp_path):
    return tiny_decoders.prior(tmp_path) / "diffusion_pytorch_model.safetensors"


def test_it_has_the_published_number_of_parameters():
    with torch.device("meta"):
        prior = SubjectPrior()
    assert sum(each.numel() for each in prior.parameters()) == 34_849_536
    assert (prior.width, prior.length) == (1280, 77)


def plain(state, states, text, used, control, noise):
    """The published computation, written out token by token."""

    def dense(x, name):
        return linear(x, state[f"{name}.weight"], state[f"{name}.bias"])

    def norm(x, name):
        return layer_norm(x, x.shape[-1:], state[f"{name}.weight"], state[f"{name}.bias"])

    rows = [dense(row, "encoder_hidden_states_proj") for row in states]
    rows += [dense(control, "embedding_control"), dense(text, "embedding_proj")]
    rows += [dense(noise, "proj_in"), state["prd_embedding"][0, 0]]
    x = torch.stack(rows) + state["positional_embedding"][0]
    visible = torch.cat([used, torch.ones(4, dtype=torch.bool)])
    for layer in range(2):
        block = f"transformer_blocks.{layer}"
        y = norm(x, f"{block}.norm1")
        q, k, v = (dense(y, f"{block}.attn1.to_{part}").unflatten(1, (-1, 32)) for part in "qkv")
        mixed = torch.zeros_like(q)
        for head in range(q.shape[1]):
            for place in range(len(x)):
                seen = visible.clone()
                seen[place + 1 :] = False
                scores = (k[:, head] @ q[place, head]) / 32**0.5
                mixed[place, head] = torch.softmax(scores[seen], 0) @ v[seen, head]
        x = x + dense(mixed.flatten(1), f"{block}.attn1.to_out.0")
        inner = gelu(dense(norm(x, f"{block}.norm3"), f"{block}.ff.net.0.proj"))
        x = x + dense(inner, f"{block}.ff.net.2")
    return dense(norm(x, "norm_out")[-1], "proj_to_clip_embeddings")


def test_it_computes_what_the_published_module_does(weights):
    prior, state = load_prior(weights, SIZES), load_file(weights)
    random = torch.Generator().manual_seed(1)
    states = torch.randn(32, 128, generator=random)
    text, control, noise = torch.randn(3, 128, generator=random)
    used = torch.arange(32) < 9
    rows = [row[None] for row in (states, text, used, control, noise)]
    expected = plain(state, states, text, used, control, noise)
    torch.testing.assert_close(prior(*rows)[0], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("time_embedding.linear_1.weight", torch.zeros(2), "time_embedding"),
        ("norm_out.bias", torch.zeros(3), "norm_out.bias"),
        ("proj_in.weight", None, "proj_in.weight"),
    ],
)
def test_weights_that_are_not_the_priors_are_refused(tmp_path, name, value, says):
    folder = tiny_decoders.prior(tmp_path, **{name: value})
    with pytest.raises(ModelError, match=f"not the prior of lambda-ECLIPSE .*{says}") as caught:
        load_prior(folder / "diffusion_pytorch_model.safetensors", SIZES)
    assert "\n" not in str(caught.value)


def test_a_damaged_file_and_another_models_prior_are_refused(tmp_path, weights):
    broken = tmp_path / "broken.safetensors"
    broken.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(ModelError, match="damaged"):
        load_prior(broken, SIZES)
    with pytest.raises(ModelError, match="128 values and texts of 32 tokens"):
        load_prior(weights, (1280, 77))


def test_the_region_takes_the_place_of_its_word(weights):
    prior, model = load_prior(weights, SIZES), demo_model()
    prompt = text_states(model, "a photo of a dog on a beach")
    places = places_of(prompt, text_states(model, "dog"), "", "dog")
    assert [prompt.ids[place] for place in places] == list(text_states(model, "dog").words)
    region, other, nothing = np.random.default_rng(0).normal(size=(3, 128)).astype(np.float32)
    drawn = predict(prior, prompt, {places: region}, nothing, seed=0)
    assert drawn.shape == (128,)
    np.testing.assert_array_equal(predict(prior, prompt, {places: region}, nothing, 0), drawn)
    for subjects, control, seed in [
        ({places: other}, nothing, 0),
        ({places: 2 * region}, nothing, 0),  # not normalised
        ({places: region}, other, 0),
        ({places: region}, nothing, 1),
    ]:
        assert np.abs(predict(prior, prompt, subjects, control, seed) - drawn).max() > 1e-4


def test_a_word_that_is_not_in_the_prompt_is_refused():
    model = demo_model()
    prompt = text_states(model, "a photo of a dog")
    with pytest.raises(InputError, match="does not see the subject 'cat'"):
        places_of(prompt, text_states(model, "cat"), "a photo of a dog", "cat")


def test_memory_that_shapes_promise_is_not_taken(tmp_path, monkeypatch):
    """60 blocks of 4096 columns would be 48 GB; the file has some kilobytes."""
    state = {f"transformer_blocks.{n}.x": torch.zeros(1) for n in range(60)}
    state |= {"proj_in.weight": torch.zeros(4096, 1)}
    state |= {"positional_embedding": torch.zeros(1, 10, 1)}
    save_file(state, tmp_path / "prior.safetensors")
    reset = torch.nn.Linear.reset_parameters

    def counted(layer):
        assert layer.weight.is_meta
        reset(layer)

    monkeypatch.setattr(torch.nn.Linear, "reset_parameters", counted)
    with pytest.raises(ModelError, match="not the prior of lambda-ECLIPSE"):
        load_prior(tmp_path / "prior.safetensors", SIZES)
