"""Imports a package while slow modules that it needs only later wait until they are used.

open_clip imports torchvision, whose operators import PyTorch's compiler, and timm with all of its
architectures. Neither is needed to encode an image with a ViT of open_clip's own, and together
they take longer than anything else between opening the panel and the first suggestion.
"""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

# Module -> the functions and classes that open_clip and torchvision take from it by name.
OPEN_CLIP_CAN_WAIT_FOR: Final[Mapping[str, Sequence[str]]] = {
    "torch._dynamo": (),
    "torch._dynamo.utils": ("is_compile_supported",),
    "timm": (),
    "timm.layers": ("AttentionPool2d", "Mlp", "RotAttentionPool2d", "to_2tuple"),
}


def import_deferring(package: str, waiting: Mapping[str, Sequence[str]]) -> types.ModuleType:
    """Import `package` with placeholders for the modules in `waiting`.

    Modules that are already loaded are left alone. If the package imports a name that `waiting`
    does not list, it is imported again in the usual way.

    Parameters
    ----------
    package
        Name of the package.
    waiting
        For each module that can wait, the names imported from it: functions, and classes that are
        only called. Each becomes a function that calls the real one. Attributes of the module are
        looked up in the real module when they are used.

    Raises
    ------
    ImportError
        If the package cannot be imported.
    """
    if package in sys.modules:
        return sys.modules[package]
    placeholders = {
        name: _Placeholder(name, members)
        for name, members in waiting.items()
        if name not in sys.modules and not _is_loaded(name.partition(".")[0], waiting)
    }
    before = set(sys.modules)
    sys.modules.update(placeholders)
    try:
        module = importlib.import_module(package)
    except Exception:
        if not placeholders:
            raise
    finally:
        for name, placeholder in placeholders.items():
            placeholder.importing = False
            if sys.modules.get(name) is placeholder:
                del sys.modules[name]
    if package in sys.modules and not any(
        placeholder.unlisted for placeholder in placeholders.values()
    ):
        return module
    for name in set(sys.modules) - before:
        if name == package or name.startswith(f"{package}."):
            del sys.modules[name]
    return importlib.import_module(package)


def _is_loaded(root: str, waiting: Mapping[str, Sequence[str]]) -> bool:
    """Return whether a package that can wait as a whole is loaded: its parts then load fast."""
    return root in waiting and root in sys.modules


class _Placeholder(types.ModuleType):
    """A module that loads the real one when it is used."""

    def __init__(self, name: str, members: Sequence[str]) -> None:
        super().__init__(name)
        self.__path__: list[str] = []  # a package: Python looks for its parts
        self.importing = True
        self.unlisted = False
        for member in members:
            setattr(self, member, _later(name, member))

    def __getattr__(self, attribute: str) -> Any:
        if self.importing or attribute.startswith("__"):
            self.unlisted |= not attribute.startswith("__")
            raise AttributeError(f"{self.__name__} is not loaded yet.")
        return getattr(importlib.import_module(self.__name__), attribute)


def _later(module: str, member: str) -> Callable[..., Any]:
    """Return a function that imports `member` of a module when it is called, and calls it."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return getattr(importlib.import_module(module), member)(*args, **kwargs)

    call.__name__ = call.__qualname__ = member
    call.__module__ = module
    return call
