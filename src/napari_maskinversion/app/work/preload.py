"""Loads PyTorch's libraries in a way that works in a process with windows.

Two things go wrong on Linux if torch is first imported after the viewer has started:

- open_clip imports torchvision, which imports triton (if PyTorch was built for CUDA). triton has
  its own LLVM, whose symbols bind to the LLVM that Mesa's software renderer has loaded: the process
  crashes. Loaded with RTLD_DEEPBIND, triton uses its own.
- Python holds the GIL while it loads libraries. PyTorch's take seconds, during which no window is
  redrawn. The loader called through ctypes works without the GIL; the import that follows finds the
  libraries loaded.

Nothing else depends on this, so a library that cannot be loaded is skipped.

The imports of a run take seconds, in which the user chooses layers and labels: `warm_up` does them;
`warming` calls it when the panel is first shown.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from ...base import progress_words as words
from ...base.progress import tell
from ...engine.compute.lazy_torch import torch_if_loaded

_TORCH: Final = ("libtorch_global_deps.so", "libtorch_python.so")
_PACKAGE: Final = __name__.partition(".")[0]
_USED_BY_A_RUN: Final = (
    "pandas",
    f"{_PACKAGE}.engine.models.openclip",
    f"{_PACKAGE}.pipeline.run",
    f"{_PACKAGE}.pipeline.live",
)
# Of `without_collections`: who switched the collector off, and whether it was on before.
_lock = threading.Lock()
_users = 0
_was_enabled = True


def preload_torch() -> None:
    """Load the libraries of triton and torch on Linux, if they are not loaded."""
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


def start_torch() -> None:
    """Load PyTorch's libraries if necessary, in a worker."""
    if torch_if_loaded() is None:
        tell(words.STARTING_TORCH)
        preload_torch()


def is_warm() -> bool:
    """Return whether everything a run imports is loaded."""
    return all(name in sys.modules for name in _USED_BY_A_RUN)


def warm_up() -> None:
    """Import everything a run imports; the run itself reports what is broken."""
    preload_torch()
    with suppress(Exception):
        for name in _USED_BY_A_RUN:
            import_module(name)


def _folder(package: str) -> Path | None:
    """Return the folder of a package without importing it."""
    spec = find_spec(package)
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def _load(path: Path, flags: int) -> None:
    """Call ``dlopen`` without the GIL; errors are left to the import."""
    if not path.is_file():
        return
    dlopen = ctypes.CDLL(None).dlopen
    dlopen.restype, dlopen.argtypes = ctypes.c_void_p, (ctypes.c_char_p, ctypes.c_int)
    dlopen(os.fsencode(path), flags)


@contextmanager
def without_collections() -> Iterator[None]:
    """Switch Python's garbage collector off meanwhile, and count what was made as old.

    Large libraries bring so many objects that Python looks through all objects of the process
    several times, with all threads stopped: 0.05 to 0.35 s each. Modules live as long as the
    process, so nothing is missed. `gc.freeze` and `gc.unfreeze` move the new objects to the oldest
    generation; otherwise the first collection afterwards would look through all of them.
    """
    global _users, _was_enabled
    with _lock:
        if _users == 0:
            _was_enabled = gc.isenabled()
            gc.disable()
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0 and _was_enabled:
                gc.freeze()
                gc.unfreeze()
                gc.enable()
