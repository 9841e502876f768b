"""Encode windows and invert their regions, in smaller batches if memory runs out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from ..base.identity import Position
from ..base.oom_fallback import Attempt, OomFallback, then_on_cpu
from ..base.progress import STEP, Tick, tell, telling
from ..base.regions import Regions
from ..engine.compute.matmul import has_precision
from ..engine.invert.inverter import MaskInverter, RegionEmbedder
from ..engine.methods.registry import Method
from ..engine.models.loading import copy_to_cpu
from ..engine.settings import InversionConfig
from ..images.known_images import is_unknown
from ..images.plane_source import PlaneSource, read_reduced
from ..images.windows import Window
from ..language.labels.vocabulary import Vocabulary
from ..language.text import embed_vocabulary
from ..results.region_result import WindowRecord
from .encoded_windows import Encoded, EncodedWindows
from .progress import Progress, Stage
from .timings import remember

if TYPE_CHECKING:
    from ..engine.invert.loop import InversionResult
    from ..engine.models.backbone import Backbone

_HALVINGS: Final = 2  # of the input: below a quarter of its side a model sees too little
_MIN_TOKENS: Final = 4  # along a side of the smallest input


class WindowRunner:
    """Runs the windows of a run one by one."""

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
        make: Callable[..., RegionEmbedder] = MaskInverter,
        encoded: EncodedWindows | None = None,
    ) -> None:
        self._make = make
        self._model, self._inverter, self._config = model, make(model), config
        self._encoded = encoded
        self._keep_aspect = keep_aspect
        self.total, self._windows, self.done = total, windows, 0
        attempts = window_attempts(at_once, resolution, str(model.device), patch=model.patch_size)
        last = attempts[-1]
        self._fallback = OomFallback(
            attempts,
            "There was not enough memory, not even for one region and an input of "
            f"{last.resolution} px on {last.device}. Close other programs, or choose a smaller "
            "model.",
        )
        self._note = ""
        self._undisturbed = True  # the window's times count for estimates
        self._window: Window | None = None
        self._where: dict[str, Any] = {}
        self._pixels: npt.NDArray[Any] | None = None
        self._source: PlaneSource | None = None
        self._unknown = False  # the model knows no image of this kind

    def encode(
        self, source: PlaneSource, position: Position, window: Window, number: int
    ) -> WindowRecord:
        """Read and encode a window."""
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
        tell(self._progress("encoding", 0, self._model.num_layers))
        if source is not self._source:
            self._source, self._unknown = source, is_unknown(source, self._model)
        self._pixels = read_reduced(source, window.level, window.level_box, window.reduce)
        record = self._encode()
        if self._encoded is not None and self._undisturbed:
            self._encoded.put(self._key(position), Encoded(self._inverter, record, self._pixels))
        return record

    def _take(self, position: Position) -> WindowRecord | None:
        """Return the record of an earlier run that encoded the window, or prepare an inverter."""
        if self._encoded is None:
            return None
        kept = self._encoded.get(self._key(position))
        if kept is None:
            self._inverter = self._encoded.inverter(self._model, self._make)
            return None
        self._inverter, self._pixels = kept.inverter, kept.pixels
        self._undisturbed = False  # nothing is encoded
        return kept.record

    def _key(self, position: Position) -> tuple[Any, ...]:
        assert self._window is not None
        now = self._fallback.now
        where = (position, replace(self._window, members=()))
        return (*where, self._side, now.device, self._keep_aspect, self._config.layers)

    @property
    def _side(self) -> int:
        """Side of the window's input: what was planned, unless memory ran out."""
        assert self._window is not None
        return min(self._window.resolution, self._fallback.now.resolution)

    def labels(self, vocabulary: Vocabulary) -> npt.NDArray[np.float32]:
        """Embed the labels in batches that fit in memory."""

        def progress(news: Tick) -> Progress:
            if news.note:
                self._note, self._undisturbed = news.note, False
            return self._progress("labels", news.done, news.total)

        with telling(progress):
            return embed_vocabulary(self._model, vocabulary)

    def invert(
        self, local: Regions, start: int, offset: int, record: WindowRecord
    ) -> tuple[InversionResult, WindowRecord]:
        """Invert the next regions of the encoded window, as many as fit."""

        def work() -> tuple[InversionResult, WindowRecord]:
            nonlocal record
            now = self._fallback.now
            if (self._side, now.device) != (record.resolution, record.device):
                record = self._encode()
            chunk = local[start : start + self._fallback.now.at_once]
            inversions = self._invert(chunk, start, offset)
            note = self._fallback.now.note
            return inversions, replace(record, route=inversions.route, memory_note=note)

        steps = self._config.steps
        return self._fallback.run(
            work,
            lambda before: self._use_less(before, "inverting", steps),
            items=len(local) - start,
        )

    @property
    def memory_mb(self) -> int:
        """Memory budget of inversions in units of 2**20 bytes; 0 for methods without one."""
        return self._inverter.memory_mb

    def remember_seconds(
        self, encoding: float, inverting: float, regions: int, method: Method
    ) -> None:
        """Record the seconds of a window and of all its regions for estimates."""
        number, now, passes = self._where["window"], self._fallback.now, 1.0
        share = (self._side / now.resolution) ** 2  # of the tokens
        if not method.inverts:
            passes = sum(part.image + regions * part.region for part in method.parts)
            encoding, inverting = (encoding + inverting) / max(passes, 1e-6), 0.0
        if self._undisturbed:
            remember(
                self._model.name,
                now.device,
                resolution=now.resolution,
                steps=self._config.steps,
                encoding=encoding / share,
                region=inverting / regions / share,
                last=number == self._windows,
                explainer=self._config.explainer if method.inverts else method.name,
                passes=passes,
                regions=regions,
                warming_up=number == 1,
            )

    def _encode(self) -> WindowRecord:
        blocks = self._model.num_layers
        return self._fallback.run(
            self._encode_once, lambda before: self._use_less(before, "encoding", blocks), items=0
        )

    def _encode_once(self) -> WindowRecord:
        assert self._window is not None
        assert self._pixels is not None
        now = self._fallback.now
        with telling(lambda news: self._progress("encoding", news.done, news.total)):
            self._inverter.set_image(
                self._pixels,
                resolution=self._side,
                keep_aspect=self._keep_aspect,
                config=self._config,
            )
        return WindowRecord(
            box=self._window.box,
            level=self._window.level,
            pixels=self._window.pixels,
            input_size=self._inverter.input_size,
            grid=self._inverter.grid,
            whole=self._window.whole,
            flat=bool(self._pixels.min() == self._pixels.max()),
            resolution=self._side,
            device=now.device,
            image_norm=self._image_norm(),
            unknown=self._unknown,
        )

    def _image_norm(self) -> float:
        inverter = self._inverter
        if not isinstance(inverter, MaskInverter):
            return 0.0
        return float(np.linalg.norm(inverter.image_embedding))

    def _invert(self, chunk: Regions, start: int, offset: int) -> InversionResult:
        assert self._window is not None
        members = self._window.members
        indices = tuple(offset + member for member in members[start : start + len(chunk)])

        def progress(news: Tick) -> Progress:
            return self._progress(
                "inverting",
                news.done if news.stage == STEP else 0,
                news.total if news.stage == STEP else self._config.steps,
                first=self.done + 1,
                last=self.done + len(chunk),
                maps=getattr(news, "grid_maps", None),
                indices=indices,
            )

        with telling(progress):
            return self._inverter.invert(chunk, self._config, planned_masks=len(members))

    def _use_less(self, before: Attempt, stage: Stage, steps: int) -> None:
        """Free the memory of the failed attempt and move to the CPU if that is next."""
        now = self._fallback.now
        self._note, self._undisturbed = now.note, False
        if self._encoded is not None:
            self._encoded.clear()
        if now.device == before.device:
            self._inverter.spare_memory()
        else:
            self._inverter.release()
            self._model = copy_to_cpu(self._model)
            self._inverter = self._make(self._model)
            if not has_precision(self._config.precision, self._model.device):
                self._config = self._config.changed(precision="float32")
        tell(self._progress(stage, 0, steps))

    def _progress(self, stage: Stage, step: int, steps: int, **more: Any) -> Progress:
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


def window_attempts(at_once: int, resolution: int, device: str, *, patch: int) -> list[Attempt]:
    """List attempts: fewer regions at once, then a smaller input, then the CPU.

    A smaller input has room for all regions of a chunk again, and the CPU for the whole input.
    """
    attempts: list[Attempt] = []
    side, note = resolution, ""
    for _ in range(_HALVINGS + 1):
        count = at_once
        while count:
            attempts.append(Attempt(count, device, side, note))
            count //= 2
            note = f"Not enough memory: {count} region{'s' * (count != 1)} at once"
        side = patch * int(side / 2 / patch)
        if side < _MIN_TOKENS * patch:
            break
        note = f"Not enough memory: input of {side} px instead of {resolution}"
    return then_on_cpu(attempts, f"Not enough memory on {device}: going on on the CPU")
