"""Maps beside LeGrad, by the name a user gives them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from .chefer import CheferCam
from .gradcam import GradCam, gradcam_matrix
from .protocol import ExplainabilityMap

if TYPE_CHECKING:
    from ..config import ExplainerName
    from ..encoding import ImageEncoding


def make_map(name: ExplainerName, encoding: ImageEncoding, memory_bytes: int) -> ExplainabilityMap:
    """Make the map of an encoded image; its layers are the ones explained."""
    start = encoding.embedding
    with torch.no_grad():
        if name == "chefer":
            return CheferCam(encoding.layers, start, memory_bytes)
        matrix = gradcam_matrix(encoding.layers[-1])
    return GradCam(matrix, start, relu=name == "gradcam")
