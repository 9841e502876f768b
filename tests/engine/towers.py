"""Small image towers with fixed random weights, and masks for them."""

import copy
from types import SimpleNamespace

import numpy as np
import torch
from open_clip.transformer import QuickGELU, VisionTransformer

from napari_maskinversion import MaskInverter
from tests.device import DEVICE


def tower(
    *,
    image_size=64,
    patch_size=16,
    width=32,
    layers=2,
    heads=2,
    embed_dim=24,
    mlp_ratio=4.0,
    quick_gelu=False,
    layer_scale=None,
    sharpen=3.0,
    seed=0,
    dtype=torch.float32,
):
    """A VisionTransformer whose attention is sharp enough for maps to have a shape."""
    torch.manual_seed(seed)
    visual = VisionTransformer(
        image_size,
        patch_size,
        width,
        layers,
        heads,
        mlp_ratio,
        ls_init_value=layer_scale,
        output_dim=embed_dim,
        act_layer=QuickGELU if quick_gelu else torch.nn.GELU,
    )
    with torch.no_grad():
        for name, parameter in visual.named_parameters():
            if parameter.ndim == 1 and "gamma" not in name:
                parameter.add_(0.2 * torch.randn_like(parameter))
            if "in_proj_weight" in name:
                parameter.mul_(sharpen)
    return visual.to(dtype).eval()


def inverter(visual, device=DEVICE, **keywords):
    """A MaskInverter on a bare tower: `set_image_tensor` needs nothing else of a model.

    On a GPU it is a copy of the tower, so that oracles compute on the CPU.
    """
    visual = visual if device == "cpu" else copy.deepcopy(visual).to(device)
    model = SimpleNamespace(clip=SimpleNamespace(visual=visual), device=torch.device(device))
    return MaskInverter(model, **keywords)


def image(height=64, width=64, seed=1, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(1, 3, height, width, generator=generator, dtype=torch.float64).to(dtype)


def masks(count, height=64, width=64, seed=2):
    """Random boxes, (count, height, width) bool."""
    rng = np.random.default_rng(seed)
    stack = np.zeros((count, height, width), dtype=bool)
    for mask in stack:
        y, x = rng.integers(0, height - 12), rng.integers(0, width - 12)
        mask[y : y + rng.integers(8, height // 2), x : x + rng.integers(8, width // 2)] = True
    return stack


def assert_same_embeddings(actual, expected):
    """Check that embeddings (N, e) of two exact routes differ by float32 rounding alone.

    Routes, batches and threads add up in another order, so gradients differ by about 1e-6 of their
    length. AdamW divides each coordinate by its own size: one whose gradient is small moves by up
    to 1e-5 of a step's 0.1 more or less, in each of ten steps. Hence 5e-5 for a coordinate of a
    unit embedding, and 2e-6 for the cosine, which averages over the coordinates. A route
    whose offsets are wrong by one percent differs by 7e-4.
    """
    units = [
        array / np.linalg.norm(array, axis=-1, keepdims=True)
        for array in (np.asarray(actual, np.float64), np.asarray(expected, np.float64))
    ]
    np.testing.assert_allclose(*units, rtol=0, atol=5e-5)
    np.testing.assert_array_less(1 - (units[0] * units[1]).sum(-1), 2e-6)


SMOOTH_SIDE = 224  # 14 x 14 tokens


def smooth_image(tokens=14):
    """A picture whose neighbouring patches look alike, as those of photographs do."""
    coarse, side = image(7, 7, seed=5), 16 * tokens
    return torch.nn.functional.interpolate(coarse, size=(side, side), mode="bicubic")


def smooth_tower(dtype=torch.float32):
    """A tower with which `fast` estimates, instead of finding that all checks fail."""
    visual = tower(image_size=SMOOTH_SIDE, sharpen=2.0, mlp_ratio=8.0)
    with torch.no_grad():
        visual.positional_embedding.mul_(0.1)
    return visual.to(dtype)
