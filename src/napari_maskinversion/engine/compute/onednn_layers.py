"""A model's linear layers by the faster library, without a change to the model."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Final

import torch
import torch.nn.functional as functional
from torch import Tensor
from torch.overrides import TorchFunctionMode

from .matmul import PIECE, goes_to_onednn, linear, onednn_may_pay

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


class OnednnLayers(TorchFunctionMode):
    """While it is entered, large linear layers and self-attention go by `products`.

    It concerns only the thread that enters it, and must not be held across a ``yield``: the caller
    would be in it too.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if torch.compiler.is_compiling():
            return func(*args, **kwargs)
        return _OURS.get(func, func)(*args, **kwargs)


@contextmanager
def forward_only(device: torch.device | None = None) -> Iterator[None]:
    """Run a model without gradients, and faster if it can be; also a decorator.

    Parameters
    ----------
    device : torch.device, optional
        The model's, where it is known: on others than the processor nothing can be gained.
    """
    useful = onednn_may_pay() and (device is None or device.type == "cpu")
    with torch.no_grad(), OnednnLayers() if useful else nullcontext():
        yield


def _linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    shapes_fit = weight.ndim == 2 and (
        bias is None or (bias.shape == weight.shape[:1] and bias.is_contiguous())
    )
    given = (input, weight) if bias is None else (input, weight, bias)
    if shapes_fit and goes_to_onednn(input.numel() * len(weight), *given):
        return linear(input, weight, bias)
    return functional.linear(input, weight, bias)


def _self_attention(*args: Any, **kwargs: Any) -> Any:
    call = _ATTENTION.bind(*args, **kwargs)
    call.apply_defaults()
    if not _is_plain(call.arguments):
        return functional.multi_head_attention_forward(*args, **kwargs)
    return _attend(call.arguments), None


def _is_plain(given: Mapping[str, Any]) -> bool:
    """Whether it is large self-attention of (n, batch, d) that gives no weights."""
    tokens, weight, mask = given["query"], given["in_proj_weight"], given["attn_mask"]
    return (
        tokens is given["key"] is given["value"]
        and tokens.ndim == 3
        and weight is not None
        # One of bools says here what is left out, and elsewhere what is let in.
        and (mask is None or mask.is_floating_point())
        and not (given["training"] and given["dropout_p"])
        and all(given[name] is None or given[name] is False for name in _UNUSUAL)
        and goes_to_onednn(tokens.numel() * len(weight), tokens, weight)
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
    if others or not _asks_for_nothing(**named) or not _fits(query, key, value):
        return functional.scaled_dot_product_attention(query, key, value, *others, **named)
    found = torch.empty_like(query, memory_format=torch.contiguous_format)
    heads = [tensor.flatten(0, 1) for tensor in (query, key, value, found)]
    rows = max(1, PIECE // key.shape[-2])
    for queries, keys, values, places in zip(*heads, strict=True):
        for some, place in zip(queries.split(rows), places.split(rows), strict=True):
            scores = linear(some, keys).mul_(query.shape[-1] ** -0.5)
            torch.softmax(scores, dim=-1, out=scores)
            place.copy_(linear(scores, values.T))
    return found


def _asks_for_nothing(dropout_p: float = 0.0, **options: Any) -> bool:
    """Whether there is no dropout, no mask, no scale, and so on."""
    return not dropout_p and all(option is None or option is False for option in options.values())


def _fits(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Whether these are large (batch, h, n, w), each head of which has its own keys."""
    size = query.shape[-2] * key.shape[-2] * query.shape[-1]
    alike = query.ndim == 4 and query.shape == key.shape == value.shape
    return alike and goes_to_onednn(size, query, key, value)


_OURS: Final[Mapping[Any, Any]] = {
    functional.linear: _linear,
    functional.multi_head_attention_forward: _self_attention,
    functional.scaled_dot_product_attention: _attention,
}
