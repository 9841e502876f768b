"""Map of embeddings: regions as points, the similar ones near one another."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ...base.errors import InputError
from ...language.labels.label import colors_of
from ...library.embedding_map import EmbeddingMap, Way, embedding_map
from ..session import ResultRecord, same_regions
from ..widgets.sections import Note, button, combo_box, form, line, stack
from ..workers.driver import show
from ..workers.notify import refusing
from ..workers.preload import preload_torch
from .map_colors import DECISION, DECISIONS, WORD, Colored, by_column, columns_of, groups
from .work_section import ProgressSection, Shared

if TYPE_CHECKING:
    import pandas as pd

    from ...results.results import Results
    from .map_view import MapView

_WAYS: Final[dict[str, Way]] = {"PCA, at once": "pca", "t-SNE, in groups": "tsne"}
_ABOUT: Final = (
    "Each point is a region; similar regions lie near one another. Click a point, or drag with "
    "Shift around several, to select them in the table and on the image."
)
_OLD: Final = "The map was of other results; press Show map."


class MapSection(ProgressSection):
    """What makes the map, and the dock that shows it."""

    title, tip = "Map of embeddings", "Regions as points, similar ones near one another"
    work = "The map"
    doing, cancel_tip = "the map", "Stop; the map of PCA stays"
    view: MapView | None = None

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._colors = ("white", "black")
        self._mapped: Results | None = None
        self.way = combo_box(_WAYS, name="Way to draw the map")
        self.way.setToolTip("PCA shows the largest differences; t-SNE keeps neighbours together")
        self.make = button("Show map", "Draw the regions of the table as points", self.run)
        self.about = Note(_ABOUT)
        stack(self, form([line(self.way, self.make, shares=(1, 0)), self.progress, self.about]))

    def bind(self) -> None:
        """Follow the session."""
        super().bind()
        self.after("record", self._follow_record)
        self.after("review decisions", self.recolor)
        self.after("row rows", self._mark)

    def stop(self) -> None:
        """Follow the session no more, and close the map."""
        super().stop()
        self._session.mapped = self._mapped = None
        if self.view is not None:
            self._viewer.window.remove_dock_widget(self.view)

    def refresh(self, _: object = None) -> None:
        """Show what can be done now."""
        self.make.setEnabled(not self.worker.busy)

    def set_colors(self, background: str, line: str) -> None:
        """Follow the theme."""
        self._colors = background, line
        if self.view is not None:
            self.view.set_colors(background, line)

    # -- the work -----------------------------------------------------------------------------

    def run(self) -> None:
        """Map the regions of the table, or say why not."""
        with refusing():
            results = self._session.results
            if not results:
                raise InputError("There is nothing to map; suggest words for the regions first.")
            self.start(partial(_mapped, results, _WAYS[self.way.currentText()]))

    def show_progress(self, news: Any) -> None:
        """Show it in the bar; a map on the canvas."""
        if isinstance(news, tuple):
            self.answered(news)
        else:
            super().show_progress(news)

    def answered(self, answer: tuple[Results, EmbeddingMap]) -> None:
        """Show a map, unless other results are shown by now."""
        results, made = answer
        if not same_regions(results, self._session.results):
            return
        self._mapped, self._session.mapped = results, (results, made.points)
        if self.view is None:
            self._open()
        assert self.view is not None
        self._list_columns()
        self.view.show_points(made.points, self._colored())
        self._mark()
        self.about.setText(made.note or _ABOUT)

    def _open(self) -> None:
        from .map_view import MapView

        self.view = view = MapView()
        view.set_colors(*self._colors)
        view.picked.connect(self._picked)
        view.closed.connect(self._closed)
        view.color.currentIndexChanged.connect(self.recolor)
        view.into_layer.clicked.connect(lambda _=False: self._session.ask("write features"))
        self._viewer.window.add_dock_widget(
            view, name="Map of embeddings", area="bottom", add_vertical_stretch=False
        )

    def _closed(self) -> None:
        view, self.view = self.view, None
        if view is not None:
            view.deleteLater()

    def _follow_record(self, record: ResultRecord | None) -> None:
        """Keep the map while its regions are shown; words and limits may be others."""
        if self._mapped is None or same_regions(self._mapped, self._session.results):
            self._list_columns()
            self.recolor()
            return
        self.drop()
        self._session.mapped = self._mapped = None
        self.about.setText(_OLD)
        if self.view is not None:
            self.view.show_points(np.zeros((0, 2), np.float32), groups([], {}))

    # -- colours ------------------------------------------------------------------------------

    @property
    def _frame(self) -> pd.DataFrame:
        record = self._session.record
        return record.results.to_frame() if record.table is None else record.table

    def _list_columns(self) -> None:
        """Offer the columns that can colour points; the chosen one stays."""
        if self.view is None or self._mapped is None:
            return
        box, before = self.view.color, self.view.color.currentText()
        box.blockSignals(True)
        box.clear()
        box.addItems([WORD, DECISION, *columns_of(self._frame)])
        box.setCurrentIndex(max(box.findText(before), 0))
        box.blockSignals(False)

    def recolor(self, _: object = None) -> None:
        """Colour the points by what is chosen, as it is now."""
        if self.view is not None and self._mapped is not None:
            self.view.recolor(self._colored())

    def _colored(self) -> Colored:
        assert self.view is not None
        results, review = self._session.results, self._session.reviewed
        assert results is not None  # a map is of results
        chosen = self.view.color.currentText()
        if chosen not in (WORD, DECISION):
            return by_column(self._frame[chosen])
        overlays = [review and review.overlay(row) for row in range(len(results))]
        if chosen == DECISION:
            statuses = [(one.status if one else "") or "undecided" for one in overlays]
            return groups(statuses, DECISIONS)
        vocabulary = results.info.vocabulary
        own = [] if vocabulary is None else [one.color for one in vocabulary.full_labels]
        words = () if vocabulary is None else vocabulary.labels
        colors = colors_of(words, own) if review is None else review.colors()
        pairs = zip(overlays, results.regions, strict=True)
        return groups([one.word if one else region.suggestion for one, region in pairs], colors)

    # -- the selection ------------------------------------------------------------------------

    def _mark(self, _: object = None) -> None:
        session = self._session
        if self.view is not None and self._mapped is not None:
            self.view.mark(session.rows or ([session.row] if session.row >= 0 else []))

    def _picked(self, rows: Any, more: bool) -> None:
        """Select the regions of points in the table, which the image follows."""
        before = self._session.rows if more else ()
        self._session.rows = tuple(sorted({*before, *map(int, rows)}))


# -- in a worker -----------------------------------------------------------------------------


def _mapped(results: Results, way: Way) -> tuple[Results, EmbeddingMap]:
    preload_torch()
    embeddings = results.embeddings
    first = embedding_map(embeddings)
    if way == "pca":
        return results, first
    show((results, first))
    return results, embedding_map(embeddings, way)
