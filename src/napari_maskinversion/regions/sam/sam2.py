"""SAM 2 and 2.1 for single images, by transformers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from ...base.errors import ModelError
from ...base.wording import first_line
from ...engine.compute.onednn_layers import forward_only
from .folders import SAM2, check_folder
from .network import OnBlock, Stages
from .resizing import SamInput, Size

_MEAN: Final = (0.485, 0.456, 0.406)
_STD: Final = (0.229, 0.224, 0.225)


class Sam2:
    """A `Network`."""

    square = True

    def __init__(self, model: Any) -> None:
        self.model = model
        # Else the unambiguous mask would be one of the other three where it is unstable.
        model.mask_decoder.dynamic_multimask_via_stability = False

    @property
    def side(self) -> int:
        """As in `Network`."""
        return int(self.model.prompt_encoder.input_image_size)

    @property
    def device(self) -> torch.device:
        """As in `Network`."""
        device: torch.device = self.model.device
        return device

    def encode(self, pixels: Tensor, on_block: OnBlock) -> list[Tensor]:
        """As in `Network`."""
        blocks = self.model.vision_encoder.backbone.blocks
        with telling_blocks(blocks, on_block), forward_only(self.device):
            features: list[Tensor] = self.model.get_image_embeddings(
                normalised(pixels, _MEAN, _STD)
            )
        return features

    def decode(
        self, features: Any, points: tuple[Tensor, Tensor] | None, boxes: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """As in `Network`."""
        with forward_only(self.device):
            sparse, dense = self.model.prompt_encoder(
                input_points=None if points is None else points[0][None],
                input_labels=None if points is None else points[1][None],
                input_boxes=None if boxes is None else boxes[None],
                input_masks=None,
            )
            answers = [
                self.model.mask_decoder(
                    image_embeddings=features[-1],
                    image_positional_embeddings=self.model.get_image_wide_positional_embeddings(),
                    sparse_prompt_embeddings=sparse,
                    dense_prompt_embeddings=dense,
                    multimask_output=several,
                    high_resolution_features=features[:-1],
                )
                for several in (False, True)
            ]
        maps, scores = (torch.cat([answer[i][0] for answer in answers], 1) for i in (0, 1))
        return maps, scores

    def stages(self, view: SamInput, target: Size) -> Stages:
        """As in `Network`."""
        return ((target, target),)


def normalised(pixels: Tensor, mean: tuple[float, ...], std: tuple[float, ...]) -> Tensor:
    """Return an image (1, 3, h, w) of 0..255 as a model of transformers takes it."""
    shift, scale = (
        torch.tensor(values, device=pixels.device)[:, None, None] for values in (mean, std)
    )
    return (pixels / 255 - shift) / scale


@contextmanager
def telling_blocks(blocks: Any, on_block: OnBlock) -> Iterator[None]:
    """Call ``on_block(number, count)`` before each block that runs meanwhile."""

    def tell(number: int, *_: Any) -> None:
        on_block(number, len(blocks))

    hooks = [
        block.register_forward_pre_hook(partial(tell, number))
        for number, block in enumerate(blocks)
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def load_sam2(folder: Path, device: torch.device) -> Sam2:
    """Load a folder of SAM 2."""
    check_folder(folder, SAM2)
    from transformers import Sam2Model

    return Sam2(filled(Sam2Model, folder, device))


def filled(architecture: Any, folder: Path, device: torch.device) -> Any:
    """Load a model of transformers from a folder; each parameter must have its value."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()  # it warns that these are folders for videos
    logging.disable_progress_bar()
    try:
        model, info = architecture.from_pretrained(
            folder,
            local_files_only=True,
            use_safetensors=True,  # a pickle could run code
            output_loading_info=True,
            dtype=torch.float32,
        )
    except Exception as error:  # transformers raises nearly anything on damaged folders
        raise ModelError(
            f"{folder} cannot be loaded ({first_line(error)}); download the folder again."
        ) from error
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
    if missing := sorted(info["missing_keys"]):
        raise ModelError(
            f"{folder} is not whole, or another architecture than its {folder.name}/config.json "
            f"says: {len(missing)} tensors are missing ({missing[0]}, ...)."
        )
    return model.requires_grad_(False).to(device).eval()
