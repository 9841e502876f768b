"""What all ways to embed a region have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ...base.errors import InputError, MaskShapeError
from ...base.regions import Region, Regions
from ..encode.preprocessing import to_rgb_tensor, token_grid
from ..models.backbone import Backbone
from .vit_blocks import embed_images

FloatArray = npt.NDArray[np.float32]
Pixels = npt.NDArray[np.uint8]
BATCH: Final = 16  # pictures in the model at once


class RegionEmbedder(Protocol):
    """Whatever embeds the regions of an image."""

    def embed(self, image: npt.ArrayLike, masks: npt.ArrayLike | Regions) -> FloatArray:
        """Embed each of N masks (N, H, W), or regions, of an image (H, W[, 3]): (N, e) float32."""


class RegionMethod(ABC):
    """One way on one model: looks at an image once, then embeds regions of it.

    Parameters
    ----------
    model : Backbone
    resolution : int, optional
        Side in pixels of the model's input; the way's usual one unless given.
    keep_aspect : bool
        False squeezes the whole image into a square.
    """

    whole_image = False

    def __init__(
        self, model: Backbone, *, resolution: int | None = None, keep_aspect: bool = True
    ) -> None:
        self.model = model
        usual = model.working_resolution if self.whole_image else model.native_resolution
        self.resolution = usual if resolution is None else resolution
        self.keep_aspect = keep_aspect

    def embed(self, image: npt.ArrayLike, masks: npt.ArrayLike | Regions) -> FloatArray:
        """Embed regions of an image; see `RegionEmbedder`.

        Raises
        ------
        InputError
            If the image or a mask cannot be used, or there is none.
        """
        array = np.asarray(image)
        regions = as_regions(masks, (array.shape[0], array.shape[1]))
        return self.rows(self.look(array), regions).numpy()

    @abstractmethod
    def look(self, image: npt.NDArray[Any], scale: float = 1.0) -> Any:
        """Do what is needed once an image, with an input of ``scale`` times the resolution."""

    @abstractmethod
    def rows(self, seen: Any, regions: Regions) -> Tensor:
        """Embed regions of what `look` gave: (N, e) float32, on the CPU."""

    def side(self, scale: float) -> int:
        """Resolution of the model's input, in whole patches and two at least."""
        if scale == 1.0:
            return self.resolution
        patch = self.model.patch_size
        return max(2, round(self.resolution * scale / patch)) * patch

    def input_size(self, height: int, width: int, scale: float) -> tuple[int, int]:
        """Pixels (h, w) of the model's input for a whole image."""
        patch = self.model.patch_size
        rows, columns = token_grid(
            height, width, patch=patch, resolution=self.side(scale), keep_aspect=self.keep_aspect
        )
        return rows * patch, columns * patch

    def whole_tensor(self, image: npt.NDArray[Any], scale: float) -> Tensor:
        """Give the whole image as the model takes it."""
        return self.model.preprocess(
            image, resolution=self.side(scale), keep_aspect=self.keep_aspect
        )


class ImageEditMethod(RegionMethod):
    """Shows the model pictures made for each region, and takes their image embeddings."""

    def look(self, image: npt.NDArray[Any], scale: float = 1.0) -> Any:
        """Keep the pixels and the side of the input."""
        return as_pixels(image), self.side(scale)

    @abstractmethod
    def pictures(self, seen: Any, region: Region) -> Iterator[Tensor]:
        """Make the tensors (1, 3, h, w) of one region, as many for each; their mean counts."""

    def rows(self, seen: Any, regions: Regions) -> Tensor:
        """Embed the pictures, some of them at once."""
        found: list[Tensor] = []
        waiting: list[Tensor] = []
        each = 1
        for region in regions:
            made = list(self.pictures(seen, region))
            each = len(made)
            for tensor in made:
                if waiting and (len(waiting) == BATCH or waiting[0].shape != tensor.shape):
                    found.append(self._embed(waiting))
                    waiting = []
                waiting.append(tensor)
        found.append(self._embed(waiting))
        rows = torch.cat(found)
        if each > 1:
            rows = torch.nn.functional.normalize(rows, dim=1)
            rows = rows.reshape(len(regions), each, -1).mean(1)
        return rows

    def _embed(self, tensors: list[Tensor]) -> Tensor:
        return embed_images(self.model, torch.cat(tensors)).cpu()


def as_regions(masks: npt.ArrayLike | Regions, shape: tuple[int, int]) -> Regions:
    """Take masks (N, H, W) or regions of an image of this shape.

    Raises
    ------
    InputError
        If there are none, or they are of another size.
    """
    regions = masks if isinstance(masks, Regions) else Regions.from_masks(masks)
    if not len(regions):
        raise InputError("There are no masks to embed; give at least one.")
    if regions.shape != shape:
        raise MaskShapeError(
            f"Masks are {regions.shape[0]} x {regions.shape[1]} px but the image is {shape[0]} x "
            f"{shape[1]} px; give masks drawn on this image."
        )
    return regions


def as_pixels(image: npt.NDArray[Any]) -> Pixels:
    """Give any image as RGB of eight bits, (H, W, 3)."""
    rgb = to_rgb_tensor(image)
    if rgb.is_floating_point():
        rgb = rgb.clamp(0, 1).mul(255).round().to(torch.uint8)
    return np.ascontiguousarray(rgb.permute(1, 2, 0).numpy())


def full_mask(region: Region, shape: tuple[int, int]) -> npt.NDArray[np.bool_]:
    """Mask of a region on its plane, (H, W): pixels it covers to a half or more.

    Of a region that nowhere covers a half, those it covers most.
    """
    y0, x0, y1, x1 = region.bbox
    full = np.zeros(shape, bool)
    full[y0:y1, x0:x1] = region.mask >= min(0.5, float(region.mask.max()))
    return full
