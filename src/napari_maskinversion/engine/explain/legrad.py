"""LeGrad maps in closed form, with a backward pass derived by hand.

The map of an embedding (arXiv 2404.03214) is the positive gradient of its score with respect to
the attention, averaged over heads and query tokens. The gradient is ``<p_i, v_j>`` per head, p
linear in the embedding (see `LayerConstants`), so one image needs no second-order autograd. Masks
are worked on in groups that fit the memory given, in buffers that every group and step uses again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..compute.matmul import multiply, multiply_positive
from ..encode.image_encoding import LayerConstants
from .projections import Route, rows_at_once

# Attention gradients of one head to make at once; a processor's caches hold them.
_CPU_NUMBERS = 1 << 20
_GPU_NUMBERS = 1 << 25
# Query tokens of a group of masks on a processor: a chance to stop every second or so.
_CPU_QUERIES = 1 << 14


@dataclass(frozen=True, slots=True)
class MapLayer:
    """One explained layer as a map sees it.

    Attributes
    ----------
    constants : LayerConstants
        Of all query tokens or of some of them, [CLS] first.
    route : Route
        To the p of these tokens.
    weight : float
        Of each patch among them in the average over queries.
    start : Tensor, shape (q, d)
        Their p for the image's own embedding.
    """

    constants: LayerConstants
    route: Route
    weight: float
    start: Tensor


class Workspace:
    """Memory for what a map and its gradient are made of, that several maps may use in turns."""

    def __init__(self) -> None:
        self._pieces: dict[tuple[int, str], Tensor] = {}

    def piece(self, layer: int, name: str, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """Give numbers of any value; whatever was there before is overwritten."""
        size, key = math.prod(shape), (layer, name)
        found = self._pieces.get(key)
        if found is None or len(found) < size:
            # Let go of the old one first.
            self._pieces.pop(key, None)
            found = self._pieces[key] = like.new_empty(size)
        return found[:size].view(shape)


class LeGrad:
    """Maps of embeddings on one image, and the gradient of anything made of them.

    Parameters
    ----------
    layers : sequence of MapLayer
        Explained layers; their maps are added.
    memory_bytes : int
        What the buffers of one group may take, besides a few blocks of a fixed size; less than one
        mask needs costs time, not the run.
    workspace : Workspace, optional
        Shared with other maps, of which one at a time is evaluated and pulled back.

    Attributes
    ----------
    group_size : int
        Masks to give to `forward` at once, at most.
    """

    def __init__(
        self, layers: Sequence[MapLayer], memory_bytes: int, workspace: Workspace | None = None
    ) -> None:
        first, queries = layers[0].constants, layers[0].route.num_queries
        heads, _, head_width = first.values.shape
        numbers = 2 * queries * heads * head_width
        share = memory_bytes // first.values.element_size() // len(layers)
        if first.values.device.type == "cpu":
            self.group_size = max(1, min(share // numbers, _CPU_QUERIES // queries))
        else:
            # There a direct route takes the hidden units of a group, and one more p, at once.
            numbers += first.slope.numel() + numbers // 2
            self.group_size = max(1, share // numbers)
        space = workspace or Workspace()
        self._layers = [_LayerMap(layer, space, index, share) for index, layer in enumerate(layers)]

    def forward(self, embeddings: Tensor) -> Tensor:
        """Token maps (M, n - 1) of one group (M, e), summed over layers, not normalised.

        What `vjp` needs stays in the buffers until the next call.
        """
        total = self._layers[0].forward(embeddings)
        for layer in self._layers[1:]:
            total += layer.forward(embeddings)
        return total

    def forward_start(self) -> Tensor:
        """Token map (1, n - 1) of the image's own embedding; as `forward`."""
        total = self._layers[0].forward_start()
        for layer in self._layers[1:]:
            total += layer.forward_start()
        return total

    def vjp(self, grad: Tensor) -> Tensor:
        """Gradient (M, e) from the gradient (M, n - 1) of the maps of the last `forward`, once.

        If that was of a single embedding, ``grad`` may be of any number of maps that share it.
        """
        total = self._layers[0].vjp(grad)
        for layer in self._layers[1:]:
            total += layer.vjp(grad)
        return total


class _LayerMap:
    """The map of one layer, in buffers.

    Attention gradients are made block by block and used while they are in the cache; the way back
    makes them again, which takes no longer than to write and read all of them.
    """

    def __init__(self, layer: MapLayer, workspace: Workspace, index: int, share: int) -> None:
        self._route = layer.route
        self._start = layer.start
        values = layer.constants.values
        self._heads, tokens, self._head_width = values.shape
        self._tokens = tokens - 1
        # [CLS] is a query but no place on the map.
        self._values = values[:, 1:].contiguous()
        self._weight = layer.weight / self._heads
        # p of [CLS] is scaled instead of its part of the map: ReLU lets positive factors through.
        self._cls = 1.0 / tokens / layer.weight
        numbers = _CPU_NUMBERS if values.device.type == "cpu" else _GPU_NUMBERS
        queries = layer.route.num_queries
        # Multiply-adds of one head.
        self._one_mask = queries * self._tokens * self._head_width
        # Several masks with all of their queries, or one with some of them.
        self._block = max(1, numbers // (queries * self._tokens))
        step = min(queries, max(1, numbers // self._tokens))
        self._some_queries = [slice(i, min(i + step, queries)) for i in range(0, queries, step)]
        self._vectors = layer.route.num_queries, self._heads * self._head_width
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
        self._p[:, 0] *= self._cls
        if self._all_heads():
            torch.bmm(self._by_head(self._p), self._values.transpose(1, 2), out=self._whole())
            return self._whole().relu_().view(self._every()).sum((0, 2)).mul_(self._weight)
        maps = self._p.new_zeros(len(self._p), self._tokens)
        for masks in self._blocks(len(self._p)):
            for head in range(self._heads):
                for queries in self._some_queries:
                    maps[masks] += self._positive(head, masks, queries).sum(1)
        return maps.mul_(self._weight)

    def vjp(self, grad: Tensor) -> Tensor:
        # The same arithmetic for a mask alone as for one among others.
        shared = self._started or len(grad) > len(self._p)
        pulled = self._piece("pulled", len(grad), *self._vectors)
        columns = grad * self._weight
        if self._all_heads() and not shared:
            passed = self._whole().gt_(0)
            passed.view(self._every()).mul_(columns[None, :, None])
            self._by_head(pulled).copy_(passed @ self._values)
        elif shared:
            self._vjp_shared(columns, pulled)
        else:
            for masks in self._blocks(len(grad)):
                for head in range(self._heads):
                    for queries in self._some_queries:
                        # The ReLU passes the gradient where it was positive.
                        passed = self._positive(head, masks, queries).gt_(0)
                        passed.mul_(columns[masks, None])
                        out = pulled[masks, queries].flatten(0, 1)[:, self._columns(head)]
                        flat = passed.flatten(0, 1)
                        multiply(flat, self._values[head], out, size=self._one_mask)
        pulled[:, 0] *= self._cls
        return self._route.vjp(pulled)

    def _vjp_shared(self, columns: Tensor, pulled: Tensor) -> None:
        """Pull gradients (M, n - 1) back through the one map that all masks share."""
        for head in range(self._heads):
            for masks in self._blocks(len(columns)):
                weighted = columns[masks].T[:, :, None] * self._values[head][:, None]
                for queries in self._some_queries:
                    passed = self._positive(head, slice(0, 1), queries)[0].gt_(0)
                    found = multiply(passed, weighted.flatten(1), size=self._one_mask)
                    found = found.view(len(passed), -1, self._head_width).transpose(0, 1)
                    pulled[masks, queries, self._columns(head)] = found

    def _positive(self, head: int, masks: slice, queries: slice) -> Tensor:
        """Attention gradient (M, q, n - 1) of one head where it is positive, else 0."""
        some = self._p[masks, queries]
        p = some.flatten(0, 1)[:, self._columns(head)]
        # Used at once, so that all layers share it.
        space = self._workspace.piece(0, "gradients", (len(p), self._tokens), p)
        found = multiply_positive(p, self._values[head].T, space, self._one_mask)
        return found.view(*some.shape[:2], self._tokens)

    def _all_heads(self) -> bool:
        """Whether so few rows are evaluated that calls, one a head, would take most of the time."""
        rows = self._heads * len(self._p) * self._vectors[0]
        few = rows <= 2 * rows_at_once(self._values.device)
        return few and rows * self._tokens <= self._share

    def _every(self) -> tuple[int, int, int, int]:
        return self._heads, len(self._p), self._vectors[0], self._tokens

    def _whole(self) -> Tensor:
        """Attention gradients (h, M * q, n - 1)."""
        return self._piece("all heads", *self._every()).flatten(1, 2)

    def _by_head(self, vectors: Tensor) -> Tensor:
        """View vectors (M, q, d) as (h, M * q, d / h)."""
        return vectors.view(-1, self._heads, self._head_width).transpose(0, 1)

    def _piece(self, name: str, *shape: int) -> Tensor:
        return self._workspace.piece(self._index, name, shape, self._values)

    def _columns(self, head: int) -> slice:
        return slice(head * self._head_width, (head + 1) * self._head_width)

    def _blocks(self, count: int) -> list[slice]:
        return [slice(i, min(i + self._block, count)) for i in range(0, count, self._block)]
