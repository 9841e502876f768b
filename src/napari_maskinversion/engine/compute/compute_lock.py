"""One piece of the engine's work at a time, whatever modes of torch a host program has set."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Final

import torch

from ...base.progress import pausing
from .matmul import float32_products

# Each Python thread that computes gets a full set of torch's threads. Two at once would be more
# threads than processors, and slower than one after the other.
_COMPUTE_LOCK = threading.RLock()
_SOFT: Final = 1  # omp_pause_soft of OpenMP 5.0
_DEVICE_TYPES: Final = ("cpu", "cuda", "mps")


@contextmanager
def computing(*, tf32: bool = False) -> Iterator[None]:
    """Hold the compute lock, in torch's own modes and without gradients; also a decorator.

    Covers inference mode, autocast, gradients, the default device, the default dtype, torch's fast
    path of attention and the precision of float32 products. The last three belong to the process,
    the others to a thread: meanwhile the host's other threads see float32 and no fast path. The
    host's modes come back afterwards, and while a `tick` is told: then another thread may compute.
    With ``tf32``, a GPU may round the factors of float32 products to it.
    """
    held = ExitStack()

    @contextmanager
    def pause() -> Iterator[None]:
        held.close()
        try:
            with outer():  # a `computing` around this one
                yield
        finally:
            held.enter_context(_locked(tf32=tf32))

    try:
        with pausing(pause) as outer, held:
            held.enter_context(_locked(tf32=tf32))
            yield
    finally:
        end_threads()


@contextmanager
def _locked(*, tf32: bool) -> Iterator[None]:
    with _COMPUTE_LOCK, ExitStack() as modes:
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
        dtype = torch.get_default_dtype()
        if dtype != torch.float32:
            torch.set_default_dtype(torch.float32)
            modes.callback(torch.set_default_dtype, dtype)
        with float32_products(tf32=tf32):
            yield


def end_threads() -> None:
    """End the threads that this Python thread's parallel loops left waiting; new ones start fast.

    Two Python threads that have computed keep more threads than there are processors. GNU's OpenMP
    then puts threads to sleep between parallel loops, also if only one of the two is at work, and
    waking them takes longer than most loops. Other Python threads, and a loop in which this one is
    at work, keep theirs. Nothing happens elsewhere than on Linux.
    """
    if torch.get_num_threads() == 1:
        # There is nothing to end, and a forked process would wait for threads that it lacks: one
        # thread is all that it can compute with if the first process has computed.
        return
    pause = _pause()
    if pause is not None:
        pause(_SOFT)


@cache
def _pause() -> Callable[[int], int] | None:
    """Return ``omp_pause_resource_all`` of the library that torch computes with."""
    if sys.platform != "linux":
        return None
    library = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    try:
        # A name is looked up in a library and in all that it was linked to.
        function: Callable[[int], int] = ctypes.CDLL(str(library)).omp_pause_resource_all
    except (OSError, AttributeError):
        return None
    return function
