"""Propose regions of an image that has none: superpixels, merged step by step into a tree.

Each merge joins the two neighbours that are most alike in colour and in what a model sees there, so
that every part of the tree is a proposal: a nucleus, its cell, a group of cells.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..base.progress import tick
from ..base.regions import Region

Array = npt.NDArray[Any]

SUPERPIXELS: Final = "Superpixels"  # stages
MERGES: Final = "Merges"
_MOST_SUPERPIXELS: Final = 1000
FIRST_SCALE: Final = 25.0  # of `felzenszwalb`; doubled while superpixels are too many
_TOKENS: Final = 0.5  # weight of a token's unit embedding beside a colour (CIELAB / 100)
_LEAST: Final = 30  # pixels of a proposal
_LARGEST: Final = 0.5  # share of the plane
_SAME: Final = 0.75  # IoU of two proposals of which one is left out


def superpixels(pixels: Array, scale: float = FIRST_SCALE) -> tuple[npt.NDArray[np.int64], float]:
    """Divide an image (H, W, 3) of 0..1 into connected parts of one colour, numbered from 0.

    Returns them with their scale, from which an image of the same kind may start: it gets the
    same parts in fewer attempts.
    """
    from skimage.segmentation import felzenszwalb

    divided: tuple[npt.NDArray[np.int64], float] | None = None
    rising = False
    # The smallest scale whose parts are not too many: halved while they are few enough, doubled
    # while they are too many. Once it was doubled, the first that fits is the answer.
    while True:
        tick(SUPERPIXELS, 0, 1)
        parts = felzenszwalb(pixels, scale=scale, sigma=0.8, min_size=10 + round(scale / 2))
        if parts.max() < _MOST_SUPERPIXELS or scale > pixels.shape[0] * pixels.shape[1]:
            divided = np.asarray(parts, np.int64), scale
            if rising or scale <= FIRST_SCALE:
                return divided
            scale /= 2
        elif divided is not None:
            return divided
        else:
            rising = True
            scale = scale * 2


def colours(pixels: Array, parts: npt.NDArray[np.int64]) -> Array:
    """Return the mean colour (n, 3) of each part, CIELAB / 100."""
    from skimage.color import rgb2lab

    flat = parts.ravel()
    lab = rgb2lab(pixels).reshape(-1, 3) / 100
    sums = [np.bincount(flat, lab[:, channel]) for channel in range(3)]
    return np.stack(sums, 1) / np.bincount(flat)[:, None]


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """Parts of a plane: n superpixels, and what n - 1 merges make of them."""

    superpixels: npt.NDArray[np.int64]  # (H, W), from 0
    merges: npt.NDArray[np.int64]  # (n - 1, 2): merge k makes part n + k of two earlier ones
    features: Array  # (2 n - 1, f): mean colour and embedding of each part
    costs: Array  # (2 n - 1,): of the merge that made a part; 0 for superpixels

    def level(self, count: int) -> npt.NDArray[np.int64]:
        """Return the ``count`` parts (H, W), from 0, that cover the plane after so many merges."""
        leaves = len(self.merges) + 1
        part = np.arange(leaves + len(self.merges))
        for number, pair in enumerate(self.merges[: leaves - count]):
            part[pair] = leaves + number
        for child in range(len(part) - 1, -1, -1):  # a parent comes after its children
            part[child] = part[part[child]]
        return np.unique(part[self.superpixels], return_inverse=True)[1].reshape(
            self.superpixels.shape
        )

    def members(self) -> npt.NDArray[np.bool_]:
        """Return which superpixels each part consists of, (2 n - 1, n)."""
        leaves = len(self.merges) + 1
        inside = np.zeros((2 * leaves - 1, leaves), bool)
        inside[:leaves] = np.eye(leaves, dtype=bool)
        for number, (first, second) in enumerate(self.merges, leaves):
            inside[number] = inside[first] | inside[second]
        return inside

    def proposals(self, most: int) -> list[tuple[Region, float]]:
        """Return the parts that last longest until they are merged, and how much each stands out.

        The second is larger for a part with one clear outline: it grows with the contrast across
        it, with its roundness, and with how long the part lasts.
        """
        inside = self.members()
        pixels = np.bincount(self.superpixels.ravel()).astype(np.float32)
        area = inside @ pixels
        count = len(inside)
        parent = np.full(count, count - 1)
        parent[self.merges] = np.arange(len(pixels), count)[:, None]
        life = self.costs[parent] - self.costs
        usable = (area >= _LEAST) & (area <= _LARGEST * pixels.sum()) & (life > 0)
        weighted = inside.astype(np.float32) * np.sqrt(pixels)
        chosen: list[int] = []
        for part in np.argsort(-life, kind="stable"):
            if not usable[part]:
                continue
            if chosen:
                shared = weighted[chosen] @ weighted[part]
                if (shared / (area[chosen] + area[part] - shared)).max() > _SAME:
                    continue
            chosen.append(int(part))
            if len(chosen) == most:
                break
        lower, upper, lengths = _borders(self.superpixels)
        listed = []
        for number, part in enumerate(chosen, 1):
            edge = inside[part, lower] != inside[part, upper]
            outer = np.where(inside[part, lower], upper, lower)[edge]
            length = lengths[edge]
            contrast = np.linalg.norm(self.features[outer] - self.features[part], axis=1)
            contrast = float((contrast * length).sum() / length.sum())
            roundness = min(1.0, 4 * np.pi * float(area[part]) / float(length.sum()) ** 2)
            stands_out = contrast * roundness**0.5 * float(life[part]) ** 0.2
            region = Region.from_mask(number, inside[part][self.superpixels])
            assert region is not None
            listed.append((region, stands_out))
        return listed


def merge(parts: npt.NDArray[np.int64], colour: Array, embeddings: Array | None = None) -> Tree:
    """Merge parts (H, W) until one is left, those first that add least to the variance (Ward).

    ``colour`` (n, 3) is that of `colours`; ``embeddings`` (n, e) have unit norm.
    """
    leaves = len(colour)
    if embeddings is None:
        described = colour
    else:
        described = np.hstack([colour, _TOKENS * embeddings])
    features = np.zeros((2 * leaves - 1, described.shape[1]))
    features[:leaves] = described
    area = np.zeros(2 * leaves - 1)
    area[:leaves] = np.bincount(parts.ravel())
    costs = np.zeros(2 * leaves - 1)
    beside: list[set[int]] = [set() for _ in range(2 * leaves - 1)]
    queue: list[tuple[float, int, int]] = []

    def offer(first: int, second: int) -> None:
        apart = features[first] - features[second]
        added = area[first] * area[second] / (area[first] + area[second]) * float(apart @ apart)
        heapq.heappush(queue, (added, first, second))

    lower, upper, _ = _borders(parts)
    for first, second in zip(lower.tolist(), upper.tolist(), strict=True):
        beside[first].add(second)
        beside[second].add(first)
        offer(first, second)
    merges: list[tuple[int, int]] = []
    gone: set[int] = set()
    while queue:
        cost, first, second = heapq.heappop(queue)
        if first in gone or second in gone:  # merged since: the new part has pairs of its own
            continue
        if len(merges) % 200 == 0:
            tick(MERGES, len(merges), leaves - 1)
        new = leaves + len(merges)
        merges.append((first, second))
        gone |= {first, second}
        area[new] = area[first] + area[second]
        features[new] = (area[first] * features[first] + area[second] * features[second]) / area[
            new
        ]
        costs[new] = max(cost, costs[first], costs[second])
        beside[new] = {near for near in beside[first] | beside[second] if near not in gone}
        for near in sorted(beside[new]):
            beside[near].add(new)
            offer(near, new)
    return Tree(parts, np.array(merges, np.int64).reshape(-1, 2), features, costs)


def _borders(parts: npt.NDArray[np.int64]) -> tuple[Array, Array, Array]:
    """Return which parts touch, the lower number first, and along how many pixel edges."""
    across = [(parts[:, :-1], parts[:, 1:]), (parts[:-1], parts[1:])]
    pairs = np.concatenate([np.stack([a.ravel(), b.ravel()]) for a, b in across], axis=1)
    pairs = np.sort(pairs[:, pairs[0] != pairs[1]], axis=0)
    count = int(parts.max()) + 1
    keys, lengths = np.unique(pairs[0] * count + pairs[1], return_counts=True)
    return keys // count, keys % count, lengths
