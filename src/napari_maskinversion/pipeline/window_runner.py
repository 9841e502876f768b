"""Encodes windows and inverts their regions, with less at a time where memory runs short."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..base.errors import NotEnoughMemoryError
from ..base.oom_fallback import Attempt, OomFallback
from ..base.regions import Regions
from ..engine.compute.devices import release_memory
from ..engine.compute.memory import is_out_of_memory
from ..engine.invert.inverter import MaskInverter
from ..engine.models.loading import copy_to_cpu
from ..engine.settings import InversionConfig
from ..images.plane_source import PlaneSource, read_reduced
from ..images.windows import Window
from ..language.labels.vocabulary import Vocabulary
from ..language.text.oom_retry import embed_as_fits
from ..results.region_result import WindowRecord
from .encoded_windows import Encoded, EncodedWindows
from .progress import Progress
from .timings import remember

if TYPE_CHECKING:
    from ..engine.invert.loop import InversionResult
    from ..engine.models.backbone import Backbone

Position = tuple[tuple[str, int], ...]


class WindowRunner:
    """The window being worked on, and what all windows of a run share.

    Parameters
    ----------
    model : Backbone
    config : InversionConfig
    at_once : int
        Regions inverted together.
    resolution : int
        Side of the model's input in pixels.
    keep_aspect : bool
    total, windows : int
        Regions and windows of the whole run.
    make : callable
        Makes the method's inverter of a model: `MaskInverter`, or what offers the same.
    encoded : EncodedWindows, optional
        Windows that earlier runs on the image left encoded; those of this one are added.

    Attributes
    ----------
    done : int
        Regions finished; counted by the caller.
    """

    def __init__(
        self,
        model: Backbone,
        config: InversionConfig,
        *,
        at_once: int,
        resolution: int,
        keep_aspect: bool,
        total: int,
        windows: int,
        make: Callable[..., Any] = MaskInverter,
        encoded: EncodedWindows | None = None,
    ) -> None:
        self._make = make
        self._model, self._inverter, self._config = model, make(model), config
        self._encoded = encoded
        self._keep_aspect = keep_aspect
        self.total, self._windows, self.done = total, windows, 0
        stride = config.query_stride
        self._ladder = OomFallback(
            Attempt(at_once, resolution, str(model.device)),
            patch=model.patch_size,
            # Sampled query tokens need two of them along each side.
            fewest_tokens=2 if stride == "auto" else 2 * stride,
        )
        self._note = ""
        self._undisturbed = True  # since the window was begun
        self._window: Window | None = None
        self._where: dict[str, Any] = {}
        self._pixels: npt.NDArray[Any] | None = None

    def encode(
        self, source: PlaneSource, position: Position, window: Window, number: int
    ) -> Generator[Progress, None, WindowRecord]:
        """Read and encode a window.

        Raises
        ------
        NotEnoughMemoryError
            If its smallest input does not fit.
        """
        self._window, self._undisturbed, self._pixels = window, True, None
        self._where = {
            "window": number,
            "windows": self._windows,
            "box": window.box,
            "position": position,
        }
        kept = self._take(position)
        if kept is not None:
            return kept
        yield self._progress("encoding", 0, self._model.num_layers)
        self._pixels = read_reduced(source, window.level, window.level_box, window.reduce)
        record = yield from self._encode()
        if self._encoded is not None and self._undisturbed:
            self._encoded.put(self._key(position), Encoded(self._inverter, record, self._pixels))
        return record

    def _take(self, position: Position) -> WindowRecord | None:
        """Take the window as an earlier run left it, or an inverter of its own for it."""
        if self._encoded is None:
            return None
        kept = self._encoded.get(self._key(position))
        if kept is None:
            self._inverter = self._encoded.inverter(self._model, self._make)
            return None
        self._inverter, self._pixels = kept.inverter, kept.pixels
        self._undisturbed = False  # its time says nothing of encoding
        return kept.record

    def _key(self, position: Position) -> tuple[Any, ...]:
        assert self._window is not None
        now = self._ladder.now
        where = (position, replace(self._window, members=()))
        return (*where, now.resolution, now.device, self._keep_aspect, self._config.layers)

    def labels(self, vocabulary: Vocabulary) -> Generator[Progress, None, npt.NDArray[np.float32]]:
        """Embed the labels: as many at once as fit.

        Raises
        ------
        NotEnoughMemoryError
            If not even one sentence fits.
        """
        with closing(embed_as_fits(self._model, vocabulary)) as work:
            while True:
                try:
                    done, total, said = next(work)
                except StopIteration as stop:
                    text: npt.NDArray[np.float32] = stop.value
                    return text
                if said:
                    self._note, self._undisturbed = said, False
                yield self._progress("labels", done, total)

    def invert(
        self, local: Regions, start: int, offset: int, record: WindowRecord
    ) -> Generator[Progress, None, tuple[InversionResult, WindowRecord]]:
        """Invert the next regions of the window that is encoded: as many as fit.

        Parameters
        ----------
        local : Regions
            All of the window, on its pixels.
        start : int
            The first of them that is not done.
        offset : int
            Place of the plane's first region among those of all planes.
        record : WindowRecord
            Of the encoding.

        Returns
        -------
        InversionResult, and the record of what the model saw with them.

        Raises
        ------
        NotEnoughMemoryError
            If not even one region fits.
        """
        while True:
            chunk = local[start : start + self._ladder.now.at_once]
            try:
                return (yield from self._invert(chunk, start, offset)), record
            except (MemoryError, RuntimeError) as error:
                before = self._ladder.now
                self._give_way(error, len(chunk))
            # What the error held is free only now.
            release_memory(self._model.device)
            after = self._ladder.now
            yield self._progress("inverting", 0, self._config.steps)
            if (after.resolution, after.device) != (before.resolution, before.device):
                record = yield from self._encode()

    def seconds(self, encoding: float, region: float) -> None:
        """Note what a window took, for later estimates; the first one also warms up."""
        number, now = self._where["window"], self._ladder.now
        if self._undisturbed and (number > 1 or self._windows == 1):
            remember(
                self._model.name,
                now.device,
                resolution=now.resolution,
                steps=self._config.steps,
                encoding=encoding,
                region=region,
                last=number == self._windows,
                explainer=self._config.explainer,
            )

    def _encode(self) -> Generator[Progress, None, WindowRecord]:
        assert self._window is not None
        assert self._pixels is not None
        while True:
            now = self._ladder.now
            work = self._inverter.set_image_steps(
                self._pixels,
                resolution=now.resolution,
                keep_aspect=self._keep_aspect,
                layers=self._config.layers,
            )
            try:
                for block, blocks in work:
                    yield self._progress("encoding", block, blocks)
                break
            except (MemoryError, RuntimeError) as error:
                self._give_way(error, 0)
            release_memory(self._model.device)
            yield self._progress("encoding", 0, self._model.num_layers)
        return WindowRecord(
            box=self._window.box,
            level=self._window.level,
            pixels=self._window.pixels,
            input_size=self._inverter.input_size,
            grid=self._inverter.grid,
            whole=self._window.whole,
            flat=bool(self._pixels.min() == self._pixels.max()),
            resolution=now.resolution,
            device=now.device,
        )

    def _invert(
        self, chunk: Regions, start: int, offset: int
    ) -> Generator[Progress, None, InversionResult]:
        assert self._window is not None
        members = self._window.members
        indices = tuple(offset + member for member in members[start : start + len(chunk)])
        work = self._inverter.invert_steps(chunk, self._config, planned_masks=len(members))
        while True:
            try:
                state = next(work)
            except StopIteration as stop:
                inversions: InversionResult = stop.value
                return inversions
            yield self._progress(
                "inverting",
                state.step,
                state.steps,
                first=self.done + 1,
                last=self.done + len(chunk),
                maps=state.grid_maps,
                indices=indices,
            )

    def _give_way(self, error: BaseException, attempted: int) -> None:
        """Ask for less memory; raises where the error says something else, or nothing is left."""
        if not is_out_of_memory(error):
            raise error
        device = self._ladder.now.device
        said = self._ladder.down(attempted)
        if said is None:
            raise NotEnoughMemoryError(
                "There was not enough memory, not even for one region and an input of "
                f"{self._ladder.now.resolution} px on {device}. Close other programs, or choose "
                "a smaller model."
            ) from error
        self._note, self._undisturbed = said, False
        if self._encoded is not None:
            self._encoded.clear()
        if self._ladder.now.device == device:
            self._inverter.spare_memory()
        else:
            self._inverter.release()
            self._model = copy_to_cpu(self._model)
            self._inverter = self._make(self._model)

    def _progress(self, stage: Any, step: int, steps: int, **more: Any) -> Progress:
        return Progress(
            stage=stage,
            done=self.done,
            total=self.total,
            step=step,
            steps=steps,
            note=self._note,
            **self._where,
            **more,
        )
