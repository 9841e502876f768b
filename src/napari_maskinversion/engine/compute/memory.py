"""Recognise errors that mean that memory ran out."""

from __future__ import annotations

import torch

_OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "alloc_failed")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that memory could not be had; torch has one class of several."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    # The CPU's allocator, Apple's, and CUDA's libraries say it in words.
    said = str(error).lower()
    return isinstance(error, RuntimeError) and any(words in said for words in _OUT_OF_MEMORY)
