"""From a method's name to what embeds regions with it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ..models.backbone import Backbone
from ..settings import InversionConfig
from .protocol import RegionMethod
from .registry import MASKINVERSION, Method, MethodSpec


def region_embedder(
    method: str | Method,
    model: Backbone,
    *,
    resolution: int | None = None,
    keep_aspect: bool = True,
    inversion: InversionConfig | None = None,
    **options: Any,
) -> RegionMethod:
    """Make what embeds regions.

    Parameters
    ----------
    method : str or Method
        A name of `list_methods`, such as ``"crop"``, or two joined by ``+``.
    model : Backbone
        From `load_model` or `wrap_open_clip`; never modified.
    resolution : int, optional
        Side in pixels of the model's input. Unless given the working resolution for ways that look
        at tokens of the whole image, and the native one for those that show pictures.
    keep_aspect : bool
        False squeezes the whole image into a square.
    inversion : InversionConfig, optional
        For MaskInversion.
    **options
        For the way's class, such as ``context=1.4`` of "crop"; not for fusions.

    Raises
    ------
    ConfigError
        If there is no such method, or it lacks its weights.
    ModelError
        If the method does not work with this model.

    Examples
    --------
    >>> embeddings = region_embedder("crop", load_model("demo")).embed(image, masks)
    """
    method = Method.of(method)
    method.check()
    made = []
    for spec in method.parts:
        given: dict[str, Any] = {"resolution": resolution, "keep_aspect": keep_aspect}
        if spec.name == MASKINVERSION:
            given["inversion"] = inversion
        if spec.weights:
            given["weights"] = method.weights
        way: RegionMethod = _class_of(spec)(model, **given, **{**spec.options, **options})
        made.append(way)
    if len(made) == 1:
        return made[0]
    from .fusion import Fusion

    return Fusion((made[0], made[1]))


def _class_of(spec: MethodSpec) -> Any:
    module, name = spec.where.split(":")
    return getattr(import_module(f".{module}", __package__), name)
