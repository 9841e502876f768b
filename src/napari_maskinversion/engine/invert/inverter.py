"""MaskInverter: encode an image once, invert any masks on it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ...base.errors import InputError, MaskShapeError
from ...base.regions import Regions
from ..compute.compute_lock import taking_turns
from ..encode.image_encoding import ImageEncoding, check_layers
from ..explain.rollout import rollout
from ..models.towers import check_config, tower_of
from ..settings import ExplainerName, InversionConfig
from .dice import MaskTargets
from .loop import InversionResult, StepState, invert_steps
from .map_builder import MapBuilder
from .surrogate import invert_anchored

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
        About how much the inversion may take beside the model and the image's constants. Up to
        half of it holds what makes later masks on the same image cheap.

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
        self._prepared = MapBuilder(memory_mb)

    @property
    def model(self) -> Backbone:
        """The model in use."""
        return self._model

    def set_image(
        self, image: npt.ArrayLike, *, resolution: int | None = None, keep_aspect: bool = True
    ) -> None:
        """Encode an image (H, W, 3) or (H, W), uint8, uint16 or float in 0..1.

        Parameters
        ----------
        image : array_like
        resolution : int, optional
            Pixels of the model's input; the model's working resolution where not given. With
            ``keep_aspect`` the input has about ``resolution ** 2`` pixels and the image's shape.
        keep_aspect : bool
            False squeezes the image into a square, as the published code does.

        Raises
        ------
        InputError
            If the array is no image, or holds NaN.
        """
        for _ in self.set_image_steps(image, resolution=resolution, keep_aspect=keep_aspect):
            pass

    def set_image_steps(
        self,
        image: npt.ArrayLike,
        *,
        resolution: int | None = None,
        keep_aspect: bool = True,
        layers: int = 1,
    ) -> Generator[tuple[int, int], None, None]:
        """`set_image` as a generator that yields (blocks done, blocks) and may be closed."""
        array = np.asarray(image)
        tensor = self._model.preprocess(array, resolution=resolution, keep_aspect=keep_aspect)
        yield from self._set(tensor, (array.shape[0], array.shape[1]), layers)

    def set_image_tensor(self, image: Tensor) -> None:
        """Encode a tensor (1, 3, H, W) as it is; H and W divisible by the patch size.

        Raises
        ------
        InputError
            If the shape does not fit the model or values are not finite.
        """
        for _ in self._set(image.to(self._model.device), None, 1):
            pass

    def _set(
        self, tensor: Tensor, plane: tuple[int, int] | None, layers: int
    ) -> Generator[tuple[int, int], None, None]:
        self.release()
        encoding = yield from taking_turns(self._tower.encode_steps(tensor, layers))
        if self._tower.corrected:
            encoding = replace(encoding, empty=self._empty(encoding.embedding))
        self._image, self._plane, self._encoding = tensor, plane, encoding

    def _empty(self, like: Tensor) -> Tensor | None:
        found = self._model.empty_prompt()
        return None if found is None else torch.from_numpy(found).to(like)

    @property
    def kept_bytes(self) -> int:
        """Memory held to make later masks on this image cheap; at most half of ``memory_mb``."""
        return self._prepared.kept_bytes

    def spare_memory(self) -> None:
        """Let go of what is kept beside the image, and make do with half as much from now on."""
        self._memory_mb //= 2
        self._prepared = MapBuilder(self._memory_mb)

    def release(self) -> None:
        """Let go of the image and of everything kept with it; set an image to go on."""
        self._image = self._plane = self._encoding = None
        self._prepared.clear()

    @property
    def image_embedding(self) -> npt.NDArray[np.float32]:
        """The model's own embedding (e,) of the whole image, float32, not normalised."""
        return np.asarray(self._current(1).embedding.float().cpu().numpy(), dtype=np.float32)

    @property
    def input_size(self) -> tuple[int, int]:
        """Pixels (H, W) of the model's input for the image that is set."""
        return self._current(1).input_size

    @property
    def grid(self) -> tuple[int, int]:
        """Tokens along y and x of the image that is set."""
        return self._current(1).grid

    def invert(
        self,
        masks: Masks,
        config: InversionConfig | None = None,
        *,
        on_step: Callable[[int, int], None] | None = None,
    ) -> InversionResult:
        """Invert masks on the image that was set.

        Parameters
        ----------
        masks : array_like (N, H, W), bool or 0..1, or Regions
            On the plane of the image, or at any size after `set_image_tensor`: resampled by area.
        config : InversionConfig, optional
        on_step : callable, optional
            Called with (updates finished, updates in all); an exception raised in it stops.

        Returns
        -------
        InversionResult

        Raises
        ------
        InputError
            If no image is set or there are no masks.
        MaskShapeError
            If the masks are of another size than the image.
        EmptyMaskError
            If a mask has no pixel; the message names it.
        """
        work = self.invert_steps(masks, config)
        while True:
            try:
                state = next(work)
            except StopIteration as stop:
                result: InversionResult = stop.value
                return result
            if on_step is not None:
                on_step(state.step, state.steps)

    def invert_steps(
        self,
        masks: Masks,
        config: InversionConfig | None = None,
        *,
        planned_masks: int | None = None,
    ) -> Generator[StepState, None, InversionResult]:
        """`invert` as a generator that yields often and may be closed.

        ``planned_masks`` says how many masks will be inverted on this image in all, so that the
        faster route can be chosen when they come in chunks.
        """
        config = config or InversionConfig()
        regions = masks if isinstance(masks, Regions) else Regions.from_masks(masks)
        if not len(regions):
            raise InputError("There are no masks to invert; give at least one.")
        if self._plane is not None and regions.shape != self._plane:
            raise MaskShapeError(
                f"Masks are {regions.shape[0]} x {regions.shape[1]} px but the image is "
                f"{self._plane[0]} x {self._plane[1]} px; give masks drawn on this image."
            )
        check_config(self._tower, config)
        encoding = self._current(config.layers)
        count = max(len(regions), planned_masks or 0)
        result = yield from taking_turns(self._inversion(encoding, regions, count, config))
        return result

    def explain(
        self, embeddings: npt.ArrayLike, *, layers: int = 1, explainer: ExplainerName = "legrad"
    ) -> FloatArray:
        """Say where on the image that was set an embedding is: a region's, a text's, any other.

        Parameters
        ----------
        embeddings : array_like, shape (N, e)
            Of any length but 0.
        layers : int
            How many of the last layers are explained, as in `InversionConfig`.
        explainer : str
            Which map, as in `InversionConfig`.

        Returns
        -------
        ndarray, shape (N, grid_h, grid_w), float32
            Maps of the unit embeddings at token resolution, not stretched: those of `invert` for
            its embeddings.

        Raises
        ------
        InputError
            If no image is set, or the embeddings are of another size, not finite, or 0.
        """
        config = InversionConfig(steps=1, layers=layers, explainer=explainer)
        check_config(self._tower, config)
        given = np.array(embeddings, dtype=np.float64)
        encoding = self._current(layers)
        size = len(encoding.embedding)
        if given.ndim != 2 or given.shape[1] != size:
            raise InputError(
                f"Embeddings of this model are (N, {size}); got {given.shape}. "
                "Take them from the model that the image was set on."
            )
        lengths = np.linalg.norm(given, axis=1, keepdims=True)
        if not (np.isfinite(lengths) & (lengths > 0)).all():
            raise InputError("An embedding to explain must be finite and not 0.")
        work = taking_turns(self._explanation(encoding, given / lengths, config))
        while True:
            try:
                next(work)
            except StopIteration as stop:
                maps: FloatArray = stop.value
                return maps

    def rollout(self) -> FloatArray:
        """Attention rollout of the image that was set: where its tokens flow, whatever is asked.

        For looking at only: it does not depend on an embedding, so it cannot be inverted.

        Returns
        -------
        ndarray, shape (grid_h, grid_w), float32, >= 0
        """
        encoding = self._current(1)
        image = self._image
        assert image is not None  # or there would be no encoding
        found = rollout(self._tower.attentions(image), encoding.num_tokens - 1)
        return np.asarray(found.float().cpu().numpy(), np.float32).reshape(encoding.grid)

    def _explanation(
        self, encoding: ImageEncoding, unit: npt.NDArray[np.float64], config: InversionConfig
    ) -> Generator[StepState, None, FloatArray]:
        plan = yield from self._prepared.make(encoding, len(unit), config)
        explained = plan.exact
        given = torch.from_numpy(unit).to(encoding.embedding)
        maps = given.new_empty(len(given), encoding.num_tokens - 1)
        with torch.no_grad():
            for start in range(0, len(given), explained.group_size):
                group = slice(start, start + explained.group_size)
                maps[group] = explained.forward(given[group])
        found = maps.float().cpu().numpy().reshape(len(maps), *encoding.grid)
        return np.asarray(found, dtype=np.float32)

    def _inversion(
        self, encoding: ImageEncoding, regions: Regions, count: int, config: InversionConfig
    ) -> Generator[StepState, None, InversionResult]:
        targets = MaskTargets(
            regions, regions.shape, encoding.input_size, encoding.grid, encoding.embedding
        )
        plan = yield from self._prepared.make(encoding, count, config)
        if plan.anchored is not None:
            result = yield from invert_anchored(
                plan.anchored, targets, encoding.embedding, config, regions.shape
            )
            return result
        result = yield from invert_steps(
            plan.exact, targets, encoding.embedding, config, regions.shape
        )
        return result

    def _current(self, layers: int) -> ImageEncoding:
        """The encoding with ``layers`` explained layers; encodes again only if it has fewer."""
        if self._encoding is None or self._image is None:
            raise InputError("No image is set; call set_image(image) first.")
        check_layers(layers, self._tower.num_layers)
        if self._encoding.num_layers < layers:
            for _ in self._set(self._image, self._plane, layers):
                pass
        return self._encoding.last(layers)
