"""Caption banks for the panel: known, built and searched. Knows neither Qt nor napari."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ...base import progress_words as words
from ...base.errors import InputError
from ...language.captions.bank import CaptionBank, open_bank
from ...language.captions.building import (
    Building,
    build_bank_steps,
    continue_bank_steps,
    default_folder,
)
from ...language.captions.caption_files import read_captions
from ...language.captions.store import BankRecord, CaptionStore
from ...pipeline.captioning import add_captions
from ...results.region_result import RegionResult
from ...results.results import Results
from ..workers.model_store import ModelStore
from ..workers.preload import preload_torch
from ..workers.updates import Update
from ..workers.worker_errors import Task

# Regions searched for between two chances to stop.
_REGIONS: Final = 500
_INTERVAL: Final = 0.3  # seconds between two updates


@dataclass(frozen=True, slots=True, eq=False)
class KnownBank:
    """A bank that was opened or built, or is half built.

    Attributes
    ----------
    folder : Path
    record : BankRecord
    done : int
        Captions that are embedded.
    bank : CaptionBank or None
        None while it is half built.
    """

    folder: Path
    record: BankRecord
    done: int
    bank: CaptionBank | None

    @classmethod
    def open(cls, folder: Path) -> KnownBank:
        """Open the bank in a folder, finished or not.

        Raises
        ------
        InputError
            If there is none, or it is damaged.
        """
        store = CaptionStore.open(folder)
        bank = open_bank(folder) if store.complete else None
        return cls(folder, store.record, store.done, bank)

    @property
    def title(self) -> str:
        """What a list of banks shows."""
        name = self.record.source or self.folder.name
        if self.bank is None:
            return f"{name}, half built"
        return f"{name}, {self.record.count:,} captions"

    @property
    def about(self) -> str:
        """One or two sentences for people."""
        record = self.record
        if self.bank is None:
            return (
                f"{self.done:,} of {record.count:,} captions are embedded and kept; press "
                "Continue to embed the others."
            )
        skipped = record.skipped
        more = f" ({skipped})" if skipped else ""
        return f"{record.count:,} captions{more}, model {record.model}."

    def check_model(self, name: str) -> None:
        """Refuse a model that did not embed this bank, before it is loaded.

        Raises
        ------
        InputError
            Names both.
        """
        if self.record.model != name:
            raise InputError(
                f"The caption bank '{self.title}' was built with the model {self.record.model}, "
                f"not with {name}; choose that model under Model, or build a bank for {name}."
            )


@dataclass(frozen=True, slots=True, eq=False)
class BankChoice:
    """A bank that a run takes captions from, and how many a region."""

    bank: CaptionBank
    top: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRequest:
    """Captions to embed: those of a file, or the rest of a half-built bank."""

    file: Path | None = None
    column: str | None = None
    encoding: str | None = None
    folder: Path | None = None
    model: str
    device: str = "auto"


class BuildTask(Task):
    """Builds a bank, or goes on with one; `finished` is a `KnownBank`, perhaps half built."""

    kept = "The captions that are embedded are kept."

    def __init__(self, request: BuildRequest, store: ModelStore) -> None:
        super().__init__()
        self._request, self._store = request, store
        self._running: Building | None = None
        self._note = ""  # what is done otherwise, since memory ran out

    def _work(self) -> Generator[Update, None, KnownBank]:
        request = self._request
        yield Update(text=words.READING_CAPTIONS)
        captions = None
        if request.file is not None:
            captions = read_captions(request.file, column=request.column, encoding=request.encoding)
        self.check_stopped()
        if not self._store.has(request.model, request.device):
            yield Update(text=words.loading_model(request.model))
            preload_torch()
        model = self._store.get(request.model, request.device)
        if captions is not None:
            folder = default_folder(model, captions)
            self._running = build_bank_steps(model, captions, folder, self._take_note)
        else:
            assert request.folder is not None
            folder = request.folder
            self._running = continue_bank_steps(model, folder, self._take_note)
        del captions  # a million take 200 MB, and the builder has them
        yield from self._follow(self._running)
        self.close()
        self.finished = KnownBank.open(folder)
        return self.finished

    def _follow(self, running: Building) -> Generator[Update, None, None]:
        start, first, last = time.monotonic(), -1, 0.0
        for done, total in running:
            if self.stop_requested():
                return
            if first < 0:
                start, first = time.monotonic(), done
            if time.monotonic() - last >= _INTERVAL:
                last = time.monotonic()
                left = _left(last - start, done - first, total - done)
                text = words.counted("Captions", done, total) + left
                yield Update(text=text, fraction=done / total, note=self._note)

    def _take_note(self, note: str) -> None:
        self._note = note

    def close(self) -> None:
        """Stop building; what is embedded reaches the disk."""
        running, self._running = self._running, None
        if running is not None:
            with suppress(ValueError):  # still being executed, by the worker: it closes it itself
                running.close()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SearchRequest:
    """Results whose regions are to get captions."""

    results: Results
    bank: CaptionBank
    top: int


class SearchTask(Task):
    """Gives results their captions; `finished` is a pair: the results before, and with them."""

    def __init__(self, request: SearchRequest) -> None:
        super().__init__()
        self._asked: SearchRequest | None = request

    def _work(self) -> Generator[Update, None, Any]:
        assert self._asked is not None
        results, bank, top = self._asked.results, self._asked.bank, self._asked.top
        text = words.searching("captions", len(bank))
        yield Update(text=text)
        preload_torch()
        info, regions = results.info, list[RegionResult]()
        for start in range(0, len(results), _REGIONS):
            some = Results(results.info, results.regions[start : start + _REGIONS])
            found = add_captions(some, bank, top=top, again=True)
            info = found.info
            regions += found.regions
            yield Update(text=text, fraction=len(regions) / len(results))
        self.finished = results, Results(info, tuple(regions))
        return self.finished

    def release(self) -> None:
        """Let go of the results."""
        super().release()
        self._asked = None


def task_of(request: BuildRequest | SearchRequest, store: ModelStore) -> Task:
    """Make the task that a request asks for."""
    if isinstance(request, BuildRequest):
        return BuildTask(request, store)
    return SearchTask(request)


def _left(seconds: float, done: int, left: int) -> str:
    """Say how long it may still take, once that can be told."""
    if seconds < 3 or done < 1:
        return ""
    minutes = seconds / done * left / 60
    return f", {minutes:.0f} min left" if minutes >= 1.5 else f", {60 * minutes:.0f} s left"
