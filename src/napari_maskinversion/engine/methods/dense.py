"""Methods that use tokens between the layers of an open_clip class-token tower.

Most embed every patch token and average the tokens of the mask; RIS masks tokens.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Literal, cast, get_args

import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from ...base.errors import ModelError
from ...base.regions import Regions
from ..compute.onednn_layers import forward_only
from ..encode.attention import AttentionInputs, attention
from ..encode.image_encoding import embed
from ..encode.token_grid import TokenGrid
from ..invert.dice import Resampling, area_matrix
from ..models.backbone import Backbone
from ..models.towers import tower_of
from ..models.towers.openclip_vit import ClassTokenTower
from ..models.towers.timm_vit import TokenTower
from .edits import Crop
from .region_method import RegionMethod, check_choices


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
def embed_patches(
    visual: Any, images: Tensor, added: Tensor | float = 0.0
) -> tuple[Tensor, TokenGrid]:
    """Return tokens (B, n, d) before the first block and their grid."""
    patch = int(visual.conv1.kernel_size[0])
    grid = TokenGrid.of_input((images.shape[2], images.shape[3]), patch)
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


Reading = Literal["block", "values"]
BLOCKS: Final = 6  # with a second path in CLIPSurgery


class DenseMethod(RegionMethod):
    """The mean of the mask's tokens."""

    title = ""

    def __init__(self, model: Backbone, **common: Any) -> None:
        super().__init__(model, **common)
        self.visual = class_token_tower(model, self.title)

    def encode(self, image: npt.NDArray[Any], scale: float, keep_aspect: bool) -> Any:
        """Embed every patch token."""
        x, grid = embed_patches(self.visual, self.preprocess(image, scale, keep_aspect))
        return self.embed_tokens(x, grid)[0, 1:], grid

    def embed_regions(self, encoded: Any, regions: Regions) -> Tensor:
        """Average the tokens of each region."""
        tokens, grid = encoded
        weights = cell_coverage(regions, grid, tokens).flatten(1)
        mean: Tensor = weights @ tokens / weights.sum(1, keepdim=True).clamp_min(1e-12)
        return mean.cpu()

    @abstractmethod
    def embed_tokens(self, x: Tensor, grid: TokenGrid) -> Tensor:
        """Return the embeddings (1, n, e) of tokens (1, n, d) before the first block."""


class LastBlockMethod(DenseMethod):
    """Unit embeddings of tokens whose last block attends in another way."""

    residual = True  # adds the attention to the tokens and runs the block's MLP

    def embed_tokens(self, x: Tensor, grid: TokenGrid) -> Tensor:
        """Run the last block with the other attention."""
        x = run_blocks(self.visual, x, stop=-1)
        return self.embed_last(x, partial(self.attend, grid=grid))

    @forward_only()
    def embed_last(self, x: Tensor, attend: Callable[[AttentionInputs], Tensor]) -> Tensor:
        """Run the last block on the tokens (1, n, d) before it."""
        block = self.visual.transformer.resblocks[-1]
        inputs = AttentionInputs.of(block, block.ln_1(x)[0])
        out = attention_update(block, attend(inputs))
        if self.residual:
            out = x + out
            out = out + block.ls_2(block.mlp(block.ln_2(out)))
        return F.normalize(project(self.visual, out), dim=-1)

    @abstractmethod
    def attend(self, inputs: AttentionInputs, grid: TokenGrid) -> Tensor:
        """Return the attention's output of each head, (h, n, d / h)."""


class MaskClip(LastBlockMethod):
    """MaskCLIP: the last block without its attention.

    ``reading``: add the values to the tokens and run the block's MLP, or project the values alone.
    """

    title = "MaskCLIP"

    def __init__(self, model: Backbone, *, reading: Reading = "block", **common: Any) -> None:
        check_choices("reading", [reading], get_args(Reading))
        tower = tower_of(cast("Any", model.clip).visual)
        self._timm = None
        if isinstance(tower, TokenTower) and reading == "block":
            self._timm = tower
        if self._timm is None:
            super().__init__(model, **common)
        else:
            RegionMethod.__init__(self, model, **common)
        self.residual = reading == "block"

    def encode(self, image: npt.NDArray[Any], scale: float, keep_aspect: bool) -> Any:
        """Embed every patch token; also of a tower of timm, such as TIPSv2's."""
        if self._timm is None:
            return super().encode(image, scale, keep_aspect)
        tokens, grid = self._timm.value_tokens(self.preprocess(image, scale, keep_aspect))
        return F.normalize(tokens, dim=-1), grid

    def attend(self, inputs: AttentionInputs, grid: TokenGrid) -> Tensor:
        """Return the values."""
        return inputs.values()


class Sclip(LastBlockMethod):
    """SCLIP: attention is the sum (not the mean) of query-query and key-key attention."""

    title = "SCLIP"

    def attend(self, inputs: AttentionInputs, grid: TokenGrid) -> Tensor:
        """Attend to tokens with like queries, and with like keys."""
        queries = inputs.queries()
        keys = inputs.keys()
        return (attention(queries, queries) + attention(keys, keys)) @ inputs.values()


class ClipSurgery(DenseMethod):
    """CLIPSurgery: a second path through the last blocks, without MLP.

    It sums value-value attention; the original path stays as it is. As in the authors' code and as
    in the other methods of tokens, tokens are brought to length 1 before they are averaged.
    """

    title = "CLIPSurgery"

    @forward_only()
    def embed_tokens(self, x: Tensor, grid: TokenGrid) -> Tensor:
        """Follow both paths."""
        blocks = self.visual.transformer.resblocks
        last = min(BLOCKS, len(blocks))
        x = run_blocks(self.visual, x, stop=len(blocks) - last)
        surgery = x
        for block in blocks[-last:]:
            values = AttentionInputs.of(block, block.ln_1(x)[0]).values()
            surgery = surgery + attention_update(block, attention(values, values) @ values)
            x = block(x)
        return F.normalize(project(self.visual, surgery), dim=-1)


SHARE: Final = 0.95  # of the masked tokens in the embedding; the masked crop has the rest
MASKED: Final = 0.25  # of the blocks, the last ones: three of twelve


class MaskedTokens(RegionMethod):
    """RIS (zero-shot referring segmentation): masked tokens in the last blocks, and a masked crop.

    There patch tokens are multiplied by the soft mask; the [CLS] token is the embedding.
    """

    def __init__(self, model: Backbone, **common: Any) -> None:
        super().__init__(model, **common)
        self._visual = class_token_tower(model, "RIS")
        self._crop = Crop(model, resolution=model.native_resolution, fill="dataset mean")
        self._last = max(1, round(MASKED * model.num_layers))

    def encode(self, image: npt.NDArray[Any], scale: float, keep_aspect: bool) -> Any:
        """Run the blocks before the masked ones."""
        x, grid = embed_patches(self._visual, self.preprocess(image, scale, keep_aspect))
        return (
            run_blocks(self._visual, x, stop=-self._last),
            grid,
            self._crop.encode(image, scale, keep_aspect),
        )

    @forward_only()
    def embed_regions(self, encoded: Any, regions: Regions) -> Tensor:
        """Run the last blocks for each region."""
        tokens, grid, crop = encoded
        weights = cell_coverage(regions, grid, tokens).flatten(1)[..., None].to(tokens.dtype)
        x = tokens.expand(len(weights), -1, -1)
        for block in self._visual.transformer.resblocks[-self._last :]:
            x = block(torch.cat([x[:, :1], x[:, 1:] * weights], 1))
        masked = project(self._visual, x[:, 0]).cpu()
        return SHARE * masked + (1 - SHARE) * self._crop.embed_regions(crop, regions)
