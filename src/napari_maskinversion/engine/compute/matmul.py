"""Matrix products by the faster of the two libraries that torch brings for a processor.

Torch gives float32 products to its BLAS, mostly MKL, which uses no AVX-512 on AMD's processors.
oneDNN, which torch brings for convolutions, does, and is twice as fast there. Neither is faster
everywhere, so the first large product of a process lets both run; rounding is all they differ in.
``torch.backends.mkldnn.enabled = False`` leaves everything to the BLAS.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor, nn

# Multiply-adds from which on oneDNN is asked; a smaller product is over before it has begun, and
# each new shape costs it a millisecond.
LARGE: Final = 1 << 21
# Numbers of a result that is made at once: oneDNN allocates it, and an allocator gives larger ones
# back to the system, which makes their pages anew each time.
PIECE: Final = 1 << 20
# Its rows are a power of two, at most this one, so that they divide evenly and shapes are few.
_ROWS: Final = 512
# oneDNN has to be this much faster, so that chance decides nothing.
_CLEARLY: Final = 1.15
_ROUNDS: Final = 4
# Whoever subclasses a tensor does something else with it.
_PLAIN: Final = (Tensor, nn.Parameter)


def multiply(
    first: Tensor, second: Tensor, out: Tensor | None = None, *, size: int | None = None
) -> Tensor:
    """Give ``first @ second`` of shapes (m, k) and (k, n), written to ``out`` if that is given.

    Parameters
    ----------
    first, second : Tensor, shapes (m, k) and (k, n)
        ``out`` shares no memory with them.
    out : Tensor, shape (m, n), optional
    size : int, optional
        Multiply-adds to choose the library by, where it must not depend on how many others, each
        with some of the rows or columns, share the product.

    Returns
    -------
    Tensor, shape (m, n)
    """
    rows, columns = len(first), second.shape[1]
    size = rows * first.shape[1] * columns if size is None else size
    if not goes_to_onednn(size, first, second):
        return torch.mm(first, second, out=out)
    if out is None:
        if rows * columns <= PIECE:
            return linear(first, second.T)
        out = first.new_empty(rows, columns)
    step = _ROWS
    while step > 1 and step * columns > PIECE:
        step //= 2
    for start in range(0, rows, step):
        out[start : start + step] = linear(first[start : start + step], second.T)
    return out


def multiply_positive(first: Tensor, second: Tensor, space: Tensor, size: int) -> Tensor:
    """Give ``relu(first @ second)``, in ``space`` or in memory of its own.

    Parameters
    ----------
    first, second : Tensor, shapes (m, k) and (k, n)
        Of so few rows that the result stays in a cache: it is made at once.
    space : Tensor, shape (m, n)
        Overwritten, or not.
    size : int
        As in `multiply`.

    Returns
    -------
    Tensor, shape (m, n)
        The caller's, to write to.
    """
    if goes_to_onednn(size, first, second):
        # oneDNN could do it on the way, but would make 0 of NaN.
        return linear(first, second.T).relu_()
    return torch.mm(first, second, out=space).relu_()


def goes_to_onednn(size: int, *tensors: Tensor) -> bool:
    """Whether a product that is made of these, of ``size`` multiply-adds, is one for oneDNN."""
    return (
        size >= LARGE
        and all(_is_plain(tensor) for tensor in tensors)
        and not (torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors))
        and bool(torch.backends.mkldnn.enabled)
        and _onednn.pays()
    )


def _is_plain(tensor: Tensor) -> bool:
    return (
        type(tensor) in _PLAIN
        and tensor.dtype == torch.float32
        and tensor.device.type == "cpu"
        and tensor.layout == torch.strided
    )


def linear(rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Give ``rows @ weight.T + bias`` by oneDNN.

    Parameters
    ----------
    rows, weight : Tensor, shapes (..., k) and (n, k)
    bias : Tensor, shape (n,), optional
        Without gaps: they would not be seen.
    """
    if not (weight.is_contiguous() or weight.T.is_contiguous()):
        # oneDNN has nothing fast for gaps between rows.
        weight = weight.contiguous()
    found: Tensor = torch.ops.mkldnn._linear_pointwise(rows, weight, bias, "none", [], "")
    return found


class _Race:
    """Decides, once and when it is first asked, whether oneDNN is clearly faster."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._won: bool | None = None

    def lost(self) -> bool:
        """Whether it is known already that it is not."""
        return self._won is False

    def pays(self) -> bool:
        if self._won is None:
            with self._lock:
                if self._won is None:
                    # In a thread of its own nothing that the caller has switched on takes part:
                    # autocast, transforms, modes.
                    runner = threading.Thread(target=self._run, name="products")
                    try:
                        runner.start()
                    except RuntimeError:
                        # No more threads, or Python is about to end: not now.
                        return False
                    runner.join()
        return bool(self._won)

    def _run(self) -> None:
        try:
            self._won = _is_faster()
        except (AttributeError, RuntimeError, TypeError):
            # An operator that torch does not document: without it everything stays as it was.
            self._won = False


def _is_faster() -> bool:
    """Whether oneDNN is there, gives the same numbers, and is clearly faster."""
    backend: Any = torch.backends.mkldnn
    if not backend.is_available():
        return False
    generator = torch.Generator("cpu").manual_seed(0)
    kind: dict[str, Any] = {"generator": generator, "dtype": torch.float32, "device": "cpu"}
    first, second = torch.randn(512, 768, **kind), torch.randn(768, 768, **kind)
    ways: list[Callable[[], Tensor]] = [
        lambda: torch.mm(first, second),
        lambda: linear(first, second.T),
    ]
    usual, found = (way() for way in ways)
    if not torch.allclose(usual, found, rtol=1e-4, atol=1e-3):
        return False
    # In turns, so that both meet the same disturbances.
    seconds = [[_seconds(way) for way in ways] for _ in range(_ROUNDS)]
    blas, onednn = (min(column) for column in zip(*seconds, strict=True))
    return bool(blas > _CLEARLY * onednn)


def _seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


_onednn = _Race()


def onednn_may_pay() -> bool:
    """Whether it is worth to look for products that oneDNN could make: it did not lose yet."""
    return bool(torch.backends.mkldnn.enabled) and not _onednn.lost()
