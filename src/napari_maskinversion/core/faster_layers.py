"""A model's linear layers by the faster library, without a change to the model."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import torch
import torch.nn.functional as functional
from torch import Tensor
from torch.overrides import TorchFunctionMode

from .products import goes_to_onednn, linear

_ATTENTION: Final = inspect.signature(functional.multi_head_attention_forward)
# What only torch's own code knows: where one of these is given, it does the work.
_UNUSUAL: Final = (
    "bias_k",
    "bias_v",
    "add_zero_attn",
    "key_padding_mask",
    "use_separate_proj_weight",
    "static_k",
    "static_v",
    "is_causal",
    "need_weights",
)


class FasterLayers(TorchFunctionMode):
    """While it is entered, large linear layers and self-attention go by `products`.

    It concerns only the thread that enters it, and must not be held across a ``yield``: the caller
    would be in it too.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is functional.linear:
            return _linear(*args, **kwargs)
        if func is functional.scaled_dot_product_attention:
            return _attention(*args, **kwargs)
        if func is functional.multi_head_attention_forward:
            call = _ATTENTION.bind(*args, **kwargs)
            call.apply_defaults()
            if _is_plain(call.arguments):
                return _attend(call.arguments), None
        return func(*args, **kwargs)


@contextmanager
def forward_only() -> Iterator[None]:
    """Run a model without gradients and with `FasterLayers`; also a decorator."""
    with torch.no_grad(), FasterLayers():
        yield


def _linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    if goes_to_onednn(input, weight, input.numel() * len(weight)):
        return linear(input, weight, bias)
    return functional.linear(input, weight, bias)


def _is_plain(given: Mapping[str, Any]) -> bool:
    """Whether it is large self-attention of (n, batch, d) that gives no weights."""
    tokens, weight = given["query"], given["in_proj_weight"]
    return (
        tokens is given["key"] is given["value"]
        and tokens.ndim == 3
        and weight is not None
        and not (given["training"] and given["dropout_p"])
        and all(given[name] is None or given[name] is False for name in _UNUSUAL)
        and goes_to_onednn(tokens, weight, tokens.numel() * len(weight))
    )


def _attend(given: Mapping[str, Any]) -> Tensor:
    """Do what `functional.multi_head_attention_forward` does, by `_linear`."""
    query, heads, mask = given["query"], given["num_heads"], given["attn_mask"]
    tokens, batch, width = query.shape
    projected = _linear(query, given["in_proj_weight"], given["in_proj_bias"])
    parts = projected.view(tokens, batch, 3, heads, width // heads).permute(2, 1, 3, 0, 4)
    if mask is not None and mask.ndim == 3:
        mask = mask.view(batch, heads, *mask.shape[1:])
    found = _attention(*parts, attn_mask=mask)
    merged = found.permute(2, 0, 1, 3).reshape(tokens, batch, width)
    return _linear(merged, given["out_proj_weight"], given["out_proj_bias"])


def _attention(query: Tensor, key: Tensor, value: Tensor, *others: Any, **named: Any) -> Tensor:
    """Do what `functional.scaled_dot_product_attention` does, head by head where that is faster."""
    if (
        others
        or not all(_is_nothing(one) for one in named.values())
        or not _fits(query, key, value)
    ):
        return functional.scaled_dot_product_attention(query, key, value, *others, **named)
    found = torch.empty_like(query, memory_format=torch.contiguous_format)
    heads = [tensor.flatten(0, 1) for tensor in (query, key, value, found)]
    for queries, keys, values, place in zip(*heads, strict=True):
        scores = linear(queries, keys).mul_(query.shape[-1] ** -0.5)
        torch.softmax(scores, dim=-1, out=scores)
        place.copy_(linear(scores, values.T))
    return found


def _is_nothing(option: Any) -> bool:
    """Whether an option asks for nothing: no mask, no dropout, not causal."""
    return option is None or option is False or (isinstance(option, float) and option == 0)


def _fits(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Whether these are large (batch, h, n, w), each head of which has its own keys."""
    size = query.shape[-2] * key.shape[-2] * query.shape[-1]
    alike = query.ndim == 4 and query.shape == key.shape == value.shape
    return alike and goes_to_onednn(query, key, size)
