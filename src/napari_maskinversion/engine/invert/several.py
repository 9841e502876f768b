"""Several images of one size, encoded and inverted together; every mask knows its image.

What takes a GPU longest about one small image is to be told what to do. Each mask gets the
constants of its image, so that a step of all masks is as many operations as one of a single mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..compute.compute_lock import computing
from ..compute.matmul import STORED
from ..models.towers import tower_of
from ..settings import DECOMPOSED_SHARE, InversionConfig
from . import graphs
from .dice import MaskTargets
from .loop import Descent, InversionResult, to_numpy
from .map_builder import MapBuilder

if TYPE_CHECKING:
    from ...base.regions import Region, Regions
    from ..models.backbone import Backbone

# Tokens of an image times their width: larger ones (ViT-B/16 at 224 px) keep a CPU busy alone.
_CPU_NUMBERS: Final = 1 << 17
_WIDTHS: Final = 20  # of a token: constants of a mask, its p, their gradients and hidden units


def masks_at_once(model: Backbone, config: InversionConfig, side: int, memory_bytes: int) -> int:
    """Return how many masks of different images to invert together; 1 for one image at a time.

    ``side`` is that of the input in pixels.
    """
    tower = tower_of(model.clip.visual)
    together = tower.several and config.explainer == "legrad" and config.route != "decomposed"
    if not together or (config.fast and model.device.type == "cpu"):
        return 1
    tokens = model.token_grid((side, side)).tokens + 1
    width = tower.weight.shape[0]
    numbers = config.layers * tokens * (tower.num_heads * tokens + _WIDTHS * width)
    fit = int(memory_bytes * (1 - DECOMPOSED_SHARE)) // (4 * numbers)
    alone = model.device.type == "cpu" and tokens * width > _CPU_NUMBERS
    if alone:
        return 1
    return max(1, fit)


class ImageBatch:
    """Encoded images; ``tensors`` (I, 3, H, W) are their inputs, ``planes`` their sizes.

    ``memory_bytes`` is the memory for inversions.
    """

    @computing()
    def __init__(
        self,
        model: Backbone,
        tensors: Tensor,
        planes: Sequence[tuple[int, int]],
        config: InversionConfig,
        memory_bytes: int,
    ) -> None:
        self._tower = tower_of(model.clip.visual)
        self._memory = memory_bytes
        self._planes = planes
        self._config = config
        dtype = STORED.get(config.precision)
        inputs = tensors.to(model.device)
        self._encoding = graphs.encode(
            self._tower, inputs, config.layers, dtype, memory_bytes, len(inputs)
        )
        self.grid = self._encoding.grid
        self.input_size = self._encoding.input_size

    @property
    def embeddings(self) -> npt.NDArray[np.float32]:
        """The model's embeddings (I, e) of the images, not normalised."""
        return to_numpy(self._encoding.embedding)

    def invert(self, masks: Sequence[Regions], first: int = 0) -> list[InversionResult]:
        """Invert masks of the images from ``first`` on, in their order."""
        config = self._config.changed(route="direct")
        counts = [len(part) for part in masks]
        regions: list[Region] = []
        for part in masks:
            regions.extend(part)
        with computing(tf32=config.precision == "tf32"):
            images = np.repeat(np.arange(first, first + len(masks)), counts)
            encoding = self._encoding.of(
                torch.from_numpy(images).to(self._encoding.embedding.device)
            )
            sizes = [self._planes[image] for image in images.tolist()]
            targets = MaskTargets(
                regions, sizes, encoding.input_size, encoding.grid, encoding.embedding
            )
            maps = MapBuilder(encoding, self._memory)
            descent = Descent(targets, encoding.embedding, config)
            route = graphs.descend(self._tower.visual, maps, len(regions), descent)
            if config.precision != "float32":
                route = f"{route}, {config.precision}"
            result = descent.result(sizes[0], route)
        ends = np.cumsum(counts)
        starts = ends - counts
        results = []
        for start, end, part in zip(starts, ends, masks, strict=True):
            results.append(result.part(slice(start, end), part.shape))
        return results
