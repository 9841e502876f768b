"""Run a model's linear layers and attention with the faster CPU library, unmodified."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Final

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from .matmul import PIECE, cpu_library, goes_to_onednn, linear

_ATEN: Final[Any] = torch.ops.aten


@contextmanager
def forward_only(device: torch.device | None = None) -> Iterator[None]:
    """Run a model without gradients, and faster on the CPU where possible; also a decorator.

    It affects only the thread that enters it. Do not hold it across a ``yield``: it would affect
    the caller, too.
    """
    useful = cpu_library() == "oneDNN" and (device is None or device.type == "cpu")
    mode = _OnednnLayers() if useful else nullcontext()  # type: ignore[no-untyped-call]
    with torch.no_grad(), mode:
        yield


class _OnednnLayers(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While active, large products with weights and attention use `matmul.linear`.

    It sees what torch's layers call in the end, so it need not know the layers.
    """

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        replace = _REPLACEMENTS.get(func)
        result = None if replace is None or kwargs else replace(*args)
        if result is None:
            return func(*args, **(kwargs or {}))
        return result


def _product(rows: Tensor, matrix: Tensor) -> Tensor | None:
    if goes_to_onednn(rows.shape[0] * matrix.numel(), rows, matrix):
        return linear(rows, matrix.T)
    return None


def _biased_product(bias: Tensor, rows: Tensor, matrix: Tensor) -> Tensor | None:
    fits = bias.shape == matrix.shape[1:] and bias.is_contiguous()
    if fits and goes_to_onednn(rows.shape[0] * matrix.numel(), rows, matrix, bias):
        return linear(rows, matrix.T, bias)
    return None


def _attention(
    query: Tensor, key: Tensor, value: Tensor, dropout: float = 0.0, causal: bool = False
) -> tuple[Tensor, Tensor] | None:
    size = query.shape[-2] * key.shape[-2] * query.shape[-1]
    if dropout or causal or not goes_to_onednn(size, query, key, value):
        return None
    output = torch.empty_like(query, memory_format=torch.contiguous_format)
    heads = [tensor.flatten(0, 1) for tensor in (query, key, value, output)]
    rows = max(1, PIECE // key.shape[-2])
    for queries, keys, values, outputs in zip(*heads, strict=True):
        for part, out in zip(queries.split(rows), outputs.split(rows), strict=True):
            scores = linear(part, keys).mul_(query.shape[-1] ** -0.5)
            torch.softmax(scores, dim=-1, out=scores)
            out.copy_(linear(scores, values.T))
    # What a backward pass would need is not made.
    return output, output.new_empty(0)


_REPLACEMENTS: Final[Mapping[Any, Any]] = {
    _ATEN.mm.default: _product,
    _ATEN.addmm.default: _biased_product,
    _ATEN._scaled_dot_product_flash_attention_for_cpu.default: _attention,
}
