"""A model of the user's own: a checkpoint file, a folder, or any tag of open_clip."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from qtpy.QtCore import QSignalBlocker, Signal
from qtpy.QtWidgets import QFileDialog, QLineEdit, QPushButton, QWidget

from ...engine.models.registry import own_model
from ...engine.models.specs import CHECKPOINTS
from ..widgets.file_filters import file_filter
from ..widgets.sections import Note, combo_box, form, line, stack

_FIRST: Final = "choose it"


class OwnModelWidget(QWidget):
    """What to type or choose for a model that is not in the list.

    Signals
    -------
    asked : str, object
        The model, and the architecture of a checkpoint file or None.
    """

    asked = Signal(str, object)

    def __init__(self) -> None:
        super().__init__()
        self.name = QLineEdit()
        self.name.setPlaceholderText("ARCHITECTURE/tag, a file or a folder")
        self.name.setAccessibleName("Another model")
        self.name.setToolTip(
            "Any architecture/tag of open_clip, a checkpoint file, or a folder as rebuild-demo "
            "makes it; press Enter"
        )
        self.file, self.folder = QPushButton("File..."), QPushButton("Folder...")
        self.file.setToolTip("Choose a checkpoint file: safetensors, or torch with tensors only")
        self.folder.setToolTip("Choose a folder with open_clip_config.json and weights")
        self.architecture = combo_box(
            [_FIRST],
            name="Architecture of the checkpoint file",
            tip="The name in open_clip. Names with -quickgelu are for weights "
            "trained with QuickGELU, such as OpenAI's.",
        )
        self.problem = Note(name="Why this model cannot be used")
        self._needed = form([("Architecture", self.architecture)])
        chooses = line(self.name, self.file, self.folder, shares=(1, 0, 0))
        stack(self, form([("Another", chooses)]), self._needed, self.problem)
        self.problem.say("")
        self._show_needed()
        self.name.textChanged.connect(self._show_needed)
        self.name.returnPressed.connect(self._ask)
        self.architecture.activated.connect(lambda _: self._ask())
        self.file.clicked.connect(lambda _=False: self._choose_file())
        self.folder.clicked.connect(lambda _=False: self._choose_folder())

    def offer(self, architectures: Iterable[str]) -> None:
        """List architectures; keep the chosen one."""
        chosen = self.architecture.currentText()
        with QSignalBlocker(self.architecture):
            self.architecture.clear()
            self.architecture.addItems([_FIRST, *architectures])
            self.architecture.setCurrentIndex(max(self.architecture.findText(chosen), 0))

    def show_model(self, name: str, architecture: str | None) -> None:
        """Show a model that is in use."""
        with QSignalBlocker(self.architecture):
            if architecture is not None and self.architecture.findText(architecture) < 0:
                self.architecture.addItem(architecture)
            self.architecture.setCurrentText(architecture or _FIRST)
        self.name.setText(name)
        self.problem.say("")

    def use(self, path: Path) -> None:
        """Ask for a file or folder."""
        self.name.setText(str(path))
        self._ask()

    @property
    def _is_file(self) -> bool:
        path = own_model(self.name.text().strip())
        return path is not None and path.suffix in CHECKPOINTS and not path.is_dir()

    def _show_needed(self, _: str = "") -> None:
        self._needed.setVisible(self._is_file)
        self.problem.say("")

    def _ask(self) -> None:
        name = self.name.text().strip()
        first = self.architecture.currentIndex() <= 0
        if self._is_file and first:
            self.problem.say(f"Choose the architecture of {Path(name).name}.")
        elif name:
            self.asked.emit(name, self.architecture.currentText() if self._is_file else None)

    def _choose_file(self) -> None:
        kinds = file_filter("Checkpoints", CHECKPOINTS)
        name, _ = QFileDialog.getOpenFileName(self, "Checkpoint of a model", "", kinds)
        if name:
            self.use(Path(name))

    def _choose_folder(self) -> None:
        name = QFileDialog.getExistingDirectory(self, "Folder of a model")
        if name:
            self.use(Path(name))
