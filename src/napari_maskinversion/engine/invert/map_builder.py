"""Builds the maps of one image for inversions, and keeps what later ones can use again."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from ...base.progress import MAPS, tick
from ..compute.matmul import STORED
from ..compute.trial import fitting
from ..encode.image_encoding import ImageEncoding, LayerConstants
from ..explain.legrad import LeGrad, MapLayer
from ..explain.protocol import ExplainabilityMap
from ..explain.registry import make_map
from ..explain.routes import DecomposedRoute, DirectRoute, Route, decompose
from ..settings import DECOMPOSED_SHARE, InversionConfig, decomposing_pays
from .fast import FastMaps, estimates_pay, fast_maps
from .low_rank import compress

# What is kept of a layer in a precision: "tf32" rounds other products than "float32".
_Key = tuple[LayerConstants, str]
# Constants, p of the image's embedding and scale of a layer: see `MapLayer`.
_Prepared = tuple[LayerConstants, Tensor, Tensor | float]


class MapBuilder:
    """Builds the maps of one image.

    What it builds depends on the image, the settings, the number of masks and the memory alone,
    never on what it built before: what it keeps only saves time. Another thread may clear it at any
    moment.
    """

    def __init__(self, encoding: ImageEncoding, memory_bytes: int) -> None:
        self.encoding = encoding
        self.memory_bytes = memory_bytes
        self.clear()

    def clear(self) -> None:
        """Drop everything that is kept."""
        # Others than those that a call at work holds.
        self._decomposed: dict[_Key, DecomposedRoute] = {}
        self._prepared: dict[_Key, _Prepared] = {}
        self._compressed: dict[_Key, LayerConstants | None] = {}
        self._other_maps: dict[tuple[str, int], ExplainabilityMap] = {}

    def other_map(self, config: InversionConfig) -> ExplainabilityMap | None:
        """Return a map that has no routes; None for LeGrad of a class-token tower."""
        if config.explainer == "legrad" and self.encoding.layers:
            return None
        key = (config.explainer, config.layers)
        kept = self._other_maps
        if key not in kept:
            encoding = self.encoding.last(config.layers)
            kept[key] = make_map(config.explainer, encoding, self._step_bytes)
        return kept[key]

    def exact(self, config: InversionConfig, masks: int) -> LeGrad:
        """Return LeGrad for inverting ``masks`` masks."""
        # The first map serves all masks.
        layers = self._exact_layers(config, masks, masks * (1 + 2 * config.steps))
        return LeGrad(layers, self._step_bytes)

    def fast(self, config: InversionConfig, masks: int) -> FastMaps | None:
        """Return the maps of a fast inversion; None where it would not be faster."""
        on_cpu = self.encoding.embedding.device.type == "cpu"
        if not config.fast or config.explainer != "legrad" or not on_cpu:
            return None
        encoding = self.encoding.last(config.layers)
        if not estimates_pay(encoding, config.steps):
            return None
        compressed: list[LayerConstants] = []
        for layer in encoding.layers:
            tick(MAPS, len(compressed), len(encoding.layers))
            key = (layer, config.precision)
            kept = self._compressed
            if key not in kept:
                kept[key] = compress(layer)
            constants = kept[key]
            if constants is None:
                return None
            compressed.append(constants)
        # Three exact passes a mask: the first gradient, the reference map, the result's map.
        exact = self._exact_layers(config, masks, 3 * masks)
        if config.precision in STORED:
            dtype = STORED[config.precision]
            pairs = zip(compressed, exact, strict=True)
            compressed = [layer.stored_as(dtype, like.scale) for layer, like in pairs]
        return fast_maps(exact, compressed, encoding, self._step_bytes)

    def _exact_layers(self, config: InversionConfig, masks: int, passes: int) -> list[MapLayer]:
        routes = self.routes(config, masks, passes)
        layers = []
        for layer, name in zip(self.encoding.layers[-config.layers :], routes, strict=True):
            constants, start, scale = self._prepare(layer, config.precision)
            route: Route = DirectRoute(constants)
            if name == "decomposed":
                route = self._decompose(constants, config.precision)
            layers.append(MapLayer(constants.values, route, start, scale=scale))
        return layers

    def routes(
        self, config: InversionConfig, masks: int, passes: int
    ) -> tuple[Literal["direct", "decomposed"], ...]:
        """Return the route of each explained layer."""
        layers = self.encoding.layers[-config.layers :]
        if config.route != "auto":
            return (config.route,) * len(layers)
        budget = int(self.memory_bytes * DECOMPOSED_SHARE) // max(len(layers), 1)
        dtype = STORED.get(config.precision)
        kind = self.encoding.embedding.device.type

        def pays(layer: LayerConstants) -> bool:
            hidden = layer.slope.shape[1]
            joint = len(layer.jacobian)
            fits = decomposed_bytes(layer, dtype) <= budget
            return fits and decomposing_pays(hidden, joint, passes, masks, kind)

        return tuple("decomposed" if pays(layer) else "direct" for layer in layers)

    @property
    def _step_bytes(self) -> int:
        return int(self.memory_bytes * (1 - DECOMPOSED_SHARE))

    def _decompose(self, layer: LayerConstants, precision: str) -> Route:
        key = (layer, precision)
        kept = self._decomposed
        if key not in kept:
            joint = len(layer.jacobian)
            hidden = layer.slope.shape[1]
            rows = max(1, self._step_bytes // (joint * hidden * layer.slope.element_size()))
            route = fitting(lambda: decompose(layer, rows))
            if route is None:
                return DirectRoute(layer)  # which needs only a step's buffers
            kept[key] = route
        return kept[key]

    def _prepare(self, layer: LayerConstants, precision: str) -> _Prepared:
        """Return a layer in a precision, with the p of the image's embedding."""
        key = (layer, precision)
        kept = self._prepared
        if key not in kept:
            several = layer.offset.ndim == 3
            if several:
                embedding = self.encoding.embedding
            else:
                embedding = self.encoding.embedding[None]
            vectors = layer.offset.new_empty(len(embedding), *layer.offset.shape[-2:])
            with torch.no_grad():
                DirectRoute(layer).project(embedding, vectors)
                start = vectors if several else vectors[0]
                kept[key] = _prepared(layer, start, STORED.get(precision))
        return kept[key]


def _prepared(layer: LayerConstants, start: Tensor, dtype: torch.dtype | None) -> _Prepared:
    if dtype is None:
        return layer, start, 1.0
    # p of order 1 is far from what float16 cannot hold; a power of two rounds nothing.
    largest = start.abs().flatten(-2).amax(-1).clamp_min(torch.finfo(start.dtype).tiny)
    scale = torch.exp2(-largest.log2().round())
    factor = scale[..., None, None]
    # Of several images: each mask's own, for maps (M, tokens).
    of_maps = scale[:, None] if scale.ndim else scale
    return layer.stored_as(dtype, factor), start * factor, of_maps


def decomposed_bytes(layer: LayerConstants, dtype: torch.dtype | None = None) -> int:
    """Return the bytes of a layer's `DecomposedRoute`, stored as ``dtype`` or as the layer."""
    joint, width = layer.jacobian.shape
    return len(layer.offset) * joint * width * (dtype or layer.slope.dtype).itemsize
