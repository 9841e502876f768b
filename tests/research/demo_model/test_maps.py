"""The closed-form map that training supervises, against autograd with the attention as a leaf."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from research.demo_model.maps import encode, legrad_maps
from research.demo_model.model import build_model

SMALL = {
    "embed_dim": 24,
    "vision_cfg": {"image_size": 32, "layers": 2, "width": 32, "head_width": 16, "patch_size": 8},
    "text_cfg": {"context_length": 8, "vocab_size": 64, "width": 32, "heads": 2, "layers": 1},
}


@pytest.fixture(scope="module")
def model() -> Any:
    built = build_model(3, config=SMALL).double().eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in built.visual.parameters():  # type: ignore[union-attr]
            p += 0.2 * torch.randn(p.shape, generator=generator, dtype=torch.float64)
    return built


def slow_map(visual: Any, images: Tensor, embedding: Tensor) -> Tensor:
    """LeGrad by the book for one image and one embedding: gradient by the attention, ReLU, mean."""
    block = visual.transformer.resblocks[-1]
    inputs: list[Tensor] = []
    hook = block.register_forward_pre_hook(
        lambda _, args, kwargs: inputs.append((args or [kwargs["q_x"]])[0]), with_kwargs=True
    )
    visual(images)
    hook.remove()
    x = inputs[0]
    n, width = x.shape[1:]
    heads = block.attn.num_heads
    qkv = F.linear(block.ln_1(x), block.attn.in_proj_weight, block.attn.in_proj_bias)
    q, k, v = (t.reshape(n, heads, -1).transpose(0, 1) for t in qkv[0].chunk(3, -1))
    attention = (
        (q @ k.transpose(1, 2) / (width / heads) ** 0.5).softmax(-1).detach().requires_grad_(True)
    )
    r = x[0] + block.attn.out_proj((attention @ v).transpose(0, 1).reshape(n, width))
    z = r + block.mlp(block.ln_2(r))
    f = visual.ln_post(z.mean(0)) @ visual.proj
    score = F.cosine_similarity(embedding, f, dim=0)
    (gradient,) = torch.autograd.grad(score, attention)
    return gradient.relu().mean((0, 1))[1:]


@pytest.mark.parametrize("size", [(32, 32), (24, 32)])
def test_the_written_out_tower_is_open_clips(model: Any, size: tuple[int, int]) -> None:
    images = torch.rand(2, 3, *size, dtype=torch.float64)
    if size == (32, 32):
        torch.testing.assert_close(
            encode(model.visual, images).embedding, model.encode_image(images)
        )
    assert encode(model.visual, images).grid == (size[0] // 8, size[1] // 8)


def test_closed_form_equals_autograd(model: Any) -> None:
    drawn = torch.Generator().manual_seed(1)  # a map may well be nothing but zeros: not these
    images = torch.rand(2, 3, 32, 32, dtype=torch.float64, generator=drawn)
    embeddings = torch.randn(2, 3, 24, dtype=torch.float64, generator=drawn)
    fast = legrad_maps(model.visual, encode(model.visual, images), embeddings)
    for b in range(2):
        for m in range(3):
            slow = slow_map(model.visual, images[b : b + 1], embeddings[b, m])
            assert slow.max() > 0
            torch.testing.assert_close(
                fast[b, m].flatten(), slow, rtol=1e-6, atol=1e-5 * float(slow.max())
            )
