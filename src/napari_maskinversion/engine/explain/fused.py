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
PRODUCTS: Final = Trial(
    "The fused kernels of products", "products are computed without them until the program ends"
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


def multiplies(slope: Tensor) -> bool:
    """Return whether the kernels can be used for products with slopes; the first call tries.

    Those of float32 alone: others are as fast without.
    """
    if not PRODUCTS.works or type(slope) is not Tensor or slope.dtype != torch.float32:
        return False
    if lacks_for_kernels(slope.device) or torch.backends.cuda.matmul.fp32_precision == "tf32":
        return False
    return PRODUCTS.attempt(lambda: _tried_products(slope.device)) is True


def scaled_product(factors: Tensor, rows: Tensor, matrix: Tensor, out: Tensor) -> bool:
    """Write ``(factors[:, None] * rows) @ matrix`` by a kernel; return whether that worked."""

    def work() -> bool:
        kernels().scaled_product(factors, rows, matrix, out)
        return True

    return PRODUCTS.attempt(work) is True


def folded_product(rows: Tensor, matrix: Tensor, factors: Tensor) -> Tensor | None:
    """Return the sums over rows of ``rows @ matrix.T * factors``; None if no kernel works."""
    sums: Tensor | None = PRODUCTS.attempt(lambda: kernels().folded_product(rows, matrix, factors))
    return sums


@cache
def _tried_products(device: torch.device) -> bool:
    """Compile the kernels of products and compare them with plain ones, on few numbers."""
    random = torch.Generator().manual_seed(0)
    factors = torch.randn(2, 130, generator=random).to(device)
    slope = torch.randn(70, 130, generator=random).to(device)
    matrix = torch.randn(130, 66, generator=random).to(device)
    gradient = torch.randn(2, 70, 66, generator=random).to(device)
    out = torch.empty_like(gradient)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Triton's about its own defaults
        kernels().scaled_product(factors, slope, matrix, out)
        sums = kernels().folded_product(gradient, matrix, slope)
    expected = (factors[:, None] * slope) @ matrix, (gradient @ matrix.T * slope).sum(1)
    for actual, wanted in zip((out, sums), expected, strict=True):
        if not (actual - wanted).norm() < 1e-4 * wanted.norm():
            raise ArithmeticError("the kernels and plain products disagree")
    return True


@cache
def _tried(device: torch.device, dtype: torch.dtype, width: int) -> bool:
    """Compile the kernels and compare them with plain products, on few numbers."""
    random = torch.Generator().manual_seed(0)
    p = torch.randn(1, 70, width, generator=random).to(device, dtype)
    values = torch.randn(1, 1, 130, width, generator=random).to(device, dtype)
    columns = torch.randn(1, 130, generator=random).to(device, dtype)
    factors = values[0, 0].float()
    columns = columns.float()
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
