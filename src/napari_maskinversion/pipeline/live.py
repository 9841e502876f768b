"""Results that follow their regions: only changed regions are computed again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..base.identity import RegionIdentity, RegionKey, identify_all
from ..base.progress import telling
from ..base.regions import Regions
from ..base.units import Units
from ..language.labels.vocabulary import Vocabulary
from ..language.ranking.uncertainty import UncertaintyConfig
from ..results.region_result import RegionResult
from ..results.results import Results
from ..results.run_info import RunInfo
from ..results.settings import RunSettings
from . import run as pipeline
from .encoded_windows import EncodedWindows
from .reranking import rerank
from .run import PlaneTask
from .run_progress import RegionChunk

if TYPE_CHECKING:
    from ..engine.models.backbone import Backbone


class LiveRun:
    """Regions of one image, computed again as they change.

    Image, model and settings are fixed; create a new `LiveRun` for others. The image stays encoded,
    and a region with unchanged pixels, position and id keeps its embedding.
    """

    def __init__(
        self, model: Backbone, settings: RunSettings, *, units: Units | None = None
    ) -> None:
        self.model = model
        self._units = units
        self._settings = settings
        self._encoded = EncodedWindows()
        self._rows: dict[RegionIdentity, RegionResult] = {}
        self._info: RunInfo | None = None
        self._vocabulary: Vocabulary | None = None  # all rows are ranked by it
        self.inverted = 0
        self.identities: tuple[RegionIdentity, ...] = ()
        self.computing: frozenset[RegionKey] = frozenset()  # Regions of the update that goes on

    def update(self, tasks: Sequence[PlaneTask], vocabulary: Vocabulary | None) -> Results | None:
        """Update the results to the present regions."""
        if vocabulary != self._vocabulary:
            self._rerank(vocabulary)
        identities: list[RegionIdentity] = []
        changed = []
        new = []
        for task in tasks:
            new_regions = []
            identities_of_task = identify_all(task.regions, task.position)
            for region, identity in zip(task.regions, identities_of_task, strict=True):
                identities.append(identity)
                if identity not in self._rows:
                    new_regions.append(region)
                    new.append(identity)
            if new_regions:
                regions = Regions(task.regions.shape, new_regions)
                changed.append(replace(task, regions=regions))
        self.identities = tuple(identities)
        self.computing = frozenset(identity.key for identity in new)
        if changed:
            self._invert(changed, new, vocabulary)
        results = self._results()
        if results is not None:
            self._rows = dict(zip(self.identities, results.regions, strict=True))
        return results

    def _results(self) -> Results | None:
        if self._info is None:
            return None
        rows = (self._rows[identity] for identity in self.identities if identity in self._rows)
        # Rows with an unchanged index stay the same objects.
        regions = tuple(
            row if row.index == place else replace(row, index=place)
            for place, row in enumerate(rows)
        )
        return Results(replace(self._info, vocabulary=self._vocabulary), regions)

    def adopt(self, results: Results, identities: Iterable[RegionIdentity]) -> None:
        """Start with the results of a run with the same model, image and settings."""
        results = results.without_decisions()
        finished = {row.key: row for row in results.regions}
        rows = {}
        for identity in identities:
            if identity.key in finished:
                rows[identity] = finished[identity.key]
        if not rows:
            return
        self._rows = {identity: replace(row, captions=None) for identity, row in rows.items()}
        self._info = replace(results.info, captions=None)
        self._set_limits(results.info.settings.unsure)
        self._vocabulary = results.info.vocabulary

    def judge(self, limits: UncertaintyConfig) -> None:
        """Apply other limits for flags; no region is inverted again."""
        if limits == self._settings.unsure:
            return
        self._set_limits(limits)
        if self._info is not None:
            shown = Results(self._info, tuple(self._rows.values()))
            judged = shown.with_limits(limits)
            self._info = judged.info
            self._rows = dict(zip(self._rows, judged.regions, strict=True))

    def _set_limits(self, limits: UncertaintyConfig) -> None:
        self._settings = self._settings.changed({"unsure": limits})

    def _invert(
        self,
        tasks: Sequence[PlaneTask],
        identities: Sequence[RegionIdentity],
        vocabulary: Vocabulary | None,
    ) -> None:
        def follow(news: Any) -> Any:
            if not isinstance(news, RegionChunk):
                return news
            self._info = self._info or news.so_far.info
            self._rows.update((identities[row.index], row) for row in news.results)
            self.inverted += len(news.results)
            results = self._results()
            assert results is not None
            return replace(news, so_far=results)

        with telling(follow):
            pipeline.run_planes(
                self.model,
                tasks,
                vocabulary,
                self._settings,
                units=self._units,
                encoded=self._encoded,
            )

    def _rerank(self, vocabulary: Vocabulary | None) -> None:
        if self._info is not None:
            before = Results(self._info, tuple(self._rows.values()))
            after = rerank(self.model, before, vocabulary)
            self._rows = dict(zip(self._rows, after.regions, strict=True))
        self._vocabulary = vocabulary
