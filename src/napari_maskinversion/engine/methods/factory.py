"""Make embedders by a method, or by a fusion of two, and inverters for the pipeline."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import normalize

from ...base.errors import InputError
from ...base.regions import Regions, as_array
from ...base.steps import drive
from ..compute.compute_lock import computing, locked_steps
from ..invert.inverter import MaskInverter
from ..invert.loop import InversionResult, StepState
from ..models.backbone import Backbone
from ..settings import InversionConfig
from .region_method import RegionMethod
from .registry import MASKINVERSION, Method

AT_ONCE: Final = 4  # regions between two yields


@computing()
def region_embedder(
    method: str | Method,
    model: Backbone,
    *,
    resolution: int | None = None,
    keep_aspect: bool = True,
    inversion: InversionConfig | None = None,
    **options: Any,
) -> RegionMethod:
    """Return an embedder of regions.

    Parameters
    ----------
    method : str or Method
        A name of `list_methods`, such as ``"crop"``, or two joined by ``+``.
    model : Backbone
        From `load_model` or `wrap_open_clip`; never modified.
    resolution : int, optional
        Side in pixels of the model's input. Default: the working resolution for methods that use
        tokens of the whole image, the native one for methods that edit the image for each region.
    keep_aspect : bool
        False resizes the whole image to a square.
    inversion : InversionConfig, optional
        For MaskInversion.
    **options
        For the method's class, such as ``context=1.4`` of "crop"; not for fusions.

    Raises
    ------
    ConfigError
        If there is no such method, or its weights are missing.
    ModelError
        If the method does not work with this model.

    Examples
    --------
    >>> embedder = region_embedder("crop", load_model("demo"))
    >>> embedder.set_image(rgb)
    >>> similarity = embedder.embed(masks) @ embedder.model.encode_text(["a dog"]).T
    """
    method = Method.of(method)
    method.check()
    embedders: list[RegionMethod] = []
    for spec in method.parts:
        arguments = {"resolution": resolution, "keep_aspect": keep_aspect, **spec.options}
        if spec.name == MASKINVERSION:
            arguments["inversion"] = inversion
        if spec.weights:
            arguments["weights"] = method.weights
        module, name = spec.location.split(":")
        kind = getattr(import_module(f".{module}", __package__), name)
        embedders.append(kind(model, **{**arguments, **options}))
    return embedders[0] if len(embedders) == 1 else Fusion((embedders[0], embedders[1]))


def inverter_maker(
    method: Method, config: InversionConfig, resolution: int | None
) -> Callable[..., Any]:
    """Return a callable that makes a method's inverters from a model and ``memory_mb``."""
    if method.inverts:
        return MaskInverter
    return partial(MethodInverter, method=method, config=config, resolution=resolution)


def default_resolution(method: Method, model: Backbone) -> int:
    """Return the default resolution of a method's inputs; the larger one of a fusion."""
    return model.working_resolution if method.whole_image else model.native_resolution


class Fusion(RegionMethod):
    """The mean of two unit embeddings.

    Its product with a unit text embedding is the mean of the two cosines: the normalised scores of
    both methods, averaged. As it is an embedding, it works for captions and exemplars too.
    """

    def __init__(self, methods: tuple[RegionMethod, RegionMethod]) -> None:
        first = methods[0]
        super().__init__(first.model, resolution=first.resolution, keep_aspect=first.keep_aspect)
        self.methods = methods

    def encode(self, image: npt.NDArray[Any], scale: float = 1.0) -> Any:
        """Encode the image with both methods."""
        return [method.encode(image, scale) for method in self.methods]

    def embed_regions(self, encoded: Any, regions: Regions) -> Tensor:
        """Average both embeddings."""
        first, second = (
            normalize(method.embed_regions(part, regions), dim=1)
            for method, part in zip(self.methods, encoded, strict=True)
        )
        return (first + second) / 2


@dataclass(frozen=True, slots=True, eq=False)
class _Image:
    """Everything that belongs to one image; a call reads it once, so that threads can share."""

    embedder: RegionMethod
    encoded: Any
    plane: tuple[int, int]
    input_size: tuple[int, int]
    grid: tuple[int, int]


class MethodInverter:
    """The interface of `MaskInverter` for another method: embeddings without maps or losses.

    ``config`` is for fusions with MaskInversion; ``resolution`` that of the user, default that of
    the method; ``memory_mb`` is unused.
    """

    def __init__(
        self,
        model: Backbone,
        method: Method,
        config: InversionConfig,
        *,
        resolution: int | None = None,
        memory_mb: int = 0,
    ) -> None:
        self._model, self._method, self._config = model, method, config
        self._planned = resolution or default_resolution(method, model)
        self._resolution = resolution
        self._embedder: RegionMethod | None = None
        self._image: _Image | None = None

    def set_image_steps(
        self,
        image: npt.ArrayLike,
        *,
        resolution: int | None = None,
        keep_aspect: bool = True,
        layers: int = 1,
    ) -> Generator[tuple[int, int], None, None]:
        """Encode an image; a lower ``resolution`` than planned makes all inputs smaller."""
        array = as_array(image)
        yield 0, 1
        if self._embedder is None:
            self._embedder = region_embedder(
                self._method,
                self._model,
                resolution=self._resolution,
                keep_aspect=keep_aspect,
                inversion=self._config,
            )
        side = resolution or self._planned
        scale = 1.0 if side == self._planned else side / self._planned
        with computing():
            encoded = self._embedder.encode(array, scale)
        plane = (array.shape[0], array.shape[1])
        size = self._embedder.input_size(*plane, scale)
        grid = (size[0] // self._model.patch_size, size[1] // self._model.patch_size)
        self._image = _Image(self._embedder, encoded, plane, size, grid)
        yield 1, 1

    @property
    def input_size(self) -> tuple[int, int]:
        """Pixels (H, W) of the model's input for the whole image."""
        return self._current().input_size

    @property
    def grid(self) -> tuple[int, int]:
        """Tokens along y and x of that input."""
        return self._current().grid

    def spare_memory(self) -> None:
        """Do nothing: there is no cache."""

    def release(self) -> None:
        """Free the encoded image."""
        self._image = None

    def _current(self) -> _Image:
        if self._image is None:
            raise InputError("No image is set; call set_image_steps(image) first.")
        return self._image

    def invert_steps(
        self, masks: Regions, config: InversionConfig, *, planned_masks: int | None = None
    ) -> Generator[StepState, None, InversionResult]:
        """Embed regions; yields after every four of them."""
        return (yield from locked_steps(self._embed(masks, self._current())))

    def _embed(
        self, regions: Regions, image: _Image
    ) -> Generator[StepState, None, InversionResult]:
        rows, count = [], len(regions)
        for start in range(0, count, AT_ONCE):
            chunk = regions[start : start + AT_ONCE]
            rows.append(image.embedder.embed_regions(image.encoded, chunk).numpy())
            yield StepState(min(start + AT_ONCE, count), count, None)
        token = math.prod(image.plane) / math.prod(image.grid)
        small = [region.area < token and not self._method.cut_out for region in regions]
        return InversionResult(
            raw_embeddings=np.concatenate(rows).astype(np.float32),
            grid_maps=np.zeros((count, 0, 0), np.float32),
            losses=np.zeros((count, 0), np.float32),
            mask_ious=np.full(count, np.nan, np.float32),
            low_resolution=np.array(small),
            input_size=image.input_size,
            mask_size=image.plane,
        )


class Inversion(RegionMethod):
    """MaskInversion itself, as one method among others: embeddings as optimised."""

    whole_image = True

    def __init__(
        self, model: Backbone, *, inversion: InversionConfig | None = None, **common: Any
    ) -> None:
        super().__init__(model, **common)
        self.inversion = inversion or InversionConfig()

    def encode(self, image: npt.NDArray[Any], scale: float = 1.0) -> MaskInverter:
        """Encode the image."""
        inverter, side = MaskInverter(self.model), self.input_side(scale)
        drive(
            inverter.set_image_steps(
                image, resolution=side, keep_aspect=self.keep_aspect, layers=self.inversion.layers
            )
        )
        return inverter

    def embed_regions(self, encoded: MaskInverter, regions: Regions) -> Tensor:
        """Invert the masks."""
        return torch.from_numpy(encoded.invert(regions, self.inversion).raw_embeddings)
