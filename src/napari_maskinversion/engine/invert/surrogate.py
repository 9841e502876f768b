"""The optimisation with estimates of the map that are anchored at the start, and watched.

An estimate of the map makes its query vectors from fewer products, or of fewer queries. Three
things keep it close to the exact one at little cost. Its query vectors are exact for the image's
own embedding, where all masks start, so that they err only in how far these have come. Its gradient
is corrected by what it lacked in the first step, which is exact (a control variate, as in SVRG:
Johnson and Zhang, NeurIPS 2013). And it is not trusted blindly: in the second step its gradient is
compared with one of the exact map, mask by mask (both pulled back with the estimate's products: it
is the forward that errs), and later the spread of its map is watched, because a map that has nearly
vanished consists of errors. A mask that fails goes back to the second step and on exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..explain.protocol import ExplainabilityMap
from ..settings import InversionConfig
from .adamw import AdamW
from .dice import MaskTargets
from .loop import InversionResult, StepState, found_inversions, regulariser, reporting, state_of

# The spread of an estimated map, in those of the map that all masks start with.
_SPREADS = (0.1, 20.0)
_EXACT = -1


@dataclass(frozen=True, slots=True)
class Estimate:
    """A cheaper map.

    Attributes
    ----------
    explained : ExplainabilityMap
        Its query vectors are exact for the image's own embedding.
    tolerance : float
        How far its gradient may be from that of `SurrogateMaps.checked` in the second step,
        relative to its length.
    """

    explained: ExplainabilityMap
    tolerance: float


@dataclass(frozen=True, slots=True)
class SurrogateMaps:
    """The exact map of an image and cheaper ones.

    Attributes
    ----------
    exact : ExplainabilityMap
    checked : ExplainabilityMap
        The exact map, with the backward of the last estimate.
    estimates : sequence of Estimate
        The cheapest one first.
    exact_again : callable
        Prepares the exact map for so many masks and evaluations or gradients of one mask.
    """

    exact: ExplainabilityMap
    checked: ExplainabilityMap
    estimates: Sequence[Estimate]
    exact_again: Callable[[int, int], Generator[StepState, None, ExplainabilityMap]]


def invert_anchored(
    maps: SurrogateMaps,
    targets: MaskTargets,
    image_embedding: Tensor,
    config: InversionConfig,
    mask_size: tuple[int, int],
) -> Generator[StepState, None, InversionResult]:
    """As `inversion.invert_steps`, with estimates between the second and the last evaluation."""
    work = _Anchored(maps, targets, image_embedding.detach(), config)
    for step in range(config.steps + 1):
        yield from work.evaluate(step)
        if step < config.steps:
            work.update()
    return found_inversions(
        work.embeddings, work.maps, work.losses, targets, mask_size, work.last_maps
    )


class _Anchored:
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
        self._lacks = [torch.zeros_like(self.embeddings) for _ in maps.estimates]
        self._spread = start.new_zeros(())
        # The estimate that each mask is evaluated with.
        self._level = torch.full((count,), _EXACT, device=start.device)
        # Masks whose every step was exact.
        self._exact_so_far = torch.ones_like(self._level, dtype=torch.bool)
        self._second: tuple[Tensor, AdamW] | None = None

    @torch.no_grad()
    def evaluate(self, step: int) -> Generator[StepState, None, None]:
        """Find maps, losses and gradients at a step."""
        everything = torch.arange(len(self.embeddings), device=self.embeddings.device)
        if step == self._config.steps:
            if self._config.keep_last_step_heatmaps:
                self.last_maps = self.maps.clone()
            for group in _groups(everything, self._exact):
                self._value(self._exact.forward(self.embeddings[group]), group, step)
                yield self._state(step)
            return
        if step == 0:
            yield from self._first(everything)
            return
        if step == 1:
            self._second = (
                self.embeddings.clone(),
                self._optimizer.part(everything, self.embeddings),
            )
            yield from self._choose(everything)
            return
        for level, estimate in enumerate(self._maps.estimates):
            for group in _groups(everything[self._level == level], estimate.explained):
                self._estimated(level, group, step)
                yield self._state(step)
        exact = everything[self._level == _EXACT]
        yield from self._go_back(exact[~self._exact_so_far[exact]], step)
        yield from self._exactly(exact, step)

    @torch.no_grad()
    def update(self) -> None:
        """Take one step of AdamW."""
        self._optimizer.step(self._total(self._gradient, self.embeddings))

    def _first(self, everything: Tensor) -> Generator[StepState, None, None]:
        # All embeddings start alike, so the first map and its sign pattern serve every mask.
        start = self._exact.forward_start()
        self._spread = start.amax() - start.amin()
        gradients = self.maps.new_empty(self.maps.shape)
        for group in _groups(everything, self._exact):
            gradients[group] = self._value(start.expand(len(group), -1), group, 0)
            self._gradient[group] = self._exact.pull_back(gradients[group])
            yield self._state(0)
        for lack, estimate in zip(self._lacks, self._maps.estimates, strict=True):
            estimate.explained.forward_start()
            for group in _groups(everything, estimate.explained):
                lack[group] = self._gradient[group] - estimate.explained.pull_back(gradients[group])
                yield self._state(0)

    def _choose(self, everything: Tensor) -> Generator[StepState, None, None]:
        """Find the cheapest estimate of each mask whose gradient is close to the checked map's."""
        for group in _groups(everything, self._maps.checked):
            self._evaluate(self._maps.checked, group, 1, self._lacks[-1])
            undecided = group
            for level, estimate in enumerate(self._maps.estimates):
                for some in _groups(undecided, estimate.explained):
                    self._compare(level, some)
                undecided = undecided[self._level[undecided] == _EXACT]
            yield self._state(1)
        self._exact_so_far = self._level == _EXACT
        failed = everything[self._exact_so_far]
        if len(failed):
            passes = 2 * len(failed) * (self._config.steps - 1)
            work = self._maps.exact_again(len(failed), passes)
            self._exact = yield from reporting(work, self._state(1))
        yield from self._exactly(failed, 1)

    def _compare(self, level: int, group: Tensor) -> None:
        estimate = self._maps.estimates[level]
        found = estimate.explained.forward(self.embeddings[group])
        _, gradient = self._targets.dice(found, group)
        pulled = estimate.explained.pull_back(gradient) + self._lacks[level][group]
        checked = self._gradient[group]
        near = (pulled - checked).norm(dim=1) <= estimate.tolerance * checked.norm(dim=1)
        self._level[group] = torch.where(near & self._is_spread(found), level, _EXACT)

    def _estimated(self, level: int, group: Tensor, step: int) -> None:
        explained = self._maps.estimates[level].explained
        self._evaluate(explained, group, step, self._lacks[level])
        self._level[group] = torch.where(self._is_spread(self.maps[group]), level, _EXACT)

    def _is_spread(self, maps: Tensor) -> Tensor:
        spread = maps.amax(1) - maps.amin(1)
        lowest, highest = _SPREADS
        return (spread >= lowest * self._spread) & (spread <= highest * self._spread)

    def _exactly(self, chosen: Tensor, step: int) -> Generator[StepState, None, None]:
        for group in _groups(chosen, self._exact):
            self._evaluate(self._exact, group, step)
            yield self._state(step)

    def _go_back(self, failed: Tensor, step: int) -> Generator[StepState, None, None]:
        """Take the masks' steps again, exactly, from the second one on."""
        if not len(failed):
            return
        assert self._second is not None
        embeddings, optimizer = self._second
        self.embeddings[failed] = embeddings[failed]
        values = embeddings[failed]
        again = optimizer.part(failed, values)
        for before in range(1, step):
            for _ in self._exactly(failed, before):
                yield self._state(step)
            again.step(self._total(self._gradient[failed], values))
            self.embeddings[failed] = values
        self._optimizer.adopt(failed, again)
        self._exact_so_far[failed] = True

    def _value(self, maps: Tensor, group: Tensor, step: int) -> Tensor:
        """Keep maps and losses; give the gradient of the losses in the maps."""
        self.maps[group] = maps
        loss, gradient = self._targets.dice(self.maps[group], group)
        pull, _ = regulariser(self.embeddings[group], self._start, self._config.alpha)
        self.losses[group, step] = loss + pull
        return gradient

    def _evaluate(
        self, explained: ExplainabilityMap, group: Tensor, step: int, lack: Tensor | None = None
    ) -> None:
        """Find maps, losses and gradients of one group with one map."""
        gradient = self._value(explained.forward(self.embeddings[group]), group, step)
        self._gradient[group] = explained.pull_back(gradient)
        if lack is not None:
            self._gradient[group] += lack[group]

    def _total(self, gradient: Tensor, embeddings: Tensor) -> Tensor:
        """Give the gradient of maps and regulariser together."""
        return gradient + regulariser(embeddings, self._start, self._config.alpha)[1]

    def _state(self, step: int) -> StepState:
        return state_of(step, self._config, self.maps, self.embeddings, self._targets.grid)


def _groups(chosen: Tensor, explained: ExplainabilityMap) -> Sequence[Tensor]:
    """Masks to evaluate at once."""
    size = explained.group_size
    return [chosen[start : start + size] for start in range(0, len(chosen), size)]
