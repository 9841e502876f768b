"""Captions of regions, and finding regions by words."""

from __future__ import annotations

from typing import Any

from qtpy.QtCore import QObject

from ..layers.results_on_canvas import ResultsOnCanvas
from ..session import Session
from ..widgets.sections import Section
from ..workers.model_store import ModelStore
from .captions_controller import CaptionsController
from .captions_widget import CaptionsWidget
from .find_controller import FindController
from .find_widget import FindWidget


class CaptionsAndWords(QObject):
    """Captions, and finding by words.

    Parameters
    ----------
    viewer : napari.Viewer
    session : Session
    canvas : ResultsOnCanvas
    store : ModelStore

    Attributes
    ----------
    sections : tuple of Section
        Closed at first.
    """

    def __init__(
        self,
        viewer: Any,
        session: Session,
        canvas: ResultsOnCanvas,
        store: ModelStore,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self.captions, self.words = CaptionsWidget(), FindWidget()
        self.banks = CaptionsController(self.captions, session, store, self)
        self.finder = FindController(self.words, viewer, session, canvas, store, parent=self)
        self.sections = (
            Section("Find by words", self.words, opened=False),
            Section("Captions", self.captions, opened=False),
        )

    def follow(self) -> None:
        """Follow the session."""
        self.banks.follow()
        self.finder.follow()

    def shut_down(self) -> None:
        """Stop the workers and release images and results."""
        self.banks.shut_down()
        self.finder.shut_down()
