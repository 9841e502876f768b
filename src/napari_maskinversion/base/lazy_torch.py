"""PyTorch, for those who must not wait for it."""

from __future__ import annotations

import sys
from types import ModuleType


def torch_if_loaded() -> ModuleType | None:
    """Return PyTorch where it is imported already; None also while another thread imports it."""
    torch = sys.modules.get("torch")
    spec = getattr(torch, "__spec__", None)
    busy = torch is None or getattr(spec, "_initializing", False)
    return None if busy else torch
