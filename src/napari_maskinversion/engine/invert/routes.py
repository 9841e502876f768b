"""Which way of evaluating LeGrad is cheaper for so many masks on one image."""

from __future__ import annotations

from dataclasses import dataclass

from ..encode.image_encoding import LayerConstants


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


# Multiply-adds in the time that one number takes from memory, and of how many bytes none has to be
# read again: they stay in a processor's cache.
_READ = 20
_CACHED = 1 << 24


def choose_route(
    layer: LayerConstants,
    passes: int,
    masks: int,
    memory_bytes: int,
    *,
    kept: bool = False,
) -> RoutePlan:
    """Choose by multiply-adds and what is read from memory, within the memory given.

    Direct: q*m*d per pass (an evaluation of one mask's map, or of its gradient), q query tokens
    being averaged over, or rows that they are mixed of. Decomposed: that once per joint dimension
    unless it is ``kept``, then q*d*e per pass; its matrix is read once for all masks. The ReLU
    products, and the mixing, are the same on both.

    Parameters
    ----------
    layer : LayerConstants
    passes : int
        To be made.
    masks : int
        In the call.
    memory_bytes : int
        What there is for the decomposition and its buffers.
    kept : bool, optional
        Whether the decomposition is there already.
    """
    rows, hidden = layer.slope.shape
    width, joint = layer.out.shape[0], len(layer.jacobian)
    direct = passes * rows * hidden * width
    numbers = joint * rows * width
    size = layer.slope.element_size()
    reads = -(-passes // max(masks, 1)) if numbers * size > _CACHED else 0
    decomposed = (passes + reads * _READ) * numbers
    if not kept:
        decomposed += joint * rows * hidden * width
    fits = kept or numbers * size <= memory_bytes // 2
    some = max(memory_bytes, 0) // 8 // (joint * hidden * size)
    return RoutePlan(decomposed < direct and fits, max(1, min(rows, some)))


# Multiply-adds in the time that a pass takes beside its products, for one mask.
_AROUND = 2 * 10**7
# Share of the masks whose estimates are taken to fail; they are evaluated exactly.
_FAILING = 0.2
# Masks of a call. The choice must not depend on the true number: embeddings would.
_MASKS = 10


def estimates_pay(layer: LayerConstants, steps: int) -> bool:
    """Whether anchored estimates should take less time than the exact map in every step.

    Exact, a mask takes a forward and a backward pass a step, by the cheaper route. With estimates
    three passes are exact, all others cost little more than the ReLU products; that those of fewer
    queries may do is not counted on.

    Parameters
    ----------
    layer : LayerConstants
        Of all query tokens, not mixed.
    steps : int
    """
    rows, hidden = layer.slope.shape
    joint = len(layer.jacobian)
    # All in units of rows times width.
    around = _AROUND / (rows * layer.out.shape[0]) + rows
    passes = 2 * steps
    route = min(hidden, joint + joint * hidden / (passes * _MASKS))
    exact = passes * (route + around)
    return 3 * (hidden + around) + (passes + 2) * around + _FAILING * exact < exact
