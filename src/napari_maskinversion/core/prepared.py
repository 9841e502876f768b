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
        kinds = {(1, 0.0): masks}
        for kind, steps in ((first, early), (second, later)):
            kinds[kind] = kinds.get(kind, 0) + 2 * masks * steps
        layers: dict[tuple[int, float], list[MapLayer]] = {kind: [] for kind in kinds}
        for index, full in enumerate(encoding.layers):
            # Counted from the last layer, so that it stays valid when more layers are explained.
            place = len(encoding.layers) - index
            if any(tolerance for _, tolerance in kinds):
                yield StepState(0, config.steps, None)
            made = yield from self._layer(place, full, encoding, masks, kinds, config)
            for kind, layer in made.items():
                layers[kind].append(layer)
        maps: dict[tuple[int, ...], LeGrad] = {}
        of = {}
        for kind, found in layers.items():
            # Kinds that came out alike share their buffers.
            same = tuple(id(layer.constants) for layer in found)
            if same not in maps:
                maps[same] = LeGrad(found, self._memory // 4, workspace)
            of[kind] = maps[same]
        return of[1, 0.0], [of[first]] * early + [of[second]] * later

    def _other(self, encoding: ImageEncoding, config: InversionConfig) -> ExplainabilityMap:
        key = (config.explainer, config.layers)
        if key not in self._others:
            self._others[key] = make_map(config.explainer, encoding, self._memory // 4)
        return self._others[key]

    def _layer(
        self,
        place: int,
        full: LayerConstants,
        encoding: ImageEncoding,
        masks: int,
        kinds: dict[tuple[int, float], int],
        config: InversionConfig,
    ) -> Generator[StepState, None, dict[tuple[int, float], MapLayer]]:
        """Make one layer of every kind (stride, tolerance), each by the cheapest route."""
        whole = self._start(place, full, encoding.embedding)
        sampled: dict[tuple[int, float], tuple[LayerConstants, float]] = {}
        # Kinds that one decomposition serves: those of the same queries, mixed or not; where
        # compressing would not pay, a layer is the exact one.
        families: dict[tuple[int, bool], list[tuple[int, float]]] = {}
        for kind in kinds:
            stride, tolerance = kind
            chosen = self._compress(place, full, tolerance) if tolerance else full
            sampled[kind] = sample_queries(chosen, encoding.grid, stride)
            mixed = chosen.mixing is not None
            families.setdefault((stride, mixed), []).append(kind)
        made = {}
        for (stride, mixed), members in families.items():
            needs = [(sampled[kind][0], kinds[kind]) for kind in members]
            key = (place, stride, mixed)
            routes = yield from self._routes_of(key, needs, encoding, masks, config)
            start = whole
            if stride > 1:
                start = whole[sampled_rows(encoding.grid, stride).to(whole.device)]
            for kind, route in zip(members, routes, strict=True):
                layer, weight = sampled[kind]
                made[kind] = MapLayer(layer, route, weight, start)
        return made

    def _routes_of(
        self,
        key: tuple[int, int, bool],
        needs: list[tuple[LayerConstants, int]],
        encoding: ImageEncoding,
        masks: int,
        config: InversionConfig,
    ) -> Generator[StepState, None, list[Route]]:
        """Give the routes of constants that one decomposition may serve."""
        place, stride, mixed = key
        direct: list[Route] = [DirectRoute(layer) for layer, _ in needs]
        finest = max((layer for layer, _ in needs), key=lambda layer: len(layer.slope))
        kept = self._routes.get(key)
        if isinstance(kept, MixedRoute) and kept.of(finest) is None:
            kept = None
        room = 2 * self._routes.room
        plan = choose_route(needs, masks, room, kept=kept is not None)
        if not plan.decomposed:
            return direct
        whole = self._routes.get((place, 1, False))
        try:
            if kept is None and isinstance(whole, DecomposedRoute) and not mixed:
                kept = whole.of(sampled_rows(encoding.grid, stride))
            elif kept is None:
                build = decompose(finest, plan.rows_at_once)
                kept = yield from _reporting(build, StepState(0, config.steps, None))
            self._routes.use(key, kept)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            # The direct route needs no more than a step's buffers.
            self._routes.clear()
            return direct
        if isinstance(kept, MixedRoute):
            parts = [kept.of(layer) for layer, _ in needs]
            return [
                other if part is None else part for part, other in zip(parts, direct, strict=True)
            ]
        return [kept] * len(needs)

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
