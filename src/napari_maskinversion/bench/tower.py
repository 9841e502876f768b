"""An open_clip class-token tower on batches: image embeddings, and embeddings of every token."""

from __future__ import annotations

from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from ..core.encoding import resample_positions

Reading = Literal["values", "block"]


def _tokens(visual: Any, images: Tensor) -> tuple[Tensor, tuple[int, int]]:
    """Tokens before the last block, and their grid."""
    x = visual.conv1(images.to(visual.conv1.weight.dtype))
    grid = (int(x.shape[2]), int(x.shape[3]))
    x = x.flatten(2).transpose(1, 2)
    x = torch.cat([visual.class_embedding.to(x.dtype).expand(len(x), 1, -1), x], 1)
    positions = resample_positions(visual.positional_embedding, visual.grid_size, grid)
    x = visual.ln_pre(x + positions.to(x.dtype))
    for block in visual.transformer.resblocks[:-1]:
        x = block(x)
    return x, grid


@torch.no_grad()
def embed_images(visual: Any, images: Tensor) -> Tensor:
    """Return the image embeddings (B, e) of normalised images (B, 3, H, W), float32."""
    x = visual.transformer.resblocks[-1](_tokens(visual, images)[0])
    found: Tensor = (visual.ln_post(x[:, 0]) @ visual.proj).float()
    return found


@torch.no_grad()
def embed_tokens(visual: Any, images: Tensor, reading: Reading) -> tuple[Tensor, tuple[int, int]]:
    """Embed every patch token through the last layer's values alone, as MaskCLIP does.

    Parameters
    ----------
    visual : open_clip VisionTransformer
    images : Tensor, shape (B, 3, H, W)
        Normalised.
    reading : {"values", "block"}
        Project the values alone, or add them to the tokens and go on through the block's MLP.

    Returns
    -------
    tokens : Tensor, shape (B, grid_h * grid_w, e)
        Unit vectors.
    grid : tuple of int
    """
    x, grid = _tokens(visual, images)
    block = visual.transformer.resblocks[-1]
    attn, width = block.attn, x.shape[-1]
    bias = None if attn.in_proj_bias is None else attn.in_proj_bias[2 * width :]
    values = F.linear(block.ln_1(x), attn.in_proj_weight[2 * width :], bias)
    out = block.ls_1(attn.out_proj(values))
    if reading == "block":
        out = x + out
        out = out + block.ls_2(block.mlp(block.ln_2(out)))
    tokens = (visual.ln_post(out[:, 1:]) @ visual.proj).float()
    return F.normalize(tokens, dim=-1), grid
