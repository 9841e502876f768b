"""Texts as long as they are, instead of as long as a model's context.

CLIP fills each text up to its context, mostly 77 tokens; a label in a sentence has some ten. Its
attention is causal and only the end of a text is used, so what follows the end changes nothing.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from .openclip import CLIP

# What the text is known by, in open_clip's words: the place of the largest token, its end.
_END = "argmax"


def encode_tokens(clip: Any, tokens: Tensor) -> Tensor:
    """Text embeddings (T, e), not normalised: what ``clip.encode_text(tokens)`` gives.

    Parameters
    ----------
    clip : open_clip CLIP, CustomTextCLIP or CoCa
        Read only.
    tokens : Tensor, shape (T, context)
        As its tokenizer gives them.
    """
    if not _ends_where_the_text_does(clip):
        found: Tensor = clip.encode_text(tokens)
        return found
    ends = tokens.argmax(dim=1)
    length = int(ends.max()) + 1
    kind = clip.transformer.get_cast_dtype()
    x = clip.token_embedding(tokens[:, :length]).to(kind)
    x = x + clip.positional_embedding[:length].to(kind)
    x = clip.transformer(x, attn_mask=clip.attn_mask[:length, :length])
    x = clip.ln_final(x)[torch.arange(len(x), device=x.device), ends]
    projection = clip.text_projection
    if projection is not None:
        x = projection(x) if isinstance(projection, nn.Linear) else x @ projection
    embeddings: Tensor = x
    return embeddings


def _ends_where_the_text_does(clip: Any) -> bool:
    """Whether nothing that follows a text's end has any influence on its embedding."""
    # Not a subclass, and not a method of somebody's own: these may do anything.
    own = type(clip) is not CLIP or "encode_text" in vars(clip)
    if own or clip.text_pool_type != _END or clip.attn_mask is None:
        return False
    mask: Tensor = clip.attn_mask
    ahead = torch.ones_like(mask, dtype=torch.bool).triu(1)
    return bool((mask[ahead] == float("-inf")).all())
