"""Which way of evaluating LeGrad is cheaper for so many masks on one image."""

from __future__ import annotations

from dataclasses import dataclass

from .encoding import LayerConstants


@dataclass(frozen=True, slots=True)
class RoutePlan:
    """A choice of route.

    Attributes
    ----------
    decomposed : bool
        Build the decomposition once and use it, instead of the direct formula each step.
    rows_at_once : int
        Rows of the decomposition to build between two chances to stop.
    """

    decomposed: bool
    rows_at_once: int


def choose_route(layer: LayerConstants, masks: int, steps: int, memory_bytes: int) -> RoutePlan:
    """Choose by multiply-adds, within memory.

    Direct: n*m*d per mask and step, forward and again backward. Decomposed: that once per joint
    dimension, forward only, then n*d*e each way. The ReLU products are the same on both routes.
    """
    tokens, hidden = layer.slope.shape
    width, joint = layer.out.shape[0], layer.jacobian.shape[0]
    updates = masks * (2 * steps + 1)
    direct = updates * tokens * hidden * width
    decomposed = joint * tokens * hidden * width + updates * tokens * width * joint
    size = layer.slope.element_size()
    matrix_bytes = joint * tokens * width * size
    row_bytes = (tokens + hidden) * width * size
    rows = max(1, min(joint, memory_bytes // 8 // row_bytes))
    return RoutePlan(decomposed < direct and matrix_bytes <= memory_bytes // 2, rows)
