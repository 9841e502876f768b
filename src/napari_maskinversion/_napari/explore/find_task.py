"""Regions found by words, in a worker. Knows neither Qt nor napari."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...base import progress_words as words
from ...base.errors import Cancelled, InputError
from ...language.ranking.finding import Found, check_expression, find
from ..layers.image_fingerprint import ImageFingerprint
from ..run.jobs import Job
from ..run.request import Request
from ..workers.model_store import ModelStore
from ..workers.preload import preload_torch
from ..workers.updates import Update
from ..workers.worker_errors import Failed, Task

if TYPE_CHECKING:
    from ...pipeline.run import PlaneTask
    from ...results.results import Results


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """Results, and what was shown to the model that made them."""

    results: Results
    pixels: ImageFingerprint


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FindRequest:
    """Words, and the regions to look among.

    Parameters
    ----------
    expression : str
    run : Request
        What would have to be inverted.
    known : tuple of Known
        Made with the same settings: used instead, where regions and pixels are the same.
    """

    expression: str
    run: Request
    known: tuple[Known, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Finding:
    """Regions in order of how well words fit them.

    Attributes
    ----------
    expression : str
    results : Results
    found : tuple of Found
        Best first.
    reused : bool
        Nothing was inverted for it.
    pixels : ImageFingerprint
        What the model was shown.
    """

    expression: str
    results: Results
    found: tuple[Found, ...]
    reused: bool
    pixels: ImageFingerprint


class FindTask(Task):
    """Ranks regions; `finished` is a `Finding`."""

    def __init__(self, request: FindRequest, store: ModelStore) -> None:
        super().__init__()
        self._asked: FindRequest | None = request
        self._store = store
        self._job: Job | None = None

    def _work(self) -> Generator[Any, None, Any]:
        assert self._asked is not None
        request, run = self._asked, self._asked.run
        check_expression(request.expression)
        if not self._store.has(run.settings.model, run.settings.device):
            yield Update(text=words.STARTING_TORCH)
            preload_torch()
        known = None
        if request.known:
            yield Update(text=words.COMPARING_INPUTS)
            known = self._same_as_now(request)
        if known is None:
            self._job = Job(run, self._store)
            self._job.stop_requested = self.stop_requested
            outcome = yield from self._job.work()
            if isinstance(outcome, Failed):
                return outcome
            if outcome is None:
                raise Cancelled("Stopped.")
            assert self._job.pixels is not None  # it has run
            results, pixels = outcome, self._job.pixels
        else:
            results, pixels = known.results, known.pixels
        yield Update(text=words.COMPARING_WORDS, fraction=1.0)
        model = self._store.get(run.settings.model, run.settings.device)
        if model.fingerprint != results.info.fingerprint:
            raise InputError(
                f"The weights of {run.settings.model} have changed since these results were made; "
                "run again."
            )
        found = tuple(find(model, results.unit_embeddings, request.expression))
        reused = known is not None
        self.finished = Finding(request.expression, results, found, reused, pixels)
        return self.finished

    def _same_as_now(self, request: FindRequest) -> Known | None:
        """Give what is known of the regions and pixels that are there now."""
        given = request.run.input
        wanted = regions_of(given.tasks(self.check_stopped))
        same = [one for one in request.known if regions_in(one.results) == wanted]
        pixels = ImageFingerprint.of(given) if same else None
        return next((one for one in same if one.pixels == pixels), None)

    def close(self) -> None:
        """Stop the inversion between two steps."""
        if self._job is not None:
            self._job.close()

    def release(self) -> None:
        """Let go of pixels and results."""
        super().release()
        if self._job is not None:
            self._job.release()
        self._job = self._asked = None


def regions_of(tasks: Iterable[PlaneTask]) -> set[tuple[Any, ...]]:
    """Tell the regions of planes from all others: by place, size and centre."""
    return {
        (region.id, task.position, region.bbox, region.area, region.centroid)
        for task in tasks
        for region in task.regions
    }


def regions_in(results: Results) -> set[tuple[Any, ...]]:
    """Tell the same of regions that have results."""
    return {
        (region.id, region.position, region.bbox, region.area, region.centroid)
        for region in results.regions
    }


def usable(known: Sequence[Known], run: Request) -> tuple[Known, ...]:
    """Give the results that were made with a run's model and settings."""
    return tuple(one for one in known if len(one.results) and _same(one.results, run))


def _same(results: Results, run: Request) -> bool:
    was, wanted = results.info.settings, run.settings
    names = ("model", "method", "inversion", "keep_aspect")
    if any(was.get(name) != wanted.get(name) for name in names):
        return False
    if wanted.window.mode == "whole":
        return all(region.window.whole for region in results.regions)
    return was.window == wanted.window
