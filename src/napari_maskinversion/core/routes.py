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


# Multiply-adds in the time that one number takes from memory.
_READ = 20


def choose_route(
    layer: LayerConstants, masks: int, passes: int, memory_bytes: int, *, kept: bool = False
) -> RoutePlan:
    """Choose by multiply-adds and what is read from memory, within the memory given.

    Direct: q*m*d per pass (an evaluation of one mask's map, or of its gradient), q query tokens
    being averaged over. Decomposed: that once per joint dimension unless it is ``kept``, then
    q*d*e per pass; its matrix is read once for all masks. The ReLU products are the same on both.
    """
    queries, hidden = layer.slope.shape
    width, joint = layer.out.shape[0], layer.jacobian.shape[0]
    direct = passes * queries * hidden * width
    build = 0 if kept else joint * queries * hidden * width
    reads = -(-passes // max(masks, 1))
    numbers = joint * queries * width
    decomposed = build + passes * numbers + reads * numbers * _READ
    size = layer.slope.element_size()
    fits = kept or numbers * size <= memory_bytes // 2
    row_bytes = (queries + hidden) * width * size
    rows = max(1, min(joint, max(memory_bytes, 0) // 8 // row_bytes))
    return RoutePlan(decomposed < direct and fits, rows)
