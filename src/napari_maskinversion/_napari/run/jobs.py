"""What runs in the worker thread. Knows neither Qt nor napari.

Nothing here imports torch before a job has started: the first import takes seconds, which the
thread of the windows must not spend.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from ...base import progress_words as words
from ...base.errors import Cancelled
from ..workers.model_store import ModelStore
from ..workers.preload import preload_torch
from ..workers.updates import INTERVAL, Forming, Update
from ..workers.worker_errors import Failed, guarded
from .request import Request, Seed, settings_of

if TYPE_CHECKING:
    from ...base.identity import RegionIdentity
    from ...engine.models.loading import Backbone
    from ...pipeline.run import PlaneTask
    from ...results.export.bundle import Masks
    from ...results.results import Results
    from ..layers.image_fingerprint import ImageFingerprint

# At most ten updates a second reach the windows, whatever the speed of the steps; fewer, but two at
# least, where drawing one takes more than a 25th of the time between them. (Where no GPU draws, Qt
# composes the whole window anew for each, on the processors that the run needs.)
LONGEST_INTERVAL: Final = 0.5
_DRAWING_SHARE: Final = 25
# A new table comes no sooner than after so many times what the last took to make and to show; two
# seconds are enough of that, except where making it takes more than a tenth of them.
_TABLE_SHARE: Final = 25
_TABLE_PAUSE: Final = 4 * LONGEST_INTERVAL


class Job:
    """One run. `work` is the generator for the worker; `close` frees what it holds.

    A worker that is told to quit just stops asking its generator for more, and whatever that
    generator holds lives until it is collected. So the job can be closed from outside, once the
    worker has finished.

    Attributes
    ----------
    finished : Results or None
        All regions finished so far: valid however the job ended.
    identities : tuple of RegionIdentity
        The regions as they were when the run began.
    masks : mapping
        Their pixels, packed, by plane and id.
    pixels : ImageFingerprint or None
        What the model was shown.
    stop_requested : callable
        Asked after every step whether the worker has been told to quit.
    drawing_seconds : float
        How long the windows took to show the last update; set by whoever shows them.
    """

    def __init__(self, request: Request, store: ModelStore) -> None:
        self._asked: Request | None = request
        self._tasks: list[PlaneTask] = []
        self._store = store
        self._running: Generator[Any, None, Results] | None = None
        self.finished: Results | None = None
        self.identities: tuple[RegionIdentity, ...] = ()
        self.masks: Masks = {}
        self.pixels: ImageFingerprint | None = None
        self._settings: tuple[Any, ...] | None = None
        self.stop_requested: Callable[[], bool] = lambda: False
        self.drawing_seconds = 0.0

    @property
    def seed(self) -> Seed | None:
        """What live mode may begin with after a run of the plane shown."""
        if self.finished is None or self._settings is None:
            return None
        return Seed(self._settings, self.finished, self.identities)

    @property
    def _request(self) -> Request:
        assert self._asked is not None  # released only when the work is over
        return self._asked

    @property
    def _interval(self) -> float:
        return min(max(INTERVAL, _DRAWING_SHARE * self.drawing_seconds), LONGEST_INTERVAL)

    def work(self) -> Generator[Update, None, Results | Failed | None]:
        """Run the job; yields at most ten times a second once it is under way; see `guarded`."""
        kept = "The regions finished before are kept."
        return (yield from guarded(self._work(), self.close, kept))

    def _work(self) -> Generator[Update, None, Results]:
        # Whatever is large belongs to the job, not to this frame: a worker that is told to quit
        # leaves the frame as it is.
        settings = self._request.settings
        model_name, device = settings.model, settings.device
        loaded = self._store.has(model_name, device)
        yield Update(text=words.READING_IMAGE if loaded else words.STARTING_TORCH)
        if not loaded:
            preload_torch()
        from ...pipeline import run
        from ...results.export.bundle import compress_masks
        from ..layers.image_fingerprint import ImageFingerprint
        from ..layers.tasks import identities

        self._tasks = self._request.input.tasks(self._check_stopped)
        # Refused here, before a model of gigabytes is read.
        run.check_tasks(self._tasks)
        self.identities = identities(self._tasks)
        self.masks = compress_masks(self._tasks)
        self.pixels = ImageFingerprint.of(self._request.input)
        if self._request.input.planes == "shown":
            self._settings = settings_of(self._request, self.pixels.digest)
        yield Update(text=words.READING_IMAGE if loaded else words.loading_model(model_name))
        self._running = self._run(self._store.get(model_name, device))
        yield Update(text=words.encoding(), fraction=0.0, note=self._store.note)
        return (yield from self._follow(self._running))

    def _run(self, model: Backbone) -> Generator[Any, None, Results]:
        from ...pipeline import run

        request, captions = self._request, self._request.captions
        return run.run_planes(
            model,
            self._tasks,
            request.vocabulary,
            request.settings,
            units=request.units,
            bank=None if captions is None else captions.bank,
            top_captions=None if captions is None else captions.top,
        )

    def _check_stopped(self) -> None:
        if self.stop_requested():
            raise Cancelled("Stopped.")

    def _follow(self, running: Generator[Any, None, Results]) -> Generator[Update, None, Results]:
        """Pass on what the pipeline says, slowly enough for a window."""
        from ...pipeline.run import RegionChunk

        last, shown, table_due = 0.0, 0, 0.0
        text, fraction, note = "", 0.0, self._store.note
        while True:
            try:
                news = next(running)
            except StopIteration as stop:
                self.finished = stop.value
                return stop.value
            if isinstance(news, RegionChunk):
                self.finished = news.so_far
            else:
                text, fraction = news.text, news.fraction
                note = words.joined(self._store.note, news.note)
            # Between two updates the worker is only asked in when it has been told to stop.
            if time.monotonic() - last < self._interval and not self.stop_requested():
                continue
            last = time.monotonic()
            if self.stop_requested():
                self._complete()
            done = self.finished
            if done is not None and len(done) > shown and last >= table_due:
                shown = len(done)
                table = done.to_frame()
                # The table of thousands of regions takes its time, which is the run's time.
                made = time.monotonic() - last
                pause = min(_TABLE_SHARE * (made + self.drawing_seconds), _TABLE_PAUSE)
                table_due = last + max(pause, 10 * made)
                yield Update(text=text, fraction=fraction, results=done, table=table, note=note)
            else:
                forming = self._forming(news)
                yield Update(text=text, fraction=fraction, forming=forming, note=note)

    def _complete(self) -> None:
        """Give captions to regions that wait for some; nothing is asked of the pipeline again."""
        captions, done = self._request.captions, self.finished
        if captions is not None and done is not None:
            from ...pipeline.captioning import add_captions

            self.finished = add_captions(done, captions.bank, top=captions.top)

    def _forming(self, news: Any) -> Forming | None:
        maps = getattr(news, "maps", None)
        if maps is None or not self._request.forming:
            return None
        return Forming(grid_map=maps()[0], box=news.box, position=news.position)

    def close(self) -> None:
        """Stop the pipeline between two steps and free its memory; the worker must be idle."""
        running, self._running = self._running, None
        if running is not None:
            with suppress(ValueError):  # still being executed, by the worker: it closes it itself
                running.close()

    def release(self) -> None:
        """Let go of pixels and results, when the worker has finished.

        napari keeps every worker, and so its job, as long as its window lives.
        """
        self.close()
        self._asked, self._tasks, self.finished, self.identities = None, [], None, ()
        self.masks = {}
        self._settings = self.pixels = None
        self.stop_requested = lambda: False
