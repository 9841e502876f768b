"""Threads of OpenMP, of which each Python thread that computes keeps a set of its own."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

_SOFT: Final = 1  # omp_pause_soft of OpenMP 5.0


def end_threads() -> None:
    """End the threads that this Python thread's parallel loops left waiting; new ones start fast.

    Two Python threads that have computed keep more threads than there are processors. GNU's OpenMP
    then puts threads to sleep between parallel loops, also if only one of the two is at work, and
    waking them takes longer than most loops. Other Python threads, and a loop in which this one is
    at work, keep theirs. Nothing happens elsewhere than on Linux.
    """
    import torch

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
    import torch

    library = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    try:
        # A name is looked up in a library and in all that it was linked to.
        function: Callable[[int], int] = ctypes.CDLL(str(library)).omp_pause_resource_all
    except (OSError, AttributeError):
        return None
    return function
