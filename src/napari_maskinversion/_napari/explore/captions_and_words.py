"""Captions of regions, and finding regions by words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from qtpy.QtCore import QObject

from ..layers.results_on_canvas import ResultsOnCanvas
from ..model.model_widget import ModelWidget
from ..results.results_widget import ResultsWidget
from ..run.estimator import Work
from ..run.request import Request
from ..widgets.sections import Section
from ..workers.model_store import ModelStore
from .caption_banks import BankChoice
from .captions_controller import CaptionsController
from .captions_widget import CaptionsWidget
from .find_controller import FindController
from .find_widget import FindWidget


class CaptionsAndWords(QObject):
    """Captions, and finding by words.

    Parameters
    ----------
    model : ModelWidget
    results : ResultsWidget
    canvas : ResultsOnCanvas
    prepare : callable
        Takes (alpha, whole) and returns the run that finding needs, and its image layer.
    outlined : callable
        Whether the windows of regions are drawn.
    store : ModelStore
    estimate : callable
        Takes (alpha, whole) and returns the work that estimates finding.

    Attributes
    ----------
    sections : tuple of Section
        Closed at first.
    """

    def __init__(
        self,
        model: ModelWidget,
        results: ResultsWidget,
        canvas: ResultsOnCanvas,
        prepare: Callable[[float, bool], tuple[Request, Any]],
        outlined: Callable[[], bool],
        store: ModelStore,
        estimate: Callable[[float, bool], Work | None],
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self.captions, self.words = CaptionsWidget(), FindWidget()
        self.banks = CaptionsController(self.captions, model, results, store, self)
        self.finder = FindController(
            self.words, prepare, results, canvas, outlined, store, estimate, parent=self
        )
        self.sections = (
            Section("Find by words", self.words, opened=False),
            Section("Captions", self.captions, opened=False),
        )

    def bank(self) -> BankChoice | None:
        """Return the bank for the next run.

        Raises
        ------
        InputError
            If the chosen one cannot be used; says why.
        """
        return self.banks.choice()

    def shut_down(self) -> None:
        """Stop the workers and release images and results."""
        self.banks.shut_down()
        self.finder.shut_down()
