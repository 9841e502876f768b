"""The button "Regions from file...": asks for a file, and for its image if there are several."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Final

from qtpy.QtCore import QObject
from qtpy.QtWidgets import QFileDialog, QInputDialog

from ...regions.annotations.reading import FORMATS, SUFFIXES
from ..layers.coordinates import ViewPoint
from ..layers.placing import selection_kept
from ..session import Bindings, Session
from ..widgets.file_filters import file_filter
from ..workers.notify import inform, refuse, refusing
from ..workers.worker import Worker
from .input_widget import InputWidget
from .regions_file import LABEL_IMAGES, Read, Target, Which, read_regions_file

_FILES: Final = ";;".join(
    file_filter(name, suffixes)
    for name, suffixes in (
        ("Regions", (*SUFFIXES, *LABEL_IMAGES)),
        *((form.name, form.suffixes) for form in FORMATS),
        ("Label images", LABEL_IMAGES),
        ("All files", ("",)),
    )
)


class RegionsFileController(QObject):
    """Reads a file's regions into a layer on the chosen image, and chooses that layer."""

    def __init__(self, viewer: Any, session: Session, part: InputWidget, parent: QObject) -> None:
        super().__init__(parent)
        self._viewer, self._session, self._part = viewer, session, part
        self._bindings = Bindings()
        self.reading = Worker("latest", "Reading regions", parent=self)
        self.reading.done.connect(self._show)
        self.reading.failed.connect(refuse)

    def follow(self) -> None:
        """Follow the session."""
        self._bindings.answer(self._session, "open regions", self.open_file)

    def stop(self) -> None:
        """Drop the pending file, and follow the session no more."""
        self._bindings.release()
        self.reading.drop()

    def ask(self) -> None:
        """Ask for a file and read it."""
        if self._session.image is None:
            refuse("First open the image that the regions belong to.")
            return
        path, _ = QFileDialog.getOpenFileName(self._part, "Regions from file", "", _FILES)
        if path:
            self.open_file(Path(path))

    def open_file(self, path: Path) -> None:
        """Read a file's regions for the chosen image, or show why this fails."""
        layer = self._session.image
        if layer is None:
            refuse("First open the image that the regions belong to.")
            return
        with refusing():
            target = Target.of(layer, ViewPoint.of(self._viewer))
            self.reading.start(partial(read_regions_file, path, target))

    def _show(self, outcome: Read | Which) -> None:
        if isinstance(outcome, Which):
            self._ask_which(outcome)
            return
        if outcome.target.layer not in self._viewer.layers:
            refuse("The image was closed; open it and try again.")
            return
        place, made = outcome.place(), []
        with selection_kept(self._viewer), self._session.kept_choice():
            # Add the first one last, so that it lies above the others.
            for pixels, about in reversed(outcome.layers):
                made.append(self._viewer.add_labels(pixels, **about, **place))
        self._session.made_for(outcome.target.layer, *made)
        here = self._session.choose_for(outcome.target.layer, made[-1])
        name = outcome.target.layer.name
        inform(outcome.message if here else f"{outcome.message} Choose '{name}' to use them.")

    def _ask_which(self, outcome: Which) -> None:
        name, chosen = QInputDialog.getItem(
            self._part,
            "Which image?",
            f"{outcome.path.name} is about several images. '{outcome.target.layer.name}' is:",
            list(outcome.names),
            0,
            False,
        )
        if chosen:
            self.reading.start(partial(read_regions_file, outcome.path, outcome.target, name))
