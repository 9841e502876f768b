"""Jacobians of small functions."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as functional
from torch import Tensor

_ROWS = 64


def score_jacobian(function: Callable[[Tensor], Tensor], at: Tensor, *, cosine: bool) -> Tensor:
    """Jacobian (e, numbers of ``at``) of what the score compares the embedding with.

    That is the feature ``function(at)``, (1, e), over its length. Where the feature is the image's
    own embedding, the cosine with it has its maximum just where an inversion starts: no gradient,
    no map. There the length is a constant of the image, which makes the score a product.
    """
    with torch.enable_grad():
        leaf = at.detach().clone().requires_grad_()
        feature = function(leaf)[0]
        unit = functional.normalize(feature, dim=0) if cosine else feature / feature.norm().detach()
        rows = []
        basis = torch.eye(len(unit)).to(unit)
        for first in range(0, len(basis), _ROWS):
            some = basis[first : first + _ROWS]
            (found,) = torch.autograd.grad(
                unit, leaf, some, retain_graph=True, is_grads_batched=True
            )
            rows.append(found.flatten(1))
    return torch.cat(rows)
