"""A model gives the same by the faster library as by torch's own layers."""

import contextlib
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.nn.functional as functional
from segment_anything.modeling import ImageEncoderViT
from torch import nn
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from napari_maskinversion import InversionConfig, wrap_open_clip
from napari_maskinversion.base.progress import listening
from napari_maskinversion.engine.compute.onednn_layers import forward_only
from napari_maskinversion.engine.models.towers import tower_of
from tests.engine.libraries import ROUNDING, all_by_onednn
from tests.engine.timm_towers import BUILDS, POOLED, build
from tests.engine.tiny import tiny_clip
from tests.engine.towers import image, inverter, masks, tower


@pytest.fixture
def onednn(monkeypatch):
    monkeypatch.setattr(torch.backends.mha, "_is_fastpath_enabled", False)  # as `computing` does
    return all_by_onednn(monkeypatch)


def alike(run, onednn):
    """Run with both libraries, compare, and return the result."""
    with torch.no_grad():
        usual = run()
    assert onednn == []
    with forward_only():
        result = run()
    assert onednn
    torch.testing.assert_close(result, usual, **ROUNDING)
    return result


def test_an_image_tower(onednn):
    clip, pixels = tiny_clip(), image(32, 32)
    alike(lambda: clip.encode_image(pixels), onednn)


def test_a_text_tower_with_its_mask(onednn):
    clip = tiny_clip()
    tokens = torch.randint(1, 400, (3, 77), generator=torch.Generator().manual_seed(0))
    alike(lambda: clip.encode_text(tokens), onednn)


@pytest.mark.parametrize("name", BUILDS)
def test_other_towers(onednn, name):
    visual = build(name, dtype=torch.float32).eval()
    alike(lambda: visual(image(32, 32)), onednn)


def test_the_encoder_of_sam(onednn):
    encoder = ImageEncoderViT(
        img_size=64, patch_size=8, embed_dim=16, depth=2, num_heads=2, out_chans=8,
        use_rel_pos=True, window_size=4, global_attn_indexes=(1,), norm_layer=nn.LayerNorm,
    ).eval()  # fmt: skip
    alike(lambda: encoder(image(64, 64)), onednn)


def attention(**settings):
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(16, 4, batch_first=True, **settings)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_(std=0.5)  # results of about 1, as ROUNDING is for
    return layer.eval()


AHEAD = torch.ones(5, 5, dtype=torch.bool).triu(1)


def tokens(seed=0):
    return torch.randn(2, 5, 16, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("bias", [False, True])
def test_self_attention(onednn, bias):
    layer, batch = attention(bias=bias), tokens()
    alike(lambda: layer(batch, batch, batch, need_weights=False)[0], onednn)
    # Both projections, and in each of two images the scores and the mixture of four heads.
    assert len(onednn) == 2 + 2 * 4 * 2


@pytest.mark.parametrize(
    ("settings", "call"),
    [
        ({}, {"need_weights": True}),
        ({}, {"key_padding_mask": torch.tensor([[False, True, False, False, True]] * 2)}),
        ({}, {"key": tokens(1), "value": tokens(2)}),
        ({}, {"attn_mask": AHEAD}),
    ],
    ids=["weights", "padding", "others' keys", "a mask"],
)
def test_attention_out_of_the_ordinary(onednn, settings, call):
    layer, batch = attention(**settings), tokens()
    asked = {"key": batch, "value": batch, "need_weights": False} | call
    alike(lambda: layer(batch, **asked), onednn)


@pytest.mark.parametrize(
    "asked",
    [
        {"is_causal": True},
        {"scale": 2.0},
        {"attn_mask": torch.arange(25.0).view(5, 5)},
        {"attn_mask": None, "dropout_p": 0.0, "is_causal": False},
    ],
    ids=["causal", "scaled", "masked", "plain"],
)
def test_scaled_dot_products(onednn, asked):
    parts = [torch.randn(2, 3, 5, 4, generator=torch.Generator().manual_seed(i)) for i in range(3)]
    usual = functional.scaled_dot_product_attention(*parts, **asked)
    with forward_only():
        result = functional.scaled_dot_product_attention(*parts, **asked)
    torch.testing.assert_close(result, usual, **ROUNDING)
    assert bool(onednn) == ("dropout_p" in asked)


def test_many_tokens_are_attended_to_in_pieces(onednn, monkeypatch):
    monkeypatch.setattr("napari_maskinversion.engine.compute.onednn_layers.PIECE", 12)
    parts = [torch.randn(2, 3, 5, 4, generator=torch.Generator().manual_seed(i)) for i in range(3)]
    alike(lambda: functional.scaled_dot_product_attention(*parts), onednn)
    assert (2, 4, 5) in onednn


def test_only_the_thread_that_is_in_it_is_concerned(onednn):
    layer = nn.Linear(16, 3)
    with forward_only(), ThreadPoolExecutor(1) as other:
        assert other.submit(lambda: layer(tokens()).requires_grad).result()
    assert onednn == []


def test_it_ends_with_an_error_and_may_be_entered_twice(onednn):
    with contextlib.suppress(ZeroDivisionError), forward_only(), forward_only():
        raise ZeroDivisionError
    assert _get_current_dispatch_mode_stack() == []


@pytest.mark.parametrize(
    ("kind", "rounding"), [(torch.float64, 1e-12), (torch.bfloat16, 0.05)], ids=str
)
def test_models_of_other_precision_run_as_they_are(onednn, kind, rounding):
    clip, pixels = tiny_clip().to(kind), image(32, 32).to(kind)
    with torch.no_grad():
        usual = clip.encode_image(pixels)
    with forward_only():
        features = clip.encode_image(pixels)
    torch.testing.assert_close(features, usual, rtol=rounding, atol=rounding)
    assert onednn == []


def test_a_model_on_another_device_has_nothing_to_gain():
    with forward_only(torch.device("cuda")):
        assert _get_current_dispatch_mode_stack() == []
        assert not torch.is_grad_enabled()


def test_texts_of_a_model_go_by_it(onednn):
    wrap_open_clip(tiny_clip()).encode_text(["a cell"])
    assert onednn


def look(_):
    """See that a listener is in nothing that the work entered."""
    assert _get_current_dispatch_mode_stack() == []
    assert torch.is_grad_enabled()


def test_whoever_listens_to_an_encoding_is_not_in_it_meanwhile(onednn):
    with listening(look):
        tower_of(tower()).encode(image(), 1)
    for _ in tower_of(tower()).attentions(image()):
        look(_)
    assert onednn


@pytest.mark.parametrize("name", BUILDS)
def test_whoever_looks_into_another_tower_is_not_in_it_meanwhile(onednn, name):
    visual = tower_of(build(name, dtype=torch.float32).eval())
    with listening(look):
        visual.encode(image(32, 32), 1)
    assert onednn
    if name not in POOLED:
        for _ in visual.attentions(image(32, 32)):
            look(_)


def test_an_inversion_gives_the_same_by_either_library(monkeypatch):
    def embeddings():
        engine = inverter(tower(), "cpu")
        engine.set_image_tensor(image())
        return engine.invert(masks(3), InversionConfig()).raw_embeddings

    usual = torch.from_numpy(embeddings())
    went = all_by_onednn(monkeypatch)
    torch.testing.assert_close(torch.from_numpy(embeddings()), usual, rtol=0, atol=2e-5)
    assert went
