"""Maps of one image, made ready for an inversion; what later masks need again is kept."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..compute.memory import is_out_of_memory
from ..encode.image_encoding import ImageEncoding, LayerConstants
from ..explain.legrad import LeGrad, MapLayer, Workspace
from ..explain.projections import (
    CheckedRoute,
    DecomposedRoute,
    DirectRoute,
    MixedRoute,
    Route,
    decompose,
)
from ..explain.protocol import ExplainabilityMap
from ..explain.registry import has_routes, make_map
from .loop import StepState, reporting
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


# Anchored estimates begin in the third.
_FEWEST_STEPS = 3


@dataclass(frozen=True, slots=True)
class MapPlan:
    """What to evaluate in an inversion.

    Attributes
    ----------
    exact : ExplainabilityMap
        What is matched with the masks.
    anchored : SurrogateMaps, optional
        Estimates that are chosen mask by mask.
    """

    exact: ExplainabilityMap
    anchored: SurrogateMaps | None = None


@dataclass(frozen=True, slots=True)
class _Layers:
    """The layers of one inversion, and what all of its maps share."""

    encoding: ImageEncoding
    masks: int
    config: InversionConfig
    workspace: Workspace


class MapBuilder:
    """Makes the maps of the image that is set.

    Parameters
    ----------
    memory_mb : int
        What kept routes and the buffers of a step may take together.
    """

    def __init__(self, memory_mb: int) -> None:
        self._memory = memory_mb * 2**20
        # Half; the other half is for the buffers of a step.
        self._routes = ProjectionCache(self._memory // 2)
        self._starts: dict[int, Tensor] = {}
        self._compressed: dict[int, LayerConstants | None] = {}
        self._others: dict[tuple[str, int], ExplainabilityMap] = {}

    @property
    def kept_bytes(self) -> int:
        """Memory that kept routes take."""
        return self._routes.nbytes

    def clear(self) -> None:
        """Let go of everything: there is another image."""
        self._routes.clear()
        self._starts.clear()
        self._compressed.clear()
        self._others.clear()

    def make(
        self, encoding: ImageEncoding, masks: int, config: InversionConfig
    ) -> Generator[StepState, None, MapPlan]:
        """Make the exact maps of ``masks`` masks, and what to use instead in the steps.

        Yields while it works, so that the caller may stop.
        """
        self._routes.begin()
        if config.explainer != "legrad" or not has_routes(encoding):
            return MapPlan(self._other(encoding, config))
        work = _Layers(encoding, masks, config, Workspace())
        if config.fast:
            anchored = yield from self._anchored(work, coarsest_stride(encoding.grid))
            if anchored is not None:
                return MapPlan(anchored.exact, anchored=anchored)
        # Evaluations of the map and of its gradient: the first map serves all masks.
        layers = yield from self._exact(work, masks * (1 + 2 * config.steps))
        return MapPlan(self._map(layers, work))

    def _exact(self, work: _Layers, passes: int) -> Generator[StepState, None, list[MapLayer]]:
        """Prepare the exact layers for so many evaluations and gradients of one mask."""
        layers = []
        for place, full in self._places(work.encoding):
            route = yield from self._route((place, False), full, passes, work)
            start = self._start(place, full, work.encoding.embedding)
            layers.append(MapLayer(full, route, 1.0 / work.encoding.num_tokens, start))
        return layers

    def _exact_again(
        self, work: _Layers, masks: int, passes: int
    ) -> Generator[StepState, None, LeGrad]:
        layers = yield from self._exact(replace(work, masks=masks), passes)
        return self._map(layers, work)

    def _anchored(
        self, work: _Layers, stride: int
    ) -> Generator[StepState, None, SurrogateMaps | None]:
        """Prepare the exact map and its estimates; None where they would not pay."""
        encoding, masks, steps = work.encoding, work.masks, work.config.steps
        pay = all(estimates_pay(layer, steps) for layer in encoding.layers)
        if steps < _FEWEST_STEPS or not pay:
            return None
        places, mixed = self._places(encoding), []
        for place, full in places:
            yield StepState(0, steps, None)
            compressed = self._compress(place, full)
            if compressed is None:
                return None
            mixed.append(compressed)
        # The first gradients, the maps that the estimates are compared with, those of the result.
        exact = yield from self._exact(work, 3 * masks)
        grids = list(range(stride, 0, -1))
        estimated: dict[int, list[MapLayer]] = {kept: [] for kept in grids}
        checked = []
        for (place, _), layer, whole in zip(places, mixed, exact, strict=True):
            passes = masks * (2 * steps + 1)
            route = yield from self._route((place, True), layer, passes, work)
            # Compressed, and so never decomposed as the exact one is.
            assert isinstance(route, DirectRoute | MixedRoute)
            assert isinstance(whole.route, DirectRoute | DecomposedRoute)
            checked.append(replace(whole, route=CheckedRoute(whole.route, route)))
            found = torch.empty_like(whole.start)[None]
            route.queries(encoding.embedding[None], found)
            shift = whole.start - found[0]
            for kept in grids:
                some, weight = sample_queries(layer, encoding.grid, kept)
                rows = sampled_rows(encoding.grid, kept).to(shift.device)
                anchored = route.of(some, rows).shifted(shift[rows])
                estimated[kept].append(MapLayer(some, anchored, weight, whole.start[rows]))
        on_all, on_some = GRADIENT_TOLERANCES
        return SurrogateMaps(
            self._map(exact, work),
            self._map(checked, work),
            [
                Estimate(self._map(layers, work), on_some if kept > 1 else on_all)
                for kept, layers in estimated.items()
            ],
            partial(self._exact_again, work),
        )

    def _map(self, layers: list[MapLayer], work: _Layers) -> LeGrad:
        return LeGrad(layers, self._memory // 4, work.workspace)

    @staticmethod
    def _places(encoding: ImageEncoding) -> list[tuple[int, LayerConstants]]:
        """Layers with their places from the last one, which stay when more are explained."""
        count = len(encoding.layers)
        return [(count - index, layer) for index, layer in enumerate(encoding.layers)]

    def _other(self, encoding: ImageEncoding, config: InversionConfig) -> ExplainabilityMap:
        key = (config.explainer, config.layers)
        if key not in self._others:
            self._others[key] = make_map(config.explainer, encoding, self._memory // 4)
        return self._others[key]

    def _route(
        self,
        key: tuple[int, bool],
        layer: LayerConstants,
        passes: int,
        work: _Layers,
    ) -> Generator[StepState, None, Route]:
        """Return the cheapest route of a layer; the key is (place, compressed)."""
        kept = self._routes.get(key)
        plan = choose_route(layer, passes, work.masks, 2 * self._routes.room, kept=kept is not None)
        if not plan.decomposed:
            return DirectRoute(layer)
        try:
            if kept is None:
                build = decompose(layer, plan.rows_at_once)
                kept = yield from reporting(build, StepState(0, work.config.steps, None))
            self._routes.use(key, kept)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            # The direct route needs no more than a step's buffers.
            self._routes.clear()
            return DirectRoute(layer)
        return kept

    def _start(self, place: int, layer: LayerConstants, embedding: Tensor) -> Tensor:
        """Query vectors (n, d) of the image's own embedding: the first map of every mask."""
        if place not in self._starts:
            found = layer.offset.new_empty(1, *layer.offset.shape)
            DirectRoute(layer).queries(embedding[None], found)
            self._starts[place] = found[0]
        return self._starts[place]

    def _compress(self, place: int, layer: LayerConstants) -> LayerConstants | None:
        if place not in self._compressed:
            with torch.no_grad():
                self._compressed[place] = LowRankSlopes(layer).compress(SLOPE_TOLERANCE)
        return self._compressed[place]
