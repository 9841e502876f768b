"""Load SAM checkpoints safely; the architecture is recognised by the shapes of the tensors.

The loader of segment-anything unpickles whatever a file contains, on the device it was saved from.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

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

# Not visible in the shapes; the same in all published models.
_DECODER_HEADS: Final = 8
_MEAN: Final = (123.675, 116.28, 103.53)
_STD: Final = (58.395, 57.12, 57.375)


def load_sam(path: str | Path, device: torch.device) -> Sam:
    """Load a checkpoint of SAM."""
    place = Path(path)
    state, _ = read_weights(place, instead="the published checkpoint")
    try:
        with torch.device("meta"):
            sam = _sam_of(state, place)
    except (ArithmeticError, AssertionError, RuntimeError, TypeError, ValueError) as error:
        # sizes that no module can have
        raise ModelError(
            f"{place} contains tensors of sizes that make no SAM ({error}); download or copy the "
            "file again."
        ) from error
    fill(sam, state, path=place, architecture="of SAM")
    # Not in the checkpoints.
    for name, values in (("pixel_mean", _MEAN), ("pixel_std", _STD)):
        sam.register_buffer(name, torch.tensor(values).view(-1, 1, 1), persistent=False)
    sam.requires_grad_(False)
    return sam.to(device).eval()


def _sam_of(state: Mapping[str, Tensor], path: Path) -> Sam:
    """Return a SAM of the sizes that the shapes of a checkpoint's tensors have."""
    shapes = {name: tuple(tensor.shape) for name, tensor in state.items()}

    def shape(name: str, length: int) -> tuple[int, ...]:
        sizes = shapes.get(name)
        if sizes is None or len(sizes) != length:
            what = "is missing" if sizes is None else "has another shape"
            raise ModelError(
                f"{path} is not a checkpoint of SAM ViT-B, ViT-L or ViT-H: {name} {what}."
            )
        return sizes

    def count(prefix: str) -> int:
        """Return the number of modules with this prefix."""
        return len({n[len(prefix) :].partition(".")[0] for n in shapes if n.startswith(prefix)})

    _, grid, other, width = shape("image_encoder.pos_embed", 4)
    patch = shape("image_encoder.patch_embed.proj.weight", 4)[-1]
    depth = count("image_encoder.blocks.")
    # Along a side of each block's attention window: blocks as large as the grid attend to all.
    windows, head = [], 1
    for block in range(depth):
        rows, head = shape(f"image_encoder.blocks.{block}.attn.rel_pos_h", 2)
        windows.append((rows + 1) // 2)
    local = sorted(set(windows) - {grid})
    if not depth or grid != other or len(local) > 1 or not head or width % head:
        raise ValueError("its blocks do not fit one another")
    channels = shape("image_encoder.neck.0.weight", 4)[0]
    encoder = ImageEncoderViT(
        img_size=grid * patch,
        patch_size=patch,
        embed_dim=width,
        depth=depth,
        num_heads=width // head,
        mlp_ratio=shape("image_encoder.blocks.0.mlp.lin1.weight", 2)[0] / width,
        out_chans=channels,
        qkv_bias=True,
        norm_layer=partial(nn.LayerNorm, eps=1e-6),
        use_rel_pos=True,
        window_size=local[0] if local else 0,
        global_attn_indexes=tuple(i for i, side in enumerate(windows) if side == grid),
    )
    prompts = PromptEncoder(
        embed_dim=channels,
        image_embedding_size=(grid, grid),
        input_image_size=(grid * patch, grid * patch),
        mask_in_chans=shape("prompt_encoder.mask_downscaling.3.weight", 4)[0],
    )
    decoder = MaskDecoder(
        num_multimask_outputs=shape("mask_decoder.mask_tokens.weight", 2)[0] - 1,
        transformer=TwoWayTransformer(
            depth=count("mask_decoder.transformer.layers."),
            embedding_dim=channels,
            mlp_dim=shape("mask_decoder.transformer.layers.0.mlp.lin1.weight", 2)[0],
            num_heads=_DECODER_HEADS,
        ),
        transformer_dim=channels,
        iou_head_depth=count("mask_decoder.iou_prediction_head.layers."),
        iou_head_hidden_dim=shape("mask_decoder.iou_prediction_head.layers.0.weight", 2)[0],
    )
    return Sam(encoder, prompts, decoder, pixel_mean=list(_MEAN), pixel_std=list(_STD))
