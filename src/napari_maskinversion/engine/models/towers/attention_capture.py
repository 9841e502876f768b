"""Attention as torch computes it: what went in, and what the rest of a block makes of its output.

Towers of timm come with many kinds of attention (rotary positions, normalised queries, gates). All
end in one call of ``scaled_dot_product_attention``. Seeing that call tells queries, keys and
values; answering it with a tensor of one's own makes the rest of the block a function of the
attention's output alone. No module is changed, no hook is set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ....base.errors import ModelError

Run = Callable[[Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class AttentionCapture:
    """One attention call within a run.

    Attributes
    ----------
    result : Tensor
        Of the run.
    queries, keys, values : (h, q, w), (h, n, w), (h, n, w)
    """

    result: Tensor
    queries: Tensor
    keys: Tensor
    values: Tensor


class _Attention(TorchFunctionMode):
    def __init__(self, answer: Tensor | None = None) -> None:
        super().__init__()
        self._answer = answer
        self.calls: list[tuple[Sequence[Any], Mapping[str, Any]]] = []

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        if func is not functional.scaled_dot_product_attention:
            return func(*args, **(kwargs or {}))
        self.calls.append((args, kwargs or {}))
        return func(*args, **(kwargs or {})) if self._answer is None else self._answer


def capture(run: Run, tokens: Tensor) -> AttentionCapture:
    """Run once, without gradients, and keep what its one attention call was given.

    Raises
    ------
    ModelError
        If there is not exactly one call, or one that is biased: positions of such towers could not
        follow another input size.
    """
    with torch.no_grad(), _Attention() as seen:
        result = run(tokens)
    if len(seen.calls) != 1:
        raise ModelError(
            "The image tower cannot be explained: a block calls torch's attention "
            f"{len(seen.calls)} times, not once."
        )
    args, kwargs = seen.calls[0]
    biased = len(args) > 3 or kwargs.get("attn_mask") is not None
    if biased or kwargs.get("is_causal") or kwargs.get("scale") is not None:
        raise ModelError("The image tower cannot be explained: its attention is masked or biased.")
    queries, keys, values = (part[0].detach() for part in args)
    return AttentionCapture(result, queries, keys, values)


def rest(run: Run, tokens: Tensor, output: Tensor) -> Tensor:
    """Run again with the attention's output (1, h, q, w) given: differentiable in it."""
    with torch.enable_grad(), _Attention(output):
        return run(tokens)
