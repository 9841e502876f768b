"""Windows of an image that stay encoded from one run to the next."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy.typing as npt

from ..results.region_result import WindowRecord

if TYPE_CHECKING:
    from ..engine.models.backbone import Backbone

_MEMORY_MB: Final = 1024  # of all inverters together


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """A window's inverter with its image set, its record, and the pixels read."""

    inverter: Any
    record: WindowRecord
    pixels: npt.NDArray[Any]


class EncodedWindows:
    """Windows used last, of one image, model and method, for runs of like settings.

    Parameters
    ----------
    most : int
        How many are kept.
    """

    def __init__(self, most: int = 4) -> None:
        self._most = most
        self._kept: OrderedDict[Hashable, Encoded] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def inverter(self, model: Backbone, make: Callable[..., Any]) -> Any:
        """Make an inverter for one more window, with its share of the memory."""
        return make(model, memory_mb=_MEMORY_MB // self._most)

    def get(self, key: Hashable) -> Encoded | None:
        """Give a window that is kept."""
        if key in self._kept:
            self._kept.move_to_end(key)
        return self._kept.get(key)

    def put(self, key: Hashable, encoded: Encoded) -> None:
        """Keep a window; the one used longest ago goes."""
        self._kept[key] = encoded
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)

    def clear(self) -> None:
        """Let go of all."""
        self._kept.clear()
