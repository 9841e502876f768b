"""The cheaper way of evaluating LeGrad for a number of masks on one image."""

from __future__ import annotations

from dataclasses import dataclass

from ..encode.image_encoding import LayerConstants


@dataclass(frozen=True, slots=True)
class RoutePlan:
    """A choice of route.

    Attributes
    ----------
    decomposed : bool
        Build the decomposition once and use it, instead of the direct formula in each step.
    rows_at_once : int
        Rows of the decomposition to build between two chances to stop.
    """

    decomposed: bool
    rows_at_once: int


# Multiply-adds in the time that reading one number from memory takes.
_READ = 20
# Bytes of a matrix that stay in a processor's cache and are not read again.
_CACHED = 1 << 24


def choose_route(
    layer: LayerConstants,
    passes: int,
    masks: int,
    memory_bytes: int,
    *,
    cached: bool = False,
) -> RoutePlan:
    """Choose the route with the lower estimated cost that fits the memory.

    The cost counts multiply-adds and numbers read from memory. Direct: q*m*d per pass, for q query
    tokens, or the rows of a low-rank layer. Decomposed: the same once per joint dimension unless it
    is ``cached``, then q*d*e per pass; its matrix is read once for all masks. The other products
    are the same on both routes.

    Parameters
    ----------
    layer : LayerConstants
    passes : int
        Evaluations of one mask's map, or of its gradient.
    masks : int
        Masks in the call.
    memory_bytes : int
        For the decomposition and its buffers.
    cached : bool, optional
        Whether the decomposition exists already.
    """
    rows, hidden = layer.slope.shape
    width, joint = layer.out.shape[0], len(layer.jacobian)
    direct = passes * rows * hidden * width
    numbers = joint * rows * width
    size = layer.slope.element_size()
    reads = -(-passes // max(masks, 1)) if numbers * size > _CACHED else 0
    decomposed = (passes + reads * _READ) * numbers
    if not cached:
        decomposed += joint * rows * hidden * width
    fits = cached or numbers * size <= memory_bytes // 2
    rows_that_fit = max(memory_bytes, 0) // 8 // (joint * hidden * size)
    return RoutePlan(decomposed < direct and fits, max(1, min(rows, rows_that_fit)))


# Multiply-adds in the time that one pass of one mask takes beyond its products.
_OVERHEAD = 2 * 10**7
# Share of the masks whose estimates are assumed to fail; these are evaluated exactly.
_FAILING = 0.2
# Masks of a call. With the true number, embeddings would depend on it.
_MASKS = 10


def estimates_pay(layer: LayerConstants, steps: int) -> bool:
    """Return whether a fast inversion should take less time than an exact one.

    Exact, a mask takes a forward and a backward pass per step by the cheaper route. Fast, three
    passes are exact, and all others cost little more than the ReLU products. Savings by sampled
    query tokens are not counted.

    Parameters
    ----------
    layer : LayerConstants
        Of all query tokens, not compressed.
    steps : int
    """
    rows, hidden = layer.slope.shape
    joint = len(layer.jacobian)
    # All in units of rows times width.
    overhead = _OVERHEAD / (rows * layer.out.shape[0]) + rows
    passes = 2 * steps
    route = min(hidden, joint + joint * hidden / (passes * _MASKS))
    exact = passes * (route + overhead)
    return 3 * (hidden + overhead) + (passes + 2) * overhead + _FAILING * exact < exact
