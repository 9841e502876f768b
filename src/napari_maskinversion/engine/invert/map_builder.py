"""Builds the maps of one image for an inversion, and keeps what later masks can use again."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ...base.steps import map_steps
from ..compute.memory import is_out_of_memory
from ..encode.image_encoding import ImageEncoding, LayerConstants
from ..explain.legrad import LeGrad, MapLayer, Workspace
from ..explain.projections import (
    DecomposedRoute,
    DirectRoute,
    ExactForwardRoute,
    LowRankRoute,
    Route,
    decompose,
)
from ..explain.protocol import ExplainabilityMap
from ..explain.registry import make_map
from .loop import StepState
from .low_rank import LowRankSlopes
from .projection_cache import ProjectionCache
from .routes import choose_route, estimates_pay
from .sampling import (
    GRADIENT_TOLERANCES,
    SLOPE_TOLERANCE,
    coarsest_stride,
    sample_queries,
    sampled_rows,
)
from .surrogate import Estimate, SurrogateMaps

if TYPE_CHECKING:
    from ..settings import InversionConfig


# Estimates begin in the third step.
_FEWEST_STEPS = 3


@dataclass(frozen=True, slots=True)
class MapPlan:
    """Maps to evaluate in an inversion.

    Attributes
    ----------
    exact : ExplainabilityMap
        The map that is matched with the masks.
    surrogates : SurrogateMaps, optional
        Estimates of it, chosen mask by mask.
    """

    exact: ExplainabilityMap
    surrogates: SurrogateMaps | None = None


@dataclass(frozen=True, slots=True)
class _Job:
    """What all maps of one inversion share."""

    encoding: ImageEncoding
    masks: int
    config: InversionConfig
    workspace: Workspace

    def state(self) -> StepState:
        return StepState(0, self.config.steps, None)


class MapBuilder:
    """Builds maps of the current image.

    Parameters
    ----------
    memory_mb : int
        Megabytes (2**20 bytes) for cached routes and the buffers of a step together.
    """

    def __init__(self, memory_mb: int) -> None:
        self._memory = memory_mb * 2**20
        # The other half is for the buffers of a step.
        self._routes = ProjectionCache(self._memory // 2)
        self._starts: dict[int, Tensor] = {}
        self._compressed: dict[int, LayerConstants | None] = {}
        self._other_maps: dict[tuple[str, int], ExplainabilityMap] = {}

    @property
    def kept_bytes(self) -> int:
        """Bytes of the cached routes."""
        return self._routes.nbytes

    def clear(self) -> None:
        """Drop everything that belongs to the image."""
        self._routes.clear()
        self._starts.clear()
        self._compressed.clear()
        self._other_maps.clear()

    def make(
        self, encoding: ImageEncoding, masks: int, config: InversionConfig
    ) -> Generator[StepState, None, MapPlan]:
        """Build the maps for inverting ``masks`` masks; yield so that the caller can stop."""
        self._routes.begin()
        if config.explainer != "legrad" or not encoding.layers:
            return MapPlan(self._other_map(encoding, config))
        job = _Job(encoding, masks, config, Workspace())
        if config.fast:
            surrogates = yield from self._surrogates(job)
            if surrogates is not None:
                return MapPlan(surrogates.exact, surrogates)
        # Passes evaluate the map or its gradient; the first map serves all masks.
        layers = yield from self._exact_layers(job, masks * (1 + 2 * config.steps))
        return MapPlan(self._legrad(layers, job))

    def _exact_layers(self, job: _Job, passes: int) -> Generator[StepState, None, list[MapLayer]]:
        """Prepare the exact layers for a number of passes of one mask."""
        layers = []
        for place, constants in _places(job.encoding):
            route = yield from self._route((place, False), constants, passes, job)
            start = self._start(place, constants, job.encoding.embedding)
            layers.append(MapLayer(constants, route, 1.0 / job.encoding.num_tokens, start))
        return layers

    def _prepare_exact(
        self, job: _Job, masks: int, passes: int
    ) -> Generator[StepState, None, LeGrad]:
        layers = yield from self._exact_layers(replace(job, masks=masks), passes)
        return self._legrad(layers, job)

    def _surrogates(self, job: _Job) -> Generator[StepState, None, SurrogateMaps | None]:
        """Build the exact map and its estimates; None where estimates would not pay."""
        encoding, masks, steps = job.encoding, job.masks, job.config.steps
        pay = all(estimates_pay(layer, steps) for layer in encoding.layers)
        if steps < _FEWEST_STEPS or not pay:
            return None
        compressed_layers = []
        for place, constants in _places(encoding):
            yield job.state()
            compressed = self._compress(place, constants)
            if compressed is None:
                return None
            compressed_layers.append((place, compressed))
        # Three exact passes a mask: the first gradient, the reference map, the result's map.
        exact = yield from self._exact_layers(job, 3 * masks)
        strides = range(coarsest_stride(encoding.grid), 0, -1)
        estimated: dict[int, list[MapLayer]] = {stride: [] for stride in strides}
        reference = []
        for (place, constants), whole in zip(compressed_layers, exact, strict=True):
            passes = masks * (2 * steps + 1)
            route = yield from self._route((place, True), constants, passes, job)
            assert isinstance(route, DirectRoute | LowRankRoute)  # of compressed constants
            assert isinstance(whole.route, DirectRoute | DecomposedRoute)  # of all of them
            reference.append(replace(whole, route=ExactForwardRoute(whole.route, route)))
            estimated_start = torch.empty_like(whole.start)[None]
            route.project(encoding.embedding[None], estimated_start)
            shift = whole.start - estimated_start[0]
            for stride in strides:
                sampled, weight = sample_queries(constants, encoding.grid, stride)
                rows = sampled_rows(encoding.grid, stride).to(shift.device)
                sampled_route = route.of(sampled, rows).shifted(shift[rows])
                estimated[stride].append(
                    MapLayer(sampled, sampled_route, weight, whole.start[rows])
                )
        all_queries, some_queries = GRADIENT_TOLERANCES
        return SurrogateMaps(
            self._legrad(exact, job),
            self._legrad(reference, job),
            [
                Estimate(self._legrad(layers, job), some_queries if stride > 1 else all_queries)
                for stride, layers in estimated.items()
            ],
            partial(self._prepare_exact, job),
        )

    def _legrad(self, layers: list[MapLayer], job: _Job) -> LeGrad:
        return LeGrad(layers, self._memory // 4, job.workspace)

    def _other_map(self, encoding: ImageEncoding, config: InversionConfig) -> ExplainabilityMap:
        key = (config.explainer, config.layers)
        if key not in self._other_maps:
            self._other_maps[key] = make_map(config.explainer, encoding, self._memory // 4)
        return self._other_maps[key]

    def _route(
        self, key: tuple[int, bool], layer: LayerConstants, passes: int, job: _Job
    ) -> Generator[StepState, None, Route]:
        """Return the cheapest route of a layer; ``key`` is its place and whether compressed."""
        cached = self._routes.get(key)
        plan = choose_route(
            layer, passes, job.masks, 2 * self._routes.room, cached=cached is not None
        )
        if not plan.decomposed:
            return DirectRoute(layer)
        try:
            if cached is None:
                build = decompose(layer, plan.rows_at_once)
                cached = yield from map_steps(lambda _: job.state(), build)
            self._routes.use(key, cached)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            # The direct route needs only a step's buffers.
            self._routes.clear()
            return DirectRoute(layer)
        return cached

    def _start(self, place: int, layer: LayerConstants, embedding: Tensor) -> Tensor:
        """Return the query vectors (n, d) of the image's embedding, where every mask starts."""
        if place not in self._starts:
            vectors = layer.offset.new_empty(1, *layer.offset.shape)
            DirectRoute(layer).project(embedding[None], vectors)
            self._starts[place] = vectors[0]
        return self._starts[place]

    def _compress(self, place: int, layer: LayerConstants) -> LayerConstants | None:
        if place not in self._compressed:
            with torch.no_grad():
                self._compressed[place] = LowRankSlopes(layer).compress(SLOPE_TOLERANCE)
        return self._compressed[place]


def _places(encoding: ImageEncoding) -> list[tuple[int, LayerConstants]]:
    """Return layers with their distance from the end, which stays when more are explained."""
    count = len(encoding.layers)
    return [(count - index, layer) for index, layer in enumerate(encoding.layers)]
