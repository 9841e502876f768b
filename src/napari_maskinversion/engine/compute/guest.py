"""Keep the modes that a host program has set in torch away from the engine's work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

import torch

from .precision import float32_products

_DEVICE_TYPES: Final = ("cpu", "cuda", "mps")


@contextmanager
def isolated(*, tf32: bool = False) -> Iterator[None]:
    """Run in torch's own modes, without gradients; the host's modes come back afterwards.

    Covers inference mode, autocast, gradients, the default device, the default dtype, torch's fast
    path of attention and the precision of float32 products. The last three belong to the process,
    the others to a thread: meanwhile the host's other threads see float32 and no fast path, and
    only one thread may be inside. Use it through `compute_lock`, which sees to that. Do not hold it
    across a ``yield``.

    Parameters
    ----------
    tf32 : bool
        Whether a GPU may round the factors of float32 products to tf32.
    """
    with ExitStack() as modes:
        if torch.is_inference_mode_enabled():
            modes.enter_context(torch.inference_mode(False))
        # Leaving inference mode turns gradients on.
        modes.enter_context(torch.no_grad())
        for kind in _DEVICE_TYPES:
            if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
                modes.enter_context(torch.autocast(kind, enabled=False))
        # A tensor tells the default device whether it was set for good or by a `with` block.
        if torch.empty(0).device.type != "cpu":
            modes.enter_context(torch.device("cpu"))
        if torch.backends.mha.get_fastpath_enabled():
            # Any mode that the host has entered turns it off, which changes the last bits.
            torch.backends.mha.set_fastpath_enabled(False)
            modes.callback(torch.backends.mha.set_fastpath_enabled, True)
        modes.enter_context(float32_products(tf32=tf32))
        dtype = torch.get_default_dtype()
        if dtype != torch.float32:
            torch.set_default_dtype(torch.float32)
            modes.callback(torch.set_default_dtype, dtype)
        yield
