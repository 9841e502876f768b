"""Captions: sentences about regions, from a bank or generated."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from psygnal import SignalInstance
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QWidget

from ...app.requests.preparing import check_on_disk
from ...app.session import job_kinds
from ...app.session.subjects import regions_shown
from ...app.work.driver import Job, check_stopped, show
from ...app.work.model_store import ModelStore
from ...app.work.preload import preload_torch
from ...base import progress_words as words
from ...base.errors import Cancelled, InputError
from ...base.progress import CAPTIONS, Tick, telling
from ...engine.models.registry import recorded_name
from ...language.captions.bank import TOP, CaptionBank
from ...language.captions.source import CaptionSource
from ...pipeline.caption_ranking import add_captions
from ...pipeline.estimate import in_words
from ...results.region_result import RegionResult
from ...results.results import Results
from ..widgets.controls import number_box
from ..widgets.dialogs import ask_file, ask_folder
from ..widgets.sections import Note, Section, button, combo_box, form, line, stack, text_field
from ..workers.notify import inform, refuse, refusing
from .generate import GenerateSection
from .work_section import ProgressSection, Shared

_MOST: Final = 50
_NONE: Final = "no captions"
_REGIONS: Final = 500  # between two chances to stop a search
_SURE: Final = 3  # seconds until the time left can be told


class CaptionsSection(ProgressSection):
    """The banks of this session; opens, builds and searches them."""

    title, tip = "Captions", "Sentences about regions, from a file or generated"
    kind = job_kinds.CAPTIONS
    doing, cancel_tip = "captions", "Stop; captions already embedded are kept"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self.banks = combo_box([_NONE], tip="The caption bank for the next run")
        tip = "How many captions each region gets"
        self.top = number_box(1, _MOST, TOP, tip, name="Captions of a region")
        self.about = Note()
        self.build = button(
            "Build...",
            "Embed the captions of a text or CSV file with the model chosen above; they are kept "
            "on this machine",
            self._build_from_file,
        )
        tip = "Use a bank that you built before: choose its folder"
        self.open = button("Open...", tip, self._open_folder)
        self.resume = button(
            "Continue", "Embed the remaining captions of this bank", self._continue
        )
        tip = "Add captions to the regions in the results above; nothing is inverted again"
        self.search = button("Search captions for these regions", tip, self.run)
        tip = "Column of the CSV file with the captions"
        self.column = text_field("caption, text or title", tip)
        self.encoding = text_field("UTF-8", "Encoding of the file, for example latin-1")
        self.generated = GenerateSection(shared)
        self._build()
        self.banks.currentIndexChanged.connect(self.refresh)
        self.top.valueChanged.connect(self.refresh)
        self.refresh()

    def followed(self) -> tuple[SignalInstance, ...]:
        """Return the events of the session after which it is refreshed."""
        run = self._session.run.events
        return run.settings, run.record

    def _build(self) -> None:
        rows = [
            ("Bank", self.banks),
            self.about,
            line(self.build, self.open, self.resume, shares=(1, 1, 1)),
            self.progress,
            ("Captions of a region", self.top),
            self.search,
        ]
        options = form([("Column", self.column), ("Encoding", self.encoding)])
        bank = QWidget()
        stack(bank, form(rows), Section("File options", options, opened=False))
        stack(self, Section("From a bank", bank), self.generated.section)

    @property
    def bank(self) -> CaptionBank | None:
        """The chosen bank."""
        bank: CaptionBank | None = self.banks.currentData()
        return bank

    def add(self, bank: CaptionBank) -> None:
        """Add a bank and choose it; it replaces its own earlier state."""
        boxes, folder = self.banks, bank.folder.resolve()
        place = 1  # after the entry for none
        while place < boxes.count() and boxes.itemData(place).folder.resolve() != folder:
            place += 1
        if place == boxes.count():
            boxes.addItem("")
        boxes.setItemText(place, title_of(bank))
        boxes.setItemData(place, bank)
        boxes.setItemData(place, str(bank.folder), Qt.ItemDataRole.ToolTipRole)
        boxes.setCurrentIndex(place)
        self.refresh()

    # -- for the panel ------------------------------------------------------------------------

    def bind(self) -> None:
        """Follow the session."""
        super().bind()
        self.generated.follow()

    def stop(self) -> None:
        """Follow the session no more; embedded captions are kept."""
        super().stop()
        self.generated.stop()

    def refresh(self, _: object = None) -> None:
        """Enable what can be done now, and pass the bank of the next run to the session."""
        bank, running = self.bank, self.job.busy
        half = bank is not None and not bank.complete
        problem = self._problem
        text = "Choose a bank to get the best captions for every region."
        self.about.setText(text if bank is None else problem or about(bank))
        for widget in (self.banks, self.build, self.open, self.resume, self.search):
            widget.setEnabled(not running)
        self.resume.setVisible(half)
        self.search.setVisible(self._searchable is not None)
        choice = None
        if bank is not None and bank.complete:
            choice = bank, self.top.value()
        elif bank is not None:
            problem = (
                f"The caption bank '{title_of(bank)}' cannot be used yet: {about(bank)} Or choose "
                f"'{_NONE}' there."
            )
        self._session.run.captions, self._session.run.captions_problem = choice, problem

    @property
    def _problem(self) -> str:
        """Why the chosen bank does not fit the chosen model; "" if it does."""
        try:
            if self.bank is not None:
                check_model(self.bank, self._session.run.settings.model)
        except InputError as error:
            return str(error)
        return ""

    @property
    def _searchable(self) -> tuple[Results, CaptionBank] | None:
        """The results shown and the bank, if it is of their model."""
        bank, results = self.bank, self._session.run.results
        if bank is None or not bank.complete or not results:
            return None
        if bank.record.fingerprint != results.info.fingerprint:
            return None
        return results, bank

    # -- the work -----------------------------------------------------------------------------

    def _open_folder(self) -> None:
        if folder := ask_folder(self, "Open a caption bank"):
            self.open_folder(folder)

    def open_folder(self, folder: Path) -> None:
        """Open a bank, finished or half built."""
        self.start(partial(CaptionBank.open, folder))

    def _build_from_file(self) -> None:
        kinds = "Captions (*.txt *.csv *.tsv);;All files (*)"
        if file := ask_file(self, "Build a caption bank", kinds):
            self.build_from(file)

    def build_from(self, file: Path) -> None:
        """Build a bank from a file of captions with the chosen model."""
        column, encoding = self.column.text().strip(), self.encoding.text().strip()
        self._embed(file, column or None, encoding or None)

    def _continue(self) -> None:
        """Embed the rest of the chosen half-built bank."""
        if self._problem:
            refuse(self._problem)
        elif self.bank is not None:
            self._embed(self.bank.folder)

    def _embed(self, path: Path, column: str | None = None, encoding: str | None = None) -> None:
        settings = self._session.run.settings
        with refusing():
            check_on_disk(settings.model)
            load = self._store, settings.model, settings.device
            self.start(partial(build, *load, path, column, encoding))

    def run(self) -> None:
        """Add captions to the regions of the results."""
        searched = self._searchable
        if searched is not None:
            results, bank = searched
            self.start(partial(search, results, bank, self.top.value()), regions_shown)

    def show_job(self) -> None:
        """Show it in the bar, and what memory allows above."""
        super().show_job()
        job = self.job.job
        if job is not None and job.note:
            self.about.setText(job.note)

    def answered(self, answer: CaptionBank | Results) -> None:
        """List a bank that was built, or show the captions of regions."""
        if isinstance(answer, CaptionBank):
            self.add(answer)
            if not answer.complete:
                inform(about(answer))
        else:
            self.change_results(partial(_captioned, after=answer))


def _captioned(results: Results, after: Results) -> Results:
    """Return results with the captions of the bank that were searched meanwhile."""
    regions = (
        replace(region, captions=searched.captions)
        for region, searched in zip(results.regions, after.regions, strict=True)
    )
    return Results(replace(results.info, captions=after.info.captions), tuple(regions))


# -- about a bank ----------------------------------------------------------------------------


def title_of(bank: CaptionBank) -> str:
    """Return its name in a list of banks."""
    name = bank.record.source or bank.folder.name
    if not bank.complete:
        return f"{name}, half built"
    return f"{name}, {len(bank):,} captions"


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


# -- in a worker -----------------------------------------------------------------------------


def build(
    store: ModelStore,
    model_name: str,
    device: str,
    path: Path,
    column: str | None = None,
    encoding: str | None = None,
) -> CaptionBank:
    """Build a bank from a file, or finish one in a folder; one that is stopped is half built."""
    show(words.READING_CAPTIONS)
    source = CaptionSource(path, column=column, encoding=encoding)
    check_stopped()
    model = store.load(model_name, device)
    with suppress(Cancelled), telling(_Pace()):
        if source.folder is None:
            source.bank(model)
        else:
            source.finish(model)
    return CaptionBank.open(source.place(model))


class _Pace:
    """Progress of a bank being built, with the time left."""

    _start: tuple[int, float] | None = None

    def __call__(self, news: Tick) -> Tick | Job:
        if news.stage != CAPTIONS:
            return news
        done, total, time_of_news = news.done, news.total, time.monotonic()
        if self._start is None:
            self._start = done, time_of_news
        first, began = self._start  # captions of an earlier try took no time now
        text = words.counted("Captions", done, total)
        seconds = time_of_news - began
        if seconds > _SURE and done > first:
            left = seconds / (done - first) * (total - done)
            text += f", {in_words(left)} left"
        return Job(text=text, fraction=done / total, note=news.note)


def search(results: Results, bank: CaptionBank, top: int) -> Results:
    """Add captions to results."""
    text = words.searching("captions", len(bank))
    show(Job(text=text))
    preload_torch()
    info, regions = results.info, list[RegionResult]()
    for start in range(0, len(results), _REGIONS):
        chunk = Results(results.info, results.regions[start : start + _REGIONS])
        captioned = add_captions(chunk, bank, top=top, again=True)
        info = captioned.info
        regions += captioned.regions
        show(Job(text=text, fraction=len(regions) / len(results)))
    return Results(info, tuple(regions))
