"""Attention rollout (arXiv 2005.00928): independent of embeddings, so it cannot be inverted."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor


def rollout(layers: Iterable[Tensor], patches: int) -> Tensor:
    """Compute the relevance (patches,) of the patches for [CLS], or for all patches without it.

    It is the first row of the product of all ``(mean over heads + identity) / 2``, or the mean of
    all rows. ``layers`` are the attentions (h, n, n) in the model's order; the last ``patches``
    tokens are those of the image, and [CLS] is the first of the others.
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
