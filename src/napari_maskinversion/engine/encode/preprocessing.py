"""Convert images to a model's input: value range, channels, size, normalisation."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from ...base.errors import InputError
from ...base.regions import as_array, top_of_bits

# Interpolation and rounding in earlier steps leave float images slightly outside 0..1.
_OVERSHOOT = 0.01


def to_rgb_tensor(image: npt.ArrayLike) -> Tensor:
    """Return an image as a (3, H, W) tensor: uint8 stays uint8, others become float32 in 0..1.

    Resizing uint8 is ten times as fast as resizing floats, and it is what open_clip does.

    The image is grey, RGB or RGBA, channels last. uint8 is scaled by its range, uint16 by that of
    the bits it uses (`top_of_bits`), bool becomes 0 and 1, floats must be in 0..1. RGBA is blended
    over black, as on a black canvas.
    """
    array = as_array(image)
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3 or array.shape[2] not in (1, 3, 4):
        hint = ""
        if array.ndim == 3 and array.shape[0] in (1, 3, 4):
            hint = "; put the channels last"
        raise InputError(
            "An image must be (height, width), or (height, width, 3) for RGB; "
            f"got an array of shape {np.shape(image)}{hint}."
        )
    if array.shape[0] == 0 or array.shape[1] == 0:
        raise InputError(f"The image has no pixels: its shape is {np.shape(image)}.")
    stays_uint8 = array.dtype == np.uint8 and array.shape[2] != 4
    values = array if stays_uint8 else _unit_range(array)
    if values.shape[2] == 4:
        values = values[:, :, :3] * values[:, :, 3:]
    elif values.shape[2] == 1:
        values = np.repeat(values, 3, axis=2)
    # Copied, because torch warns about read-only arrays and refuses flipped ones.
    return torch.from_numpy(values.copy()).permute(2, 0, 1)


def _unit_range(array: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    kind = array.dtype
    if kind == np.uint8 or kind == np.uint16:
        top = 255.0
        if kind == np.uint16:
            top = top_of_bits(float(array.max()))
        return array.astype(np.float32) / np.float32(top)
    if kind == np.bool_:
        return array.astype(np.float32)
    if not np.issubdtype(kind, np.floating):
        raise InputError(
            f"Image values of type {kind} have no known range; "
            "use uint8, uint16, or floats in 0..1."
        )
    values = array.astype(np.float32)
    # Minimum and maximum show NaN and infinity, too: one pass less.
    low = float(values.min())
    high = float(values.max())
    if not np.isfinite(low) or not np.isfinite(high):
        count = int((~np.isfinite(values)).sum())
        raise InputError(
            f"The image holds {count} values that are not finite (NaN or infinity); "
            "fill them first."
        )
    if low < -_OVERSHOOT or high > 1 + _OVERSHOOT:
        raise InputError(
            f"A float image must be in 0..1; this one ranges from {low:g} to {high:g}. "
            "Divide by its range, or pass uint8 or uint16."
        )
    return np.clip(values, 0, 1, out=values)


def normalise(
    rgb: Tensor,
    size: tuple[int, int],
    *,
    mean: tuple[float, float, float],
    std: tuple[float, float, float],
    interpolation: str,
) -> Tensor:
    """Resize the result of `to_rgb_tensor` and normalise it; returns (1, 3, h, w) float32."""
    resized = functional.interpolate(
        rgb[None], size=size, mode=interpolation, align_corners=False, antialias=True
    )
    # Bicubic overshoots at edges; uint8 cannot.
    if rgb.dtype == torch.uint8:
        resized = resized.float() / 255
    else:
        resized = resized.clamp_(0, 1)
    resized = resized.contiguous()
    # A thread that resizes ahead has the host's default dtype.
    centre, spread = (torch.tensor(x, dtype=torch.float32).view(1, 3, 1, 1) for x in (mean, std))
    return (resized - centre) / spread
