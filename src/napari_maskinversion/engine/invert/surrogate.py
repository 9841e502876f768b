"""Fast inversions: estimates of the map in most steps, checked against the exact map.

An estimate of the map makes its query vectors from fewer products, or for fewer query tokens. Three
measures keep it close to the exact map at little cost:

- Its query vectors are exact for the image's own embedding, where all masks start. They err only by
  how far an embedding has moved from there.
- Its gradient is corrected by what it lacked in the first step, which is exact (a control variate,
  as in SVRG: Johnson and Zhang, NeurIPS 2013).
- It is checked. In the second step its gradient is compared, mask by mask, with the gradient of the
  exact map. (Both are propagated back with the estimate's products: it is the forward pass that
  errs.) Later the spread of its map is watched, because a map that has nearly vanished consists of
  errors. A mask that fails returns to its second step and continues exactly from there.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ...base.steps import map_steps
from ..explain.protocol import ExplainabilityMap
from ..settings import InversionConfig
from .adamw import AdamW
from .dice import MaskTargets
from .loop import InversionResult, StepState, collect_result, regulariser, step_state

# Lowest and highest trusted spread of an estimated map, relative to the first exact map's.
_SPREADS = (0.1, 20.0)
# The level of masks that are evaluated with the exact map.
_EXACT = -1


@dataclass(frozen=True, slots=True)
class Estimate:
    """A cheaper map.

    Attributes
    ----------
    explained : ExplainabilityMap
        Its query vectors are exact for the image's own embedding.
    tolerance : float
        Largest allowed distance of its gradient from that of `SurrogateMaps.reference` in the
        second step, relative to the length of the reference gradient.
    """

    explained: ExplainabilityMap
    tolerance: float


@dataclass(frozen=True, slots=True)
class SurrogateMaps:
    """The exact map of an image and cheaper ones.

    Attributes
    ----------
    exact : ExplainabilityMap
    reference : ExplainabilityMap
        The exact map with the backward pass of the last estimate.
    estimates : sequence of Estimate
        The cheapest one first.
    prepare_exact : callable
        Prepares the exact map for a number of masks and of passes (evaluations of one mask's map,
        or of its gradient).
    """

    exact: ExplainabilityMap
    reference: ExplainabilityMap
    estimates: Sequence[Estimate]
    prepare_exact: Callable[[int, int], Generator[StepState, None, ExplainabilityMap]]


def invert_with_surrogates(
    maps: SurrogateMaps,
    targets: MaskTargets,
    image_embedding: Tensor,
    config: InversionConfig,
    mask_size: tuple[int, int],
) -> Generator[StepState, None, InversionResult]:
    """Do what `loop.invert_steps` does, with estimates between the second and the last step."""
    work = _SurrogateInversion(maps, targets, image_embedding.detach(), config)
    for step in range(config.steps + 1):
        yield from work.evaluate(step)
        if step < config.steps:
            work.update()
    return collect_result(
        work.embeddings, work.maps, work.losses, targets, mask_size, work.last_maps
    )


class _SurrogateInversion:
    """One inversion of N masks."""

    def __init__(
        self, maps: SurrogateMaps, targets: MaskTargets, start: Tensor, config: InversionConfig
    ) -> None:
        self._maps, self._exact = maps, maps.exact
        self._targets, self._start, self._config = targets, start, config
        count = len(targets.weights)
        self.embeddings = start.expand(count, -1).clone()
        self._optimizer = AdamW(
            self.embeddings, learning_rate=config.learning_rate, weight_decay=config.weight_decay
        )
        self.maps = start.new_zeros(count, targets.weights.shape[1])
        self.losses = start.new_zeros(count, config.steps + 1)
        self.last_maps: Tensor | None = None
        self._gradient = torch.zeros_like(self.embeddings)
        # What the gradient of each estimate lacked in the first step.
        self._corrections = [torch.zeros_like(self.embeddings) for _ in maps.estimates]
        self._first_spread = start.new_zeros(())
        # Index of the estimate that each mask is evaluated with.
        self._level = torch.full((count,), _EXACT, device=start.device)
        # Masks whose every step was exact.
        self._exact_so_far = torch.ones_like(self._level, dtype=torch.bool)
        self._second_step: tuple[Tensor, AdamW] | None = None

    @torch.no_grad()
    def evaluate(self, step: int) -> Generator[StepState, None, None]:
        """Compute maps, losses and gradients of a step."""
        masks = torch.arange(len(self.embeddings), device=self.embeddings.device)
        if step == self._config.steps:
            if self._config.keep_last_step_heatmaps:
                self.last_maps = self.maps.clone()
            for group in _groups(masks, self._exact):
                self._record(self._exact.forward(self.embeddings[group]), group, step)
                yield self._state(step)
        elif step == 0:
            yield from self._evaluate_start(masks)
        elif step == 1:
            optimizer = self._optimizer.part(masks, self.embeddings)
            self._second_step = self.embeddings.clone(), optimizer
            yield from self._choose_estimates(masks)
        else:
            for level, estimate in enumerate(self._maps.estimates):
                for group in _groups(masks[self._level == level], estimate.explained):
                    self._evaluate_estimate(level, group, step)
                    yield self._state(step)
            exact = masks[self._level == _EXACT]
            yield from self._redo_exactly(exact[~self._exact_so_far[exact]], step)
            yield from self._evaluate_exactly(exact, step)

    @torch.no_grad()
    def update(self) -> None:
        """Take one step of AdamW."""
        self._optimizer.step(self._with_regulariser(self._gradient, self.embeddings))

    def _evaluate_start(self, masks: Tensor) -> Generator[StepState, None, None]:
        # All embeddings start alike, so the first map and its sign pattern serve every mask.
        start = self._exact.forward_start()
        self._first_spread = start.amax() - start.amin()
        map_gradients = self.maps.new_empty(self.maps.shape)
        for group in _groups(masks, self._exact):
            map_gradients[group] = self._record(start.expand(len(group), -1), group, 0)
            self._gradient[group] = self._exact.vjp(map_gradients[group])
            yield self._state(0)
        for correction, estimate in zip(self._corrections, self._maps.estimates, strict=True):
            explained = estimate.explained
            explained.forward_start()
            for group in _groups(masks, explained):
                correction[group] = self._gradient[group] - explained.vjp(map_gradients[group])
                yield self._state(0)

    def _choose_estimates(self, masks: Tensor) -> Generator[StepState, None, None]:
        """Choose for each mask the cheapest estimate whose gradient is close to the reference."""
        for group in _groups(masks, self._maps.reference):
            self._evaluate(self._maps.reference, group, 1, self._corrections[-1])
            undecided = group
            for level, estimate in enumerate(self._maps.estimates):
                for part in _groups(undecided, estimate.explained):
                    self._compare(level, part)
                undecided = undecided[self._level[undecided] == _EXACT]
            yield self._state(1)
        self._exact_so_far = self._level == _EXACT
        failed = masks[self._exact_so_far]
        if len(failed):
            passes = 2 * len(failed) * (self._config.steps - 1)
            work = self._maps.prepare_exact(len(failed), passes)
            self._exact = yield from map_steps(lambda _: self._state(1), work)
        yield from self._evaluate_exactly(failed, 1)

    def _compare(self, level: int, group: Tensor) -> None:
        estimate = self._maps.estimates[level]
        maps = estimate.explained.forward(self.embeddings[group])
        _, map_gradient = self._targets.dice(maps, group)
        gradient = estimate.explained.vjp(map_gradient) + self._corrections[level][group]
        reference = self._gradient[group]
        close = (gradient - reference).norm(dim=1) <= estimate.tolerance * reference.norm(dim=1)
        self._level[group] = torch.where(close & self._is_spread(maps), level, _EXACT)

    def _evaluate_estimate(self, level: int, group: Tensor, step: int) -> None:
        explained = self._maps.estimates[level].explained
        self._evaluate(explained, group, step, self._corrections[level])
        self._level[group] = torch.where(self._is_spread(self.maps[group]), level, _EXACT)

    def _is_spread(self, maps: Tensor) -> Tensor:
        spread = maps.amax(1) - maps.amin(1)
        lowest, highest = _SPREADS
        return (spread >= lowest * self._first_spread) & (spread <= highest * self._first_spread)

    def _evaluate_exactly(self, masks: Tensor, step: int) -> Generator[StepState, None, None]:
        for group in _groups(masks, self._exact):
            self._evaluate(self._exact, group, step)
            yield self._state(step)

    def _redo_exactly(self, failed: Tensor, step: int) -> Generator[StepState, None, None]:
        """Repeat the steps of these masks exactly, from the second one to this one."""
        if not len(failed):
            return
        assert self._second_step is not None
        embeddings, optimizer = self._second_step
        self.embeddings[failed] = embeddings[failed]
        values = embeddings[failed]
        repeated = optimizer.part(failed, values)
        for earlier in range(1, step):
            for _ in self._evaluate_exactly(failed, earlier):
                yield self._state(step)
            repeated.step(self._with_regulariser(self._gradient[failed], values))
            self.embeddings[failed] = values
        self._optimizer.adopt(failed, repeated)
        self._exact_so_far[failed] = True

    def _record(self, maps: Tensor, group: Tensor, step: int) -> Tensor:
        """Store maps and losses; return the gradient of the losses with respect to the maps."""
        self.maps[group] = maps
        dice, map_gradient = self._targets.dice(self.maps[group], group)
        penalty, _ = regulariser(self.embeddings[group], self._start, self._config.alpha)
        self.losses[group, step] = dice + penalty
        return map_gradient

    def _evaluate(
        self,
        explained: ExplainabilityMap,
        group: Tensor,
        step: int,
        correction: Tensor | None = None,
    ) -> None:
        """Compute maps, losses and gradients of one group with one map."""
        map_gradient = self._record(explained.forward(self.embeddings[group]), group, step)
        self._gradient[group] = explained.vjp(map_gradient)
        if correction is not None:
            self._gradient[group] += correction[group]

    def _with_regulariser(self, gradient: Tensor, embeddings: Tensor) -> Tensor:
        return gradient + regulariser(embeddings, self._start, self._config.alpha)[1]

    def _state(self, step: int) -> StepState:
        return step_state(step, self._config, self.maps, self.embeddings, self._targets.grid)


def _groups(masks: Tensor, explained: ExplainabilityMap) -> Sequence[Tensor]:
    """Split masks into groups that are evaluated together."""
    size = explained.group_size
    return [masks[start : start + size] for start in range(0, len(masks), size)]
