"""Finding regions by words, in a worker. Knows neither Qt nor napari."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...base import progress_words as words
from ...base.errors import InputError
from ...language.ranking.finding import RegionMatch, check_expression, find
from ..layers.image_fingerprint import ImageFingerprint
from ..run_requests.request import Request
from ..run_requests.run_task import RunTask
from ..workers.driver import check_stopped
from ..workers.model_store import ModelStore
from ..workers.preload import start_torch
from ..workers.updates import Update

if TYPE_CHECKING:
    from ...pipeline.run import PlaneTask
    from ...results.results import Results


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """Results, and the pixels they were made from."""

    results: Results
    pixels: ImageFingerprint


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FindRequest:
    """Words, and the regions to rank."""

    expression: str
    run: Request  # The run to do if no known results fit
    # Results with the same settings, which are reused if regions and pixels are the same
    known: tuple[Known, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Finding:
    """Regions ranked by how well words fit them."""

    expression: str
    results: Results
    matches: tuple[RegionMatch, ...]  # Best first
    reused: bool  # Whether existing embeddings were used
    pixels: ImageFingerprint  # What the model was shown


def find_regions(request: FindRequest, store: ModelStore) -> Generator[Any, None, Finding]:
    """Rank regions by how well words fit them; a task for a `Worker`."""
    run = request.run
    name, device = run.settings.model, run.settings.device
    check_expression(request.expression)
    if not store.has(name, device):
        yield from start_torch()
    known = None
    if request.known:
        yield words.COMPARING_INPUTS
        known = _same_as_now(request)
    if known is None:
        task = RunTask(run, store)
        results = yield from task.steps()
        assert task.pixels is not None  # it has run
        pixels = task.pixels
    else:
        results, pixels = known.results, known.pixels
    yield Update(text=words.COMPARING_WORDS, fraction=1.0)
    model = store.get(name, device)
    if model.fingerprint != results.info.fingerprint:
        raise InputError(
            f"The weights of {name} have changed since these results were made; run again."
        )
    matches = tuple(find(model, results.embeddings, request.expression))
    return Finding(request.expression, results, matches, known is not None, pixels)


def _same_as_now(request: FindRequest) -> Known | None:
    """Return known results of the same regions and pixels; None if there are none."""
    run_input = request.run.input
    wanted = regions_of(run_input.tasks(check_stopped))
    same = [known for known in request.known if regions_in(known.results) == wanted]
    pixels = ImageFingerprint.of(run_input) if same else None
    return next((known for known in same if known.pixels == pixels), None)


def regions_of(tasks: Iterable[PlaneTask]) -> set[tuple[Any, ...]]:
    """Return what identifies regions: plane, place, size and centre."""
    return {
        (region.id, task.position, region.bbox, region.area, region.centroid)
        for task in tasks
        for region in task.regions
    }


def regions_in(results: Results) -> set[tuple[Any, ...]]:
    """Return the same for regions that have results."""
    return {
        (region.id, region.position, region.bbox, region.area, region.centroid)
        for region in results.regions
    }


def usable(known: Sequence[Known], run: Request) -> tuple[Known, ...]:
    """Return the results made with a run's model and settings."""
    return tuple(one for one in known if len(one.results) and _same(one.results, run))


def _same(results: Results, run: Request) -> bool:
    was, wanted = results.info.settings, run.settings
    names = ("model", "method", "inversion", "resolution", "keep_aspect")
    if any(was.get(name) != wanted.get(name) for name in names):
        return False
    if wanted.window.mode == "whole":
        return all(region.window.whole for region in results.regions)
    return was.window == wanted.window
