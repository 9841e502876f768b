"""Maps of one image, made ready for an inversion; what later masks need again is kept."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .compression import compress
from .encoding import ImageEncoding, LayerConstants
from .explain.legrad import LeGrad, MapLayer, SampledGradient, Workspace
from .explain.queries import DecomposedRoute, DirectRoute, MixedRoute, Route, decompose
from .inversion import StepState
from .kept import KeptRoutes, is_out_of_memory
from .routes import choose_route
from .sampling import Sampling, sample_queries, sampled_rows

if TYPE_CHECKING:
    from .config import InversionConfig

Maps = LeGrad | SampledGradient


class PreparedMaps:
    """Makes the maps of the image that is set.

    Parameters
    ----------
    memory_mb : int
        What kept routes and the buffers of a step may take together.
    """

    def __init__(self, memory_mb: int) -> None:
        self._memory = memory_mb * 2**20
        # Half; the other half is for the buffers of a step.
        self._routes = KeptRoutes(self._memory // 2)
        self._starts: dict[int, Tensor] = {}
        self._compressed: dict[tuple[int, float], LayerConstants | None] = {}

    @property
    def kept_bytes(self) -> int:
        """Memory that kept routes take."""
        return self._routes.nbytes

    def clear(self) -> None:
        """Let go of everything: there is another image."""
        self._routes.clear()
        self._starts.clear()
        self._compressed.clear()

    def make(
        self, encoding: ImageEncoding, sampling: Sampling, masks: int, config: InversionConfig
    ) -> Generator[StepState, None, tuple[LeGrad, list[Maps]]]:
        """Make the exact maps of ``masks`` masks, and those to use in each step if they differ.

        Yields while it works, so that the caller may stop.
        """
        self._routes.begin()
        workspace = Workspace()
        later = 0 if sampling.exact else max(0, config.steps - sampling.exact_steps)
        # Evaluations of the map and of its gradient: the first map serves all masks, and the last
        # one, of the result, is exact.
        passes = 2 * masks * config.steps
        if not later:
            layers = yield from self._layers(encoding, masks, passes, config)
            return self._legrad(layers, workspace), []
        passes -= masks * later * (1 if sampling.exact_maps and not sampling.tolerance else 2)
        passes += masks * (sampling.exact_steps < config.steps)
        layers = yield from self._layers(encoding, masks, passes, config)
        exact = self._legrad(layers, workspace)
        whole = exact
        if sampling.tolerance:
            passes = masks * later * (2 if sampling.stride == 1 else 1)
            layers = yield from self._layers(
                encoding, masks, passes, config, tolerance=sampling.tolerance
            )
            whole = self._legrad(layers, workspace)
        estimate: Maps = whole
        if sampling.stride > 1:
            passes = masks * later * (1 if sampling.exact_maps else 2)
            layers = yield from self._layers(
                encoding, masks, passes, config, stride=sampling.stride
            )
            sampled = self._legrad(layers, workspace)
            rows = sampled_rows(encoding.grid, sampling.stride).to(encoding.embedding.device)
            exact_maps = sampling.exact_maps
            estimate = SampledGradient(whole, sampled, rows) if exact_maps else sampled
        return exact, [exact] * (config.steps - later) + [estimate] * later

    def _legrad(self, layers: list[MapLayer], workspace: Workspace) -> LeGrad:
        return LeGrad(layers, self._memory // 4, workspace)

    def _layers(
        self,
        encoding: ImageEncoding,
        masks: int,
        passes: int,
        config: InversionConfig,
        *,
        stride: int = 1,
        tolerance: float = 0.0,
    ) -> Generator[StepState, None, list[MapLayer]]:
        """Layers over every ``stride``-th query, each by the cheapest route."""
        layers = []
        for index, full in enumerate(encoding.layers):
            # Counted from the last layer, so that it stays valid when more layers are explained.
            place = len(encoding.layers) - index
            start = self._start(place, full, encoding.embedding)
            chosen = self._compress(place, full, tolerance) if tolerance else full
            if chosen is not full:
                yield StepState(0, config.steps, None)
            layer, weight = sample_queries(chosen, encoding.grid, stride)
            if stride > 1:
                start = start[sampled_rows(encoding.grid, stride).to(start.device)]
            route = yield from self._route(place, layer, stride, encoding, masks, passes, config)
            layers.append(MapLayer(layer, route, weight, start))
        return layers

    def _route(
        self,
        place: int,
        layer: LayerConstants,
        stride: int,
        encoding: ImageEncoding,
        masks: int,
        passes: int,
        config: InversionConfig,
    ) -> Generator[StepState, None, Route]:
        key = (place, stride, layer.mixing is not None)
        kept = self._routes.get(key)
        room = 2 * self._routes.room
        plan = choose_route(layer, masks, passes, room, kept=kept is not None)
        if not plan.decomposed:
            return DirectRoute(layer)
        whole = self._routes.get((place, 1, False))
        try:
            if kept is None and isinstance(whole, DecomposedRoute) and layer.mixing is None:
                kept = whole.of(sampled_rows(encoding.grid, stride))
            elif kept is None:
                build = decompose(layer, plan.rows_at_once)
                kept = yield from _reporting(build, StepState(0, config.steps, None))
            return self._routes.use(key, kept)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            # The direct route needs no more than a step's buffers.
            self._routes.clear()
            return DirectRoute(layer)

    def _start(self, place: int, layer: LayerConstants, embedding: Tensor) -> Tensor:
        """Query vectors (n, d) of the image's own embedding: the first map of every mask."""
        if place not in self._starts:
            found = layer.offset.new_empty(1, *layer.offset.shape)
            DirectRoute(layer).queries(embedding[None], found)
            self._starts[place] = found[0]
        return self._starts[place]

    def _compress(self, place: int, layer: LayerConstants, tolerance: float) -> LayerConstants:
        key = (place, tolerance)
        if key not in self._compressed:
            with torch.no_grad():
                self._compressed[key] = compress(layer, tolerance)
        return self._compressed[key] or layer


def _reporting(
    work: Generator[None, None, DecomposedRoute | MixedRoute], state: StepState
) -> Generator[StepState, None, DecomposedRoute | MixedRoute]:
    """Yield ``state`` whenever ``work`` yields; give what it returns."""
    while True:
        try:
            next(work)
        except StopIteration as stop:
            route: DecomposedRoute | MixedRoute = stop.value
            return route
        yield state
