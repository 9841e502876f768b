"""Text towers that open_clip does not build from a configuration alone: PubMedBERT, TIPSv2.

open_clip would ask the model hub for a BERT's sizes while it builds one; here they are known. A
configuration names a tower by ``hf_model_name``.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import torch
from open_clip.hf_model import HFTextEncoder
from open_clip.transformer import Transformer
from torch import Tensor, nn

TIPS: Final = "google/tipsv2"
# Of TIPSv2, whose repositories hold no configuration of open_clip
ARCHITECTURES: Final[Mapping[str, dict[str, Any]]] = {
    f"TIPSv2-{letter}-14": {
        "embed_dim": width,
        "custom_text": True,
        "vision_cfg": {
            "timm_model_name": f"vit_{size}_patch14_reg1_tipsv2",
            "timm_pool": "token",
            "timm_proj": "none",
            "image_size": 448,
        },
        "text_cfg": {
            "hf_model_name": TIPS,
            "hf_tokenizer_name": f"google/tipsv2-{letter.lower()}14",
            "context_length": 64,
            "vocab_size": 32000,
            "width": width,
            "heads": heads,
            "layers": layers,
            "hidden": hidden,
        },
    }
    for letter, size, width, heads, layers, hidden in (
        ("B", "base", 768, 12, 12, 3072),
        ("L", "large", 1024, 16, 12, 4096),
        ("SO", "so400m", 1152, 16, 27, 4304),
        ("G", "giant", 1536, 24, 12, 6144),
    )
}
BERT: Final = "microsoft/BiomedNLP-"
BERT_SIZES: dict[str, int] = {}  # of BERT-base, which transformers has as its defaults


class MeanPooledText(nn.Module):
    """TIPSv2's text tower: tokens see each other in both directions, and their mean is projected.

    Written from the published weights' names and transformers' Tipsv2TextModel.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        layers: int,
        hidden: int,
        vocab_size: int,
        context_length: int,
    ) -> None:
        super().__init__()
        self.width = width
        self.heads = heads
        self.vocab_size = vocab_size
        self.context_length = context_length
        self.token_embedding = nn.Embedding(vocab_size, width)
        self.transformer = Transformer(
            width, layers, heads, mlp_ratio=hidden / width, act_layer=nn.ReLU
        )
        self.ln_final = nn.LayerNorm(width)

    def forward(self, tokens: Tensor) -> Tensor:
        """Embed tokens (T, n), padded with 0, as (T, e)."""
        x = self.token_embedding(tokens) * math.sqrt(self.width)
        x = x + _sinusoids(tokens.shape[1], self.width).to(x)
        words = tokens != 0
        visible = words.clone()
        visible[:, 0] = True  # attention to nothing has no value
        mask = torch.zeros_like(words, dtype=x.dtype).masked_fill(~visible, -torch.inf)
        mask = mask[:, None, None].expand(-1, self.heads, tokens.shape[1], -1).flatten(0, 1)
        x = self.ln_final(self.transformer(x, attn_mask=mask))
        weights = words[..., None].to(x)
        pooled: Tensor = (x * weights).sum(1) / (weights.sum(1) + 1e-8)
        return pooled


def _sinusoids(length: int, width: int) -> Tensor:
    """Return the positions (length, width): sines, then cosines."""
    rates = torch.exp(torch.arange(width // 2) * (-math.log(10_000) / (width // 2 - 1)))
    angles = torch.arange(length)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def _bert(text: Mapping[str, Any], embed_dim: int) -> nn.Module:
    from transformers import BertConfig

    tower: nn.Module = HFTextEncoder(
        "bert",
        output_dim=embed_dim,
        config=BertConfig(**BERT_SIZES),
        pooler_type=text.get("hf_pooler_type"),
        proj_type=text.get("hf_proj_type"),
    )
    if text.get("hf_pooler_type") != "cls_pooler":
        cast("Any", tower).transformer.pooler = None  # open_clip trains without
    return tower


def _tips(text: Mapping[str, Any], embed_dim: int) -> nn.Module:
    names = ("width", "heads", "layers", "hidden", "vocab_size", "context_length")
    return MeanPooledText(**{name: text[name] for name in names})


_TOWERS: Final[Mapping[str, Callable[[Mapping[str, Any], int], nn.Module]]] = {
    BERT: _bert,
    TIPS: _tips,
}


def maker_of(text: Mapping[str, Any]) -> Callable[[Mapping[str, Any], int], nn.Module] | None:
    """Return what makes the text tower that a ``text_cfg`` names; None if open_clip does."""
    name = str(text.get("hf_model_name") or "")
    return next((make for begin, make in _TOWERS.items() if name.startswith(begin)), None)


def build_with_text(kind: type[nn.Module], arguments: dict[str, Any]) -> nn.Module:
    """Return a model of open_clip whose text tower is one of this module's, if it names one."""
    text = arguments["text_cfg"]
    make = maker_of(text)
    if make is None:
        return kind(**arguments)
    instead = {"width": 8, "heads": 1, "layers": 1, "vocab_size": 1}
    module: Any = kind(**{**copy.copy(arguments), "text_cfg": instead})
    module.text = make(text, arguments["embed_dim"])
    module.context_length = module.text.context_length
    module.vocab_size = module.text.vocab_size
    built: nn.Module = module
    return built
