"""MaskInverter: encode an image once, invert any masks on it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ...base.errors import InputError, MaskShapeError
from ...base.regions import Regions
from ...base.steps import drive
from ..compute.compute_lock import computing, locked_steps
from ..encode.image_encoding import ImageEncoding, check_layers
from ..explain.rollout import rollout
from ..models.towers import tower_of
from ..settings import InversionConfig
from .dice import MaskTargets
from .loop import InversionResult, StepState, invert_steps
from .map_builder import MapBuilder
from .surrogate import invert_with_surrogates

if TYPE_CHECKING:
    from ..models.loading import Backbone

FloatArray = npt.NDArray[np.float32]
Masks = npt.ArrayLike | Regions


class MaskInverter:
    """Localized embeddings of masks (MaskInversion, arXiv 2407.20034) on a frozen CLIP.

    Parameters
    ----------
    model : Backbone
        From `load_model` or `wrap_open_clip`; never modified.
    memory_mb : int
        Approximate memory for inversions, in addition to the model and the image's constants. Up
        to half of it caches what makes later masks on the same image cheap.

    Examples
    --------
    >>> inverter = MaskInverter(load_model("demo"))
    >>> inverter.set_image(rgb)
    >>> result = inverter.invert(masks, InversionConfig(alpha=5))
    """

    def __init__(self, model: Backbone, *, memory_mb: int = 1024) -> None:
        self._model = model
        self._tower = tower_of(model.clip.visual)
        self._image: Tensor | None = None
        self._plane: tuple[int, int] | None = None
        self._encoding: ImageEncoding | None = None
        self._memory_mb = memory_mb
        self._map_builder = MapBuilder(memory_mb)

    @property
    def model(self) -> Backbone:
        """The model."""
        return self._model

    def set_image(
        self, image: npt.ArrayLike, *, resolution: int | None = None, keep_aspect: bool = True
    ) -> None:
        """Encode an image (H, W, 3) or (H, W), uint8, uint16 or float in 0..1.

        Parameters
        ----------
        image : array_like
        resolution : int, optional
            Side of the model's input in pixels (default: the model's working resolution). With
            ``keep_aspect``, the input has about ``resolution ** 2`` pixels and the image's shape.
        keep_aspect : bool
            False squeezes the image into a square, as the published code does.

        Raises
        ------
        InputError
            If the array is not an image, or holds NaN.
        """
        drive(self.set_image_steps(image, resolution=resolution, keep_aspect=keep_aspect))

    def set_image_steps(
        self,
        image: npt.ArrayLike,
        *,
        resolution: int | None = None,
        keep_aspect: bool = True,
        layers: int = 1,
    ) -> Generator[tuple[int, int], None, None]:
        """Do what `set_image` does; yield (blocks done, blocks in total). It can be closed."""
        array = np.asarray(image)
        tensor = self._model.preprocess(array, resolution=resolution, keep_aspect=keep_aspect)
        yield from self._set(tensor, (array.shape[0], array.shape[1]), layers)

    def set_image_tensor(self, image: Tensor) -> None:
        """Encode a normalised tensor (1, 3, H, W); H and W are multiples of the patch size.

        Raises
        ------
        InputError
            If the shape does not fit the model or values are not finite.
        """
        with computing():
            # A copy outlives what the caller does to the tensor, and any inference mode.
            tensor = image.detach().to(self._model.device, copy=True)
        drive(self._set(tensor, None, 1))

    def _set(
        self, tensor: Tensor, plane: tuple[int, int] | None, layers: int
    ) -> Generator[tuple[int, int], None, None]:
        self.release()
        encoding = yield from locked_steps(self._tower.encode_steps(tensor, layers))
        if self._tower.corrected:
            encoding = replace(encoding, empty=self._empty_prompt(encoding.embedding))
        self._image, self._plane, self._encoding = tensor, plane, encoding

    def _empty_prompt(self, like: Tensor) -> Tensor | None:
        embedding = self._model.empty_prompt()
        return None if embedding is None else torch.from_numpy(embedding).to(like)

    @property
    def kept_bytes(self) -> int:
        """Bytes cached to make later masks on this image cheap; at most half of ``memory_mb``."""
        return self._map_builder.kept_bytes

    def spare_memory(self) -> None:
        """Free the cache and use half as much memory from now on."""
        self._memory_mb //= 2
        self._map_builder = MapBuilder(self._memory_mb)

    def release(self) -> None:
        """Free the image and everything cached for it."""
        self._image = self._plane = self._encoding = None
        self._map_builder.clear()

    @property
    def image_embedding(self) -> npt.NDArray[np.float32]:
        """The model's embedding (e,) of the whole image, float32, not normalised."""
        return np.asarray(self._current(1).embedding.float().cpu().numpy(), dtype=np.float32)

    @property
    def input_size(self) -> tuple[int, int]:
        """Pixels (H, W) of the model's input for the current image."""
        return self._current(1).input_size

    @property
    def grid(self) -> tuple[int, int]:
        """Tokens of the current image along y and x."""
        return self._current(1).grid

    def invert(
        self,
        masks: Masks,
        config: InversionConfig | None = None,
        *,
        on_step: Callable[[int, int], None] | None = None,
        **settings: Any,
    ) -> InversionResult:
        """Invert masks on the current image.

        Parameters
        ----------
        masks : array_like (N, H, W) or (H, W), or Regions
            As `Regions.from_masks` takes, on the plane of the image; after `set_image_tensor`, of
            any size (resampled by area). A label image: ``Regions.from_labels(labels)``.
        config : InversionConfig, optional
        on_step : callable, optional
            Called with (updates finished, updates in total). If it raises, the inversion stops.
        **settings
            Fields of `InversionConfig` that differ from ``config``: ``alpha=5, steps=20``.

        Returns
        -------
        InversionResult

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
        work = self.invert_steps(masks, InversionConfig.of(config, **settings))
        return drive(work, on_step and (lambda state: on_step(state.step, state.steps)))

    def embed(self, regions: Masks) -> FloatArray:
        """Return what every method to embed a region does: (N, e), float32, of L2 norm 1.

        ``invert(regions).embeddings``; `region_embedder` makes embedders by other methods.
        """
        return self.invert(regions).embeddings

    def invert_steps(
        self,
        masks: Masks,
        config: InversionConfig | None = None,
        *,
        planned_masks: int | None = None,
    ) -> Generator[StepState, None, InversionResult]:
        """Do what `invert` does; yield progress often. It can be closed.

        ``planned_masks`` is the number of masks in all chunks on this image, from which the faster
        route is chosen.
        """
        config = config or InversionConfig()
        regions = Regions.of(masks)
        if not len(regions):
            raise InputError("There are no masks to invert; pass at least one.")
        if self._plane is not None and regions.shape != self._plane:
            raise MaskShapeError(
                f"Masks are {regions.shape[0]} x {regions.shape[1]} px but the image is "
                f"{self._plane[0]} x {self._plane[1]} px; pass masks drawn on this image."
            )
        self._tower.check(config)
        encoding = self._current(config.layers)
        count = max(len(regions), planned_masks or 0)
        result = yield from locked_steps(self._inversion(encoding, regions, count, config))
        return result

    def explain(
        self, embeddings: npt.ArrayLike, *, layers: int = 1, explainer: str = "legrad"
    ) -> FloatArray:
        """Compute where on the current image embeddings are: of regions, of texts, of anything.

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
            Maps of the unit embeddings at token resolution, not stretched. Embeddings of `invert`
            get the maps of its result.

        Raises
        ------
        InputError
            If no image is set, or the embeddings have another size, are not finite, or are 0.
        """
        config = InversionConfig(steps=1, layers=layers, explainer=explainer)
        self._tower.check(config)
        vectors = np.array(embeddings, dtype=np.float64)
        encoding = self._current(layers)
        size = len(encoding.embedding)
        if vectors.ndim != 2 or vectors.shape[1] != size:
            raise InputError(
                f"Embeddings of this model are (N, {size}); got {vectors.shape}. "
                "Pass embeddings of the same model."
            )
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not (np.isfinite(lengths) & (lengths > 0)).all():
            raise InputError("An embedding to explain must be finite and not 0.")
        return drive(locked_steps(self._explanation(encoding, vectors / lengths, config)))

    @computing()
    def rollout(self) -> FloatArray:
        """Compute attention rollout of the current image.

        It does not depend on an embedding, so it can be looked at but not inverted.

        Returns
        -------
        ndarray, shape (grid_h, grid_w), float32, >= 0
        """
        encoding = self._current(1)
        image = self._image
        assert image is not None  # it has an encoding
        relevance = rollout(self._tower.attentions(image), encoding.num_tokens - 1)
        return np.asarray(relevance.float().cpu().numpy(), np.float32).reshape(encoding.grid)

    def _explanation(
        self, encoding: ImageEncoding, unit: npt.NDArray[np.float64], config: InversionConfig
    ) -> Generator[StepState, None, FloatArray]:
        plan = yield from self._map_builder.make(encoding, len(unit), config)
        explained = plan.exact
        embeddings = torch.from_numpy(unit).to(encoding.embedding)
        maps = embeddings.new_empty(len(embeddings), encoding.num_tokens - 1)
        with torch.no_grad():
            for start in range(0, len(embeddings), explained.group_size):
                group = slice(start, start + explained.group_size)
                maps[group] = explained.forward(embeddings[group])
        grid_maps = maps.float().cpu().numpy().reshape(len(maps), *encoding.grid)
        return np.asarray(grid_maps, dtype=np.float32)

    def _inversion(
        self, encoding: ImageEncoding, regions: Regions, count: int, config: InversionConfig
    ) -> Generator[StepState, None, InversionResult]:
        targets = MaskTargets(
            regions, regions.shape, encoding.input_size, encoding.grid, encoding.embedding
        )
        plan = yield from self._map_builder.make(encoding, count, config)
        if plan.surrogates is not None:
            result = yield from invert_with_surrogates(
                plan.surrogates, targets, encoding.embedding, config, regions.shape
            )
            return result
        result = yield from invert_steps(
            plan.exact, targets, encoding.embedding, config, regions.shape
        )
        return result

    def _current(self, layers: int) -> ImageEncoding:
        """Return the encoding with ``layers`` explained layers; encode again if it has fewer."""
        if self._encoding is None or self._image is None:
            raise InputError("No image is set; call set_image(image) first.")
        check_layers(layers, self._tower.num_layers)
        if self._encoding.num_layers < layers:
            drive(self._set(self._image, self._plane, layers))
        return self._encoding.last(layers)
