"""Run a model's linear layers and self-attention with the faster CPU library, unmodified."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Final

import torch
import torch.nn.functional as functional
from torch import Tensor
from torch.overrides import TorchFunctionMode

from .matmul import PIECE, cpu_library, goes_to_onednn, linear

_ATTENTION: Final = inspect.signature(functional.multi_head_attention_forward)
# Arguments that only torch's own code handles.
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
    """While active, large linear layers and self-attention use `matmul.linear`.

    It affects only the thread that enters it. Do not hold it across a ``yield``: it would affect
    the caller, too.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if torch.compiler.is_compiling():
            return func(*args, **kwargs)
        return _REPLACEMENTS.get(func, func)(*args, **kwargs)


@contextmanager
def forward_only(device: torch.device | None = None) -> Iterator[None]:
    """Run a model without gradients, and faster on the CPU where possible; also a decorator.

    Parameters
    ----------
    device : torch.device, optional
        The model's device, if known. Only the CPU gains.
    """
    useful = cpu_library() == "oneDNN" and (device is None or device.type == "cpu")
    with torch.no_grad(), OnednnLayers() if useful else nullcontext():
        yield


def _linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    shapes_fit = weight.ndim == 2 and (
        bias is None or (bias.shape == weight.shape[:1] and bias.is_contiguous())
    )
    tensors = (input, weight) if bias is None else (input, weight, bias)
    if shapes_fit and goes_to_onednn(input.numel() * len(weight), *tensors):
        return linear(input, weight, bias)
    return functional.linear(input, weight, bias)


def _self_attention(*args: Any, **kwargs: Any) -> Any:
    call = _ATTENTION.bind(*args, **kwargs)
    call.apply_defaults()
    if not _is_plain(call.arguments):
        return functional.multi_head_attention_forward(*args, **kwargs)
    return _attend(call.arguments), None


def _is_plain(call: Mapping[str, Any]) -> bool:
    """Return whether a call is large self-attention of (n, batch, d) that returns no weights."""
    tokens, weight, mask = call["query"], call["in_proj_weight"], call["attn_mask"]
    return (
        tokens is call["key"] is call["value"]
        and tokens.ndim == 3
        and weight is not None
        # True in a mask of bools excludes here, and includes in scaled_dot_product_attention.
        and (mask is None or mask.is_floating_point())
        and not (call["training"] and call["dropout_p"])
        and all(call[name] is None or call[name] is False for name in _UNUSUAL)
        and goes_to_onednn(tokens.numel() * len(weight), tokens, weight)
    )


def _attend(call: Mapping[str, Any]) -> Tensor:
    """Do what `functional.multi_head_attention_forward` does, with `_linear`."""
    query, heads, mask = call["query"], call["num_heads"], call["attn_mask"]
    tokens, batch, width = query.shape
    projected = _linear(query, call["in_proj_weight"], call["in_proj_bias"])
    parts = projected.view(tokens, batch, 3, heads, width // heads).permute(2, 1, 3, 0, 4)
    if mask is not None and mask.ndim == 3:
        mask = mask.view(batch, heads, *mask.shape[1:])
    attended = _attention(*parts, attn_mask=mask)
    merged = attended.permute(2, 0, 1, 3).reshape(tokens, batch, width)
    return _linear(merged, call["out_proj_weight"], call["out_proj_bias"])


def _attention(query: Tensor, key: Tensor, value: Tensor, *others: Any, **named: Any) -> Tensor:
    """Do what `functional.scaled_dot_product_attention` does, head by head where that is faster."""
    if others or not _has_no_options(**named) or not _is_large(query, key, value):
        return functional.scaled_dot_product_attention(query, key, value, *others, **named)
    output = torch.empty_like(query, memory_format=torch.contiguous_format)
    heads = [tensor.flatten(0, 1) for tensor in (query, key, value, output)]
    rows = max(1, PIECE // key.shape[-2])
    for queries, keys, values, outputs in zip(*heads, strict=True):
        for part, out in zip(queries.split(rows), outputs.split(rows), strict=True):
            scores = linear(part, keys).mul_(query.shape[-1] ** -0.5)
            torch.softmax(scores, dim=-1, out=scores)
            out.copy_(linear(scores, values.T))
    return output


def _has_no_options(dropout_p: float = 0.0, **options: Any) -> bool:
    """Return whether there is no dropout, mask, scale, and so on."""
    return not dropout_p and all(option is None or option is False for option in options.values())


def _is_large(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Return whether these are large (batch, h, n, w), with own keys for each head."""
    size = query.shape[-2] * key.shape[-2] * query.shape[-1]
    same_shape = query.ndim == 4 and query.shape == key.shape == value.shape
    return same_shape and goes_to_onednn(size, query, key, value)


_REPLACEMENTS: Final[Mapping[Any, Any]] = {
    functional.linear: _linear,
    functional.multi_head_attention_forward: _self_attention,
    functional.scaled_dot_product_attention: _attention,
}
