"""Attention as torch computes it: its inputs, and the rest of a block as a function of its output.

timm's towers come with many kinds of attention (rotary positions, normalised queries, gates). All
end in one call of ``scaled_dot_product_attention``. Intercepting that call reveals queries, keys
and values; answering it with another tensor makes the rest of the block a function of the
attention's output alone. No module is changed and no hook is set.
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
    """One attention call within a run: (h, q, w), (h, n, w), (h, n, w); the result of the run."""

    result: Tensor
    queries: Tensor
    keys: Tensor
    values: Tensor


class _InterceptAttention(TorchFunctionMode):
    def __init__(self, answer: Tensor | None = None) -> None:
        super().__init__()
        self._answer = answer
        self.calls: list[tuple[Sequence[Any], Mapping[str, Any]]] = []

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        if func is functional.scaled_dot_product_attention:
            self.calls.append((args, kwargs or {}))
            if self._answer is not None:
                return self._answer
        return func(*args, **(kwargs or {}))


def capture(run: Run, tokens: Tensor) -> AttentionCapture:
    """Run without gradients and return the inputs of the one attention call."""
    with torch.no_grad(), _InterceptAttention() as mode:
        result = run(tokens)
    if len(mode.calls) != 1:
        raise ModelError(
            "The image tower cannot be explained: a block calls torch's attention "
            f"{len(mode.calls)} times, not once."
        )
    args, kwargs = mode.calls[0]
    biased = len(args) > 3 or kwargs.get("attn_mask") is not None
    if biased or kwargs.get("is_causal") or kwargs.get("scale") is not None:
        raise ModelError("The image tower cannot be explained: its attention is masked or biased.")
    queries, keys, values = (part[0].detach() for part in args)
    return AttentionCapture(result, queries, keys, values)


def rerun(run: Run, tokens: Tensor, output: Tensor) -> Tensor:
    """Run again with this attention output (1, h, q, w): the result is differentiable in it."""
    with _InterceptAttention(output):
        return run(tokens)


def score_jacobian(feature_of: Callable[[Tensor], Tensor], at: Tensor, *, cosine: bool) -> Tensor:
    """Return the Jacobian (e, elements of ``at``) of the vector that embeddings are compared with.

    That vector is ``feature_of(at)``, (1, e), divided by its length. If the feature is the image's
    own embedding, its cosine is at its maximum where an inversion starts: no gradient, no map.
    With ``cosine=False`` the length is a constant of the image, so the score is a product.
    """

    def score_vector(x: Tensor) -> Tensor:
        feature = feature_of(x)[0]
        return functional.normalize(feature, dim=0) if cosine else feature / feature.norm().detach()

    with torch.no_grad():  # of weights; torch.func differentiates in its own way
        jacobian: Tensor = torch.func.jacrev(score_vector)(at.detach())
    return jacobian.flatten(1)
