"""A vision transformer of timm, run block by block at any size; read only."""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator, Iterator
from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor

from ...compute.onednn_layers import forward_only
from ...encode.attention import attention
from ...encode.attention_layer import AttentionLayer
from ...encode.image_encoding import ImageEncoding, check_image, check_layers, working
from .attention_capture import capture

_HALF = (torch.float16, torch.bfloat16)


class TimmTower:
    """What the families of timm share; each adds the layers that it explains.

    Parameters
    ----------
    visual : open_clip TimmModel
        Its trunk a VisionTransformer or Eva of timm.
    """

    corrected = False

    def __init__(self, visual: Any) -> None:
        self._visual, self._trunk = visual, visual.trunk
        patches = self._trunk.patch_embed
        self._native = (int(patches.grid_size[0]), int(patches.grid_size[1]))
        side = int(patches.img_size[0])
        self.patch_size = side // self._native[0]
        self.native_resolution = side
        self.num_layers = len(self._trunk.blocks)
        self.num_heads = int(self._trunk.blocks[0].attn.num_heads)
        self._prefix = int(self._trunk.num_prefix_tokens)
        projection = getattr(visual.head, "proj", None)
        if projection is not None:
            self.embed_dim = int(projection.out_features)
        else:
            self.embed_dim = int(self._trunk.num_classes or self._trunk.num_features)

    @property
    def weight(self) -> Tensor:
        """As in `ImageTower`."""
        weight: Tensor = next(self._trunk.blocks[0].parameters())
        return weight

    def encode_steps(
        self, image: Tensor, layers: int
    ) -> Generator[tuple[int, int], None, ImageEncoding]:
        """As in `ImageTower`."""
        check_layers(layers, self.num_layers)
        grid = check_image(image, (self.patch_size, self.patch_size))
        with torch.no_grad():
            tokens = self._embed(image, grid)
        arguments = self._block_arguments(grid)
        explained: list[AttentionLayer] = []
        for index, block in enumerate(self._trunk.blocks):
            if index < self.num_layers - layers:
                with forward_only(tokens.device):
                    tokens = block(tokens, **arguments)
            else:
                tokens, layer = self._explain(block, tokens, arguments)
                explained.append(layer)
            yield index + 1, self.num_layers
        with forward_only(tokens.device):
            embedding = working(self._head(self._trunk.norm(tokens))[0])
        size = (int(image.shape[2]), int(image.shape[3]))
        return ImageEncoding(embedding, (), grid, size, general=tuple(explained))

    def attentions(self, image: Tensor) -> Iterator[Tensor]:
        """As in `ImageTower`."""
        grid = check_image(image, (self.patch_size, self.patch_size))
        with torch.no_grad():
            tokens = self._embed(image, grid)
        arguments = self._block_arguments(grid)
        for block in self._trunk.blocks:
            seen = capture(_with(block, arguments), tokens)
            yield attention(seen.queries, seen.keys).float()
            tokens = seen.result

    def _explain(
        self, block: Any, tokens: Tensor, arguments: dict[str, Any]
    ) -> tuple[Tensor, AttentionLayer]:
        raise NotImplementedError

    def _head(self, normed: Tensor) -> Tensor:
        """The model's embedding (1, e) of its last tokens."""
        embedding: Tensor = self._visual.head(self._trunk.forward_head(normed))
        return embedding

    def _embed(self, image: Tensor, grid: tuple[int, int]) -> Tensor:
        """Tokens (1, n, d) that enter the first block."""
        trunk, patches = self._trunk, self._trunk.patch_embed
        found = image.to(self.weight.dtype)
        if hasattr(patches, "backbone"):
            found = patches.backbone(found)
            found = found[-1] if isinstance(found, list | tuple) else found
        found = patches.proj(found).flatten(2).transpose(1, 2)
        found = patches.norm(found) if hasattr(patches, "norm") else found
        first = [token for token in (trunk.cls_token, trunk.reg_token) if token is not None]
        positions = trunk.pos_embed
        if positions is None:
            found = torch.cat([*first, found], dim=1)
        else:
            own = 0 if trunk.no_embed_class else self._prefix
            positions = resample(positions, self._native, grid, own).to(found.dtype)
            if own:
                found = torch.cat([*first, found], dim=1) + positions
            else:
                found = torch.cat([*first, found + positions], dim=1)
        embedded: Tensor = trunk.norm_pre(found)
        return embedded

    def _block_arguments(self, grid: tuple[int, int]) -> dict[str, Any]:
        rope = getattr(self._trunk, "rope", None)
        if rope is None:
            return {}
        if tuple(grid) != self._native and getattr(rope, "feat_shape", None) is not None:
            # The module keeps positions of one size only.
            rope = copy.deepcopy(rope)
            rope.update_feat_shape(list(grid))
            return {"rope": rope.get_embed()}
        return {"rope": rope.get_embed(shape=list(grid))}


def _with(block: Any, arguments: dict[str, Any]) -> Callable[[Tensor], Tensor]:
    return lambda tokens: block(tokens, **arguments)


def in_working_precision(module: Any, tokens: Tensor) -> tuple[Any, Tensor]:
    """Give a module and its tokens as an inversion needs them; a copy where they are half."""
    if any(parameter.dtype in _HALF for parameter in module.parameters()):
        module = copy.deepcopy(module).float()
    return module, tokens.float() if tokens.dtype in _HALF else tokens


def resample(
    positions: Tensor, native: tuple[int, int], grid: tuple[int, int], prefix: int
) -> Tensor:
    """Resample positional embeddings (1, prefix + native tokens, d): bicubic, on a copy."""
    if tuple(native) == tuple(grid):
        return positions
    first, rest = positions[:, :prefix], positions[:, prefix:]
    image = rest.float().reshape(1, *native, -1).permute(0, 3, 1, 2)
    image = functional.interpolate(
        image, size=grid, mode="bicubic", antialias=True, align_corners=False
    )
    return torch.cat([first, image.flatten(2).transpose(1, 2).to(first.dtype)], dim=1)
