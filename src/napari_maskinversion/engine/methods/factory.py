"""Make the embedder of a method, or of a fusion of two, from its name."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy.typing as npt
import torch.nn.functional as F
from torch import Tensor

from ...base.regions import Regions
from ..compute.compute_lock import computing
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
        arguments = {"resolution": resolution, "keep_aspect": keep_aspect, **spec.options}
        if spec.name == MASKINVERSION:
            arguments["inversion"] = inversion
        if spec.weights:
            arguments["weights"] = method.weights
        embedders.append(_class_of(spec)(model, **{**arguments, **options}))
    if len(embedders) == 1:
        return embedders[0]
    return Fusion((embedders[0], embedders[1]))


def _class_of(spec: MethodSpec) -> Any:
    module, name = spec.location.split(":")
    return getattr(import_module(f".{module}", __package__), name)


class Fusion(RegionMethod):
    """The mean of two unit embeddings.

    Its product with a unit text embedding is the mean of the two cosines: the normalised scores of
    both methods, averaged. As it is an embedding, it works for captions and exemplars too.

    Parameters
    ----------
    methods : tuple of RegionMethod
        Two, on one model.
    """

    def __init__(self, methods: tuple[RegionMethod, RegionMethod]) -> None:
        super().__init__(
            methods[0].model,
            resolution=methods[0].resolution,
            keep_aspect=methods[0].keep_aspect,
        )
        self.methods = methods

    def encode(self, image: npt.NDArray[Any], scale: float = 1.0) -> Any:
        """Encode the image with both methods."""
        return [method.encode(image, scale) for method in self.methods]

    def embed_regions(self, encoded: Any, regions: Regions) -> Tensor:
        """Average both embeddings."""
        first, second = (
            F.normalize(method.embed_regions(part, regions), dim=1)
            for method, part in zip(self.methods, encoded, strict=True)
        )
        return (first + second) / 2
