"""Load SAM checkpoints safely; the architecture is recognised by the shapes of the tensors.

The loader of segment-anything unpickles whatever a file contains, on the device it was saved from.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor, nn

from ...base.errors import ModelError
from ...engine.models.checkpoints import fill, read_weights

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # about things that users of this package cannot change
    from segment_anything.modeling import (
        ImageEncoderViT,
        MaskDecoder,
        PromptEncoder,
        Sam,
        TwoWayTransformer,
    )

_NAMES: Final = {(768, 12): "vit_b", (1024, 24): "vit_l", (1280, 32): "vit_h"}
# Not visible in the shapes; the same in all published models.
_DECODER_HEADS: Final = 8
_MEAN: Final = (123.675, 116.28, 103.53)
_STD: Final = (58.395, 57.12, 57.375)


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """Sizes of a SAM model."""

    width: int  # Width, blocks and heads of the image encoder
    depth: int
    heads: int
    grid: int  # Patches along a side of its input; pixels along a side of a patch
    patch: int
    window: int  # Patches along a side of an attention window
    global_blocks: tuple[int, ...]  # Indices of the blocks that attend to all patches
    mlp: int  # Width of its MLPs
    prompt_width: int  # Channels of prompts and image embeddings
    mask_channels: int  # Channels of the mask encoder
    decoder_depth: int
    decoder_mlp: int
    masks: int  # Candidates in addition to the single mask
    score_depth: int  # Depth and width of the head that predicts scores
    score_width: int

    @property
    def name(self) -> str:
        """Name of the published model ("vit_b"), or its sizes."""
        return _NAMES.get((self.width, self.depth), f"width {self.width}, {self.depth} blocks")

    @property
    def side(self) -> int:
        """Pixels along the longer side of the model's input."""
        return self.grid * self.patch


def load_sam(path: str | Path, device: torch.device) -> tuple[Sam, Architecture]:
    """Load a checkpoint of SAM."""
    place = Path(path)
    state, _ = read_weights(place, instead="the published checkpoint")
    architecture = recognise(state, place)
    try:
        with torch.device("meta"):
            sam = _build(architecture)
    except Exception as error:  # sizes that no module can have
        raise ModelError(
            f"{place} contains tensors of sizes that make no SAM ({error}); download or copy the "
            "file again."
        ) from error
    fill(sam, state, path=place, architecture=f"of SAM ({architecture.name})")
    # Not in the checkpoints.
    for name, values in (("pixel_mean", _MEAN), ("pixel_std", _STD)):
        sam.register_buffer(name, torch.tensor(values).view(-1, 1, 1), persistent=False)
    sam.requires_grad_(False)
    return sam.to(device).eval(), architecture


def recognise(state: Mapping[str, Tensor], path: Path) -> Architecture:
    """Return the sizes of a SAM model, read off the shapes of its tensors."""
    shapes = {name: tuple(tensor.shape) for name, tensor in state.items()}

    def shape(name: str, length: int) -> tuple[int, ...]:
        sizes = shapes.get(name)
        if sizes is None or len(sizes) != length:
            what = "is missing" if sizes is None else "has another shape"
            raise ModelError(
                f"{path} is not a checkpoint of SAM ViT-B, ViT-L or ViT-H: {name} {what}."
            )
        return sizes

    _, grid, other, width = shape("image_encoder.pos_embed", 4)
    patch = shape("image_encoder.patch_embed.proj.weight", 4)[-1]
    depth = _count(shapes, "image_encoder.blocks.")
    windows, head = [], 1
    for block in range(depth):
        rows, head = shape(f"image_encoder.blocks.{block}.attn.rel_pos_h", 2)
        windows.append((rows + 1) // 2)
    local = sorted(set(windows) - {grid})
    if not depth or grid != other or len(local) > 1 or not head or width % head:
        raise ModelError(
            f"{path} contains tensors of sizes that make no SAM; download or copy it again."
        )
    return Architecture(
        width=width,
        depth=depth,
        heads=width // head,
        grid=grid,
        patch=patch,
        window=local[0] if local else 0,
        global_blocks=tuple(i for i, side in enumerate(windows) if side == grid),
        mlp=shape("image_encoder.blocks.0.mlp.lin1.weight", 2)[0],
        prompt_width=shape("image_encoder.neck.0.weight", 4)[0],
        mask_channels=shape("prompt_encoder.mask_downscaling.3.weight", 4)[0],
        decoder_depth=_count(shapes, "mask_decoder.transformer.layers."),
        decoder_mlp=shape("mask_decoder.transformer.layers.0.mlp.lin1.weight", 2)[0],
        masks=shape("mask_decoder.mask_tokens.weight", 2)[0] - 1,
        score_depth=_count(shapes, "mask_decoder.iou_prediction_head.layers."),
        score_width=shape("mask_decoder.iou_prediction_head.layers.0.weight", 2)[0],
    )


def _count(names: Mapping[str, Any], prefix: str) -> int:
    """Return the number of modules with this prefix."""
    return len({n[len(prefix) :].partition(".")[0] for n in names if n.startswith(prefix)})


def _build(a: Architecture) -> Sam:
    norm = partial(nn.LayerNorm, eps=1e-6)
    encoder = ImageEncoderViT(
        img_size=a.side,
        patch_size=a.patch,
        embed_dim=a.width,
        depth=a.depth,
        num_heads=a.heads,
        mlp_ratio=a.mlp / a.width,
        out_chans=a.prompt_width,
        qkv_bias=True,
        norm_layer=norm,
        use_rel_pos=True,
        window_size=a.window,
        global_attn_indexes=a.global_blocks,
    )
    prompts = PromptEncoder(
        embed_dim=a.prompt_width,
        image_embedding_size=(a.grid, a.grid),
        input_image_size=(a.side, a.side),
        mask_in_chans=a.mask_channels,
    )
    decoder = MaskDecoder(
        num_multimask_outputs=a.masks,
        transformer=TwoWayTransformer(
            depth=a.decoder_depth,
            embedding_dim=a.prompt_width,
            mlp_dim=a.decoder_mlp,
            num_heads=_DECODER_HEADS,
        ),
        transformer_dim=a.prompt_width,
        iou_head_depth=a.score_depth,
        iou_head_hidden_dim=a.score_width,
    )
    return Sam(encoder, prompts, decoder, pixel_mean=list(_MEAN), pixel_std=list(_STD))
