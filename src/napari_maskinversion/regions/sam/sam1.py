"""SAM 1, by its authors' package; the architecture is recognised by the shapes of the tensors.

The loader of segment-anything unpickles whatever a file contains, on the device it was saved from.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor, nn

from ...base.errors import ModelError
from ...engine.compute.onednn_layers import forward_only
from ...engine.models.checkpoints import fill, read_weights
from .resizing import SamInput, Size, Stages
from .segmenter import OnBlock, Points, Segmenter

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


class Sam1(Segmenter):
    """Segment Anything, of its authors."""

    square = False

    def __init__(self, sam: Any, name: str) -> None:
        super().__init__(name, int(sam.image_encoder.img_size), sam.device)
        self.sam = sam

    def encode(self, pixels: Tensor, on_block: OnBlock) -> Tensor:
        """As in `Segmenter`."""
        encoder = self.sam.image_encoder
        with torch.no_grad():
            tokens = encoder.patch_embed(self.sam.preprocess(pixels)) + encoder.pos_embed
        for number, block in enumerate(encoder.blocks):
            on_block(number, len(encoder.blocks))
            with forward_only(self.device):
                tokens = block(tokens)
        with torch.no_grad():
            features: Tensor = encoder.neck(tokens.permute(0, 3, 1, 2))
        return features

    def decode(
        self, features: Any, points: Points | None, boxes: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """As in `Segmenter`; unlike `SamPredictor`, which drops a mask of the four."""
        with forward_only(self.device):
            sparse, dense = self.sam.prompt_encoder(points=points, boxes=boxes, masks=None)
            maps, scores = self.sam.mask_decoder.predict_masks(
                image_embeddings=features,
                image_pe=self.sam.prompt_encoder.get_dense_pe(),
                sparse_prompt_embeddings=sparse,
                dense_prompt_embeddings=dense,
            )
        return maps, scores

    def stages(self, view: SamInput, target: Size) -> Stages:
        """As in `Segmenter`."""
        return ((self.side, self.side), view.size), (target, target)


def load_sam(path: Path, device: torch.device) -> Sam:
    """Load a checkpoint of SAM."""
    state, _ = read_weights(path, instead="the published checkpoint")
    try:
        with torch.device("meta"):
            sam = _sam_of({name: tuple(tensor.shape) for name, tensor in state.items()})
    except (ArithmeticError, AssertionError, LookupError, RuntimeError, ValueError) as error:
        raise ModelError(
            f"{path} is not a checkpoint of SAM ViT-B, ViT-L or ViT-H ({error}); download or copy "
            "the file again."
        ) from error
    fill(sam, state, path=path, architecture="of SAM")
    # Not in the checkpoints.
    for name, values in (("pixel_mean", _MEAN), ("pixel_std", _STD)):
        sam.register_buffer(name, torch.tensor(values).view(-1, 1, 1), persistent=False)
    sam.requires_grad_(False)
    return sam.to(device).eval()


def _sam_of(shapes: Mapping[str, tuple[int, ...]]) -> Sam:
    """Return a SAM of the sizes that the shapes of a checkpoint's tensors have."""

    def count(prefix: str) -> int:
        """Return the number of modules with this prefix."""
        return len({n[len(prefix) :].partition(".")[0] for n in shapes if n.startswith(prefix)})

    _, grid, _, width = shapes["image_encoder.pos_embed"]
    patch = shapes["image_encoder.patch_embed.proj.weight"][-1]
    depth = count("image_encoder.blocks.")
    # Along a side of each block's attention window: blocks as large as the grid attend to all.
    windows = []
    head = 1
    for block in range(depth):
        rows, head = shapes[f"image_encoder.blocks.{block}.attn.rel_pos_h"]
        windows.append((rows + 1) // 2)
    local = sorted(set(windows) - {grid})
    channels = shapes["image_encoder.neck.0.weight"][0]
    encoder = ImageEncoderViT(
        img_size=grid * patch,
        patch_size=patch,
        embed_dim=width,
        depth=depth,
        num_heads=width // head,
        mlp_ratio=shapes["image_encoder.blocks.0.mlp.lin1.weight"][0] / width,
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
        mask_in_chans=shapes["prompt_encoder.mask_downscaling.3.weight"][0],
    )
    decoder = MaskDecoder(
        num_multimask_outputs=shapes["mask_decoder.mask_tokens.weight"][0] - 1,
        transformer=TwoWayTransformer(
            depth=count("mask_decoder.transformer.layers."),
            embedding_dim=channels,
            mlp_dim=shapes["mask_decoder.transformer.layers.0.mlp.lin1.weight"][0],
            num_heads=_DECODER_HEADS,
        ),
        transformer_dim=channels,
        iou_head_depth=count("mask_decoder.iou_prediction_head.layers."),
        iou_head_hidden_dim=shapes["mask_decoder.iou_prediction_head.layers.0.weight"][0],
    )
    return Sam(encoder, prompts, decoder, pixel_mean=list(_MEAN), pixel_std=list(_STD))
