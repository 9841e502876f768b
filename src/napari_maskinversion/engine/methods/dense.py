"""Methods that embed every patch token and average the tokens of the mask."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Final, Literal, get_args

import numpy.typing as npt
import torch.nn.functional as F
from torch import Tensor

from ...base.regions import Regions
from ..compute.onednn_layers import forward_only
from ..encode.attention import AttentionInputs, attention
from ..models.backbone import Backbone
from .region_method import RegionMethod, check_choices
from .vit_blocks import (
    attention_update,
    cell_coverage,
    class_token_tower,
    embed_patches,
    project,
    run_blocks,
)

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
        return self.embed_tokens(x)[0, 1:], grid

    def embed_regions(self, encoded: Any, regions: Regions) -> Tensor:
        """Average the tokens of each region."""
        tokens, grid = encoded
        weights = cell_coverage(regions, grid, tokens).flatten(1)
        mean: Tensor = weights @ tokens / weights.sum(1, keepdim=True).clamp_min(1e-12)
        return mean.cpu()

    @abstractmethod
    def embed_tokens(self, x: Tensor) -> Tensor:
        """Return the embeddings (1, n, e) of tokens (1, n, d) before the first block."""


class LastBlockMethod(DenseMethod):
    """Unit embeddings of tokens whose last block attends in another way."""

    residual = True  # adds the attention to the tokens and runs the block's MLP

    @forward_only()
    def embed_tokens(self, x: Tensor) -> Tensor:
        """Run the last block with the other attention."""
        x = run_blocks(self.visual, x, stop=-1)
        block = self.visual.transformer.resblocks[-1]
        inputs = AttentionInputs.of(block, block.ln_1(x)[0])
        out = attention_update(block, self.attend(inputs))
        if self.residual:
            out = x + out
            out = out + block.ls_2(block.mlp(block.ln_2(out)))
        return F.normalize(project(self.visual, out), dim=-1)

    @abstractmethod
    def attend(self, inputs: AttentionInputs) -> Tensor:
        """Return the attention's output of each head, (h, n, d / h)."""


class MaskClip(LastBlockMethod):
    """MaskCLIP: the last block without its attention.

    ``reading``: add the values to the tokens and run the block's MLP, or project the values alone.
    """

    title = "MaskCLIP"

    def __init__(self, model: Backbone, *, reading: Reading = "block", **common: Any) -> None:
        super().__init__(model, **common)
        check_choices("reading", [reading], get_args(Reading))
        self.residual = reading == "block"

    def attend(self, inputs: AttentionInputs) -> Tensor:
        """Return the values."""
        return inputs.values()


class Sclip(LastBlockMethod):
    """SCLIP: attention is the sum (not the mean) of query-query and key-key attention."""

    title = "SCLIP"

    def attend(self, inputs: AttentionInputs) -> Tensor:
        """Attend to tokens with like queries, and with like keys."""
        queries, keys = inputs.queries(), inputs.keys()
        return (attention(queries, queries) + attention(keys, keys)) @ inputs.values()


class ClipSurgery(DenseMethod):
    """CLIPSurgery: a second path through the last blocks, without MLP.

    It sums value-value attention; the original path stays as it is.
    """

    title = "CLIPSurgery"

    @forward_only()
    def embed_tokens(self, x: Tensor) -> Tensor:
        """Follow both paths."""
        blocks = self.visual.transformer.resblocks
        last = min(BLOCKS, len(blocks))
        x = run_blocks(self.visual, x, stop=len(blocks) - last)
        surgery = x
        for block in blocks[-last:]:
            values = AttentionInputs.of(block, block.ln_1(x)[0]).values()
            surgery = surgery + attention_update(block, attention(values, values) @ values)
            x = block(x)
        return project(self.visual, surgery)
