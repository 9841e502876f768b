"""Make embedders by a method, or by a fusion of two."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import normalize

from ...base.regions import Regions
from ..compute.compute_lock import computing
from ..invert.inverter import MaskInverter, Masks, RegionEmbedder
from ..invert.loop import InversionResult
from ..models.backbone import Backbone
from ..settings import InversionConfig
from .region_method import RegionMethod
from .registry import MASKINVERSION, Method, MethodSpec


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
        if resolution is None:
            side = default_resolution(spec, model)
        else:
            side = resolution
        arguments = {"resolution": side, "keep_aspect": keep_aspect, **spec.options}
        if spec.name == MASKINVERSION:
            arguments["inversion"] = inversion
        if spec.weights:
            arguments["weights"] = method.weights
        module, name = spec.location.split(":")
        kind = getattr(import_module(f".{module}", __package__), name)
        embedders.append(kind(model, **{**arguments, **options}))
    if len(embedders) == 1:
        embedder = embedders[0]
    else:
        embedder = Fusion((embedders[0], embedders[1]))
    embedder.cut_out = method.cut_out
    return embedder


def inverter_maker(
    method: Method, config: InversionConfig, resolution: int | None
) -> Callable[..., RegionEmbedder]:
    """Return a callable that makes a method's embedders from a model and ``memory_mb``."""
    if method.inverts:
        return MaskInverter
    return lambda model, memory_mb=0: region_embedder(
        method, model, resolution=resolution, inversion=config
    )


def default_resolution(method: Method | MethodSpec, model: Backbone) -> int:
    """Return the default resolution of a method's inputs; the larger one of a fusion."""
    if method.whole_image:
        return model.working_resolution
    return model.native_resolution


class Fusion(RegionMethod):
    """The mean of two unit embeddings.

    Its product with a unit text embedding is the mean of the two cosines: the normalised scores of
    both methods, averaged. Since it is an embedding, it works for captions and classifiers too.
    """

    def __init__(self, methods: tuple[RegionMethod, RegionMethod]) -> None:
        first, second = methods
        resolution = max(first.resolution, second.resolution)
        super().__init__(first.model, resolution=resolution, keep_aspect=first.keep_aspect)
        self.methods = methods

    def encode(self, image: npt.NDArray[Any], scale: float, keep_aspect: bool) -> Any:
        """Encode the image with both methods."""
        return [method.encode(image, scale, keep_aspect) for method in self.methods]

    def embed_regions(self, encoded: Any, regions: Regions) -> Tensor:
        """Average both embeddings."""
        embeddings = []
        for method, part in zip(self.methods, encoded, strict=True):
            embeddings.append(normalize(method.embed_regions(part, regions), dim=1))
        first, second = embeddings
        return (first + second) / 2


class Inversion(RegionMethod):
    """MaskInversion itself, as one method among others: embeddings as optimised."""

    def __init__(
        self, model: Backbone, *, inversion: InversionConfig | None = None, **common: Any
    ) -> None:
        super().__init__(model, **common)
        self.inversion = inversion or InversionConfig()

    def encode(self, image: npt.NDArray[Any], scale: float, keep_aspect: bool) -> MaskInverter:
        """Encode the image."""
        inverter = MaskInverter(self.model)
        side = self.input_side(scale)
        inverter.set_image(image, resolution=side, keep_aspect=keep_aspect, config=self.inversion)
        return inverter

    def invert(
        self,
        masks: Masks,
        config: InversionConfig | None = None,
        *,
        planned_masks: int | None = None,
    ) -> InversionResult:
        """Invert masks, with the method's own settings by default."""
        inverter: MaskInverter = self._current().encoded
        return inverter.invert(masks, config or self.inversion, planned_masks=planned_masks)

    def embed_regions(self, encoded: MaskInverter, regions: Regions) -> Tensor:
        """Invert the masks."""
        return torch.from_numpy(encoded.invert(regions, self.inversion).raw_embeddings)
