"""What all methods to embed a region have in common, and the simplest of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Final, Protocol, cast

import numpy as np
import numpy.typing as npt
from torch import Tensor
from torch.nn.functional import normalize

from ...base.deprecation import warn_renamed
from ...base.errors import InputError, MaskShapeError
from ...base.regions import Regions
from ..compute.compute_lock import computing
from ..models.backbone import Backbone

FloatArray = npt.NDArray[np.float32]
BATCH: Final = 16  # pictures in the model at once


class RegionEmbedder(Protocol):
    """Anything that embeds regions: `MaskInverter`, and what `region_embedder` makes."""

    def set_image(self, image: npt.ArrayLike) -> None:
        """Encode an image (H, W, 3) or (H, W), uint8, uint16 or float in 0..1."""

    def embed(self, regions: npt.ArrayLike | Regions) -> FloatArray:
        """Return the embeddings (N, e), float32, of L2 norm 1, of regions of that image."""


class RegionMethod(ABC):
    """One method on one model: encodes an image once, then embeds regions of it.

    Parameters
    ----------
    model : Backbone
    resolution : int, optional
        Side in pixels of the model's input. Default: the working resolution if `whole_image`,
        else the native one.
    keep_aspect : bool
        False resizes the whole image to a square.
    """

    whole_image = False

    def __init__(
        self, model: Backbone, *, resolution: int | None = None, keep_aspect: bool = True
    ) -> None:
        self.model = model
        default = model.working_resolution if self.whole_image else model.native_resolution
        self.resolution = default if resolution is None else resolution
        self.keep_aspect = keep_aspect
        self._image: tuple[tuple[int, ...], Any] | None = None

    def set_image(self, image: npt.ArrayLike) -> None:
        """Encode an image (H, W, 3) or (H, W), uint8, uint16 or float in 0..1.

        Raises
        ------
        InputError
            If the array is not an image, or holds NaN.
        """
        array = np.asarray(image)
        with computing():
            self._image = array.shape[:2], self.encode(array)

    def embed(
        self, regions: npt.ArrayLike | Regions, masks: npt.ArrayLike | Regions | None = None
    ) -> FloatArray:
        """Embed regions of the current image.

        Parameters
        ----------
        regions : array_like (N, H, W) or (H, W), or Regions
            As `Regions.from_masks` takes.
        masks : optional
            Deprecated: ``embed(image, masks)`` sets the image and does not normalise.

        Returns
        -------
        ndarray, shape (N, e), float32
            L2 norm 1.

        Raises
        ------
        InputError
            If no image is set, or a mask cannot be used, or there is none.
        """
        if masks is not None:
            warn_renamed("embed(image, masks)", "set_image(image), then embed(masks)")
            self.set_image(cast("npt.ArrayLike", regions))
            return self._embed_all(masks).numpy()
        return normalize(self._embed_all(regions).float(), dim=1).numpy()

    def _embed_all(self, regions: npt.ArrayLike | Regions) -> Tensor:
        if self._image is None:
            raise InputError("No image is set; call set_image(image) first.")
        shape, encoded = self._image
        with computing():
            return self.embed_regions(encoded, as_regions(regions, shape))

    @abstractmethod
    def encode(self, image: npt.NDArray[Any], scale: float = 1.0) -> Any:
        """Compute what is needed once per image; the input has ``scale`` times the resolution."""

    @abstractmethod
    def embed_regions(self, encoded: Any, regions: Regions) -> Tensor:
        """Embed regions of the image that `encode` returned: (N, e) float32, on the CPU."""

    def input_side(self, scale: float) -> int:
        """Resolution of the model's input, in whole patches, at least two."""
        if scale == 1.0:
            return self.resolution
        patch = self.model.patch_size
        return max(2, round(self.resolution * scale / patch)) * patch

    def input_size(self, height: int, width: int, scale: float) -> tuple[int, int]:
        """Pixels (h, w) of the model's input for a whole image."""
        return self.model.input_size(height, width, self.input_side(scale), self.keep_aspect)

    def preprocess(self, image: npt.NDArray[Any], scale: float) -> Tensor:
        """Return the whole image as the model's input, (1, 3, h, w)."""
        return self.model.preprocess(
            image, resolution=self.input_side(scale), keep_aspect=self.keep_aspect
        )


class WholeImage(RegionMethod):
    """CLIP [CLS]: the whole image's embedding for every region."""

    def encode(self, image: npt.NDArray[Any], scale: float = 1.0) -> Tensor:
        """Embed the image."""
        return self.model.embed_images(self.preprocess(image, scale)).cpu()

    def embed_regions(self, encoded: Tensor, regions: Regions) -> Tensor:
        """Repeat the image embedding."""
        return encoded.expand(len(regions), -1).clone()


def as_regions(masks: npt.ArrayLike | Regions, shape: tuple[int, ...]) -> Regions:
    """Convert masks (N, H, W) to regions of an image of this shape.

    Raises
    ------
    InputError
        If there are none, or they have another size.
    """
    regions = Regions.of(masks)
    if not len(regions):
        raise InputError("There are no masks to embed; pass at least one.")
    if regions.shape != shape:
        raise MaskShapeError(
            f"Masks are {regions.shape[0]} x {regions.shape[1]} px but the image is {shape[0]} x "
            f"{shape[1]} px; pass masks drawn on this image."
        )
    return regions
