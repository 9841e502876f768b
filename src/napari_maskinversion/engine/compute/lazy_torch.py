"""PyTorch if it is loaded, for code that must not wait for its import."""

from __future__ import annotations

import sys
from types import ModuleType


def torch_if_loaded() -> ModuleType | None:
    """Return PyTorch if it is already imported; None also while another thread imports it."""
    torch = sys.modules.get("torch")
    spec = getattr(torch, "__spec__", None)
    importing = getattr(spec, "_initializing", False)
    return None if importing else torch
