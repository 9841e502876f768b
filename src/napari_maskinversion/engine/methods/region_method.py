"""What all methods to embed a region have in common, and the simplest of them."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from torch import Tensor

from ...base.errors import ConfigError
from ...base.progress import ENCODING, STEP, Tick, telling, tick
from ...base.regions import Regions
from ..compute.compute_lock import computing
from ..encode.token_grid import TokenGrid
from ..invert.inverter import Masks, RegionEmbedder, regions_of
from ..invert.loop import InversionResult
from ..models.backbone import Backbone
from ..settings import InversionConfig

AT_ONCE: Final = 4  # regions between two ticks


@dataclass(frozen=True, slots=True, eq=False)
class _Image:
    """Everything that belongs to one image; a call reads it once, so that threads can share."""

    plane: tuple[int, int]
    input_size: tuple[int, int]
    grid: TokenGrid
    encoded: Any


class RegionMethod(RegionEmbedder):
    """A `RegionEmbedder` other than `MaskInverter`: it encodes an image once, then its regions."""

    cut_out = False

    def __init__(self, model: Backbone, *, resolution: int, keep_aspect: bool = True) -> None:
        super().__init__(model)
        self.resolution = resolution
        self.keep_aspect = keep_aspect
        self._check(self.resolution)

    def _check(self, resolution: int) -> None:
        """Refuse a resolution that is too small or does not fit into memory."""
        self.model.input_size(resolution, resolution, resolution, self.keep_aspect)

    def _set_image(
        self,
        array: npt.NDArray[Any],
        resolution: int | None,
        keep_aspect: bool | None,
        config: InversionConfig | None,
    ) -> None:
        """A lower ``resolution`` makes all inputs smaller."""
        tick(ENCODING, 0, 1)
        if keep_aspect is None:
            keep_aspect = self.keep_aspect
        if resolution is not None:
            self._check(resolution)
        if resolution is None:
            scale = 1.0
        else:
            scale = resolution / self.resolution
        with computing(), telling(lambda _: Tick(ENCODING, 0, 1)):  # of a method inside, too
            encoded = self.encode(array, scale, keep_aspect)
        height, width = array.shape[:2]
        size = self.model.input_size(height, width, self.input_side(scale), keep_aspect)
        self._image = _Image((height, width), size, self.model.token_grid(size), encoded)
        tick(ENCODING, 1, 1)

    @computing()
    def invert(
        self,
        masks: Masks,
        config: InversionConfig | None = None,
        *,
        planned_masks: int | None = None,
    ) -> InversionResult:
        """Embed regions, with a tick after every four; there are no maps or losses."""
        image: _Image = self._current()
        regions = regions_of(masks, image.plane)
        count = len(regions)
        rows: list[npt.NDArray[np.float32]] = []
        for start in range(0, count, AT_ONCE):
            chunk = regions[start : start + AT_ONCE]
            with telling(lambda _: Tick(STEP, AT_ONCE * len(rows), count)):
                rows.append(self.embed_regions(image.encoded, chunk).numpy())
            tick(STEP, min(start + AT_ONCE, count), count)
        token = math.prod(regions.shape) / image.grid.tokens
        small = [region.area < token and not self.cut_out for region in regions]
        return InversionResult(
            raw_embeddings=np.concatenate(rows).astype(np.float32),
            grid_maps=np.zeros((count, 0, 0), np.float32),
            losses=np.zeros((count, 0), np.float32),
            mask_ious=np.full(count, np.nan, np.float32),
            low_resolution=np.array(small),
            input_size=image.input_size,
            mask_size=regions.shape,
        )

    @abstractmethod
    def encode(self, image: npt.NDArray[Any], scale: float, keep_aspect: bool) -> Any:
        """Compute what is needed once per image; the input has ``scale`` times the resolution."""

    @abstractmethod
    def embed_regions(self, encoded: Any, regions: Regions) -> Tensor:
        """Embed regions of the image that `encode` returned: (N, e) float32, on the CPU."""

    def input_side(self, scale: float) -> int:
        """Resolution of the model's input, in whole patches, at least two."""
        if scale == 1.0:
            return self.resolution
        return self.model.nearest_side(self.resolution * scale)

    def preprocess(self, image: npt.NDArray[Any], scale: float, keep_aspect: bool) -> Tensor:
        """Return the whole image as the model's input, (1, 3, h, w)."""
        return self.model.preprocess(
            image, resolution=self.input_side(scale), keep_aspect=keep_aspect
        )


def check_choices(option: str, chosen: Iterable[str], choices: tuple[str, ...]) -> None:
    """Refuse words that an option of a method does not know."""
    for word in chosen:
        if word not in choices:
            raise ConfigError(f"{option} must be one of {', '.join(choices)}; got {word!r}.")


class WholeImage(RegionMethod):
    """CLIP [CLS]: the whole image's embedding for every region."""

    def encode(self, image: npt.NDArray[Any], scale: float, keep_aspect: bool) -> Tensor:
        """Embed the image."""
        return self.model.embed_images(self.preprocess(image, scale, keep_aspect)).cpu()

    def embed_regions(self, encoded: Tensor, regions: Regions) -> Tensor:
        """Repeat the image embedding."""
        return encoded.expand(len(regions), -1).clone()
