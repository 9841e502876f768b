"""The part of live mode that runs in a worker. Knows neither Qt nor napari."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ...base import progress_words as words
from ...base.progress import listening
from ...base.wording import counted
from ...language.ranking.uncertainty import UncertaintyConfig
from ...regions.label_images import PlaneRegions
from ..layer_input.run_input import PictureDigest, picture_digest, shown_to_model
from ..work.driver import show
from ..work.model_store import ModelStore
from .run_task import Request, RunUpdate

if TYPE_CHECKING:
    from ...pipeline.live import LiveRun
    from ...pipeline.run_progress import Progress, RegionChunk
    from ..layer_input.input_pictures import Picture
    from ..session import ResultRecord

_JUDGED_LATER: Final = {"unsure": UncertaintyConfig()}  # `LiveRun.judge` takes other limits


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LiveAnswer:
    """What an update has come to."""

    record: ResultRecord | None  # None without regions
    picture: Picture
    inverted: int  # Number of regions that were computed


class LiveUpdater:
    """Keeps what the updates of one image share. Used by one worker at a time."""

    def __init__(self, store: ModelStore) -> None:
        self._store = store
        self._run: LiveRun | None = None
        self._settings: tuple[Any, ...] = ()
        self._seen: tuple[Picture, PictureDigest] | None = None

    def clear(self) -> None:
        """Release image, model and results."""
        self._run = self._seen = None
        self._settings = ()

    def update(self, request: Request) -> LiveAnswer:
        """Update the results, in a worker."""
        model = self._store.load(request.settings.model, request.settings.device)
        from ...pipeline.live import LiveRun

        request = request.located()
        digest = self._digest(request.input.picture)
        shown = shown_to_model(request.input, digest)
        settings = (model, request.settings.changed(_JUDGED_LATER), request.units, shown)
        if self._run is None or settings != self._settings:
            self._run, self._settings = None, ()
            fresh = LiveRun(model, request.settings, units=request.units)
            self._run = request.continued(model, shown) or fresh
            self._settings = settings
        run = self._run
        run.judge(request.settings.unsure)
        before = run.inverted
        tasks = request.input.tasks()
        with listening(lambda news: show(partial(_news, run, news))):
            results = run.update(tasks, request.vocabulary)
        inverted, picture = run.inverted - before, request.input.picture
        if results is None:
            return LiveAnswer(record=None, picture=picture, inverted=inverted)
        record = request.record(
            results,
            table=results.to_frame(),
            identities=run.identities,
            masks=tuple(PlaneRegions(task.position, task.regions) for task in tasks),
            shown=shown,
            live=True,
        )
        return LiveAnswer(record=record, picture=picture, inverted=inverted)

    def _digest(self, picture: Picture) -> PictureDigest:
        """Return hashes of pixels and appearance."""
        seen = self._seen  # `clear` may come from another thread
        if seen is None or seen[0] is not picture:
            seen = self._seen = (picture, picture_digest(picture))
        return seen[1]


def _news(run: LiveRun, news: Progress | RegionChunk) -> RunUpdate:
    """Name the regions: in a run of the changed ones they have other numbers."""
    text = getattr(news, "text", "")
    ids = sorted(key.id for key in run.computing)
    if ids and getattr(news, "stage", "") not in ("encoding", "labels"):
        regions = f"region {ids[0]}" if len(ids) == 1 else counted(len(ids), "region")
        text = f"computing {regions}"
    note = getattr(news, "note", "")
    return RunUpdate(text=words.joined(text, note), computing=run.computing)
