"""Captions: the banks to choose from."""

from __future__ import annotations

from pathlib import Path

from qtpy.QtCore import Qt, Signal
from qtpy.QtWidgets import QFileDialog, QLineEdit, QPushButton, QSpinBox, QWidget

from ...language.captions.bank import TOP
from ..widgets.progress_row import ProgressRow
from ..widgets.sections import Note, Section, combo_box, form, line, stack
from .caption_banks import KnownBank
from .generate_widget import GenerateWidget

_MOST = 50
_NONE = "no captions"


class CaptionsWidget(QWidget):
    """The banks of this session, and controls to get others.

    Signals
    -------
    chosen
        Another bank was chosen, or none.
    build_requested : Path
        A file of captions.
    open_requested : Path
        The folder of a bank.
    continue_requested, search_requested
    """

    chosen = Signal()
    build_requested = Signal(object)
    open_requested = Signal(object)
    continue_requested = Signal()
    search_requested = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._banks: list[KnownBank] = []
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
        self.generated = GenerateWidget()
        self.progress = ProgressRow("captions", "Stop; captions already embedded are kept")
        self._build()
        self.show_state(running=False, searchable=False)
        self.banks.currentIndexChanged.connect(lambda _: self.chosen.emit())
        self.build.clicked.connect(lambda _=False: self.ask_file())
        self.open.clicked.connect(lambda _=False: self.ask_folder())
        self.resume.clicked.connect(lambda _=False: self.continue_requested.emit())
        self.search.clicked.connect(lambda _=False: self.search_requested.emit())

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
        stack(self, Section("From a bank", bank), Section("Generate", self.generated))

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
        self.chosen.emit()

    def show_state(self, *, running: bool, searchable: bool, problem: str = "") -> None:
        """Enable what can be done now."""
        bank = self.bank
        text = "Choose a bank to get the best captions for every region."
        if bank is not None:
            text = problem or bank.about
        self.about.setText(text)
        for widget in (self.banks, self.build, self.open):
            widget.setEnabled(not running)
        half = bank is not None and bank.bank is None
        self.resume.setVisible(half)
        self.resume.setEnabled(not running)
        self.search.setVisible(searchable and not half)
        self.search.setEnabled(not running)

    def ask_file(self) -> None:
        """Ask for a file of captions."""
        path, _ = QFileDialog.getOpenFileName(
            self, "Build a caption bank", "", "Captions (*.txt *.csv *.tsv);;All files (*)"
        )
        if path:
            self.build_requested.emit(Path(path))

    def ask_folder(self) -> None:
        """Ask for the folder of a bank."""
        folder = QFileDialog.getExistingDirectory(self, "Open a caption bank")
        if folder:
            self.open_requested.emit(Path(folder))
