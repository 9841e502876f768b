"""SAM 2 and 2.1 for single images, by transformers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor

from ...engine.compute.onednn_layers import forward_only
from .resizing import SamInput, Size, Stages
from .segmenter import OnBlock, Points, Segmenter

_MEAN: Final = (0.485, 0.456, 0.406)
_STD: Final = (0.229, 0.224, 0.225)


class Sam2(Segmenter):
    """SAM 2 and 2.1."""

    square = True

    def __init__(self, model: Any, name: str) -> None:
        super().__init__(name, int(model.prompt_encoder.input_image_size), model.device)
        self.model = model
        # Else the unambiguous mask would be one of the other three where it is unstable.
        model.mask_decoder.dynamic_multimask_via_stability = False

    def encode(self, pixels: Tensor, on_block: OnBlock) -> list[Tensor]:
        """As in `Segmenter`."""
        blocks = self.model.vision_encoder.backbone.blocks
        with telling_blocks(blocks, on_block), forward_only(self.device):
            features: list[Tensor] = self.model.get_image_embeddings(
                normalised(pixels, _MEAN, _STD)
            )
        return features

    def decode(
        self, features: Any, points: Points | None, boxes: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """As in `Segmenter`."""
        with forward_only(self.device):
            sparse, dense = self.model.prompt_encoder(
                input_points=None if points is None else points[0][None],
                input_labels=None if points is None else points[1][None],
                input_boxes=None if boxes is None else boxes[None],
                input_masks=None,
            )
            answers = []
            for several in (False, True):
                answers.append(
                    self.model.mask_decoder(
                        image_embeddings=features[-1],
                        image_positional_embeddings=self.model.get_image_wide_positional_embeddings(),
                        sparse_prompt_embeddings=sparse,
                        dense_prompt_embeddings=dense,
                        multimask_output=several,
                        high_resolution_features=features[:-1],
                    )
                )
        # Maps come first in an answer, then scores; each is of one image.
        maps = torch.cat([answer[0][0] for answer in answers], 1)
        scores = torch.cat([answer[1][0] for answer in answers], 1)
        return maps, scores

    def stages(self, view: SamInput, target: Size) -> Stages:
        """As in `Segmenter`."""
        return ((target, target),)


def normalised(pixels: Tensor, mean: tuple[float, ...], std: tuple[float, ...]) -> Tensor:
    """Return an image (1, 3, h, w) of 0..255 as a model of transformers takes it."""
    shift = torch.tensor(mean, device=pixels.device)[:, None, None]
    scale = torch.tensor(std, device=pixels.device)[:, None, None]
    return (pixels / 255 - shift) / scale


@contextmanager
def telling_blocks(blocks: Any, on_block: OnBlock) -> Iterator[None]:
    """Call ``on_block(number, count)`` before each block that runs meanwhile."""

    def tell(number: int, *_: Any) -> None:
        on_block(number, len(blocks))

    hooks = []
    for number, block in enumerate(blocks):
        hooks.append(block.register_forward_pre_hook(partial(tell, number)))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
