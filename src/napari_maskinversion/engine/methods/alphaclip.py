"""AlphaCLIP: the mask as a fourth channel of a tower trained to take it."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, Final

import numpy.typing as npt
from torch import Tensor, nn

from ...base.errors import ModelError
from ...base.regions import Regions
from ..compute.onednn_layers import forward_only
from ..models.backbone import Backbone
from ..models.checkpoints import read_weights
from .dense import cell_coverage, class_token_tower, embed_patches, project, run_blocks
from .region_method import RegionMethod

MEAN = 0.5
STD = 0.26  # of the alpha channel
KERNEL: Final = "conv1_alpha.weight"


class AlphaClip(RegionMethod):
    """Adds a convolution of the mask to the patch embeddings.

    ``weights`` is a checkpoint of the image tower, or of the alpha branch alone; keys with or
    without ``visual.``. The model's own tower is never modified.
    """

    def __init__(self, model: Backbone, *, weights: Path, **common: Any) -> None:
        super().__init__(model, **common)
        visual = class_token_tower(model, "AlphaCLIP")
        plain, kernel = read_branch(weights)
        first = visual.conv1.weight
        state = visual.state_dict()
        other = []
        for k, v in state.items():
            if k in plain and plain[k].shape != v.shape:
                other.append(k)
        missing = []
        if plain:
            missing = [k for k in state if k not in plain]
        if tuple(kernel.shape) != (len(first), 1, *first.shape[2:]) or other or missing:
            name = (other or missing or [KERNEL])[0]
            raise ModelError(f"{weights} has another architecture than {model.name} ({name}).")
        if plain:
            visual = copy.deepcopy(visual)
            visual.load_state_dict({key: plain[key] for key in state})
        self._visual = visual
        self._kernel = kernel.to(first)

    def encode(self, image: npt.NDArray[Any], scale: float, keep_aspect: bool) -> Tensor:
        """Preprocess the image."""
        return self.preprocess(image, scale, keep_aspect)

    @forward_only()
    def embed_regions(self, encoded: Tensor, regions: Regions) -> Tensor:
        """Run the tower for each region."""
        size = (encoded.shape[2], encoded.shape[3])
        stride = self._visual.conv1.stride
        masks = cell_coverage(regions, size, encoded)[:, None]
        alpha = ((masks - MEAN) / STD).to(self._kernel.dtype)
        added = nn.functional.conv2d(alpha, self._kernel, stride=stride)
        x, _ = embed_patches(self._visual, encoded.expand(len(masks), -1, -1, -1), added)
        return project(self._visual, run_blocks(self._visual, x)[:, 0]).cpu()


def read_branch(weights: Path) -> tuple[dict[str, Tensor], Tensor]:
    """Read the image tower of a checkpoint, which may be empty, and the kernel of its mask."""
    state, _ = read_weights(weights)
    # Only the image tower of a whole model: the text tower's blocks have the same names.
    start = ""
    if any(key.startswith("visual.") for key in state):
        start = "visual."
    plain = {}
    for key, value in state.items():
        if key.startswith(start):
            plain[key.removeprefix(start).replace("attn.in_proj.", "attn.in_proj_")] = value
    kernel = plain.pop(KERNEL, None)
    if kernel is None:
        raise ModelError(f"{weights} has no {KERNEL}: it is not a checkpoint of AlphaCLIP.")
    return plain, kernel
