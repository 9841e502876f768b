"""Encodes what is to be explained: on the device of its run, with less where memory runs short."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Generator, Hashable
from dataclasses import replace
from typing import Final, TypeVar

import numpy as np

from ..base.errors import NotEnoughMemoryError
from ..engine.compute.devices import release_memory
from ..engine.compute.memory import is_out_of_memory
from ..engine.invert.inverter import MaskInverter
from ..engine.models.backbone import Backbone
from ..engine.models.loading import copy_to_cpu
from ..images.plane_source import PlaneSource, read_reduced
from ..images.windows import Window
from ..results.region_result import WindowRecord
from ..results.run_info import RunInfo

Answer = TypeVar("Answer")

_AT_ONCE: Final = 16  # maps between two chances to stop
_KEPT: Final = 2  # a region's window, and the whole image


class ExplainedWindows:
    """The windows looked at last, and how much of the memory may be asked for.

    Parameters
    ----------
    model : Backbone

    Attributes
    ----------
    at_once : int
        Maps made together.
    """

    def __init__(self, model: Backbone) -> None:
        self.model = model
        self.at_once = _AT_ONCE
        self._on_cpu: Backbone | None = None
        self._short = False  # of memory, on the model's own device
        self._kept: OrderedDict[Hashable, MaskInverter] = OrderedDict()

    def release(self) -> None:
        """Let go of the windows."""
        self._kept.clear()

    def as_fits(
        self, work: Callable[[], Generator[str, None, Answer]]
    ) -> Generator[str, None, Answer]:
        """Do some work, again with less of it at once and then on the CPU where memory runs out.

        A smaller input is not tried: its maps would not be those of the run.

        Raises
        ------
        NotEnoughMemoryError
            If nothing helps.
        """
        while True:
            try:
                return (yield from work())
            except (MemoryError, RuntimeError) as error:
                if not is_out_of_memory(error):
                    raise
                said = self._give_way(error)
            # What the error held is free only now.
            release_memory(self.model.device)
            yield said

    def inverter(
        self, source: PlaneSource, window: Window, record: WindowRecord, info: RunInfo
    ) -> Generator[str, None, MaskInverter]:
        """Encode a window as a record says, unless it is among those kept.

        Parameters
        ----------
        source : PlaneSource
        window : Window
        record : WindowRecord
            Of the run: resolution and device count.
        info : RunInfo
        """
        # A run ends on the CPU where the model's own device was too small for it.
        model = self._copy() if self._short or record.device == "cpu" else self.model
        yield "Reading the image"
        pixels = read_reduced(source, window.level, window.level_box, window.reduce)
        content = hash(np.ascontiguousarray(pixels).tobytes())
        how = (record.resolution, info.keep_aspect, info.config.layers, str(model.device))
        key = (replace(window, members=()), *how, pixels.shape, content)
        if key not in self._kept:
            while len(self._kept) >= _KEPT:
                self._kept.popitem(last=False)
            inverter = MaskInverter(model)
            encoding = inverter.set_image_steps(
                pixels,
                resolution=record.resolution or None,
                keep_aspect=info.keep_aspect,
                layers=info.config.layers,
            )
            for block, blocks in encoding:
                yield f"Encoding the image, layer {block} of {blocks}"
            self._kept[key] = inverter
        self._kept.move_to_end(key)
        return self._kept[key]

    def _copy(self) -> Backbone:
        if self.model.device.type == "cpu":
            return self.model
        if self._on_cpu is None:
            self._on_cpu = copy_to_cpu(self.model)
        return self._on_cpu

    def _give_way(self, error: BaseException) -> str:
        """Ask for less memory; say what is done, or raise where nothing is left."""
        self.release()
        if self.at_once > 1:
            self.at_once = 1
            return "Not enough memory: one map at a time"
        self.at_once = _AT_ONCE
        if self.model.device.type != "cpu" and not self._short:
            self._short = True
            return f"Not enough memory on {self.model.device}: going on on the CPU"
        raise NotEnoughMemoryError(
            "There was not enough memory to look at this region again, not even for one map at a "
            "time on the CPU. Close other programs, or choose a smaller model."
        ) from error
