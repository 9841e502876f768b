"""Products in half precision as hardware for them computes: float32 sums, rounded at the end.

A processor without such hardware takes a hundred times as long for them. Here the factors are made
float32 again for each product, so that the numbers of other hardware can be looked at, not its
speed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

_HALF = (torch.bfloat16, torch.float16)
_PRODUCTS = {"mm", "bmm", "addmm", "baddbmm"}


class HalfProducts(TorchDispatchMode):
    """While active, products of half precision run as float32 products of the same numbers."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func._schema.name.split("::")[1] not in _PRODUCTS or args[-1].dtype not in _HALF:
            return func(*args, **kwargs)
        out, dtype = kwargs.pop("out", None), args[-1].dtype
        product = func._overloadpacket(*tree_map(_widened, args), **kwargs).to(dtype)
        return product if out is None else out.copy_(product)


def _widened(value: Any) -> Any:
    return value.float() if isinstance(value, Tensor) else value
