"""Captions: sentences about regions, from a bank or generated."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from qtpy.QtCore import Qt
from qtpy.QtWidgets import QFileDialog, QLineEdit, QPushButton, QSpinBox, QWidget

from ...base.errors import InputError
from ...language.captions.bank import TOP
from ...results.results import Results
from ..run_requests.preparing import check_on_disk
from ..run_requests.run_task import BankChoice
from ..session import same_regions
from ..widgets.sections import Note, Section, combo_box, form, line, stack
from ..workers.notify import inform, refuse, refusing
from ..workers.worker import Worker
from .caption_banks import BuildRequest, KnownBank, SearchRequest, build, search
from .generate import GenerateSection
from .work_section import ProgressSection, Shared

_MOST: Final = 50
_NONE: Final = "no captions"


class CaptionsSection(ProgressSection):
    """The banks of this session; opens, builds and searches them."""

    title, tip = "Captions", "Sentences about regions, from a file or generated"
    work, kept = "The caption bank", "The captions that are embedded are kept."
    doing, cancel_tip = "captions", "Stop; captions already embedded are kept"
    follows = "settings record"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._banks: list[KnownBank] = []
        self._opening = Worker("latest", "Opening the caption bank", parent=self)
        self._opening.done.connect(self.add)
        self._opening.failed.connect(refuse)
        self.banks = combo_box([_NONE], tip="The caption bank for the next run")
        self.top = QSpinBox()
        self.top.setRange(1, _MOST)
        self.top.setValue(TOP)
        self.top.setToolTip("How many captions each region gets")
        self.top.setAccessibleName("Captions of a region")
        self.about = Note()
        self.build = QPushButton("Build...")
        self.build.setToolTip(
            "Embed the captions of a text or CSV file with the model chosen above; they are kept "
            "on this machine"
        )
        self.open = QPushButton("Open...")
        self.open.setToolTip("Use a bank that you built before: choose its folder")
        self.resume = QPushButton("Continue")
        self.resume.setToolTip("Embed the remaining captions of this bank")
        self.search = QPushButton("Search captions for these regions")
        self.search.setToolTip(
            "Add captions to the regions in the results above; nothing is inverted again"
        )
        self.column, self.encoding = QLineEdit(), QLineEdit()
        self.column.setPlaceholderText("caption, text or title")
        self.column.setToolTip("Column of the CSV file with the captions")
        self.encoding.setPlaceholderText("UTF-8")
        self.encoding.setToolTip("Encoding of the file, for example latin-1")
        self.generated = GenerateSection(shared)
        self._build()
        self.banks.currentIndexChanged.connect(self.refresh)
        self.top.valueChanged.connect(self.refresh)
        self.build.clicked.connect(lambda _=False: self.ask_file())
        self.open.clicked.connect(lambda _=False: self.ask_folder())
        self.resume.clicked.connect(lambda _=False: self._continue())
        self.search.clicked.connect(lambda _=False: self.run())
        self.refresh()

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
    def bank(self) -> KnownBank | None:
        """The chosen bank."""
        place = self.banks.currentIndex() - 1
        return self._banks[place] if 0 <= place < len(self._banks) else None

    def add(self, bank: KnownBank) -> None:
        """Add a bank and choose it; it replaces its own earlier state."""
        folders = [known.folder.resolve() for known in self._banks]
        folder = bank.folder.resolve()
        if folder in folders:
            place = folders.index(folder)
            self._banks[place] = bank
            self.banks.setItemText(place + 1, bank.title)
        else:
            place = len(self._banks)
            self._banks.append(bank)
            self.banks.addItem(bank.title)
        self.banks.setItemData(place + 1, str(bank.folder), Qt.ItemDataRole.ToolTipRole)
        self.banks.setCurrentIndex(place + 1)
        self.refresh()

    def ask_file(self) -> None:
        """Ask for a file of captions."""
        path, _ = QFileDialog.getOpenFileName(
            self, "Build a caption bank", "", "Captions (*.txt *.csv *.tsv);;All files (*)"
        )
        if path:
            self.build_from(Path(path))

    def ask_folder(self) -> None:
        """Ask for the folder of a bank."""
        folder = QFileDialog.getExistingDirectory(self, "Open a caption bank")
        if folder:
            self.open_folder(Path(folder))

    # -- for the panel ------------------------------------------------------------------------

    def bind(self) -> None:
        """Follow the session."""
        super().bind()
        self.generated.follow()

    def stop(self) -> None:
        """Follow the session no more; embedded captions are kept."""
        self._opening.drop()
        super().stop()
        self.generated.stop()

    def refresh(self, _: object = None) -> None:
        """Enable what can be done now, and pass the bank of the next run to the session."""
        bank, running = self.bank, self.worker.busy
        half = bank is not None and bank.bank is None
        problem = self._problem
        text = "Choose a bank to get the best captions for every region."
        self.about.setText(text if bank is None else problem or bank.about)
        for widget in (self.banks, self.build, self.open, self.resume, self.search):
            widget.setEnabled(not running)
        self.resume.setVisible(half)
        self.search.setVisible(self._searchable is not None)
        choice = None
        if bank is not None and bank.bank is not None:
            choice = BankChoice(bank.bank, self.top.value())
        elif bank is not None:
            problem = (
                f"The caption bank '{bank.title}' cannot be used yet: {bank.about} Or choose "
                f"'{_NONE}' there."
            )
        self._session.captions, self._session.captions_problem = choice, problem
        self.generated.use_memory(None if choice is None else choice.bank)

    @property
    def _problem(self) -> str:
        """Why the chosen bank does not fit the chosen model; "" if it does."""
        try:
            if self.bank is not None:
                self.bank.check_model(self._session.settings.model)
        except InputError as error:
            return str(error)
        return ""

    @property
    def _searchable(self) -> SearchRequest | None:
        """What can be searched: the results shown, if the bank is of their model."""
        known, results = self.bank, self._session.results
        if known is None or known.bank is None or not results:
            return None
        if known.record.fingerprint != results.info.fingerprint:
            return None
        return SearchRequest(results=results, bank=known.bank, top=self.top.value())

    # -- the work -----------------------------------------------------------------------------

    def open_folder(self, folder: Path) -> None:
        """Open a bank, finished or half built."""
        self._opening.start(partial(KnownBank.open, folder))

    def build_from(self, file: Path) -> None:
        """Build a bank from a file of captions with the chosen model."""
        self._embed(
            file=file,
            column=self.column.text().strip() or None,
            encoding=self.encoding.text().strip() or None,
        )

    def _continue(self) -> None:
        """Embed the rest of the chosen half-built bank."""
        if self._problem:
            refuse(self._problem)
        elif self.bank is not None:
            self._embed(folder=self.bank.folder)

    def _embed(self, **captions: Any) -> None:
        settings = self._session.settings
        with refusing():
            check_on_disk(settings.model)
            request = BuildRequest(model=settings.model, device=settings.device, **captions)
            self.start(partial(build, request, self._store))

    def run(self) -> None:
        """Add captions to the regions of the results."""
        if (request := self._searchable) is not None:
            self.start(partial(search, request))

    def show_progress(self, news: Any) -> None:
        """Show it in the bar, and what memory allows above."""
        super().show_progress(news)
        if news.note:
            self.about.setText(news.note)

    def answered(self, answer: Any) -> None:
        """List a bank that was built, or show the captions of regions."""
        if isinstance(answer, KnownBank):
            self.add(answer)
            if answer.bank is None:
                inform(answer.about)
            return
        before, after = answer
        # Results of a newer run are other ones.
        record = self._session.record
        if record is not None and same_regions(record.results, before):
            self._session.show(
                record.changed(results=_captioned(record.results, after), table=None)
            )


def _captioned(results: Results, after: Results) -> Results:
    """Return results with the captions of the bank that were searched meanwhile."""
    regions = (
        replace(region, captions=searched.captions)
        for region, searched in zip(results.regions, after.regions, strict=True)
    )
    return Results(replace(results.info, captions=after.info.captions), tuple(regions))
