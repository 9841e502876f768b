"""Recognise out-of-memory errors."""

from __future__ import annotations

import torch

_OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "alloc_failed")


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an exception means that memory ran out; torch raises several types."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    # The allocators of the CPU and of Apple, and CUDA's libraries raise plain RuntimeErrors.
    message = str(error).lower()
    return isinstance(error, RuntimeError) and any(words in message for words in _OUT_OF_MEMORY)
