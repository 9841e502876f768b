"""Map of embeddings: regions as points, the similar ones near one another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from qtpy.QtCore import Qt

from ...language.labels.label import colors_of
from ...library.embedding_map import EmbeddingMap, Way, embedding_map
from ...results.results import Results
from ...review.together import Decided
from ..session import same_regions
from ..widgets.sections import Note, button, combo_box, form, line, stack
from ..workers.driver import Update, show
from ..workers.notify import refuse, refusing
from ..workers.preload import preload_torch
from ..workers.worker import Worker
from .map_colors import DECISION, DECISIONS, WORD, Colored, by_column, columns_of, groups
from .region_sources import IMAGE, SOURCES, RegionTable, open_region, words_of
from .work_section import ProgressSection, Shared

if TYPE_CHECKING:
    import pandas as pd

    from .map_view import MapView

_WAYS: Final[dict[str, Way]] = {"PCA, at once": "pca", "t-SNE, in groups": "tsne"}
_ABOUT: Final = (
    "Each point is a region; similar regions lie near one another. Click a point, or drag with "
    "Shift around several, to select them in the table and on the image."
)
_HEIGHT: Final = 320  # pixels
_OLD: Final = "The map was of other results; press Show map."
_NEWER: Final = "There are newer regions, not on the map: press Show map to draw it again."


@dataclass(eq=False)
class Mapped:
    """Regions on the map."""

    table: RegionTable
    map: EmbeddingMap
    of: Results | None  # Of this image; None for those of many


class MapSection(ProgressSection):
    """What makes the map, and the dock that shows it."""

    title, tip = "Map of embeddings", "Regions as points, similar ones near one another"
    work = "The map"
    doing, cancel_tip = "the map", "Stop; the map of PCA stays"
    view: MapView | None = None

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._colors = ("black", "white")
        self.mapped: Mapped | None = None
        self._here = np.zeros(0, np.intp)  # rows on the map of the regions of the table
        self.of = combo_box(SOURCES, name="Regions on the map", tip="Whose regions are shown")
        self.way = combo_box(
            _WAYS,
            name="Way to draw the map",
            tip="PCA shows the largest differences; t-SNE keeps neighbours together",
        )
        self.make = button("Show map", "Draw the regions as points, below the image", self.run)
        self.about = Note(_ABOUT)
        name = "Reading the library"
        self.again = Worker("latest", name, self._take_library, refuse, parent=self)
        stack(self, form([line(self.of, self.way), self.make, self.progress, self.about]))

    def bind(self) -> None:
        """Follow the session."""
        super().bind()
        self.after("record project", self._follow_record)
        self.after("review decisions", self.recolor)
        self.after("row rows marked", self._mark)
        self.after("library_changes", self._library_changed)
        self.after("computed", self._project_computed)
        self.answer("decided", self._decided)

    def stop(self) -> None:
        """Follow the session no more, and close the map."""
        super().stop()
        self.again.drop()
        self._forget()
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
        """Map the chosen regions, or say why not."""
        with refusing():
            of = self._session.results if self.of.currentText() == IMAGE else None
            read = self.of.currentData()(self._session)
            self.start(partial(make_map, read, of, self.way.currentData()))

    def show_progress(self, news: Any) -> None:
        """Show it in the bar; a map on the canvas."""
        if isinstance(news, Mapped):
            self.answered(news)
        else:
            super().show_progress(news)

    def answered(self, answer: Mapped) -> None:
        """Show a map, unless it is of results that are shown no more."""
        if answer.of is not None and not same_regions(answer.of, self._session.results):
            return
        self.mapped = answer
        if self.view is None:
            self._open()
        assert self.view is not None
        self._find_here(answer)
        self.view.show_points(answer.map.points, self._colored())
        self._mark()
        self.about.setText(
            " ".join(filter(None, (*answer.table.problems, answer.map.note))) or _ABOUT
        )

    def _open(self) -> None:
        from .map_view import MapView

        self.view = view = MapView()
        view.set_colors(*self._colors)
        view.picked.connect(self._picked)
        view.closed.connect(self._closed)
        view.color.currentIndexChanged.connect(self.recolor)
        view.into_layer.clicked.connect(lambda _=False: self._session.ask("write features"))
        dock = self._viewer.window.add_dock_widget(
            view, name="Map of embeddings", area="bottom", add_vertical_stretch=False
        )
        dock.parent().resizeDocks([dock], [_HEIGHT], Qt.Orientation.Vertical)

    def _closed(self) -> None:
        view, self.view = self.view, None
        if view is not None:
            view.deleteLater()

    def _follow_record(self, _: object = None) -> None:
        """Keep the map while its regions are shown; words and limits may be others."""
        session, mapped = self._session, self.mapped
        if mapped is None:
            return
        if mapped.of is not None and not same_regions(mapped.of, session.results):
            self.drop()
            self._forget()
            self.about.setText(_OLD)
            if self.view is not None:
                nothing = Colored(np.zeros((0, 4), np.float32), ())
                self.view.show_points(np.zeros((0, 2), np.float32), nothing)
        else:
            self._find_here(mapped)
            self.recolor()

    def _decided(self, asked_and_done: tuple[object, Decided]) -> None:
        """Show decisions about other images."""
        if self.mapped is not None:
            self.mapped.table.take(asked_and_done[1])
            self.recolor()

    def _project_computed(self, _: object) -> None:
        if self.mapped is not None and self.mapped.of is None and self.mapped.table.again is None:
            self.about.setText(_NEWER)

    def _library_changed(self, _: object) -> None:
        """Read the decisions of the library again, and whether it has more regions."""
        if self.mapped is not None and self.mapped.table.again is not None:
            self.again.start(self.mapped.table.again)

    def _take_library(self, now: RegionTable) -> None:
        if self.mapped is not None and self.mapped.table.again is not None:
            if self.mapped.table.decide_as(now):
                self.about.setText(_NEWER)
            self.recolor()

    def _find_here(self, mapped: Mapped) -> None:
        """Find the regions of the table on the map, and the columns that can colour points."""
        session = self._session
        self._here = mapped.table.here(session)
        points = np.append(mapped.map.points, [[np.nan, np.nan]], axis=0)  # for -1
        session.mapped = (session.results, points[self._here]) if (self._here >= 0).any() else None
        if self.view is not None:
            box, before = self.view.color, self.view.color.currentText()
            box.blockSignals(True)
            box.clear()
            box.addItems([WORD, DECISION, *columns_of(self._frame)])
            box.setCurrentIndex(max(box.findText(before), 0))
            box.blockSignals(False)

    def _forget(self) -> None:
        self._session.mapped = self.mapped = None
        self._here = np.zeros(0, np.intp)

    # -- colours ------------------------------------------------------------------------------

    @property
    def _frame(self) -> pd.DataFrame:
        """The table whose columns colour the points."""
        assert self.mapped is not None
        record = self._session.record
        if self.mapped.of is None:
            return self.mapped.table.frame
        return record.results.to_frame() if record.table is None else record.table

    def recolor(self, _: object = None) -> None:
        """Colour the points by what is chosen, as it is now."""
        if self.view is not None and self.mapped is not None:
            self.view.recolor(self._colored())

    def _colored(self) -> Colored:
        assert self.view is not None
        assert self.mapped is not None
        mapped, chosen = self.mapped, self.view.color.currentText()
        if chosen not in (WORD, DECISION):
            return by_column(self._frame[chosen])
        mapped.table.follow(self._session, self._here)
        if chosen == DECISION:
            return groups(mapped.table.frame["decision"], DECISIONS)
        review, listed = self._session.reviewed, self._session.vocabulary
        known = {} if review is None else review.colors()
        if review is None and listed is not None:
            known = colors_of(listed.labels, [one.color for one in listed.full_labels])
        # Words of other images follow those of the list, whose colours they leave alone.
        every = dict.fromkeys([*known, *mapped.table.words])
        words = words_of(mapped.table.frame)
        return groups(words, colors_of(list(every), list(known.values())))

    # -- the selection ------------------------------------------------------------------------

    def _mark(self, _: object = None) -> None:
        """Show the regions selected in the table, and those marked of other images."""
        session, mapped = self._session, self.mapped
        if self.view is None or mapped is None:
            return
        self.view.mark(mapped.table.selected(session, self._here))

    def _picked(self, points: Any, more: bool) -> None:
        """Select the regions of points: those of the table there, which the image follows."""
        session, mapped = self._session, self.mapped
        assert mapped is not None
        mapped.table.select(session, points, self._here, more=more)
        if len(points) == 1 and not more:
            open_region(session, mapped.table.place(int(points[0])))


# -- in a worker -----------------------------------------------------------------------------


def make_map(read: Callable[[], RegionTable], of: Results | None, way: Way) -> Mapped:
    """Read regions and map them; while t-SNE goes on, the map of PCA is shown."""
    table = read()
    show(Update(text="Reading embeddings"))
    preload_torch()
    count = len(table.frame)
    embeddings = table.embed(range(count)) if count else np.zeros((0, 1), np.float32)
    first = Mapped(table, embedding_map(embeddings), of)
    if way == "pca":
        return first
    show(first)
    return Mapped(table, embedding_map(embeddings, way), of)
