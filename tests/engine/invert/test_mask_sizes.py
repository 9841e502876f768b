"""Masks of other sizes than the model's input: what agrees with the published code, and how far.

The published code stretches the map to 0..1 at the input's size, interpolates it bilinearly to the
mask's size and adds 1 pixel of the mask to the Dice loss. The engine averages the mask over the
input's pixels and adds 1 pixel of the input. So masks that are larger than the input agree;
smaller ones differ by the 1, which is then a larger part of a region, and by the few points of the
map that they see.
"""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from napari_maskinversion import InversionConfig
from tests.engine import oracle, towers

SIDE = 64


def ellipses(height, width):
    """Four ellipses (4, height, width), the same parts of the image at any size."""
    y, x = np.mgrid[:height, :width]
    y, x = (y + 0.5) / height, (x + 0.5) / width
    shapes = [
        (0.3, 0.4, 0.2, 0.1),
        (0.6, 0.7, 0.3, 0.2),
        (0.7, 0.3, 0.12, 0.12),
        (0.5, 0.5, 0.4, 0.3),
    ]
    return np.stack([((y - cy) / a) ** 2 + ((x - cx) / b) ** 2 < 1 for cy, cx, a, b in shapes])


@pytest.fixture(scope="module")
def visual():
    return towers.tower(dtype=torch.float64).requires_grad_(False)


@pytest.fixture(scope="module")
def picture():
    return towers.image(SIDE, SIDE, dtype=torch.float64)


def published(visual, picture, mask, smoothing=1.0, steps=10):
    """Invert one mask (H, W) in the published order of operations, by autograd."""
    explained, grid = oracle.forward_with_attention(visual, picture, 1)
    start = (visual.ln_post(explained[-1][1][0, 0]) @ visual.proj).detach()
    embedding = start.clone().requires_grad_()
    optimizer = torch.optim.AdamW([embedding], lr=0.1, weight_decay=0)
    target = torch.tensor(mask, dtype=torch.float64)
    for _ in range(steps):
        heat = oracle.heatmap(visual, explained, embedding, grid, tuple(picture.shape[2:]))
        heat = F.interpolate(heat[None, None], size=mask.shape, mode="bilinear")[0, 0]
        overlap = 2 * (heat * target).sum() + smoothing
        loss = 1 - overlap / (heat.sum() + target.sum() + smoothing)
        embedding.grad = torch.autograd.grad(loss, embedding)[0]
        optimizer.step()
    return embedding.detach().numpy()


def least_cosine(visual, picture, size, smoothing=1.0):
    """Return the least cosine of the engine's embeddings to published ones of masks of a size."""
    masks = ellipses(*size)
    engine = towers.inverter(visual)
    engine.set_image_tensor(picture)
    ours = engine.invert(masks, InversionConfig()).raw_embeddings
    theirs = np.stack([published(visual, picture, mask, smoothing) for mask in masks])
    lengths = np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1)
    return ((ours * theirs).sum(1) / lengths).min()


def test_masks_of_the_inputs_size_agree_to_rounding(visual, picture):
    assert least_cosine(visual, picture, (SIDE, SIDE)) > 1 - 1e-6


@pytest.mark.parametrize("size", [(96, 96), (133, 185), (256, 192)])
def test_larger_masks_agree(visual, picture, size):
    assert least_cosine(visual, picture, size) > 0.9999


@pytest.mark.parametrize("size", [(31, 47), (32, 32), (48, 20)])
def test_smaller_masks_agree_when_the_added_pixel_is_one_of_the_input(visual, picture, size):
    one_input_pixel = size[0] * size[1] / SIDE**2  # in pixels of the mask
    assert least_cosine(visual, picture, size, one_input_pixel) > 0.9998


def test_the_added_pixel_makes_most_of_the_difference_of_smaller_masks(visual, picture):
    as_published = 1 - least_cosine(visual, picture, (31, 47))
    scaled = 1 - least_cosine(visual, picture, (31, 47), 31 * 47 / SIDE**2)
    assert scaled < as_published / 5
    assert as_published < 0.01
