"""Part 7: captions of regions, and finding regions by words."""

from __future__ import annotations

from typing import Any

from qtpy.QtWidgets import QWidget

from ..layers.results_on_canvas import ResultsOnCanvas
from ..results.results_widget import ResultsWidget
from ..session import Session
from ..widgets.sections import Section, stack
from ..workers.model_store import ModelStore
from .captions_controller import CaptionsController
from .captions_widget import CaptionsWidget
from .find_controller import FindController
from .find_widget import FindWidget


class CaptionsAndWords(QWidget):
    """Captions, and finding by words.

    Parameters
    ----------
    viewer : napari.Viewer
    session : Session
    results : ResultsWidget
    canvas : ResultsOnCanvas
    store : ModelStore
    """

    def __init__(
        self,
        viewer: Any,
        session: Session,
        results: ResultsWidget,
        canvas: ResultsOnCanvas,
        store: ModelStore,
    ) -> None:
        super().__init__()
        self.captions, self.words = CaptionsWidget(), FindWidget()
        self.banks = CaptionsController(self.captions, session, results, store, self)
        self.finder = FindController(
            self.words, viewer, session, results, canvas, store, parent=self
        )
        stack(self, Section("Captions", self.captions), Section("Find by words", self.words))

    def follow(self) -> None:
        """Follow the session."""
        self.banks.follow()
        self.finder.follow()

    def shut_down(self) -> None:
        """Stop the workers and release images and results."""
        self.banks.shut_down()
        self.finder.shut_down()
