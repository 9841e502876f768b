"""Whether the kernels of `kernels` compute LeGrad, and what follows if they fail."""

from __future__ import annotations

import warnings
from functools import cache
from importlib import import_module
from typing import Any, Final

import torch
from torch import Tensor, nn

from ..compute.devices import lacks_for_kernels
from ..compute.trial import Trial

_DTYPES: Final = (torch.float32, torch.bfloat16, torch.float16)
_HEAD_WIDTHS: Final = (16, 128)
KERNELS: Final = Trial(
    "The fused kernels of maps",
    "maps are computed without them until the program ends, which takes up to twice the time",
)


def kernels() -> Any:
    """Return the module of the kernels; its import needs Triton."""
    return import_module(f"{__package__}.kernels")


def usable(values: Tensor) -> bool:
    """Return whether the kernels can be used with values (..., n, w); the first call tries."""
    if not KERNELS.works or type(values) not in (Tensor, nn.Parameter):
        return False
    narrowest, widest = _HEAD_WIDTHS
    fits = narrowest <= values.shape[-1] <= widest and values.dtype in _DTYPES
    if not fits or lacks_for_kernels(values.device):
        return False
    return KERNELS.attempt(lambda: _tried(values.device, values.dtype, values.shape[-1])) is True


@cache
def _tried(device: torch.device, dtype: torch.dtype, width: int) -> bool:
    """Compile the kernels and compare them with plain products, on few numbers."""
    random = torch.Generator().manual_seed(0)
    p, values, columns = (
        torch.randn(*shape, generator=random).to(device, dtype)
        for shape in ((1, 70, width), (1, 1, 130, width), (1, 130))
    )
    factors, columns = values[0, 0].float(), columns.float()
    product = p[0].float() @ factors.T
    expected = product.clamp_min(0).sum(0), (product > 0) * columns @ factors
    gradient = torch.empty_like(p)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Triton's about its own defaults
        sums = kernels().positive_sums(p, values)
        kernels().vjp(p, values, columns, gradient)
    for actual, wanted in zip((sums[0], gradient[0].float()), expected, strict=True):
        # Rounded products may be positive where exact ones are not.
        if not (actual - wanted).norm() < 0.1 * wanted.norm():
            raise ArithmeticError("the kernels and plain products disagree")
    return True
