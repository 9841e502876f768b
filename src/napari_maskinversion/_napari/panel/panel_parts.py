"""The parts of the panel, for the modules of this package that work with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qtpy.QtWidgets import QWidget

if TYPE_CHECKING:
    from ...app.session import Session
    from ..images.images_controller import ImagesController
    from ..inputs.input_widget import InputWidget
    from ..library.library_controller import LibraryController
    from ..model.model_widget import ModelWidget
    from ..model.own_model import ModelDownload
    from ..results.export_controller import ExportController
    from ..results.results_widget import ResultsWidget
    from ..review.review_controller import ReviewController
    from ..vocabulary.vocabulary_widget import VocabularyWidget
    from .topics import Tabs


class PanelParts(QWidget):
    """A widget with these parts; `MaskInversionWidget` makes them."""

    session: Session
    input: InputWidget
    model: ModelWidget
    download: ModelDownload
    vocabulary: VocabularyWidget
    results: ResultsWidget
    exports: ExportController
    review: ReviewController
    library: LibraryController
    images: ImagesController
    tabs: Tabs
