"""Keep windows of an image encoded between runs."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy.typing as npt

from ..base.lru_cache import LruCache
from ..results.region_result import WindowRecord

if TYPE_CHECKING:
    from ..engine.invert.inverter import RegionEmbedder
    from ..engine.models.backbone import Backbone

_MEMORY_MB: Final = 1024  # of all inverters together


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """A window's inverter with its image set, its record, and the pixels read."""

    inverter: RegionEmbedder
    record: WindowRecord
    pixels: npt.NDArray[Any]


class EncodedWindows:
    """Recently used windows of one image, model and method."""

    def __init__(self, most: int = 4) -> None:
        self.most = most
        self._kept = LruCache[Hashable, Encoded](most)

    def __len__(self) -> int:
        return len(self._kept)

    def inverter(self, model: Backbone, make: Callable[..., RegionEmbedder]) -> RegionEmbedder:
        """Create an inverter for one more window, with its share of the memory."""
        return make(model, memory_mb=_MEMORY_MB // self.most)

    def get(self, key: Hashable) -> Encoded | None:
        """Return a kept window, or None."""
        return self._kept.get(key)

    def put(self, key: Hashable, encoded: Encoded) -> None:
        """Keep a window and drop the least recently used one."""
        self._kept.put(key, encoded)

    def clear(self) -> None:
        """Drop all windows."""
        self._kept.clear()
