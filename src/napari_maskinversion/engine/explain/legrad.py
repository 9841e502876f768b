"""LeGrad maps in closed form, with a hand-written backward pass.

The map of an embedding (arXiv 2404.03214) is the positive gradient of its score with respect to
the attention, averaged over heads and query tokens. The gradient is ``<p_i, v_j>`` per head, with p
linear in the embedding (see `LayerConstants`), so no second-order autograd is needed. Masks are
processed in groups that fit the memory, in buffers that all groups and steps share.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..compute.matmul import multiply
from ..encode.image_encoding import LayerConstants
from .projections import Route, rows_at_once

# Attention gradients to compute at once on a CPU; they fit its cache.
_CPU_NUMBERS = 1 << 20
# Most query tokens in a group of masks on the CPU, so that the caller can stop every second or so.
_CPU_QUERIES = 1 << 14


@dataclass(frozen=True, slots=True)
class MapLayer:
    """One explained layer of a map.

    Attributes
    ----------
    constants : LayerConstants
        Of all query tokens or a sample, [CLS] first.
    route : Route
        Maps embeddings to the p of these tokens.
    weight : float
        Weight of each of these patches in the average over queries.
    start : Tensor, shape (q, d)
        Their p for the image's own embedding.
    scale : Tensor, shape (), or float
        Factor of the p of these constants; maps are divided by it.
    backward : Route, optional
        A cheaper route to nearly the same p, for the vector-Jacobian product.
    """

    constants: LayerConstants
    route: Route
    weight: float
    start: Tensor
    scale: Tensor | float = 1.0
    backward: Route | None = None


class Workspace:
    """Buffers for a map and its gradient; several maps can share them, one at a time."""

    def __init__(self) -> None:
        self._pieces: dict[tuple[int, str], Tensor] = {}

    def piece(self, layer: int, name: str, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """Return an uninitialised buffer; it overwrites the last one of this layer and name."""
        size, key = math.prod(shape), (layer, name)
        buffer = self._pieces.get(key)
        if buffer is None or len(buffer) < size:
            # The old one must be gone before the allocation.
            buffer = None
            self._pieces.pop(key, None)
            buffer = self._pieces[key] = like.new_empty(size)
        return buffer[:size].view(shape)


class LeGrad:
    """LeGrad of open_clip's class-token ViT; an `ExplainabilityMap`.

    Parameters
    ----------
    layers : sequence of MapLayer
        Explained layers; their maps are summed.
    memory_bytes : int
        For the buffers of one group, besides a few blocks of fixed size. Too little memory for one
        mask makes it slower; it still works.
    workspace : Workspace, optional
        Shared with other maps. Call `forward` and `vjp` of one map before those of another.

    Attributes
    ----------
    group_size : int
        Most masks that `forward` takes at once.
    route : str
        Names of the routes of its layers.
    """

    def __init__(
        self, layers: Sequence[MapLayer], memory_bytes: int, workspace: Workspace | None = None
    ) -> None:
        first, queries = layers[0].constants, layers[0].route.num_queries
        heads, tokens, head_width = first.values.shape
        numbers = 2 * queries * heads * head_width
        share = memory_bytes // first.values.element_size() // len(layers)
        on_cpu = first.values.device.type == "cpu"
        if not on_cpu:
            # A GPU computes the gradients of all heads at once, and the direct route the hidden
            # units of a group and another p.
            numbers += heads * queries * (tokens - 1) + first.slope.numel() + numbers // 2
        self.group_size = max(1, share // numbers)
        if on_cpu:
            self.group_size = max(1, min(self.group_size, _CPU_QUERIES // queries))
        self.route = ", ".join(dict.fromkeys(layer.route.name for layer in layers))
        space = workspace or Workspace()
        self._layers = [_LayerMap(layer, space, index, share) for index, layer in enumerate(layers)]

    def forward(self, embeddings: Tensor) -> Tensor:
        """Compute token maps (M, n - 1) of embeddings (M, e), summed over layers, not normalised.

        What `vjp` needs stays in the buffers until the next call.
        """
        total = self._layers[0].forward(embeddings)
        for layer in self._layers[1:]:
            total += layer.forward(embeddings)
        return total

    def forward_start(self) -> Tensor:
        """See `ExplainabilityMap.forward_start`."""
        total = self._layers[0].forward_start()
        for layer in self._layers[1:]:
            total += layer.forward_start()
        return total

    def vjp(self, grad: Tensor) -> Tensor:
        """See `ExplainabilityMap.vjp`; call it at most once after each `forward`."""
        total = self._layers[0].vjp(grad)
        for layer in self._layers[1:]:
            total += layer.vjp(grad)
        return total


class _LayerMap:
    """The map of one layer.

    A GPU, and a CPU with few query tokens, computes the attention gradients of all heads at once.
    A CPU with many computes them block by block and uses each block while it is in the cache;
    `vjp` computes them again, which takes no longer than writing and reading all of them.
    """

    def __init__(self, layer: MapLayer, workspace: Workspace, index: int, share: int) -> None:
        self._route, self._backward = layer.route, layer.backward or layer.route
        self._start, self._dtype = layer.start, layer.constants.jacobian.dtype
        values = layer.constants.values
        self._heads, tokens, self._head_width = values.shape
        self._tokens = tokens - 1
        # [CLS] is a query, but not a place on the map.
        self._values = values[:, 1:].contiguous()
        self._weight = layer.weight / self._heads / layer.scale
        # ReLU commutes with positive factors, so p of [CLS] is scaled instead of its map.
        self._cls = 1.0 / tokens / layer.weight
        queries = layer.route.num_queries
        # Several masks with all their queries, or one mask with some of them.
        self._block = max(1, _CPU_NUMBERS // (queries * self._tokens))
        step = min(queries, max(1, _CPU_NUMBERS // self._tokens))
        self._query_blocks = [slice(i, min(i + step, queries)) for i in range(0, queries, step)]
        self._columns = [
            slice(head * self._head_width, (head + 1) * self._head_width)
            for head in range(self._heads)
        ]
        self._vectors = queries, self._heads * self._head_width
        self._workspace, self._index, self._share = workspace, index, share
        self._p = values.new_empty(0)
        self._started = False

    def forward(self, embeddings: Tensor) -> Tensor:
        self._started = False
        self._p = self._piece("p", len(embeddings), *self._vectors)
        self._route.project(embeddings, self._p)
        return self._evaluate()

    def forward_start(self) -> Tensor:
        self._started = True
        self._p = self._piece("p", 1, *self._vectors)
        self._p[0] = self._start
        return self._evaluate()

    def _evaluate(self) -> Tensor:
        if self._cls != 1.0:
            self._p[:, 0] *= self._cls
        if self._all_heads():
            torch.bmm(self._by_head(self._p), self._values.transpose(1, 2), out=self._whole())
            return (
                self._whole()
                .relu_()
                .view(self._every())
                .sum((0, 2), dtype=self._dtype)
                .mul_(self._weight)
            )
        maps = self._p.new_zeros(len(self._p), self._tokens, dtype=self._dtype)
        for masks in self._blocks(len(self._p)):
            for head in range(self._heads):
                for queries in self._query_blocks:
                    gradients = self._gradients(head, masks, queries).relu_()
                    maps[masks] += gradients.sum(1, dtype=self._dtype)
        return maps.mul_(self._weight)

    def vjp(self, grad: Tensor) -> Tensor:
        # Same arithmetic for a single mask as for one of many.
        shared = self._started or len(grad) > len(self._p)
        p_gradient = self._piece("gradient of p", len(grad), *self._vectors)
        columns, peaks = self._columns_of(grad)
        if self._all_heads() and not shared:
            # The ReLU passes the gradient where it was positive.
            passed = self._whole().gt_(0)
            passed.view(self._every()).mul_(columns[None, :, None])
            self._by_head(p_gradient).copy_(passed @ self._values)
        elif shared:
            self._vjp_shared(columns, p_gradient)
        else:
            for masks in self._blocks(len(grad)):
                for head, values in enumerate(self._values):
                    for queries in self._query_blocks:
                        passed = self._gradients(head, masks, queries).gt_(0)
                        passed.mul_(columns[masks, None])
                        out = p_gradient[masks, queries].flatten(0, 1)[:, self._columns[head]]
                        multiply(passed.flatten(0, 1), values, out)
        if self._cls != 1.0:
            p_gradient[:, 0] *= self._cls
        gradient = self._backward.vjp(p_gradient)
        return gradient if peaks is None else gradient.mul_(peaks)

    def _columns_of(self, grad: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return weighted gradients (M, n - 1) and, in half precision, what they lack (M, 1)."""
        columns = grad * self._weight
        if self._p.dtype == self._dtype:
            return columns, None
        # Gradients of pixels are too small for float16.
        peaks = columns.abs().amax(1, keepdim=True).clamp_min(torch.finfo(self._dtype).tiny)
        return (columns / peaks).to(self._p.dtype), peaks

    def _vjp_shared(self, columns: Tensor, p_gradient: Tensor) -> None:
        """Propagate gradients (M, n - 1) back through the one map that all masks share."""
        if self._all_heads():
            passed = self._whole().gt_(0)
            for masks in self._shared_blocks(len(columns)):
                # (h, n - 1, M * w)
                weighted = (columns[masks].T[:, :, None] * self._values[:, :, None]).flatten(2)
                product = torch.bmm(passed, weighted)
                product = product.view(*product.shape[:2], -1, self._head_width)
                p_of_heads = p_gradient[masks].view(-1, len(product[0]), *self._values.shape[::2])
                p_of_heads.copy_(product.permute(2, 1, 0, 3))
            return
        for head, values in enumerate(self._values):
            for masks in self._blocks(len(columns)):
                weighted = columns[masks].T[:, :, None] * values[:, None]
                for queries in self._query_blocks:
                    passed = self._gradients(head, slice(0, 1), queries)[0].gt_(0)
                    product = multiply(passed, weighted.flatten(1))
                    product = product.view(len(passed), -1, self._head_width).transpose(0, 1)
                    p_gradient[masks, queries, self._columns[head]] = product

    def _gradients(self, head: int, masks: slice, queries: slice) -> Tensor:
        """Return the attention gradients (M, q, n - 1) of one head."""
        block = self._p[masks, queries]
        p = block.flatten(0, 1)[:, self._columns[head]]
        # Used right away, so all layers share it.
        space = self._workspace.piece(0, "gradients", (len(p), self._tokens), p)
        return multiply(p, self._values[head].T, space).view(*block.shape[:2], self._tokens)

    def _all_heads(self) -> bool:
        """Return whether to compute all heads at once: always, where one call costs little."""
        if self._values.device.type != "cpu":
            return True
        rows = self._heads * len(self._p) * self._vectors[0]
        few = rows <= 2 * rows_at_once(self._values.device)
        return few and rows * self._tokens <= self._share

    def _every(self) -> tuple[int, int, int, int]:
        return self._heads, len(self._p), self._vectors[0], self._tokens

    def _whole(self) -> Tensor:
        """Return the buffer of all attention gradients (h, M * q, n - 1)."""
        return self._piece("all heads", *self._every()).flatten(1, 2)

    def _by_head(self, vectors: Tensor) -> Tensor:
        """View vectors (M, q, d) as (h, M * q, d / h)."""
        return vectors.view(-1, self._heads, self._head_width).transpose(0, 1)

    def _piece(self, name: str, *shape: int) -> Tensor:
        return self._workspace.piece(self._index, name, shape, self._values)

    def _blocks(self, count: int) -> list[slice]:
        return [slice(i, min(i + self._block, count)) for i in range(0, count, self._block)]

    def _shared_blocks(self, count: int) -> list[slice]:
        numbers = 2 * self._values.numel() + self._vectors[0] * self._vectors[1]
        step = max(1, min(count, self._share // numbers))
        return [slice(i, min(i + step, count)) for i in range(0, count, step)]
