"""Caption banks in the panel: open, build, search. Knows neither Qt nor napari."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ...base import progress_words as words
from ...base.errors import Cancelled, InputError
from ...base.progress import CAPTIONS, Tick, telling
from ...engine.models.registry import recorded_name
from ...language.captions.bank import CaptionBank
from ...language.captions.building import build_bank, continue_bank, default_folder
from ...language.captions.caption_files import read_captions
from ...pipeline.captions import add_captions
from ...results.region_result import RegionResult
from ...results.results import Results
from ..workers.driver import check_stopped, show
from ..workers.model_store import ModelStore
from ..workers.preload import preload_torch
from ..workers.updates import Update

# Regions between two chances to stop a search.
_REGIONS: Final = 500


def title_of(bank: CaptionBank) -> str:
    """Return its name in a list of banks."""
    name = bank.record.source or bank.folder.name
    return f"{name}, {len(bank):,} captions" if bank.complete else f"{name}, half built"


def about(bank: CaptionBank) -> str:
    """Return one or two sentences about it."""
    if not bank.complete:
        return (
            f"{bank.done:,} of {len(bank):,} captions are embedded and kept; press Continue to "
            "embed the rest."
        )
    skipped = bank.record.skipped
    more = f" ({skipped})" if skipped else ""
    return f"{len(bank):,} captions{more}, model {bank.record.model}."


def check_model(bank: CaptionBank, model: str) -> None:
    """Refuse a model, by name or path, that did not embed a bank, before loading it."""
    name = recorded_name(model)
    if bank.record.model != name:
        raise InputError(
            f"The caption bank '{title_of(bank)}' was built with the model {bank.record.model}, "
            f"not with {name}; choose that model in Settings, or build a bank for {name}."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRequest:
    """Captions to embed: from a file, or the rest of a half-built bank."""

    file: Path | None = None
    column: str | None = None
    encoding: str | None = None
    folder: Path | None = None
    model: str
    device: str = "auto"


def build(request: BuildRequest, store: ModelStore) -> CaptionBank:
    """Build a bank, or continue one; a task for a `Worker`. One that is stopped is half built."""
    show(words.READING_CAPTIONS)
    captions = None
    if request.file is not None:
        captions = read_captions(request.file, column=request.column, encoding=request.encoding)
    check_stopped()
    model = store.load(request.model, request.device)
    folder = request.folder if captions is None else default_folder(model, captions)
    assert folder is not None
    with suppress(Cancelled), telling(_Pace()):
        if captions is None:
            continue_bank(model, folder)
        else:
            build_bank(model, captions, folder)
    return CaptionBank.open(folder)


class _Pace:
    """Progress of a bank being built, with the time left."""

    def __init__(self) -> None:
        self._first, self._start = -1, 0.0

    def __call__(self, news: Tick) -> Tick | Update:
        done, total = news.done, news.total
        if news.stage != CAPTIONS:
            return news
        if self._first < 0:
            self._first, self._start = done, time.monotonic()
        left = _left(time.monotonic() - self._start, done - self._first, total - done)
        text = words.counted("Captions", done, total) + left
        return Update(text=text, fraction=done / total, note=news.note)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SearchRequest:
    """Results whose regions get captions."""

    results: Results
    bank: CaptionBank
    top: int


def search(request: SearchRequest) -> tuple[Results, Results]:
    """Add captions to results; a task for a `Worker`. Return the results before and after."""
    results, bank = request.results, request.bank
    text = words.searching("captions", len(bank))
    show(Update(text=text))
    preload_torch()
    info, regions = results.info, list[RegionResult]()
    for start in range(0, len(results), _REGIONS):
        chunk = Results(results.info, results.regions[start : start + _REGIONS])
        captioned = add_captions(chunk, bank, top=request.top, again=True)
        info = captioned.info
        regions += captioned.regions
        show(Update(text=text, fraction=len(regions) / len(results)))
    return results, Results(info, tuple(regions))


def _left(seconds: float, done: int, left: int) -> str:
    """Return the time left, once it can be estimated."""
    if seconds < 3 or done < 1:
        return ""
    minutes = seconds / done * left / 60
    return f", {minutes:.0f} min left" if minutes >= 1.5 else f", {60 * minutes:.0f} s left"
