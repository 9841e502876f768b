"""Encodes texts without the padding up to a model's context length.

CLIP pads each text to its context length, mostly 77 tokens; a label in a sentence has about ten.
Attention is causal and only the last token of a text is used, so the padding changes nothing.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from .openclip import CLIP

# open_clip's name for pooling by the largest token, which is the end of the text.
_END = "argmax"


def encode_tokens(clip: Any, tokens: Tensor) -> Tensor:
    """Return text embeddings (T, e), not normalised: those of ``clip.encode_text(tokens)``.

    Parameters
    ----------
    clip : open_clip CLIP, CustomTextCLIP or CoCa
        Read only.
    tokens : Tensor, shape (T, context)
        From its tokenizer.
    """
    if not _ignores_padding(clip):
        padded: Tensor = clip.encode_text(tokens)
        return padded
    ends = tokens.argmax(dim=1)
    length = int(ends.max()) + 1
    dtype = clip.transformer.get_cast_dtype()
    x = clip.token_embedding(tokens[:, :length]).to(dtype)
    x = x + clip.positional_embedding[:length].to(dtype)
    x = clip.transformer(x, attn_mask=clip.attn_mask[:length, :length])
    x = clip.ln_final(x)[torch.arange(len(x), device=x.device), ends]
    projection = clip.text_projection
    if projection is not None:
        x = projection(x) if isinstance(projection, nn.Linear) else x @ projection
    embeddings: Tensor = x
    return embeddings


def _ignores_padding(clip: Any) -> bool:
    """Return whether tokens after the end of a text cannot change its embedding."""
    # A subclass or a replaced method may do anything.
    changed = type(clip) is not CLIP or "encode_text" in vars(clip)
    if changed or clip.text_pool_type != _END or clip.attn_mask is None:
        return False
    mask: Tensor = clip.attn_mask
    ahead = torch.ones_like(mask, dtype=torch.bool).triu(1)
    return bool((mask[ahead] == float("-inf")).all())
