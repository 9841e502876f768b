"""The Jacobian of the score, for towers whose maps are derived by autograd."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as functional
from torch import Tensor

_ROWS = 64


def score_jacobian(feature_of: Callable[[Tensor], Tensor], at: Tensor, *, cosine: bool) -> Tensor:
    """Return the Jacobian (e, elements of ``at``) of the vector that embeddings are compared with.

    That vector is ``feature_of(at)``, (1, e), divided by its length. If the feature is the image's
    own embedding, its cosine is at its maximum where an inversion starts: no gradient, no map.
    With ``cosine=False`` the length is a constant of the image, so the score is a product.
    """
    with torch.enable_grad():
        leaf = at.detach().clone().requires_grad_()
        feature = feature_of(leaf)[0]
        unit = functional.normalize(feature, dim=0) if cosine else feature / feature.norm().detach()
        rows = []
        for basis in torch.split(torch.eye(len(unit)).to(unit), _ROWS):
            (gradients,) = torch.autograd.grad(
                unit, leaf, basis, retain_graph=True, is_grads_batched=True
            )
            rows.append(gradients.flatten(1))
    return torch.cat(rows)
