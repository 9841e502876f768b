"""Encode windows and invert their regions, in smaller batches if memory runs out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..base.identity import Position
from ..base.oom_fallback import Attempt, OomFallback, then_on_cpu
from ..base.progress import STEP, Tick, tell, telling
from ..base.regions import Regions
from ..base.wording import counted
from ..engine.compute.compute_lock import computing
from ..engine.compute.matmul import has_precision
from ..engine.encode.token_grid import TokenGrid
from ..engine.invert.inverter import MaskInverter, RegionEmbedder
from ..engine.invert.several import ImageBatch, masks_at_once
from ..engine.methods.registry import Method
from ..engine.models.loading import copy_to_cpu
from ..engine.settings import InversionConfig
from ..images.known_images import is_unknown
from ..images.plane_source import PlaneSource, read_reduced
from ..images.windows import Window, regions_in
from ..language.labels.vocabulary import Vocabulary
from ..language.text import embed_vocabulary
from ..results.region_result import SMALLER_INPUT, WindowRecord
from .encoded_windows import Encoded, EncodedWindows
from .run_progress import Progress, Stage
from .timings import remember

if TYPE_CHECKING:
    from ..engine.invert.loop import InversionResult
    from ..engine.models.backbone import Backbone

_HALVINGS: Final = 2  # of the input: below a quarter of its side a model sees too little
_MIN_TOKENS: Final = 4  # along a side of the smallest input
_PATIENCE: Final = 0.5  # seconds until a run that waits tells so again
_FEW: Final = 16  # regions: a window with more keeps a device busy by itself


@dataclass(eq=False)
class WindowWork:
    """A window of a plane and what is known of it so far."""

    source: PlaneSource
    position: Position
    window: Window
    plane_regions: Regions
    offset: int  # Index of the plane's first region among those of all planes
    number: int  # Of the window, from 0
    image: int = 0  # Its image among those of a run
    regions: Regions | None = None  # In the window's own pixels
    pixels: npt.NDArray[Any] | None = None
    # The model's input at a resolution, (1, 3, H, W), if it was made ahead
    tensor: tuple[int, Tensor] | None = None
    unknown: bool = False  # The model knows no image of this kind


@dataclass(frozen=True, slots=True)
class Inverted:
    """Newly inverted regions of a window, and what the window was seen as."""

    work: WindowWork
    members: tuple[int, ...]  # Indices of the regions on their plane
    result: InversionResult
    record: WindowRecord


class WindowRunner:
    """Encodes and inverts the windows of a run in their order, several at once where that pays.

    Several are windows of one input size with few regions, as many as fit the memory and
    `masks_at_once` allows; all others go one by one. Meanwhile a thread reads the next ones.
    """

    def __init__(
        self,
        model: Backbone,
        config: InversionConfig,
        work: Sequence[WindowWork],
        *,
        at_once: int,
        resolution: int,
        keep_aspect: bool,
        make: Callable[..., RegionEmbedder] = MaskInverter,
        encoded: EncodedWindows | None = None,
    ) -> None:
        self._make = make
        self._model = model
        self._inverter = make(model)
        self._config = config
        self._encoded = encoded
        self._keep_aspect = keep_aspect
        self._work = work
        self.done = 0
        self.total = sum(len(item.window.members) for item in work)
        attempts = window_attempts(at_once, resolution, str(model.device), patch=model.patch_size)
        last = attempts[-1]
        self._fallback = OomFallback(
            attempts,
            "There was not enough memory, not even for one region and an input of "
            f"{last.resolution} px on {last.device}. Close other programs, or choose a smaller "
            "model.",
        )
        self._note = ""
        self._undisturbed = True  # the times of these windows count for estimates
        # Windows and regions before these are done; those until the end are encoded together.
        self._place = self._start = self._first = self._end = 0
        self._before = 0, 0  # windows and regions that were done before these
        self._records: list[WindowRecord] = []
        self._batch: ImageBatch | None = None  # of several windows; one has an inverter
        self._reader = None
        if encoded is None:
            self._reader = ThreadPoolExecutor(1, "windows")
        self._reading: dict[int, Future[None]] = {}
        self._read_from: PlaneSource | None = None

    def __enter__(self) -> Self:
        """Return this runner; at the end of the block its thread has ended."""
        return self

    def __exit__(self, *_: object) -> None:
        """Wait for the window that is being read, and read no other."""
        if self._reader is not None:
            self._reader.shutdown(cancel_futures=True)

    @property
    def left(self) -> bool:
        """Whether there are windows that are not done."""
        return self._place < len(self._work)

    def encode(self) -> list[tuple[WindowWork, WindowRecord]]:
        """Encode the next windows, and have those after them read; return what they were seen as.

        Kept ones are those of an earlier run.
        """
        self._undisturbed = True
        self._before = (self._place, self.done)
        if self._take():
            return self._encoded_now()
        group = self._group(self._place)
        self._first = self._place
        self._end = self._place + len(group)
        for work in group:
            tell(self._progress("encoding", 0, self._model.num_layers))
            self._read_now(work)
        self._wait(self._reading.values())  # sources need not bear two readers
        for work in group:
            work.unknown = is_unknown(work.source, self._model)
        self._read_ahead()
        self._encode()
        if self._encoded is not None and self._undisturbed:
            pixels = group[0].pixels
            assert pixels is not None
            self._encoded.put(self._key(), Encoded(self._inverter, self._records[0], pixels))
        return self._encoded_now()

    def _encoded_now(self) -> list[tuple[WindowWork, WindowRecord]]:
        return list(zip(self._work[self._first : self._end], self._records, strict=True))

    def _take(self) -> bool:
        """Take a window that an earlier run encoded, or prepare an inverter for it."""
        if self._encoded is None:
            return False
        kept = self._encoded.get(self._key())
        if kept is None:
            self._inverter = self._encoded.inverter(self._model, self._make)
            return False
        work = self._work[self._place]
        self._inverter = kept.inverter
        work.pixels = kept.pixels
        work.regions = regions_in(work.window, work.plane_regions)
        self._first = self._place
        self._end = self._place + 1
        self._records = [kept.record]
        self._undisturbed = False  # nothing is encoded
        return True

    def _key(self) -> tuple[Any, ...]:
        attempt = self._fallback.now
        work = self._work[self._place]
        where = (work.position, replace(work.window, members=()))
        return (*where, self._side(work), attempt.device, self._keep_aspect, self._config.layers)

    def _side(self, work: WindowWork) -> int:
        """Return the side of a window's input: what was planned, unless memory ran out."""
        return min(work.window.resolution, self._fallback.now.resolution)

    def _group(self, place: int) -> list[WindowWork]:
        """Return the windows from a place on that are encoded and inverted together."""
        group = [self._work[place]]
        regions = 0
        most = min(self._most(group[0]), self._fallback.now.at_once)
        for work in islice(self._work, place, None):
            regions += len(work.window.members)
            if regions > most or len(work.window.members) > _FEW:
                break
            if work is not group[0]:
                if self._input_size(work) != self._input_size(group[0]):
                    break
                group.append(work)
        return group

    def _most(self, work: WindowWork) -> int:
        inverter = self._inverter
        if self._encoded is not None or not isinstance(inverter, MaskInverter):
            return 1
        side = self._side(work)
        memory = inverter.memory_mb << 20
        return masks_at_once(self._model, self._config, side, memory)

    def _input_size(self, work: WindowWork) -> tuple[int, int]:
        return self._model.input_size(*work.window.pixels, self._side(work), self._keep_aspect)

    def _read_now(self, work: WindowWork) -> None:
        reading = self._reading.pop(work.number, None)
        if reading is not None:
            self._wait([reading])
            reading.result()
        elif work.pixels is None:
            self._read(work, None)

    def _wait(self, readings: Iterable[Future[None]]) -> None:
        """Wait for windows that are being read; the run can be stopped meanwhile."""
        # Each tick lets the user stop, which raises here.
        while wait(readings, timeout=_PATIENCE).not_done:
            tell(self._progress("encoding", 0, self._model.num_layers))

    def _read_ahead(self) -> None:
        """Have the next windows read while these are worked on."""
        if self._reader is None or self._end >= len(self._work):
            return
        for work in self._group(self._end):
            if work.pixels is None and work.number not in self._reading:
                ahead = self._side_ahead(work)
                run = copy_context().run  # a source may ask for files that are open here
                self._reading[work.number] = self._reader.submit(run, self._read, work, ahead)

    def _side_ahead(self, work: WindowWork) -> int | None:
        """Return the side to which a thread resizes; None on a CPU, which the model keeps busy."""
        if self._model.device.type == "cpu":
            return None
        return self._side(work)

    def _read(self, work: WindowWork, ahead: int | None) -> None:
        window = work.window
        before = self._read_from
        if before is not None and before is not work.source:
            # A plane caches tiles for its next window; a finished plane needs none.
            getattr(before, "forget", lambda: None)()
        self._read_from = work.source
        work.pixels = read_reduced(work.source, window.level, window.level_box, window.reduce)
        work.regions = regions_in(window, work.plane_regions)
        if ahead is not None and len(window.members) <= _FEW:
            aspect = self._keep_aspect
            work.tensor = ahead, self._model.to_input(work.pixels, ahead, keep_aspect=aspect)

    def _tensor(self, work: WindowWork, resolution: int) -> Tensor:
        if work.tensor is not None and work.tensor[0] == resolution:
            return work.tensor[1]
        assert work.pixels is not None
        return self._model.to_input(work.pixels, resolution, keep_aspect=self._keep_aspect)

    def labels(self, vocabulary: Vocabulary) -> npt.NDArray[np.float32]:
        """Embed the labels in batches that fit in memory."""

        def progress(news: Tick) -> Progress:
            if news.note:
                self._note = news.note
                self._undisturbed = False
            return self._progress("labels", news.done, news.total)

        with telling(progress):
            return embed_vocabulary(self._model, vocabulary)

    def invert(self) -> list[Inverted]:
        """Invert the next regions of the encoded windows, as many as fit; none at their end."""
        if self._place == self._end:
            return []

        def work() -> list[Inverted]:
            attempt = self._fallback.now
            seen = [(r.resolution, r.device) for r in self._records[:1]]
            if seen != [(self._side(self._work[self._place]), attempt.device)]:
                self._encode()
            return self._invert(self._next())

        steps = self._config.steps
        left = self._work[self._place : self._end]
        inverted = self._fallback.run(
            work,
            lambda before: self._use_less(before, "inverting", steps),
            items=sum(len(item.window.members) for item in left) - self._start,
        )
        for done_now in inverted:
            self._start += len(done_now.members)
            if self._start == len(done_now.work.window.members):
                self._place = self._place + 1
                self._start = 0
                done_now.work.pixels = done_now.work.tensor = done_now.work.regions = None
        return inverted

    def _next(self) -> list[tuple[WindowWork, slice]]:
        """Return the next regions of the encoded windows that fit at once."""
        room = self._fallback.now.at_once
        start = self._start
        chunks = []
        for work in self._work[self._place : self._end]:
            stop = min(start + room, len(work.window.members))
            chunks.append((work, slice(start, stop)))
            room = room - (stop - start)
            start = 0
            if not room:
                break
        return chunks

    @property
    def memory_mb(self) -> int:
        """Memory budget of inversions in units of 2**20 bytes; 0 for methods without one."""
        return self._inverter.memory_mb

    def remember_seconds(self, encoding: float, inverting: float, method: Method) -> None:
        """Record the seconds of the last windows and of their regions for estimates."""
        attempt = self._fallback.now
        passes = float(self._place - self._before[0])
        regions = self.done - self._before[1]
        if not method.inverts:
            passes = sum(part.image + regions * part.region for part in method.parts)
            encoding = encoding + inverting
            inverting = 0.0
        share = (self._records[0].resolution / attempt.resolution) ** 2  # of the tokens
        if self._undisturbed:
            remember(
                self._model.name,
                attempt.device,
                resolution=attempt.resolution,
                steps=self._config.steps,
                encoding=encoding / max(passes, 1e-6) / share,
                region=inverting / regions / share,
                last=not self.left,
                explainer=self._config.explainer if method.inverts else method.name,
                passes=passes,
                regions=regions,
                warming_up=self._before[0] == 0,
            )

    def _encode(self) -> None:
        """Encode the window at hand, with others that are read if there is room."""
        blocks = self._model.num_layers
        most = self._end - self._place

        def encode() -> None:
            group = self._group(self._place)[:most]
            self._first = self._place
            self._end = self._place + len(group)
            with telling(lambda news: self._progress("encoding", news.done, news.total)):
                self._records = self._encode_once(group)

        group = self._work[self._place : self._end]
        regions = 0
        if len(group) > 1:
            regions = sum(len(item.window.members) for item in group)
        self._fallback.run(
            encode, lambda before: self._use_less(before, "encoding", blocks), items=regions
        )

    def _encode_once(self, group: list[WindowWork]) -> list[WindowRecord]:
        side = self._side(group[0])
        seen = self._inverter
        self._batch = None
        if len(group) == 1:
            pixels = group[0].pixels
            assert pixels is not None
            seen.set_image(
                pixels, resolution=side, keep_aspect=self._keep_aspect, config=self._config
            )
            norms = [0.0]
            if isinstance(seen, MaskInverter):
                norms = [float(np.linalg.norm(seen.image_embedding))]
            return [self._record(group[0], seen.input_size, seen.grid, norms[0])]
        with computing():
            tensors = torch.cat([self._tensor(item, side) for item in group])
        sizes = [item.window.pixels for item in group]
        memory = seen.memory_mb << 20
        batch = self._batch = ImageBatch(self._model, tensors, sizes, self._config, memory)
        records = []
        for item, embedding in zip(group, batch.embeddings, strict=True):
            records.append(
                self._record(item, batch.input_size, batch.grid, float(np.linalg.norm(embedding)))
            )
        return records

    def _record(
        self, work: WindowWork, input_size: tuple[int, int], grid: TokenGrid, norm: float
    ) -> WindowRecord:
        attempt = self._fallback.now
        pixels = work.pixels
        assert pixels is not None
        return WindowRecord(
            box=work.window.box,
            level=work.window.level,
            pixels=work.window.pixels,
            input_size=input_size,
            grid=grid,
            whole=work.window.whole,
            flat=bool(pixels.min() == pixels.max()),
            resolution=self._side(work),
            device=attempt.device,
            image_norm=norm,
            unknown=work.unknown,
        )

    def _invert(self, chunks: list[tuple[WindowWork, slice]]) -> list[Inverted]:
        members = []
        indices: list[int] = []
        for work, part in chunks:
            members_of_part = work.window.members[part]
            members.append(members_of_part)
            indices += [work.offset + member for member in members_of_part]
        seen = self._inverter if self._batch is None else self._batch

        def progress(news: Tick) -> Progress:
            return self._progress(
                "inverting",
                news.done if news.stage == STEP else 0,
                news.total if news.stage == STEP else self._config.steps,
                first=self.done + 1,
                last=self.done + len(indices),
                maps=getattr(news, "grid_maps", None),
                input_size=seen.input_size,
                indices=tuple(indices),
            )

        masks = [work.regions[part] for work, part in chunks if work.regions is not None]
        with telling(progress):
            if self._batch is None:
                ((work, _),) = chunks
                planned = len(work.window.members)
                results = [self._inverter.invert(masks[0], self._config, planned_masks=planned)]
            else:
                results = self._batch.invert(masks, self._place - self._first)
        note = self._fallback.now.note
        records = self._records[self._place - self._first :]
        inverted = []
        for (work, _), some, result, record in zip(chunks, members, results, records, strict=False):
            inverted.append(
                Inverted(work, some, result, replace(record, route=result.route, memory_note=note))
            )
        return inverted

    def _use_less(self, before: Attempt, stage: Stage, steps: int) -> None:
        """Free the memory of the failed attempt and move to the CPU if that is next."""
        attempt = self._fallback.now
        self._note = attempt.note
        self._undisturbed = False
        if self._encoded is not None:
            self._encoded.clear()
        if self._batch is not None:  # fewer windows, whose constants may fit, are encoded again
            self._batch = None
            self._records = []
        if attempt.device == before.device:
            self._inverter.spare_memory()
        else:
            self._inverter.release()
            self._model = copy_to_cpu(self._model)
            self._inverter = self._make(self._model)
            if not has_precision(self._config.precision, self._model.device):
                self._config = self._config.changed(precision="float32")
        tell(self._progress(stage, 0, steps))

    def _progress(self, stage: Stage, step: int, steps: int, **more: Any) -> Progress:
        work = self._work[self._place]
        progress = Progress(
            stage=stage,
            done=self.done,
            total=self.total,
            step=step,
            steps=steps,
            note=self._note,
            window=self._end,
            together=self._end - self._first,
            windows=len(self._work),
            box=work.window.box,
            position=work.position,
            **more,
        )
        return progress.with_share()


def window_attempts(at_once: int, resolution: int, device: str, *, patch: int) -> list[Attempt]:
    """List attempts: fewer regions at once, then a smaller input, then the CPU.

    A smaller input has room for all regions of a chunk again, and the CPU for the whole input.
    """
    attempts: list[Attempt] = []
    side = resolution
    note = ""
    smaller = ""
    for _ in range(_HALVINGS + 1):
        count = at_once
        # Fewer regions first: that costs time alone, a smaller input costs resolution.
        while count:
            attempts.append(Attempt(count, device, side, note))
            count //= 2
            few = f"{counted(count, 'region')} at once"
            if smaller:
                note = f"{smaller}, {few}"
            else:
                note = f"Not enough memory: {few}"
        side = patch * int(side / 2 / patch)
        if side < _MIN_TOKENS * patch:
            break
        note = smaller = f"{SMALLER_INPUT} {side} px instead of {resolution}"
    return then_on_cpu(attempts, f"Not enough memory on {device}: going on on the CPU")
