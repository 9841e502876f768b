"""Attention rollout (arXiv 2005.00928).

It does not depend on an embedding, so it can be looked at but not inverted.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor


def rollout(layers: Iterable[Tensor], patches: int) -> Tensor:
    """Compute the relevance (patches,) of the patches for [CLS], or for all patches without it.

    Parameters
    ----------
    layers : iterable of Tensor, shape (h, n, n)
        Attention of all layers, in the model's order.
    patches : int
        Number of last tokens that are patches of the image; [CLS] is the first of the others.

    Returns
    -------
    Tensor
        The first row of the product of all ``(mean over heads + identity) / 2``, or the mean of
        all rows.
    """
    flow: Tensor | None = None
    for weights in layers:
        mean = weights.mean(0)
        step = (mean + torch.eye(len(mean)).to(mean)) / 2
        flow = step if flow is None else step @ flow
    if flow is None:
        raise ValueError("There are no layers.")
    before = len(flow) - patches
    return (flow[0] if before else flow.mean(0))[before:]
