"""The part of live mode that runs in a worker. Knows neither Qt nor napari."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ...base import progress_words as words
from ...base.progress import listening
from ...language.ranking.uncertainty import UncertaintyConfig
from ...regions.label_images import PlaneRegions
from ..layers.tasks import ImageFingerprint, PictureDigest, picture_digest
from ..run_requests.run_task import Request
from ..workers.driver import show
from ..workers.model_store import ModelStore

if TYPE_CHECKING:
    import pandas as pd

    from ...base.identity import RegionIdentity, RegionKey
    from ...pipeline.live import LiveRun
    from ...pipeline.progress import Progress, RegionChunk
    from ...results.results import Results
    from ..layers.pictures import Picture

_JUDGED_LATER: Final = {"unsure": UncertaintyConfig()}  # `LiveRun.judge` takes other limits


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LiveAnswer:
    """Results of one update, and the regions they belong to."""

    request: Request
    results: Results | None  # None without regions
    table: pd.DataFrame | None
    identities: tuple[RegionIdentity, ...]
    planes: tuple[PlaneRegions, ...]
    pixels: ImageFingerprint
    inverted: int  # Number of regions that were computed


@dataclass(frozen=True, slots=True)
class LiveNews:
    """What an update does now."""

    text: str
    computing: frozenset[RegionKey] = frozenset()


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
        pixels = ImageFingerprint.of(request.input, digest)
        settings = (model, request.settings.changed(_JUDGED_LATER), request.units, pixels)
        if self._run is None or settings != self._settings:
            self._run, self._settings = None, ()
            fresh = LiveRun(model, request.settings, units=request.units)
            self._run = request.continued(model, pixels) or fresh
            self._settings = settings
        run = self._run
        run.judge(request.settings.unsure)
        before = run.inverted
        tasks = request.input.tasks()
        with listening(lambda news: show(partial(_news, run, news))):
            results = run.update(tasks, request.vocabulary)
        return LiveAnswer(
            request=request,
            results=results,
            table=None if results is None else results.to_frame(),
            identities=run.identities,
            planes=tuple(PlaneRegions(task.position, task.regions) for task in tasks),
            pixels=pixels,
            inverted=run.inverted - before,
        )

    def _digest(self, picture: Picture) -> PictureDigest:
        """Return hashes of pixels and appearance."""
        seen = self._seen  # `clear` may come from another thread
        if seen is None or seen[0] is not picture:
            seen = self._seen = (picture, picture_digest(picture))
        return seen[1]


def _news(run: LiveRun, news: Progress | RegionChunk) -> LiveNews:
    """Name the regions: in a run of the changed ones they have other numbers."""
    ids, note = sorted(one.id for one in run.computing), getattr(news, "note", "")
    if not ids or getattr(news, "stage", "") in ("encoding", "labels"):
        return LiveNews(words.joined(getattr(news, "text", ""), note), run.computing)
    which = f"region {ids[0]}" if len(ids) == 1 else f"{len(ids):,} regions"
    return LiveNews(words.joined(f"computing {which}", note), run.computing)
