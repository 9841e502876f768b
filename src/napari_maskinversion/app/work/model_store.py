"""Keeps models loaded. Knows neither Qt nor napari, and imports torch only to load one."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Hashable
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from ...base import progress_words as words
from ...base.progress import tell
from ...engine.compute.lazy_torch import torch_if_loaded
from .preload import start_torch

if TYPE_CHECKING:
    from ...engine.models.backbone import Backbone

Loaded = TypeVar("Loaded")


class Kept(Generic[Loaded]):
    """Keeps what was loaded last, until something else is asked for. Shared by workers."""

    def __init__(self) -> None:
        self.loaded: Loaded | None = None
        self._key: Hashable = None
        self._lock = threading.Lock()
        self._cleared = 0  # what was asked for before the last `clear` is not kept

    def get(self, key: Hashable, load: Callable[[], Loaded]) -> Loaded:
        """Load what a key stands for, or return it if it is loaded."""
        cleared = self._cleared
        with self._lock:
            if self._key == key and self.loaded is not None:
                return self.loaded
            self.loaded = self._key = None  # room first: two large ones may not fit
            loaded = load()
            if cleared == self._cleared:
                self.loaded, self._key = loaded, key
            return loaded

    def has(self, key: Hashable) -> bool:
        """Return whether something is loaded."""
        return self.loaded is not None and self._key == key

    def clear(self) -> None:
        """Forget it, also if it is being loaded or waited for, without waiting."""
        self._cleared += 1
        if self._lock.acquire(blocking=False):
            self.loaded = self._key = None
            self._lock.release()


class ModelStore:
    """Keeps the last model in memory."""

    def __init__(self) -> None:
        self.note = ""  # Why it is not on the requested device, or what is assumed about it
        # Architecture of each checkpoint file, by the name under which it is asked for
        self.architectures: dict[str, str] = {}
        self.kept: Kept[Backbone] = Kept()

    def get(self, name: str, device: str) -> Backbone:
        """Load a model, or return the loaded one."""
        return self.kept.get((name, device), partial(self._load, name, device))

    def _load(self, name: str, device: str) -> Backbone:
        from ...engine.models.loading import load_where_it_fits

        self.note = ""
        options = {}
        if name in self.architectures:
            options["architecture"] = self.architectures[name]
        loaded = load_where_it_fits(name, device=device, **options)
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
        return self.kept.has((name, device))

    def clear(self) -> None:
        """Forget the model, also one that is being loaded or waited for, without waiting."""
        self.kept.clear()


def give_back_memory() -> None:
    """Return the memory of models that nothing holds any more to the device.

    PyTorch keeps freed blocks for itself, and a model may lie in a circle of references.
    """
    if torch_if_loaded() is not None:
        from ...engine.compute.devices import empty_caches

        gc.collect()
        empty_caches()
