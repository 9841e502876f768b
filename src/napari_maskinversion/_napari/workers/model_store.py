"""Keeps models loaded. Knows neither Qt nor napari, and imports torch only to load one."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ...base import progress_words as words
from ...base.progress import tell
from ...engine.compute.lazy_torch import torch_if_loaded
from .preload import start_torch

if TYPE_CHECKING:
    from ...engine.models.backbone import Backbone

Loaded = TypeVar("Loaded")


@dataclass(slots=True)
class ModelStore:
    """Keeps the last model in memory. Shared by workers, one at a time."""

    note: str = ""  # Why it is not on the requested device, or what is assumed about it
    # Architecture of each checkpoint file, by the name under which it is asked for
    architectures: dict[str, str] = field(default_factory=dict)
    _key: tuple[str, str] | None = None
    _model: Backbone | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _cleared: int = 0  # a model that was asked for before the last `clear` is not kept

    def get(self, name: str, device: str) -> Backbone:
        """Load a model, or return the loaded one."""
        from ...engine.models.loading import load_where_it_fits

        cleared = self._cleared
        with self._lock:
            if self._key == (name, device) and self._model is not None:
                return self._model
            self.note = ""
            self._model = self._key = None  # room first: two large models may not fit
            own = self.architectures.get(name)
            options = {} if own is None else {"architecture": own}
            loaded = load_where_it_fits(name, device=device, **options)
            if cleared == self._cleared:
                self._model, self._key = loaded.model, (name, device)
                self.note = loaded.note
            return loaded.model

    def load(self, name: str, device: str) -> Backbone:
        """Load a model as `get` does, in a worker."""
        if not self.has(name, device):
            start_torch()
            tell(words.loading_model(name))
        return self.get(name, device)

    def use_architecture(self, name: str, architecture: str | None) -> None:
        """Load a checkpoint file with this architecture from now on."""
        before = self.architectures.get(name)
        if architecture is not None and architecture != before:
            self.architectures[name] = architecture
            if before is not None:
                self.clear()

    def has(self, name: str, device: str) -> bool:
        """Return whether a model is loaded."""
        return self._key == (name, device)

    def device(self, name: str) -> str:
        """Return the device of a model; empty if it is not loaded."""
        model = self._model
        loaded = model is not None and self._key is not None and self._key[0] == name
        return str(getattr(model, "device", "")) if loaded else ""

    def clear(self) -> None:
        """Forget the model, also one that is being loaded or waited for, without waiting."""
        self._cleared += 1
        if self._lock.acquire(blocking=False):
            self._model = self._key = None
            self._lock.release()


class Kept(Generic[Loaded]):
    """Keeps what was loaded last, until something else is asked for; for one worker at a time."""

    def __init__(self) -> None:
        self._key: Any = None
        self._loaded: Loaded | None = None
        self._lock = threading.Lock()

    def get(self, key: Any, load: Callable[[], Loaded]) -> Loaded:
        """Load what a key stands for, or return it if it is loaded."""
        with self._lock:
            if self._key != key or self._loaded is None:
                self._loaded = self._key = None  # room first: two large ones may not fit
                self._loaded, self._key = load(), key
            return self._loaded

    def has(self, key: Any) -> bool:
        """Return whether something is loaded."""
        return self._loaded is not None and self._key == key

    def clear(self) -> None:
        """Forget it, without waiting for one that is being loaded."""
        if self._lock.acquire(blocking=False):
            self._loaded = self._key = None
            self._lock.release()


def give_back_memory() -> None:
    """Return the memory of models that nothing holds any more to the device.

    PyTorch keeps freed blocks for itself, and a model may lie in a circle of references.
    """
    if torch_if_loaded() is not None:
        from ...engine.compute.devices import empty_caches

        gc.collect()
        empty_caches()
