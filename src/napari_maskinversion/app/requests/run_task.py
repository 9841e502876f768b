"""A run: what it needs, copied from the panel, and the task of a worker. Knows no Qt and no napari.

Nothing here imports torch before a run has started: the first import takes seconds, which the GUI
thread must not spend.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ...base import progress_words as words
from ...base.errors import Cancelled
from ...base.identity import RegionKey
from ...base.progress import Tick, listening
from ...base.units import Units
from ...engine.explain.interpolation import heatmap
from ...images.opening import with_georeference
from ...language.captions.bank import CaptionBank
from ...language.labels.vocabulary import Vocabulary
from ...pipeline.run import PlaneTask
from ...pipeline.run_progress import Progress, RegionChunk
from ...results.recipe import Recipe, Weights
from ...results.results import Results
from ...results.settings import RunSettings
from ..session import ResultRecord, Snapshot
from ..work.driver import (
    LONGEST_INTERVAL,
    Forming,
    Job,
    Partial,
    check_stopped,
    drawing_seconds,
    show,
)
from ..work.model_store import ModelStore
from ..work.preload import start_torch

if TYPE_CHECKING:
    from ...engine.models.backbone import Backbone
    from ...pipeline.live import LiveRun
    from ..layer_input.run_input import RunInput

# The next table comes no sooner than 25 times what the last took to make and to show, or 2 s; but
# always later than ten times what it took to make.
_TABLE_SHARE: Final = 25
_TABLE_PAUSE: Final = 4 * LONGEST_INTERVAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Everything that one run needs, copied from the panel."""

    input: RunInput
    vocabulary: Vocabulary | None
    settings: RunSettings
    snapshot: Snapshot  # Of the session; what `settings` are there may name no usable weights
    source: Mapping[str, Any]  # What the run is made from, for the exported record
    units: Units | None = None  # Of the image's layer; `located` adds what its file says
    file: Path | None = None  # Of the image
    forming: bool = False  # Pass on heatmaps as they form
    captions: tuple[CaptionBank, int] | None = None  # And how many of them each region gets
    before: ResultRecord | None = None  # Results whose unchanged regions are kept

    def record(self, results: Results, **values: Any) -> ResultRecord:
        """Return results with what they were made from."""
        return ResultRecord(
            results=results,
            snapshot=self.snapshot,
            only=self.input.only,
            finder=self.input.finder,
            source=self.source,
            **values,
        )

    def located(self) -> Request:
        """Return the request with the place of a GeoTIFF on earth; for a worker."""
        finder = self.input.finder
        rows, columns = finder.axes
        shape = finder.image.shape[rows], finder.image.shape[columns]
        return replace(
            self, file=None, units=with_georeference(self.units, self.file, shape, finder.axes)
        )

    def continued(self, model: Backbone, shown: Recipe) -> LiveRun | None:
        """Return a run that goes on with the results of before; None if they would differ."""
        before = self.before
        if before is None:
            return None
        different = before.recipe.differences(self._recipe(model, shown))
        if any(difference.needs_run for difference in different):
            return None
        from ...pipeline.live import LiveRun

        live = LiveRun(model, self.settings, units=self.units)
        live.adopt(before.results, before.identities)
        live.judge(self.settings.unsure)
        return live

    def _recipe(self, model: Backbone, shown: Recipe) -> Recipe:
        """Return what the results are made from, but for the regions and their words."""
        weights = Weights(model.fingerprint, model.name)
        run = Recipe(image={"units": self.units}, embedding={"weights": weights})
        return Recipe.of_settings(self.settings.changed({"model": model.name})).joined(run, shown)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunUpdate(Job):
    """Progress of a run, or of an update in live mode."""

    record: ResultRecord | None = None  # All regions finished so far, if there are new ones
    forming: Forming | None = None  # Map of the first region at work, if requested
    computing: frozenset[RegionKey] = frozenset()  # Regions at work, in live mode


class RunTask:
    """One run; `work` is for a job."""

    def __init__(self, request: Request, store: ModelStore) -> None:
        self._request, self._store = request, store
        self._tasks: list[PlaneTask] = []
        self._about: dict[str, Any] = {}  # of the regions and the image
        self._progress: Tick | None = None
        self._rows, self._table_due = 0, 0.0  # of the last table
        self.results: Results | None = None

    def work(self) -> ResultRecord | Partial:
        """Run; one that is stopped or breaks off returns the regions finished before."""
        try:
            return self.run()
        except BaseException as error:
            if isinstance(error, Cancelled):
                self._add_captions()
            if self.results is None:
                raise
            return Partial(self._finished(), error)

    def _finished(self) -> ResultRecord:
        assert self.results is not None
        return self._request.record(self.results, settled=True, **self._about)

    def run(self) -> ResultRecord:
        """Run in a worker."""
        settings = self._request.settings
        model_name, device = settings.model, settings.device
        if not self._store.has(model_name, device):
            start_torch()
        show(words.READING_IMAGE)
        self._request = self._request.located()
        from ...pipeline import run
        from ...results.export.bundle import compress_masks
        from ..layer_input.run_input import identities, shown_to_model

        self._tasks = self._request.input.tasks(check_stopped)
        self._request.input.left_out(self._tasks)
        # Refused here, before a model of gigabytes is read.
        run.check_tasks(self._tasks)
        shown = shown_to_model(self._request.input)
        regions = identities(self._tasks)
        self._about = {"total": len(regions), "identities": regions, "shown": shown}
        self._about["masks"] = compress_masks(self._tasks)
        model = self._store.load(model_name, device)
        show(Job(text=words.encoding(), fraction=0.0, note=self._store.note))

        def follow(news: Tick | RegionChunk) -> None:
            if isinstance(news, RegionChunk):
                self.results = news.so_far
            else:
                self._progress = news
            show(partial(self._update, news))

        with listening(follow):
            self.results = self._run(model, shown)
        return self._finished()

    def _run(self, model: Backbone, shown: Recipe) -> Results:
        from ...pipeline.job import Job

        request, captions = self._request, self._request.captions
        live = request.continued(model, shown)
        if live is not None:
            self.results = live.update(self._tasks, request.vocabulary)
            self._add_captions()
            assert self.results is not None  # those of before, at least
            return self.results
        settings, bank = request.settings, None
        if captions is not None:
            bank, top = captions
            settings = settings.changed({"top_captions": top})
        job = Job(tasks=self._tasks, settings=settings, units=request.units)
        return job.run(model, request.vocabulary, bank)

    def _update(self, progress: Tick | RegionChunk) -> RunUpdate:
        """Make what the window shows; with a table if there are new results and it is time."""
        text, fraction, note = "", 0.0, self._store.note
        if self._progress is not None:
            text, fraction = self._progress.text, self._progress.fraction
            note = words.joined(note, self._progress.note)
        started = time.monotonic()
        results = self.results
        update = RunUpdate(
            text=text,
            fraction=fraction,
            note=note,
            done=0 if results is None else len(results),
            total=self._about["total"],
        )
        if results is None or len(results) == self._rows or started < self._table_due:
            return replace(update, forming=self._forming(progress))
        self._rows = len(results)
        table = results.to_frame()
        # The table of thousands of regions takes its time, which is the run's time.
        seconds = time.monotonic() - started
        pause = min(_TABLE_SHARE * (seconds + drawing_seconds()), _TABLE_PAUSE)
        self._table_due = started + max(pause, 10 * seconds)
        return replace(update, record=self._request.record(results, table=table))

    def _forming(self, progress: Tick | RegionChunk) -> Forming | None:
        if not isinstance(progress, Progress) or not self._request.forming:
            return None
        if progress.maps is None:
            return None
        forming = heatmap(progress.maps()[0], progress.input_size)
        return Forming(heatmap=forming, box=progress.box, position=progress.position)

    def _add_captions(self) -> None:
        """Add captions to the regions that still wait for them; the pipeline is not asked again."""
        captions = self._request.captions
        if captions is not None and self.results is not None:
            from ...pipeline.caption_ranking import add_captions

            bank, top = captions
            self.results = add_captions(self.results, bank, top=top)
