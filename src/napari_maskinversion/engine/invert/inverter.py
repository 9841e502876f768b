"""MaskInverter: encode an image once, invert any masks on it; and what other methods share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Integral
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ...base.errors import ConfigError, InputError, MaskShapeError
from ...base.progress import STEP, counting
from ...base.regions import Regions, as_array
from ..compute.compute_lock import computing
from ..compute.cuda_graphs import forget
from ..compute.devices import total_memory
from ..compute.matmul import STORED, check_precision
from ..encode.attention import rollout
from ..encode.token_grid import TokenGrid
from ..explain.routes import slices
from ..models.towers import tower_of
from ..models.towers.base import ImageTower
from ..settings import MEMORY_SHARE, InversionConfig
from . import graphs
from .dice import MaskTargets
from .fast import descend_fast
from .loop import Descent, InversionResult, StepState, descend, to_numpy
from .map_builder import MapBuilder

if TYPE_CHECKING:
    from ..models.backbone import Backbone

FloatArray = npt.NDArray[np.float32]
Masks = npt.ArrayLike | Regions

_MB: Final = 2**20


@dataclass(frozen=True, slots=True, eq=False)
class _Image:
    """Everything that belongs to one image; a call reads it once, so that threads can share."""

    plane: tuple[int, int] | None
    input_size: tuple[int, int]
    grid: TokenGrid
    tensor: Tensor
    layers: int
    dtype: torch.dtype | None
    maps: MapBuilder


class RegionEmbedder(ABC):
    """Anything that embeds regions: `MaskInverter`, and what `region_embedder` makes."""

    def __init__(self, model: Backbone) -> None:
        self.model = model
        self._image: Any = None  # has input_size and grid

    def __repr__(self) -> str:
        seen = "no image"
        if self._image is not None:
            rows, columns = self._image.grid
            seen = f"image of {rows} x {columns} tokens"
        return f"<{type(self).__name__}: {self.model.name} on {self.model.device}, {seen}>"

    @property
    def memory_mb(self) -> int:
        """The memory budget of inversions, in units of 2**20 bytes; 0 for other methods."""
        return 0

    @property
    def input_size(self) -> tuple[int, int]:
        """Pixels (H, W) of the model's input for the current image."""
        size: tuple[int, int] = self._current().input_size
        return size

    @property
    def grid(self) -> TokenGrid:
        """Tokens of the current image along y and x."""
        grid: TokenGrid = self._current().grid
        return grid

    def set_image(
        self,
        image: npt.ArrayLike,
        *,
        resolution: int | None = None,
        keep_aspect: bool | None = None,
        config: InversionConfig | None = None,
    ) -> None:
        """Encode an image (H, W, 3) or (H, W), uint8, uint16 or float in 0..1.

        Parameters
        ----------
        image : array_like
            Or a torch tensor on any device.
        resolution : int, optional
            Side of the model's input in pixels (default: the model's working resolution). With
            ``keep_aspect``, the input has about ``resolution ** 2`` pixels and the image's shape.
        keep_aspect : bool, optional
            False squeezes the image into a square, as the published code does (default: True, or
            what the method was made with).
        config : InversionConfig, optional
            Settings of later inversions. Those of other layers or half precision encode again.

        Raises
        ------
        InputError
            If the array is not an image, or holds NaN.
        ConfigError
            If the model or its device cannot work with these settings.
        """
        self._set_image(as_array(image), resolution, keep_aspect, config)

    @abstractmethod
    def _set_image(
        self,
        array: npt.NDArray[Any],
        resolution: int | None,
        keep_aspect: bool | None,
        config: InversionConfig | None,
    ) -> None:
        """Encode an image; the one before stays until this one is encoded."""

    def embed(self, regions: Masks) -> FloatArray:
        """Embed regions of the current image.

        Parameters
        ----------
        regions : array_like (N, H, W) or (H, W), or Regions
            As `Regions.from_masks` takes.

        Returns
        -------
        ndarray, shape (N, e), float32
            L2 norm 1.

        Raises
        ------
        InputError
            If no image is set, or a mask cannot be used, or there is none.
        """
        return self.invert(regions).embeddings

    @abstractmethod
    def invert(
        self,
        masks: Masks,
        config: InversionConfig | None = None,
        *,
        planned_masks: int | None = None,
    ) -> InversionResult:
        """Embed regions and return all that is known of them."""

    def spare_memory(self) -> None:
        """Free what is cached and use less memory from now on, if that is possible."""
        forget(self.model.clip.visual)  # also what other inversions with the model have left

    def release(self) -> None:
        """Free the image and everything cached for it or the next one."""
        self._image = None
        forget(self.model.clip.visual)

    def _current(self) -> Any:
        """Return the image that is set."""
        image = self._image
        if image is None:
            raise InputError("No image is set; call set_image(image) first.")
        return image


class MaskInverter(RegionEmbedder):
    """Localized embeddings of masks (MaskInversion, arXiv 2407.20034) on a frozen CLIP.

    Parameters
    ----------
    model : Backbone
        From `load_model` or `wrap_open_clip`; never modified.
    memory_mb : int, optional
        Approximate memory (2**20 bytes) for inversions, in addition to the model and the image's
        constants (default: an eighth of all memory of the model's device, free or not). Up to
        60 % of it cache what makes later masks on the same image cheap. On an NVIDIA GPU, CUDA
        graphs keep at most a quarter as much on top, and at most 512 MiB.

    Examples
    --------
    >>> inverter = MaskInverter(load_model("demo"))
    >>> inverter.set_image(rgb)
    >>> result = inverter.invert(masks, InversionConfig(alpha=5))
    """

    def __init__(self, model: Backbone, *, memory_mb: int | None = None) -> None:
        super().__init__(model)
        self._tower = tower_of(model.clip.visual)
        self._memory_mb = memory_mb
        self._halved = 0
        most = total_memory(model.device) // _MB
        number: Any = memory_mb
        whole = isinstance(number, Integral) and not isinstance(number, bool)
        if memory_mb is not None and not (whole and 0 <= memory_mb <= most):
            raise ConfigError(
                f"memory_mb must be a whole number from 0 to {most}, the memory of "
                f"{model.device}; got {memory_mb!r}."
            )

    def _set_image(
        self,
        array: npt.NDArray[Any],
        resolution: int | None,
        keep_aspect: bool | None,
        config: InversionConfig | None,
    ) -> None:
        if resolution is not None:
            self.model.check_attention(resolution)
        tensor = self.model.preprocess(
            array, resolution=resolution, keep_aspect=keep_aspect is not False
        )
        self._set(tensor, (array.shape[0], array.shape[1]), config)

    def set_image_tensor(self, image: Tensor, config: InversionConfig | None = None) -> None:
        """Encode a normalised tensor (1, 3, H, W); H and W are multiples of the patch size.

        ``config`` and errors are as for `set_image`.
        """
        with computing():
            # A copy outlives what the caller does to the tensor, and any inference mode.
            tensor = image.detach().to(self.model.device, copy=True)
        self._set(tensor, None, config)

    def _set(
        self, tensor: Tensor, plane: tuple[int, int] | None, config: InversionConfig | None
    ) -> None:
        config = InversionConfig.of(config)
        self._check(config, tensor.device)
        before = self._image
        if before is not None:
            before.maps.clear()
        dtype = self._dtype(config)
        self._image = self._encode(tensor, plane, config.layers, dtype)

    def _check(self, config: InversionConfig, device: torch.device) -> None:
        config.check(self._tower, str(device))
        check_precision(config.precision, device)

    def _dtype(self, config: InversionConfig) -> torch.dtype | None:
        """Return the half precision in which images are encoded for such inversions."""
        rounded = self._tower.half_precision and config.explainer == "legrad"
        if rounded:
            return STORED.get(config.precision)
        return None

    @computing()
    def _encode(
        self,
        tensor: Tensor,
        plane: tuple[int, int] | None,
        layers: int,
        dtype: torch.dtype | None,
    ) -> _Image:
        tensor = tensor.to(self._tower.weight.device)  # the caller may have moved the model
        memory = self.memory_mb * _MB
        encoding = graphs.encode(self._tower, tensor, layers, dtype, memory)
        prompt = None
        if self._tower.corrected:
            prompt = self.model.empty_prompt()
        if prompt is not None:
            encoding = replace(encoding, empty=torch.from_numpy(prompt).to(encoding.embedding))
        maps = MapBuilder(encoding, memory)
        return _Image(plane, encoding.input_size, encoding.grid, tensor, layers, dtype, maps)

    @property
    def memory_mb(self) -> int:
        """The memory budget of inversions, in units of 2**20 bytes."""
        # The host may have moved the model to another device since.
        share = MEMORY_SHARE * total_memory(self.model.device) / _MB
        return int(share if self._memory_mb is None else self._memory_mb) >> self._halved

    def spare_memory(self) -> None:
        """Free the cache and use half as much memory from now on."""
        with computing():
            super().spare_memory()
            self._halved += 1
            image = self._image
            if image is not None:
                maps = MapBuilder(image.maps.encoding, self.memory_mb * _MB)
                self._image = replace(image, maps=maps)

    @property
    def image_embedding(self) -> npt.NDArray[np.float32]:
        """The model's embedding (e,) of the whole image, float32, not normalised."""
        embedding = self._current().maps.encoding.embedding
        return to_numpy(embedding)

    def invert(
        self,
        masks: Masks,
        config: InversionConfig | None = None,
        *,
        on_step: Callable[[int, int], None] | None = None,
        planned_masks: int | None = None,
        **settings: Any,
    ) -> InversionResult:
        """Invert masks on the current image.

        Parameters
        ----------
        masks : array_like (N, H, W) or (H, W), or Regions
            As `Regions.from_masks` takes, on the plane of the image; after `set_image_tensor`, of
            any size (resampled by area). A label image: ``Regions.from_labels(labels)``.
        config : InversionConfig, optional
            Settings of this call; default: those of the inverter.
        on_step : callable, optional
            Called with (updates finished, updates in total). If it raises, the inversion stops.
        planned_masks : int, optional
            Masks that you invert on this image altogether, call by call: the faster route is
            chosen for so many.
        **settings
            Fields of `InversionConfig` that differ from ``config``: ``alpha=5, steps=20``.

        Returns
        -------
        InversionResult
            One row per mask, in their order.

        Raises
        ------
        ConfigError
            If there is no such setting, or a value cannot work.
        InputError
            If no image is set or there are no masks.
        MaskShapeError
            If masks and image differ in size.
        EmptyMaskError
            If a mask has no pixel; the message names it.
        """
        config = InversionConfig.of(config, **settings)
        image: _Image = self._current()
        regions = regions_of(masks, image.plane)
        self._check(config, image.tensor.device)
        image = self._with(image, config.layers, self._dtype(config))
        count = max(len(regions), planned_masks or 0)
        with counting(STEP, on_step), computing(tf32=config.precision == "tf32"):
            return _inversion(self._tower, image.maps, regions, count, config)

    def explain(
        self, embeddings: npt.ArrayLike, *, layers: int = 1, explainer: str = "legrad"
    ) -> FloatArray:
        """Compute maps of where embeddings of texts, regions or others are on the current image.

        Parameters
        ----------
        embeddings : array_like, shape (N, e)
            Of any length but 0.
        layers : int
            How many of the last layers are explained, as in `InversionConfig`.
        explainer : str
            The explainability map, as in `InversionConfig`.

        Returns
        -------
        ndarray, shape (N, grid_h, grid_w), float32
            Maps of the unit embeddings at token resolution, not normalised. Embeddings of `invert`
            get the maps of its result.

        Raises
        ------
        InputError
            If no image is set, or the embeddings have another size, are not finite, or are 0.
        """
        config = InversionConfig(steps=1, layers=layers, explainer=explainer)
        config.check(self._tower)
        vectors = np.array(embeddings, dtype=np.float64, ndmin=1)
        image = self._current()
        image = self._with(image, layers, image.dtype)
        size = len(image.maps.encoding.embedding)
        lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
        fits = vectors.ndim == 2 and vectors.shape[1] == size
        if not fits or not (np.isfinite(lengths) & (lengths > 0)).all():
            raise InputError(
                f"Embeddings of this model are (N, {size}), finite and not 0; got "
                f"{vectors.shape}. Pass embeddings of the same model."
            )
        return _explanation(image.maps, vectors / lengths, config)

    @computing()
    def rollout(self) -> FloatArray:
        """Compute attention rollout of the current image.

        It does not depend on an embedding, so it can be looked at but not inverted.

        Returns
        -------
        ndarray, shape (grid_h, grid_w), float32, >= 0
            One value per token.
        """
        image: _Image = self._current()
        patches = image.grid.tokens
        relevance = rollout(self._tower.attentions(image.tensor.to(self.model.device)), patches)
        return to_numpy(relevance).reshape(image.grid)

    def _with(self, image: _Image, layers: int, dtype: torch.dtype | None) -> _Image:
        """Return the image with at least ``layers`` explained; encode it again if need be."""
        if image.layers >= layers and image.dtype == dtype:
            return image
        layers = max(layers, image.layers)
        encoded = self._encode(image.tensor, image.plane, layers, dtype)
        with computing():
            if self._image is image:
                self._image = encoded
        return encoded


def regions_of(masks: Masks, plane: tuple[int, int] | None) -> Regions:
    """Return masks as regions of an image of this size; None for any size."""
    regions = Regions.of(masks)
    if not len(regions):
        raise InputError("There are no masks; pass at least one.")
    if plane is not None and regions.shape != plane:
        raise MaskShapeError(
            f"Masks are {regions.shape[0]} x {regions.shape[1]} px but the image is "
            f"{plane[0]} x {plane[1]} px; pass masks drawn on this image."
        )
    return regions


def _inversion(
    tower: ImageTower, maps: MapBuilder, regions: Regions, count: int, config: InversionConfig
) -> InversionResult:
    """Invert regions on an image; ``count`` is the number of masks that are planned on it."""
    encoding = maps.encoding
    targets = MaskTargets(
        regions, regions.shape, encoding.input_size, encoding.grid, encoding.embedding
    )
    descent = Descent(targets, encoding.embedding, config)
    fast = maps.fast(config, count)
    other = maps.other_map(config)
    route = ""
    if fast is not None:
        route = f"fast, {fast.exact.route}"
        failed, remainder = descend_fast(fast, descent)
        if len(failed):
            share = len(failed) / len(regions)
            route = f"{route}, {len(failed)} of {len(regions)} exact"
            # Of the other chunks' masks as many are likely to fail.
            exact = maps.exact(config, round(share * count))

            def state() -> StepState:
                descent.adopt(failed, remainder)
                return replace(descent.state(), done=remainder.step if share == 1 else config.steps)

            descend(exact, remainder, state)
    elif other is not None:
        descend(other, descent)
    else:
        route = graphs.descend(tower.visual, maps, count, descent)
    if route and config.precision != "float32":
        route = f"{route}, {config.precision}"
    return descent.result(regions.shape, route)


@computing()
def _explanation(
    maps: MapBuilder, unit: npt.NDArray[np.float64], config: InversionConfig
) -> FloatArray:
    encoding = maps.encoding
    explained = maps.other_map(config) or maps.exact(config, len(unit))
    embeddings = torch.from_numpy(unit).to(encoding.embedding)
    grid_maps = embeddings.new_empty(len(embeddings), encoding.grid.tokens)
    with torch.no_grad():
        for group in slices(len(embeddings), explained.group_size):
            grid_maps[group] = explained.forward(embeddings[group])
    return to_numpy(grid_maps).reshape(len(unit), *encoding.grid)
