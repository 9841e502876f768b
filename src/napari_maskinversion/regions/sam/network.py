"""What a segmenter needs of SAM's network, and SAM 1 as one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from ...engine.compute.onednn_layers import forward_only
from .resizing import SamInput, Size

OnBlock = Callable[[int, int], object]
Stages = tuple[tuple[Size, Size], ...]


class Network(Protocol):
    """Image encoder and mask decoder of one of the SAMs."""

    square: bool  # The image is stretched to a square, instead of padded below and to the right

    @property
    def side(self) -> int:
        """Pixels along the longer side of its input."""

    @property
    def device(self) -> torch.device:
        """Its device."""

    def encode(self, pixels: Tensor, on_block: OnBlock) -> Any:
        """Encode an image (1, 3, h, w) of 0..255; ``on_block(number, count)`` before each block."""

    def decode(
        self, features: Any, points: tuple[Tensor, Tensor] | None, boxes: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return four maps (B, 4, h, w) of logits and their scores, the unambiguous mask first.

        Points are (B, n, 2) as (x, y) and their labels (B, n); boxes are (B, 4).
        """

    def stages(self, view: SamInput, target: Size) -> Stages:
        """Return how maps are enlarged to the image's pixels; see `Candidate`."""


def enlarged(maps: Tensor, stages: Stages) -> Tensor:
    """Enlarge maps (B, n, h, w)."""
    for size, used in stages:
        maps = interpolate(maps, size, mode="bilinear", align_corners=False)
        maps = maps[..., : used[0], : used[1]]
    return maps


class Sam1:
    """Segment Anything, by its authors' package."""

    square = False

    def __init__(self, sam: Any) -> None:
        self.sam = sam

    @property
    def side(self) -> int:
        """As in `Network`."""
        return int(self.sam.image_encoder.img_size)

    @property
    def device(self) -> torch.device:
        """As in `Network`."""
        device: torch.device = self.sam.device
        return device

    def encode(self, pixels: Tensor, on_block: OnBlock) -> Tensor:
        """As in `Network`."""
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
        self, features: Any, points: tuple[Tensor, Tensor] | None, boxes: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """As in `Network`; unlike `SamPredictor`, which drops a mask of the four."""
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
        """As in `Network`."""
        return ((self.side, self.side), view.size), (target, target)
