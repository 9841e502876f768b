"""Encode windows again to explain them, with smaller batches if memory runs out."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Final, TypeVar

import numpy as np

from ..base import progress_words as words
from ..base.lru_cache import LruCache
from ..base.oom_fallback import Attempt, OomFallback, then_on_cpu
from ..base.progress import tell
from ..engine.compute.cuda_graphs import forget
from ..engine.invert.inverter import MaskInverter
from ..engine.models.backbone import Backbone
from ..engine.models.loading import copy_to_cpu
from ..engine.settings import InversionConfig
from ..images.plane_source import PlaneSource, read_reduced
from ..images.windows import Window
from ..results.region_result import WindowRecord
from ..results.run_info import RunInfo

Answer = TypeVar("Answer")

_AT_ONCE: Final = 16  # maps between two points where you can stop
_KEPT: Final = 2  # a region's window, and the whole image


class ExplainedWindows:
    """The most recently used windows, and the fallback for memory."""

    def __init__(self, model: Backbone) -> None:
        self.model = model
        device = str(model.device)
        one_map = Attempt(1, device, note="Not enough memory: one map at a time")
        self._fallback = OomFallback(
            then_on_cpu(
                [Attempt(_AT_ONCE, device), one_map],
                f"Not enough memory on {device}: going on on the CPU",
            ),
            "There was not enough memory to look at this region again, not even for one map at a "
            "time on the CPU. Close other programs, or choose a smaller model.",
        )
        self._on_cpu: Backbone | None = None
        self._kept = LruCache[Hashable, MaskInverter](_KEPT)

    @property
    def at_once(self) -> int:
        """Number of maps computed together."""
        return self._fallback.now.at_once

    def release(self) -> None:
        """Forget the windows."""
        self._kept.clear()

    def as_fits(self, work: Callable[[], Answer]) -> Answer:
        """Run work; if memory runs out, run it again with one map at a time, then on the CPU.

        A smaller input is not tried: its maps would differ from those of the run.
        """

        def use_less(_: Attempt) -> None:
            self.release()
            forget(self.model.clip.visual)
            tell(self._fallback.now.note)

        return self._fallback.run(work, use_less)

    def inverter(
        self, source: PlaneSource, window: Window, record: WindowRecord, info: RunInfo
    ) -> MaskInverter:
        """Encode a window as its run did, unless it is kept."""
        # A run ends on the CPU if the model's own device was too small for it.
        on_cpu = "cpu" in (self._fallback.now.device, record.device)
        model = self._copy() if on_cpu else self.model
        tell(words.READING_IMAGE)
        pixels = read_reduced(source, window.level, window.level_box, window.reduce)
        content = hash(np.ascontiguousarray(pixels).tobytes())
        how = (record.resolution, info.settings.keep_aspect, info.config.layers, str(model.device))
        key = (replace(window, members=()), *how, pixels.shape, content)
        inverter = self._kept.get(key)
        if inverter is None:
            self._kept.make_room()  # before the next window takes memory
            inverter = MaskInverter(model)
            inverter.set_image(
                pixels,
                resolution=record.resolution or None,
                keep_aspect=info.settings.keep_aspect,
                config=InversionConfig(layers=info.config.layers),
            )
            self._kept.put(key, inverter)
        return inverter

    def _copy(self) -> Backbone:
        if self.model.device.type == "cpu":
            return self.model
        if self._on_cpu is None:
            self._on_cpu = copy_to_cpu(self.model)
        return self._on_cpu
