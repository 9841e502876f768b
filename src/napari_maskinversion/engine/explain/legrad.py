"""LeGrad maps in closed form, with a hand-written backward pass.

The map of an embedding (arXiv 2404.03214) is the positive gradient of its score with respect to
the attention, averaged over heads and query tokens. The gradient is ``<p_i, v_j>`` per head, with p
linear in the embedding (see `LayerConstants`), so no second-order autograd is needed. A route
computes p, from the weights or from matrices that are made once per image; its backward pass is the
transposed product. Masks are processed in groups that fit the memory, in buffers that all groups
and steps share.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import cast

import torch
from torch import Tensor

from ..compute.matmul import LARGE, goes_to_onednn, multiply, positive, rectified
from ..encode.attention import ProjectionRoute
from ..encode.image_encoding import ImageEncoding
from . import fused
from .routes import Route, Workspace, rows_at_once, slices

# Most attention gradients of one mask to compute at once on a CPU; of several masks half as many,
# which is fastest.
_CPU_NUMBERS = 1 << 20
# Most query tokens in a group of masks on the CPU, so that the caller can stop every second or so.
_CPU_QUERIES = 1 << 14
# Heads, masks and queries whose attention gradients are computed at once.
_Block = tuple[slice, slice, slice]
_EVERYTHING: _Block = (slice(None),) * 3


@dataclass(frozen=True, slots=True)
class MapLayer:
    """One explained layer of a map."""

    # (h, n, w). Value vectors of all tokens. Of several images (M, h, n, w), and one axis more in
    # what follows: then each of M masks has an image of its own.
    values: Tensor
    # Maps embeddings to the p of the query tokens, all of them or a sample with [CLS] first
    route: ProjectionRoute
    start: Tensor  # (q, d). Their p for the image's own embedding; its dtype is that of the maps.
    # Weight of each query but the first in the average (default: all weigh the same)
    weight: float = 0.0
    first_weight: float = 0.0  # Weight of the first query
    prefix: int = 1  # Number of first tokens that are no places on the map
    scale: Tensor | float = 1.0  # () or (M, 1). Factor of every p; maps are divided by it.
    # A cheaper route to nearly the same p, for the vector-Jacobian product
    backward: ProjectionRoute | None = None

    def own(self) -> MapLayer:
        """Return an exact layer on copies of the image's constants."""
        route = _written(self.route).own()
        return replace(self, values=self.values.clone(), route=route, start=self.start.clone())


def _written(route: ProjectionRoute) -> Route:
    """Return a route of a class-token tower, which is written out."""
    return cast("Route", route)


class LeGrad:
    """LeGrad of any tower's attention; an `ExplainabilityMap`."""

    def __init__(
        self, layers: Sequence[MapLayer], memory_bytes: int, workspace: Workspace | None = None
    ) -> None:
        values = layers[0].values
        route = layers[0].route
        (heads, tokens, head_width) = values.shape[-3:]
        queries = route.num_queries
        numbers = 2 * queries * heads * head_width
        self.numbers_of_p = numbers // 2 * len(layers)  # of one mask
        share = memory_bytes // values.element_size() // len(layers)
        most = _CPU_QUERIES // queries
        if values.device.type != "cpu":
            # A GPU computes the gradients of all heads, and p of a group, at once. Kernels that
            # fuse the gradients with what becomes of them keep a sum for each head.
            rows = 2 if fused.usable(values) else queries
            numbers += heads * rows * tokens + route.numbers
            most = share
        self.group_size = max(1, min(share // numbers, most))
        if values.ndim == 4:  # who chose these masks has seen to the memory
            self.group_size = values.shape[0]
        self._map_layers = layers
        self._memory = memory_bytes
        self._routes = dict.fromkeys(layer.route.name for layer in layers)
        self._fuses_products = any(getattr(layer.route, "fuses", False) for layer in layers)
        space = workspace or Workspace()
        self._layers = [_LayerMap(layer, space, index) for index, layer in enumerate(layers)]

    @property
    def route(self) -> str:
        """How maps are computed; read it afterwards, since kernels may fail."""
        parts = [*self._routes]
        if self._layers[0].fits_kernels and fused.KERNELS.works:
            parts.append("fused")
        if self._fuses_products and fused.PRODUCTS.works:
            parts.append("fused products")
        return ", ".join(parts)

    def forward(self, embeddings: Tensor) -> Tensor:
        """Compute token maps (M, n - 1) of embeddings (M, e), summed over layers, not normalised.

        What `vjp` needs stays in the buffers until the next call.
        """
        return _summed(layer.forward(embeddings) for layer in self._layers)

    def forward_start(self) -> Tensor:
        """See `ExplainabilityMap.forward_start`."""
        return _summed(layer.forward_start() for layer in self._layers)

    def vjp(self, grad: Tensor) -> Tensor:
        """See `ExplainabilityMap.vjp`; call it at most once after each `forward`."""
        return _summed(layer.vjp(grad) for layer in self._layers)

    def own(self) -> LeGrad:
        """Return the same map on copies of the image's tensors; only for exact routes."""
        return LeGrad([layer.own() for layer in self._map_layers], self._memory)

    def tensors(self) -> list[Tensor]:
        """Return the tensors that depend on the image; their shapes depend on its size."""
        tensors: list[Tensor] = []
        for layer in self._layers:
            tensors += layer.tensors()
        return tensors

    def weights(self) -> list[object]:
        """Return the products of the model's weights that it works with."""
        return [_written(layer.route).weights for layer in self._map_layers]


def _summed(parts: Iterator[Tensor]) -> Tensor:
    total = next(parts)
    for part in parts:
        total += part
    return total


class _LayerMap:
    """The map of one layer.

    Attention gradients are computed in blocks: all at once on a GPU; on a CPU as many as fit the
    cache, where each block is used right away. A single block is kept for `vjp`. Of several, `vjp`
    computes each again, which takes no longer than writing and reading all of them. On GPUs that
    can, fused kernels do all this.
    """

    def __init__(self, layer: MapLayer, workspace: Workspace, index: int) -> None:
        self._route = layer.route
        self._backward = layer.backward or layer.route
        self._start = layer.start.reshape(-1, *layer.start.shape[-2:])
        self._dtype = layer.start.dtype
        # [CLS] is a query, but not a place on the map.
        values = layer.values[..., layer.prefix :, :]
        self._heads, self._tokens, self._head_width = values.shape[-3:]
        # Masks of one image are rows of one product a head: of the axes (h, M, q, n), M and q are
        # joined. Others are products of their own, with values (h, M, n, w): h and M are joined.
        several = values.ndim == 4
        if several:
            self._joined = (0, 1)
            self._value_axes = 2
        else:
            self._joined = (1, 2)
            self._value_axes = 1
        self._values = (values.transpose(0, 1) if several else values).contiguous()
        self._queries = layer.route.num_queries
        weight = layer.weight or 1.0 / self._queries
        self._weight = weight / self._heads / layer.scale
        # ReLU commutes with positive factors, so p of [CLS] is scaled instead of its map.
        self._cls = (layer.first_weight or weight) / weight
        self._workspace = workspace
        self._index = index
        self._p = values.new_empty(0)
        self._kept: Tensor | None = None
        self._counted_blocks: tuple[int, list[_Block]] = 0, []
        self.fits_kernels = fused.usable(values) and self._dtype == torch.float32
        # For kernels: values (h, images, n, w), and the image of each mask.
        if several:
            self._by_image = self._values
        else:
            self._by_image = self._values[:, None]
        self._image = None
        if several:
            self._image = torch.arange(len(values), device=values.device)

    def tensors(self) -> list[Tensor]:
        weight = []
        if isinstance(self._weight, Tensor):
            weight = [self._weight]
        return [self._start, self._values, *weight, *_written(self._route).tensors()]

    def forward(self, embeddings: Tensor) -> Tensor:
        self._p = self._vectors("p", embeddings.shape[0])
        self._route.project(embeddings, self._p)
        return self._evaluate()

    def forward_start(self) -> Tensor:
        self._p = self._vectors("p", self._start.shape[0])
        self._p.copy_(self._start)
        return self._evaluate()

    def _evaluate(self) -> Tensor:
        count = self._p.shape[0]
        if self._cls != 1.0:
            self._p[:, 0] *= self._cls
        if self.fits_kernels:
            self._kept = None
            of = (self._p, self._by_image, self._image)
            fused_maps: Tensor | None = fused.KERNELS.attempt(
                lambda: fused.kernels().positive_sums(*of)
            )
            if fused_maps is not None:
                return fused_maps.mul_(self._weight)
        maps = self._p.new_zeros(count, self._tokens, dtype=self._dtype)
        vectors = self._by_head(self._p)
        blocks = self._blocks(count)
        keep = len(blocks) == 1
        for block in blocks:
            gradients = self._gradients(rectified, vectors, block, keep=keep)
            sums = gradients
            if gradients.device.type == "cpu":
                # Each thread sums what it has just computed; over both axes it would mix the heads.
                sums = gradients.sum(2, keepdim=True, dtype=self._dtype)
            maps[block[1]] += sums.sum((0, 2), dtype=self._dtype)
        self._kept = None
        if keep:
            self._kept = gradients
        return maps.mul_(self._weight)

    def vjp(self, grad: Tensor) -> Tensor:
        p_gradient = self._vectors("gradient of p", grad.shape[0])
        columns, peaks = self._columns_of(grad)
        if not (self.fits_kernels and self._fused_vjp(columns, p_gradient)):
            self._blockwise_vjp(columns, p_gradient)
        if self._cls != 1.0:
            p_gradient[:, 0] *= self._cls
        gradient = self._backward.vjp(p_gradient)
        if peaks is None:
            return gradient
        return gradient.mul_(peaks)

    def _fused_vjp(self, columns: Tensor, p_gradient: Tensor) -> bool:
        """Write the gradient of p by a kernel; return whether that worked."""

        def work() -> bool:
            of = self._p, self._by_image, columns, p_gradient, self._image
            # After `forward_start`, all masks share one p.
            fused.kernels().vjp(*of, shared=self._p.shape[0] == 1)
            return True

        return fused.KERNELS.attempt(work) is True

    def _blockwise_vjp(self, columns: Tensor, p_gradient: Tensor) -> None:
        count = columns.shape[0]
        kept = self._kept
        # After `forward_start`, all masks share one p.
        vectors = self._by_head(self._p.expand(count, -1, -1))
        by_head = self._by_head(p_gradient)
        for block in self._blocks(count) if kept is None else [_EVERYTHING]:
            # The ReLU passes the gradient where it was positive.
            if kept is None:
                passed = self._gradients(positive, vectors, block)
            else:
                passed = kept.gt_(0)
            out = by_head[block]
            factors = columns[block[1]]
            values = self._values[block[: self._value_axes]]
            if factors.shape[0] == 1:
                # Fewer numbers than ``passed`` has.
                values = (values * factors[0, :, None]).to(values.dtype)
            elif passed.shape[1] == factors.shape[0]:
                passed.mul_(factors.to(passed.dtype)[:, None])
            else:
                passed = passed * factors.to(passed.dtype)[:, None]
            passed = passed.flatten(*self._joined)
            values = values.flatten(0, -3)
            if passed.shape[0] == 1:
                multiply(passed[0], values[0], out.flatten(*self._joined)[0])
            else:
                out.copy_((passed @ values).view(out.shape))

    def _columns_of(self, grad: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return weighted gradients (M, n - 1) and, in half precision, what they lack (M, 1)."""
        columns = (grad * self._weight).contiguous()
        if self._p.dtype == self._dtype:
            return columns, None
        # Gradients of pixels are too small for float16.
        peaks = columns.abs().amax(1, keepdim=True).clamp_min(torch.finfo(self._dtype).tiny)
        return columns / peaks, peaks

    def _blocks(self, count: int) -> list[_Block]:
        if self._values.device.type != "cpu":
            return [_EVERYTHING]
        if self._counted_blocks[0] == count:
            return self._counted_blocks[1]
        # One head for each thread, so that no core reads what another one has just written (a call
        # takes 7 % less); oneDNN has no batches. Several masks with all their queries, or one mask
        # with some of them.
        if goes_to_onednn(LARGE, self._values):
            threads = 1
        else:
            threads = torch.get_num_threads()
        heads = min(self._heads, threads)
        numbers = _CPU_NUMBERS // heads
        masks = min(count, max(1, numbers // 2 // (self._queries * self._tokens)))
        if self._heads * masks * self._queries <= 2 * rows_at_once(self._values.device):
            heads = self._heads
        parts = -(-self._queries * self._tokens // numbers)
        queries = -(-self._queries // parts)
        every_head = slices(self._heads, heads)
        every_query = slices(self._queries, queries)
        self._counted_blocks = count, list(product(every_head, slices(count, masks), every_query))
        return self._counted_blocks[1]

    def _gradients(
        self,
        function: Callable[..., Tensor],
        vectors: Tensor,
        block: _Block,
        *,
        keep: bool = False,
    ) -> Tensor:
        """Return a function of the attention gradients (h, M, q, n - 1) of a block."""
        p = vectors[block]
        # What is used right away is shared by all layers.
        key: Hashable = "gradients"
        if keep:
            key = (self._index, "gradients")
        space = self._workspace.piece(key, (*p.shape[:3], self._tokens), p)
        values = self._values[block[: self._value_axes]].flatten(0, -3)
        product = function(p.flatten(*self._joined), values, space.flatten(*self._joined))
        return product.view(space.shape)

    def _by_head(self, vectors: Tensor) -> Tensor:
        """View vectors (M, q, d) as (h, M, q, d / h)."""
        count = vectors.shape[0]
        parts = vectors.view(count, self._queries, self._heads, self._head_width)
        return parts.permute(2, 0, 1, 3)

    def _vectors(self, name: str, count: int) -> Tensor:
        shape = count, self._queries, self._heads * self._head_width
        return self._workspace.piece((self._index, name), shape, self._values)


def make_legrad(encoding: ImageEncoding, memory_bytes: int) -> LeGrad:
    """Make LeGrad of an image encoded by a tower that has no `LayerConstants`."""
    layers = []
    for layer in encoding.general:
        layer.evaluate(encoding.embedding[None])
        layers.append(MapLayer(layer.values, layer.route, layer.p[0], prefix=layer.prefix))
    return LeGrad(layers, memory_bytes)
