"""Maps of one image, made ready for an inversion; what later masks need again is kept."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .compression import SlopeMixtures
from .encoding import ImageEncoding, LayerConstants
from .explain.legrad import LeGrad, MapLayer, Workspace
from .explain.others import has_routes, make_map
from .explain.protocol import ExplainabilityMap
from .explain.queries import DecomposedRoute, DirectRoute, MixedRoute, Route, decompose
from .inversion import StepState
from .kept import KeptRoutes, is_out_of_memory
from .routes import choose_route
from .sampling import Sampling, sample_queries, sampled_rows

if TYPE_CHECKING:
    from .config import InversionConfig


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
        self._mixtures: dict[int, SlopeMixtures] = {}
        self._compressed: dict[tuple[int, float], LayerConstants | None] = {}
        self._others: dict[tuple[str, int], ExplainabilityMap] = {}

    @property
    def kept_bytes(self) -> int:
        """Memory that kept routes take."""
        return self._routes.nbytes

    def clear(self) -> None:
        """Let go of everything: there is another image."""
        self._routes.clear()
        self._starts.clear()
        self._mixtures.clear()
        self._compressed.clear()
        self._others.clear()

    def make(
        self, encoding: ImageEncoding, sampling: Sampling, masks: int, config: InversionConfig
    ) -> Generator[StepState, None, tuple[ExplainabilityMap, Sequence[ExplainabilityMap]]]:
        """Make the exact maps of ``masks`` masks, and those to use in each step if they differ.

        Yields while it works, so that the caller may stop.
        """
        self._routes.begin()
        if config.explainer != "legrad" or not has_routes(encoding):
            return self._other(encoding, config), ()
        workspace = Workspace()
        early = config.steps if sampling.exact else min(sampling.early_steps, config.steps)
        later = config.steps - early
        # Evaluations of the map and of its gradient, two a step: the first map serves all masks,
        # and the last one, of the result, is exact.
        first, second = (1, sampling.early_tolerance), (sampling.stride, sampling.tolerance)
        passes = {(1, 0.0): masks}
        for kind, steps in ((first, early), (second, later)):
            passes[kind] = passes.get(kind, 0) + 2 * masks * steps
        made: dict[tuple[int, float], LeGrad] = {}
        for kind, count in passes.items():
            layers = yield from self._layers(encoding, masks, count, config, *kind)
            made[kind] = LeGrad(layers, self._memory // 4, workspace)
        return made[1, 0.0], [made[first]] * early + [made[second]] * later

    def _other(self, encoding: ImageEncoding, config: InversionConfig) -> ExplainabilityMap:
        key = (config.explainer, config.layers)
        if key not in self._others:
            self._others[key] = make_map(config.explainer, encoding, self._memory // 4)
        return self._others[key]

    def _layers(
        self,
        encoding: ImageEncoding,
        masks: int,
        passes: int,
        config: InversionConfig,
        stride: int,
        tolerance: float,
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
            # Where compressing would not pay, the layer is the exact one.
            key = (place, stride, tolerance if layer.mixing is not None else 0.0)
            route = yield from self._route(key, layer, encoding, masks, passes, config)
            layers.append(MapLayer(layer, route, weight, start))
        return layers

    def _route(
        self,
        key: tuple[int, int, float],
        layer: LayerConstants,
        encoding: ImageEncoding,
        masks: int,
        passes: int,
        config: InversionConfig,
    ) -> Generator[StepState, None, Route]:
        place, stride, _ = key
        kept = self._routes.get(key)
        room = 2 * self._routes.room
        plan = choose_route(layer, masks, passes, room, kept=kept is not None)
        if not plan.decomposed:
            return DirectRoute(layer)
        whole = self._routes.get((place, 1, 0.0))
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
                if place not in self._mixtures:
                    self._mixtures[place] = SlopeMixtures(layer)
                self._compressed[key] = self._mixtures[place].compress(tolerance)
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
