"""Gets PyTorch's libraries into memory in a way that a process with windows survives.

Two things go wrong where torch is first imported after the viewer is up, on Linux:

- open_clip brings in torchvision, which brings in triton (where PyTorch was built for CUDA). triton
  carries an LLVM of its own, and its symbols bind to the LLVM that Mesa's software renderer has
  loaded already: the process crashes. Loaded with RTLD_DEEPBIND it prefers its own.
- Python loads libraries while it holds its lock. PyTorch's take seconds, in which no window is
  redrawn. Called through ctypes, the loader works without the lock; the import that follows finds
  the libraries loaded.

Nothing here is needed for correctness elsewhere, so whatever cannot be done is left out.

All that a run imports takes seconds, which the user spends choosing layers and labels: `warm_up`
imports it; `warming` calls it as soon as the panel is seen.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Generator
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from ...base import progress_words as words
from ...base.lazy_torch import torch_if_loaded

_TORCH: Final = ("libtorch_global_deps.so", "libtorch_python.so")
_PACKAGE: Final = __name__.partition(".")[0]
_USED_BY_A_RUN: Final = (
    f"{_PACKAGE}.engine.models.openclip",
    f"{_PACKAGE}.pipeline.run",
    f"{_PACKAGE}.pipeline.live",
)


def preload_torch() -> None:
    """Load the libraries of triton and torch; does nothing where they are loaded, or elsewhere."""
    if not sys.platform.startswith("linux"):
        return
    deep = getattr(os, "RTLD_DEEPBIND", 0)
    if "triton" not in sys.modules and (folder := _folder("triton")) is not None:
        for path in folder.glob("_C/libtriton*.so"):
            _load(path, os.RTLD_NOW | os.RTLD_LOCAL | deep)
    if "torch" not in sys.modules and (folder := _folder("torch")) is not None:
        for name in _TORCH:
            scope = os.RTLD_GLOBAL if "global" in name else os.RTLD_LOCAL
            _load(folder / "lib" / name, os.RTLD_NOW | scope)


def start_torch() -> Generator[str, None, None]:
    """Load PyTorch's libraries if they are not loaded; yield what is done meanwhile."""
    if torch_if_loaded() is None:
        yield words.STARTING_TORCH
        preload_torch()


def is_warm() -> bool:
    """Return whether all that a run imports is there."""
    return all(name in sys.modules for name in _USED_BY_A_RUN)


def warm_up() -> None:
    """Import all that a run imports; what is broken is told by the run itself."""
    preload_torch()
    with suppress(Exception):
        for name in _USED_BY_A_RUN:
            import_module(name)


def _folder(package: str) -> Path | None:
    """Where a package is, without importing it."""
    spec = find_spec(package)
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def _load(path: Path, flags: int) -> None:
    """``dlopen`` without Python's lock; a library that cannot be loaded is left to the import."""
    if not path.is_file():
        return
    try:
        dlopen = ctypes.CDLL(None).dlopen
    except (OSError, AttributeError):
        return
    dlopen.restype, dlopen.argtypes = ctypes.c_void_p, (ctypes.c_char_p, ctypes.c_int)
    dlopen(os.fsencode(path), flags)
