"""The steps of an open_clip class-token tower, for methods that use tokens between its layers."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from ...base.errors import ModelError
from ...base.regions import Regions
from ..compute.onednn_layers import forward_only
from ..encode.image_encoding import embed
from ..invert.dice import Resampling, area_matrix
from ..models.backbone import Backbone
from ..models.towers.openclip_vit import ClassTokenTower

Grid = tuple[int, int]


def class_token_tower(model: Backbone, title: str) -> Any:
    """Return a model's image tower, which must be open_clip's own with a class token."""
    visual = cast("Any", model.clip).visual
    if not ClassTokenTower.fits(visual) or getattr(visual, "pool_type", "tok") != "tok":
        raise ModelError(
            f"{title} needs an open_clip VisionTransformer with a class token; {model.name} has a "
            f"{type(visual).__name__}. Choose Crop or CLIP [CLS], which work with any model."
        )
    return visual


@torch.no_grad()
def embed_patches(visual: Any, images: Tensor, added: Tensor | float = 0.0) -> tuple[Tensor, Grid]:
    """Return tokens (B, n, d) before the first block and their grid."""
    side = visual.conv1.kernel_size[0]
    grid = (images.shape[2] // side, images.shape[3] // side)
    return embed(visual, images, grid, added), grid


@forward_only()
def run_blocks(visual: Any, x: Tensor, stop: int | None = None) -> Tensor:
    """Run tokens through the blocks before ``stop``."""
    for block in visual.transformer.resblocks[:stop]:
        x = block(x)
    return x


@torch.no_grad()
def project(visual: Any, x: Tensor) -> Tensor:
    """Project tokens (..., d) into the joint space, (..., e), float32."""
    embeddings: Tensor = (visual.ln_post(x) @ visual.proj).float()
    return embeddings


def attention_update(block: Any, attended: Tensor) -> Tensor:
    """Return the update (1, n, d) of a block's tokens for the output (h, n, d / h) of heads."""
    update: Tensor = block.ls_1(block.attn.out_proj(attended.transpose(0, 1).flatten(1)[None]))
    return update


def cell_coverage(regions: Regions, size: tuple[int, int], like: Tensor) -> Tensor:
    """Return the share (N, h, w), 0..1, of each cell of a raster that regions cover.

    The raster (h, w) spans the plane; the result is float32 on the device of ``like``.
    """
    area = [torch.from_numpy(area_matrix(regions.shape[i], size[i])) for i in (0, 1)]
    coverage = Resampling(area, area[0], torch.float64).batches(regions)
    return torch.cat(list(coverage)).float().to(like.device)
