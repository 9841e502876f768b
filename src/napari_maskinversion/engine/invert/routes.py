"""The cheaper way of evaluating LeGrad for a number of masks on one image."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import torch

    from ..encode.image_encoding import LayerConstants

# Share of a device's memory that inversions may use, unless told otherwise.
MEMORY_SHARE: Final = 1 / 8
# Share of that for decompositions; the rest is for the buffers of a step.
DECOMPOSED_SHARE: Final = 0.6
# Multiply-adds in the time that reading one number from memory takes, by kind of device.
_READ: Final = {"cpu": 20, "cuda": 40, "mps": 70}


def decomposed_bytes(layer: LayerConstants, dtype: torch.dtype | None = None) -> int:
    """Return the bytes of a layer's decomposition (`explain.projections.DecomposedRoute`).

    ``dtype`` is what it is stored as (default: as the layer).
    """
    joint, width = layer.jacobian.shape
    return len(layer.offset) * joint * width * (dtype or layer.slope.dtype).itemsize


def decomposing_pays(
    hidden: int, joint: int, passes: int, masks: int, device_type: str = "cpu"
) -> bool:
    """Return whether the decomposed route needs less work than the direct one.

    Work counts multiply-adds and numbers read from memory. Direct: n*m*d per pass. Decomposed: the
    same once for each of the e joint dimensions, then n*d*e per pass; its n*d*e numbers are read
    once for all masks. The other products are the same on both routes.

    Parameters
    ----------
    hidden, joint : int
        Width m of the MLP; dimension e of the embeddings.
    passes : int
        Evaluations of one mask's map, or of its gradient.
    masks : int
        Masks that are inverted together.
    device_type : str
        "cpu", "cuda" or "mps".
    """
    reads = -(-passes // max(masks, 1)) * _READ.get(device_type, 20)
    # All in units of n*d.
    return joint * hidden + (passes + reads) * joint < passes * hidden
