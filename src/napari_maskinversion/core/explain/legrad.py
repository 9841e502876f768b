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

from ..encoding import LayerConstants
from .queries import Route, rows_at_once


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
        What the buffers of one group may take; less than one mask needs costs time, not the run.
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
        first = layers[0].constants
        heads, tokens, head_width = first.values.shape
        queries = layers[0].route.num_queries
        gradients = heads * queries * (tokens - 1)
        # p and its gradient.
        vectors = 2 * queries * heads * head_width
        per_mask = (gradients + vectors) * first.values.element_size() * len(layers)
        # Where not even one mask fits, gradients are made again in the backward pass.
        self._keep = memory_bytes >= per_mask
        self.group_size = max(1, memory_bytes // per_mask)
        space = workspace or Workspace()
        self._layers = [
            _LayerMap(layer, self._keep, space, index) for index, layer in enumerate(layers)
        ]

    def forward(self, embeddings: Tensor) -> Tensor:
        """Token maps (M, n - 1) of one group (M, e), summed over layers, not normalised.

        What `pull_back` needs stays in the buffers until the next call.
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

    def pull_back(self, grad: Tensor) -> Tensor:
        """Gradient (M, e) from the gradient (M, n - 1) of the maps of the last `forward`, once.

        If that was of a single embedding, ``grad`` may be of any number of maps that share it.
        """
        total = self._layers[0].pull_back(grad)
        for layer in self._layers[1:]:
            total += layer.pull_back(grad)
        return total


class _LayerMap:
    """The map of one layer, in buffers."""

    def __init__(self, layer: MapLayer, keep: bool, workspace: Workspace, index: int) -> None:
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
        self._keep = keep
        self._block = max(1, rows_at_once(values.device) // layer.route.num_queries)
        self._vectors = layer.route.num_queries, self._heads * self._head_width
        self._workspace, self._index = workspace, index
        self._p = self._gradients = values.new_empty(0)
        self._count, self._started = 0, False

    def forward(self, embeddings: Tensor) -> Tensor:
        self._count = len(embeddings)
        self._p = p = self._piece("p", self._count, *self._vectors)
        self._started = False
        self._route.queries(embeddings, p)
        p[:, 0] *= self._cls
        return self._evaluate(p)

    def forward_start(self) -> Tensor:
        self._count, self._started = 1, True
        self._p = self._piece("p", 1, *self._vectors)
        self._p[0] = self._start
        self._p[0, 0] *= self._cls
        return self._evaluate(self._p)

    def _evaluate(self, p: Tensor) -> Tensor:
        heads = self._heads if self._keep else 1
        self._gradients = self._piece("gradients", heads * self._count * p.shape[1] * self._tokens)
        if self._all_heads():
            every = self._heads, self._count, p.shape[1], self._tokens
            torch.bmm(self._by_head(p), self._values.transpose(1, 2), out=self._whole())
            return self._whole().relu_().view(every).sum((0, 2)).mul_(self._weight)
        maps = p.new_zeros(self._count, self._tokens)
        # A block's gradients are summed while they are still in the cache.
        for masks in self._blocks(self._count):
            for head in range(self._heads):
                maps[masks] += self._gradient(head, masks).relu_().sum(1)
        return maps.mul_(self._weight)

    def pull_back(self, grad: Tensor) -> Tensor:
        # The same arithmetic for a mask alone as for one among others.
        shared = self._started or len(grad) > self._count
        pulled = self._piece("pulled", len(grad), *self._vectors)
        columns = grad * self._weight
        if self._all_heads() and not shared:
            passed = self._whole().gt_(0)
            every = self._heads, self._count, pulled.shape[1], self._tokens
            passed.view(every).mul_(columns[None, :, None])
            self._by_head(pulled).copy_(passed @ self._values)
            pulled[:, 0] *= self._cls
            return self._route.pull_back(pulled)
        for masks in self._blocks(len(grad)):
            for head in range(self._heads):
                source = slice(0, 1) if shared else masks
                gradient = self._kept(head, source) if self._keep else self._gradient(head, source)
                # The ReLU passes the gradient where it was positive.
                passed = gradient.gt_(0)
                out = pulled[masks, :, self._columns(head)]
                if shared:
                    self._pull_shared(passed[0], columns[masks], head, out)
                    continue
                passed.mul_(columns[masks, None])
                flat = pulled[masks].flatten(0, 1)[:, self._columns(head)]
                torch.mm(passed.flatten(0, 1), self._values[head], out=flat)
        pulled[:, 0] *= self._cls
        return self._route.pull_back(pulled)

    def _pull_shared(self, passed: Tensor, columns: Tensor, head: int, out: Tensor) -> None:
        """Pull gradients (M, n - 1) back through the one map that all masks share."""
        weighted = columns.T[:, :, None] * self._values[head][:, None]
        found = (passed @ weighted.flatten(1)).view(len(passed), len(columns), -1)
        out.copy_(found.transpose(0, 1))

    def _gradient(self, head: int, masks: slice) -> Tensor:
        """Attention gradient (M, q, n - 1) of one head, made in the buffer."""
        p = self._p[masks].flatten(0, 1)[:, self._columns(head)]
        out = self._kept(head, masks)
        torch.mm(p, self._values[head].T, out=out.flatten(0, 1))
        return out

    def _all_heads(self) -> bool:
        """Whether so few rows are evaluated that calls, one a head, would take most of the time."""
        rows = self._heads * self._count * self._vectors[0]
        return self._keep and rows <= 2 * rows_at_once(self._values.device)

    def _whole(self) -> Tensor:
        """Attention gradients (h, M * q, n - 1)."""
        return self._gradients.view(self._heads, -1, self._tokens)

    def _by_head(self, vectors: Tensor) -> Tensor:
        """View vectors (M, q, d) as (h, M * q, d / h)."""
        return vectors.view(-1, self._heads, self._head_width).transpose(0, 1)

    def _kept(self, head: int, masks: slice) -> Tensor:
        queries = self._p.shape[1]
        size = queries * self._tokens
        before = head * self._count if self._keep else 0
        flat = self._gradients[(before + masks.start) * size : (before + masks.stop) * size]
        return flat.view(-1, queries, self._tokens)

    def _piece(self, name: str, *shape: int) -> Tensor:
        return self._workspace.piece(self._index, name, shape, self._values)

    def _columns(self, head: int) -> slice:
        return slice(head * self._head_width, (head + 1) * self._head_width)

    def _blocks(self, count: int) -> list[slice]:
        return [slice(i, min(i + self._block, count)) for i in range(0, count, self._block)]
