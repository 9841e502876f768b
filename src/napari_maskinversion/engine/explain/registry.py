"""Maps by the name a user gives them, beside the quick LeGrad of open_clip's own towers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ..encode.image_encoding import ImageEncoding
from .chefer import CheferCam, chefer_layer
from .general_legrad import GeneralLeGrad, WithoutEmpty
from .gradcam import GradCam, gradcam_matrix
from .protocol import ExplainabilityMap

if TYPE_CHECKING:
    from ..settings import ExplainerName


def has_routes(encoding: ImageEncoding) -> bool:
    """Whether LeGrad of this tower has the choice of routes, and can be sampled."""
    return bool(encoding.layers)


def make_map(name: ExplainerName, encoding: ImageEncoding, memory_bytes: int) -> ExplainabilityMap:
    """Make the map of an encoded image; its layers are the ones explained."""
    start, general = encoding.embedding, encoding.general
    found: ExplainabilityMap
    with torch.no_grad():
        if name == "chefer":
            *others, last = encoding.layers or general
            flow = [chefer_layer(layer, last=False) for layer in others]
            found = CheferCam([*flow, chefer_layer(last, last=True)], start, memory_bytes)
            return found if encoding.empty is None else WithoutEmpty(found, encoding.empty)
        if name == "legrad":
            found = GeneralLeGrad(general, start, memory_bytes)
            return found if encoding.empty is None else WithoutEmpty(found, encoding.empty)
        return GradCam(gradcam_matrix(encoding.layers[-1]), start, relu=name == "gradcam")
