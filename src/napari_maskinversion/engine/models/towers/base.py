"""What the engine needs of an image tower, and what the families have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

from ....base.progress import ENCODING, tick
from ...compute.onednn_layers import forward_only
from ...encode.attention import AttentionLayer
from ...encode.image_encoding import (
    ImageEncoding,
    LayerConstants,
    check_image,
    working,
)
from ...encode.token_grid import TokenGrid

Block = Callable[[Tensor], Tensor]


class ImageTower(ABC):
    """One family of open_clip's image towers; reads the module and never changes it.

    To add a family, write a subclass in a file of its own and list it in `towers.FAMILIES`.
    """

    family: str  # Name of the family in messages and results
    explainers: tuple[str, ...]  # The explainability maps it offers
    corrected: bool = False  # Whether its maps are corrected by the map of an "empty" prompt
    half_precision: bool = False  # Whether its blocks can be run in half precision
    several: bool = False  # Whether it encodes several images at once
    # Whether its embedding is pooled by attention; then only LeGrad explains several layers
    attention_pooled: bool = False
    patch_size: int  # Side of a patch and of the training images in pixels
    native_resolution: int
    embed_dim: int  # Size of the joint embedding; blocks; attention heads of a block
    num_layers: int
    num_heads: int

    def __init__(self, visual: Any) -> None:
        self.visual = visual

    @classmethod
    @abstractmethod
    def fits(cls, visual: Any) -> bool:
        """Return whether a module is of this family, judged by its parts."""

    @classmethod
    @abstractmethod
    def fits_config(cls, vision: Mapping[str, Any]) -> bool:
        """Return whether open_clip's ``vision_cfg`` describes a tower of this family."""

    @classmethod
    def unsupported(cls, visual: Any) -> str:
        """Return why this module of the family cannot be explained: "has ..."; "" if it can."""
        return ""

    @classmethod
    def unsupported_config(cls, vision: Mapping[str, Any]) -> str:
        """Return the same for a ``vision_cfg``, before anything is downloaded or built."""
        return ""

    @property
    @abstractmethod
    def weight(self) -> Tensor:
        """One of its weights: tells device and dtype."""

    @property
    def description(self) -> str:
        """Family and sizes: the name of a model that has no other."""
        return f"{self.family}, {self.num_layers} layers, {self.patch_size}-pixel patches"

    def token_grid(self, size: tuple[int, int]) -> TokenGrid:
        """Return the tokens of an input of ``size`` (h, w) pixels."""
        return TokenGrid.of_input(size, self.patch_size)

    def check_image(self, image: Tensor, images: int = 1) -> TokenGrid:
        """Return the tokens of an image tensor (images, 3, H, W); refuse one that is none."""
        return check_image(image, self.patch_size, images)

    def encode(
        self, image: Tensor, layers: int, dtype: torch.dtype | None = None, images: int = 1
    ) -> ImageEncoding:
        """Encode an image; a tick after each block.

        The image (1, 3, H, W), or ``images`` where a tower allows several, is normalised, H and W
        are multiples of the patch size; ``layers`` of the last layers will be explained. ``dtype``
        is the half precision of products in the blocks before them, where a tower allows it.
        """
        self.check_image(image, images)
        return self.encode_checked(image, layers, dtype)

    def encode_checked(
        self, image: Tensor, layers: int, dtype: torch.dtype | None, *, quiet: bool = False
    ) -> ImageEncoding:
        """Encode images that are what they must be; ``quiet`` without ticks."""
        size = (int(image.shape[2]), int(image.shape[3]))
        grid = self.token_grid(size)
        with torch.no_grad():
            tokens = self._embed(image, grid)
        kind = tokens.device.type
        explained: list[AttentionLayer | LayerConstants] = []
        for index, block in enumerate(self._blocks(grid)):
            if index < self.num_layers - layers:
                # Norms and sums of tokens stay as they are.
                half = nullcontext() if dtype is None else torch.autocast(kind, dtype)
                with forward_only(tokens.device), half:
                    tokens = block(tokens)
            else:
                tokens, layer = self._explain(block, tokens, grid.tokens)
                explained.append(layer)
            if not quiet:
                tick(ENCODING, index + 1, self.num_layers)
        with forward_only(tokens.device):
            embedding = working(self._pool(tokens))
        constants = tuple(layer for layer in explained if isinstance(layer, LayerConstants))
        general = tuple(layer for layer in explained if isinstance(layer, AttentionLayer))
        embedding = embedding[0] if len(image) == 1 else embedding
        return ImageEncoding(embedding, constants, grid, size, general=general)

    def embed_images(self, images: Tensor) -> Tensor:
        """Return the embeddings (B, e), not normalised, of images (B, 3, H, W)."""
        with forward_only(images.device):
            return self._pool(self.run_blocks(images)).float()

    def run_blocks(self, images: Tensor) -> Tensor:
        """Return the tokens (B, n, d) of images (B, 3, H, W) after the last block."""
        grid = self.token_grid((images.shape[2], images.shape[3]))
        with forward_only(images.device):
            tokens = self._embed(images, grid)
            for block in self._blocks(grid):
                tokens = block(tokens)
        return tokens

    def attentions(self, image: Tensor) -> Iterator[Tensor]:
        """Yield the attention (h, n, n), float32, of each block, the first one first."""
        grid = self.check_image(image)
        with torch.no_grad():
            tokens = self._embed(image, grid)
        for block in self._blocks(grid):
            attention, tokens = self._attend(block, tokens)
            yield attention

    @abstractmethod
    def _blocks(self, grid: TokenGrid) -> Sequence[Block]:
        """Return the transformer blocks, each a function of its tokens (1, n, d) alone."""

    @abstractmethod
    def _embed(self, image: Tensor, grid: TokenGrid) -> Tensor:
        """Return the tokens (1, n, d) that enter the first block."""

    @abstractmethod
    def _attend(self, block: Any, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Return the attention (h, n, n) of a block and the tokens that leave it."""

    @abstractmethod
    def _explain(
        self, block: Any, tokens: Tensor, patches: int
    ) -> tuple[Tensor, AttentionLayer | LayerConstants]:
        """Run a block; return its tokens and what its map depends on."""

    @abstractmethod
    def _pool(self, tokens: Tensor) -> Tensor:
        """Return the model's embedding (1, e) of the last block's tokens."""
