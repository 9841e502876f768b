"""Matrix products with the faster of torch's two CPU libraries.

Torch computes float32 products with its BLAS, usually MKL, which does not use AVX-512 on AMD
processors. oneDNN, which torch includes for convolutions, does, and is twice as fast there. Neither
is faster everywhere, so both are timed at the first large product of a process. Their results
differ by rounding only. ``torch.backends.mkldnn.enabled = False`` leaves everything to the BLAS.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor, nn

# Fewest multiply-adds for oneDNN. Each new shape costs it a millisecond, longer than a smaller
# product takes.
LARGE: Final = 1 << 21
# Most numbers of a result that is computed at once. oneDNN allocates results, and larger ones go
# back to the system each time, which has to map their pages again.
PIECE: Final = 1 << 20
# Most rows at once; a power of two, so that rows divide evenly and shapes are few.
_ROWS: Final = 512
# oneDNN must be faster by this factor, so that noise does not decide.
_CLEARLY: Final = 1.15
_ROUNDS: Final = 4
# Other subclasses of Tensor may define their own products.
_PLAIN: Final = (Tensor, nn.Parameter)


def multiply(
    first: Tensor, second: Tensor, out: Tensor | None = None, *, size: int | None = None
) -> Tensor:
    """Compute ``first @ second``, into ``out`` if given.

    Parameters
    ----------
    first, second : Tensor, shapes (m, k) and (k, n)
        They share no memory with ``out``.
    out : Tensor, shape (m, n), optional
    size : int, optional
        Multiply-adds from which the library is chosen (default: those of this product). Pass the
        size of one mask's part so that results do not depend on the other masks in the product.

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
    """Compute ``relu(first @ second)``, in ``space`` or in new memory.

    Parameters
    ----------
    first, second : Tensor, shapes (m, k) and (k, n)
        With so few rows that the result stays in the processor's cache.
    space : Tensor, shape (m, n)
        May be overwritten.
    size : int
        As in `multiply`.

    Returns
    -------
    Tensor, shape (m, n)
        The caller may write to it.
    """
    if goes_to_onednn(size, first, second):
        # oneDNN's own ReLU turns NaN into 0.
        return linear(first, second.T).relu_()
    return torch.mm(first, second, out=space).relu_()


def goes_to_onednn(size: int, *tensors: Tensor) -> bool:
    """Return whether oneDNN should compute a product of these with ``size`` multiply-adds."""
    return (
        size >= LARGE
        and all(_is_plain(tensor) for tensor in tensors)
        and not (torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors))
        and bool(torch.backends.mkldnn.enabled)
        and _onednn.is_faster()
    )


def _is_plain(tensor: Tensor) -> bool:
    return (
        type(tensor) in _PLAIN
        and tensor.dtype == torch.float32
        and tensor.device.type == "cpu"
        and tensor.layout == torch.strided
    )


def linear(rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Compute ``rows @ weight.T + bias`` with oneDNN.

    Parameters
    ----------
    rows, weight : Tensor, shapes (..., k) and (n, k)
    bias : Tensor, shape (n,), optional
        Contiguous: oneDNN ignores strides here.
    """
    if not (weight.is_contiguous() or weight.T.is_contiguous()):
        # oneDNN is slow with gaps between rows.
        weight = weight.contiguous()
    product: Tensor = torch.ops.mkldnn._linear_pointwise(rows, weight, bias, "none", [], "")
    return product


class _OnednnTiming:
    """Measures, once and when first asked, whether oneDNN is clearly faster."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._faster: bool | None = None

    def is_slower(self) -> bool:
        """Return whether it was measured and is not faster."""
        return self._faster is False

    def is_faster(self) -> bool:
        if self._faster is None:
            with self._lock:
                if self._faster is None:
                    # The caller's autocast, transforms and modes do not reach a new thread.
                    thread = threading.Thread(target=self._measure, name="onednn-timing")
                    try:
                        thread.start()
                    except RuntimeError:
                        # No more threads, or Python is shutting down. Ask again later.
                        return False
                    thread.join()
        return bool(self._faster)

    def _measure(self) -> None:
        try:
            self._faster = _is_faster()
        except (AttributeError, RuntimeError, TypeError):
            # The operator is undocumented; without it, everything uses the BLAS.
            self._faster = False


def _is_faster() -> bool:
    """Return whether oneDNN is available, gives the same numbers, and is clearly faster."""
    backend: Any = torch.backends.mkldnn
    if not backend.is_available():
        return False
    generator = torch.Generator("cpu").manual_seed(0)
    kind: dict[str, Any] = {"generator": generator, "dtype": torch.float32, "device": "cpu"}
    first, second = torch.randn(512, 768, **kind), torch.randn(768, 768, **kind)
    products: list[Callable[[], Tensor]] = [
        lambda: torch.mm(first, second),
        lambda: linear(first, second.T),
    ]
    blas_product, onednn_product = (product() for product in products)
    if not torch.allclose(blas_product, onednn_product, rtol=1e-4, atol=1e-3):
        return False
    # Alternating, so that other load hits both.
    seconds = [[_seconds(product) for product in products] for _ in range(_ROUNDS)]
    blas, onednn = (min(column) for column in zip(*seconds, strict=True))
    return bool(blas > _CLEARLY * onednn)


def _seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


_onednn = _OnednnTiming()


def onednn_may_pay() -> bool:
    """Return whether oneDNN may be faster: it was not measured yet, or is."""
    return bool(torch.backends.mkldnn.enabled) and not _onednn.is_slower()
