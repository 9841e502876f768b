"""Fast inversions: the exact loop with estimated maps in most steps, plus corrections and checks.

The estimate has two parts. *Low-rank slopes* (`low_rank`) replace one product for each of n tokens
by one for each of a few rows. *Sampled queries* average the map over a regular subgrid of the query
tokens instead of all of them. Three measures keep it close to the exact map at little cost:

- Its query vectors are exact for the image's own embedding, where all masks start. They err only by
  how far an embedding has moved from there.
- Its gradient is corrected by what it lacked in the first step, which is exact (a control variate,
  as in SVRG: Johnson and Zhang, NeurIPS 2013).
- It is checked. In the second step its gradient is compared, mask by mask, with the gradient of the
  exact map. (Both are propagated back with the estimate's products: it is the forward pass that
  errs.) Later the spread of its map is watched, because a map that has nearly vanished consists of
  errors. Masks that fail go through the exact loop afterwards, from their second step.

The result (maps, overlaps, the last loss) is exact for the returned embedding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import torch
from torch import Tensor

from ...base.progress import tell
from ..encode.image_encoding import ImageEncoding, LayerConstants
from ..encode.token_grid import TokenGrid
from ..explain.legrad import LeGrad, MapLayer
from ..explain.routes import DirectRoute, Workspace, slices
from .loop import Descent

# Estimates begin in the third step.
FEWEST_STEPS: Final = 3
# Largest relative error of an estimated gradient in the second step: with all query tokens, and
# with a subgrid of them. Measured by benchmarks/sampling.py; see docs/decisions/0013-fast.md.
_GRADIENT_TOLERANCES: Final = (0.05, 0.03)
# Lowest and highest trusted spread of an estimated map, relative to the first exact map's.
_SPREADS: Final = (0.1, 20.0)
# Fewest tokens per side for strides of 2 and of 3.
_STRIDE_GRIDS: Final = (10, 24)
# Fewest multiply-adds of a pass that estimates pay for; below, calls take the time, not products.
_WORTH_ESTIMATING: Final = 10**8
_EXACT: Final = -1


@dataclass(frozen=True, slots=True)
class FastMaps:
    """The exact map of an image and cheaper ones."""

    exact: LeGrad
    reference: LeGrad  # The exact map with the backward pass of the last estimate
    # Cheaper maps, whose query vectors are exact for the image's own embedding. The cheapest one
    # first; the last one has all query tokens.
    estimates: tuple[LeGrad, ...]


def estimates_pay(encoding: ImageEncoding, steps: int) -> bool:
    """Return whether a fast inversion of some masks takes less time than an exact one."""
    products = min(
        (layer.slope.numel() * layer.weights.out.shape[0] for layer in encoding.layers), default=0
    )
    return steps >= FEWEST_STEPS and products >= _WORTH_ESTIMATING


def fast_maps(
    exact: Sequence[MapLayer],
    compressed: Sequence[LayerConstants],
    encoding: ImageEncoding,
    memory_bytes: int,
) -> FastMaps:
    """Make the maps of a fast inversion.

    ``exact`` are layers with all query tokens, for the few exact passes; ``compressed`` the same
    layers' constants from `compress`; ``memory_bytes`` is for the buffers of one group of masks.
    """
    grid = encoding.grid
    embedding = encoding.embedding
    coarsest = 1 + sum(min(grid) >= side for side in _STRIDE_GRIDS)
    estimated: dict[int, list[MapLayer]] = {}
    for stride in range(coarsest, 0, -1):
        estimated[stride] = []
    reference = []
    for layer, constants in zip(exact, compressed, strict=True):
        estimated_start = constants.values.new_empty(1, *layer.start.shape)
        with torch.no_grad():
            DirectRoute(constants).project(embedding[None], estimated_start)
        shift = (layer.start - estimated_start[0]).to(estimated_start.dtype)
        for stride, layers in estimated.items():
            rows, weight = sample_queries(grid, stride, shift.device)
            sampled = constants
            if stride > 1:
                assert constants.coefficients is not None
                sampled = replace(
                    constants,
                    bend=constants.bend[rows],
                    offset=constants.offset[rows],
                    coefficients=constants.coefficients[rows],
                )
            route = DirectRoute(sampled, shift[rows])
            start = layer.start[rows]
            first = 1 / len(layer.start)
            sample = replace(layer, route=route, start=start, weight=weight, first_weight=first)
            layers.append(sample)
        reference.append(replace(layer, backward=estimated[1][-1].route))
    workspace = Workspace()
    return FastMaps(
        LeGrad(exact, memory_bytes, workspace),
        LeGrad(reference, memory_bytes, workspace),
        tuple(LeGrad(layers, memory_bytes, workspace) for layers in estimated.values()),
    )


def sample_queries(grid: TokenGrid, stride: int, device: torch.device) -> tuple[Tensor, float]:
    """Return the indices (q,) of sampled query tokens, and the weight of a patch among them.

    [CLS] and a centred regular subgrid. [CLS] keeps its weight of 1 / n; the sampled patches share
    the rest evenly.
    """
    ys = torch.arange((grid.height - 1) % stride // 2, grid.height, stride)
    xs = torch.arange((grid.width - 1) % stride // 2, grid.width, stride)
    patches = (1 + ys[:, None] * grid.width + xs).flatten()
    rows = torch.cat([torch.zeros(1, dtype=patches.dtype), patches])
    tokens = grid.tokens + 1
    return rows.to(device), (tokens - 1) / tokens / patches.shape[0]


def descend_fast(maps: FastMaps, descent: Descent) -> tuple[Tensor, Descent]:
    """Take all steps, with estimates between the second and the last one.

    Shapes: returns failed (F,).
    """
    count = descent.maps.shape[0]
    corrections, first_spread = _first_step(maps, descent)
    descent.update()
    device = descent.maps.device
    second = descent.part(torch.arange(count, device=device))
    level = _second_step(maps, descent, corrections, first_spread)
    while True:
        descent.update()
        if descent.step == descent.config.steps:
            break  # no step follows that needs a gradient
        for index, estimate in enumerate(maps.estimates):
            for masks in _split((level == index).nonzero()[:, 0], estimate):
                forward = estimate.forward(descent.embeddings[masks])
                map_gradient = descent.record(forward, masks)
                descent.gradient[masks] += estimate.vjp(map_gradient)
                descent.gradient[masks] += corrections[index][masks]
                level[masks] = torch.where(_is_spread(forward, first_spread), index, _EXACT)
                tell(descent.state())
    failed = (level == _EXACT).nonzero()[:, 0]
    for masks in _split((level != _EXACT).nonzero()[:, 0], maps.exact):
        descent.record(maps.exact.forward(descent.embeddings[masks]), masks)
        tell(descent.state())
    return failed, second.part(failed)


def _first_step(maps: FastMaps, descent: Descent) -> tuple[list[Tensor], Tensor]:
    """Evaluate the first step exactly; return what each estimate's gradient lacks in it."""
    start = maps.exact.forward_start()
    map_gradients = torch.empty_like(descent.maps)
    exact = torch.empty_like(descent.gradient)
    for masks in slices(map_gradients.shape[0], maps.exact.group_size):
        shared = start.expand(map_gradients[masks].shape[0], -1)
        map_gradients[masks] = descent.record(shared, masks)
        exact[masks] = maps.exact.vjp(map_gradients[masks])
        tell(descent.state())
    descent.gradient += exact
    corrections = []
    for estimate in maps.estimates:
        estimate.forward_start()
        correction = torch.empty_like(exact)
        for masks in slices(map_gradients.shape[0], estimate.group_size):
            correction[masks] = exact[masks] - estimate.vjp(map_gradients[masks])
            tell(descent.state())
        corrections.append(correction)
    return corrections, start.amax() - start.amin()


def _second_step(
    maps: FastMaps, descent: Descent, corrections: list[Tensor], first_spread: Tensor
) -> Tensor:
    """Evaluate the second step; return the cheapest estimate (N,) that is close for each mask."""
    everything = torch.arange(descent.maps.shape[0], device=descent.maps.device)
    level = torch.full_like(everything, _EXACT)
    for masks in _split(everything, maps.reference):
        map_gradient = descent.record(maps.reference.forward(descent.embeddings[masks]), masks)
        reference = maps.reference.vjp(map_gradient) + corrections[-1][masks]
        descent.gradient[masks] += reference
        undecided = torch.arange(masks.shape[0], device=masks.device)
        for index, estimate in enumerate(maps.estimates):
            tolerance = _GRADIENT_TOLERANCES[estimate is not maps.estimates[-1]]
            for some in _split(undecided, estimate):
                forward = estimate.forward(descent.embeddings[masks[some]])
                _, map_gradient = descent.targets.dice(forward, masks[some])
                gradient = estimate.vjp(map_gradient) + corrections[index][masks[some]]
                error = (gradient - reference[some]).norm(dim=1)
                close = error <= tolerance * reference[some].norm(dim=1)
                trusted = close & _is_spread(forward, first_spread)
                level[masks[some]] = torch.where(trusted, index, _EXACT)
            undecided = undecided[level[masks[undecided]] == _EXACT]
        tell(descent.state())
    return level


def _is_spread(maps: Tensor, first_spread: Tensor) -> Tensor:
    spread = maps.amax(1) - maps.amin(1)
    lowest, highest = _SPREADS
    return (spread >= lowest * first_spread) & (spread <= highest * first_spread)


def _split(masks: Tensor, explained: LeGrad) -> list[Tensor]:
    """Split masks into groups that are evaluated together."""
    return [masks[group] for group in slices(masks.shape[0], explained.group_size)]
