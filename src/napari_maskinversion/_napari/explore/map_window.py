"""Map of embeddings: regions as points, the similar ones near one another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from qtpy.QtCore import Qt

from ...app.explore.region_sources import (
    IMAGE,
    LIBRARY,
    PROJECT,
    SOURCES,
    SUBJECTS,
    RegionTable,
    no_regions,
    open_region,
    words_of,
)
from ...app.review.decision_requests import DecisionOutcome
from ...app.session import (
    MappedResults,
    ResultRecord,
    job_kinds,
    only_ranked_again,
    same_regions,
)
from ...app.session.subjects import regions_shown
from ...app.work.driver import Job, show
from ...app.work.preload import preload_torch
from ...language.labels.label import colors_of
from ...library.embedding_map import EmbeddingMap, Way, embedding_map
from ...results.results import Results
from ..widgets.sections import Note, button, combo_box, form, line, refill, stack
from ..workers.notify import refusing
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

WORD: Final = "word"
DECISION: Final = "decision"
DECISIONS: Final = {"accepted": "#3fb950", "rejected": "#f85149", "skipped": "#d29922"}
NOTHING: Final = "#8c8c8c"  # of empty cells
_MOST_GROUPS: Final = 20  # more different texts are names, not groups
_LISTED: Final = 12  # of a legend
_STEPS: Final = 7
_NAMES: Final = ("region", "id", "position", "box")  # of regions, whatever their values
_ENDS: Final = (2, 98)  # percent; a few outliers do not take all colours


@dataclass(eq=False)
class Mapped:
    """Regions on the map."""

    table: RegionTable
    map: EmbeddingMap
    source: str  # A key of `SOURCES`
    of: Results | None  # Of this image; None for those of many


def _nothing() -> Mapped:
    return Mapped(no_regions(), EmbeddingMap(np.zeros((0, 2), np.float32), "pca"), "", None)


class MapSection(ProgressSection):
    """What makes the map, and the dock that shows it."""

    title, tip = "Map of embeddings", "Regions as points, similar ones near one another"
    kind = job_kinds.MAP
    doing, cancel_tip = "the map", "Stop; the map of PCA stays"
    view: MapView | None = None

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._colors = ("black", "white")
        self.mapped = _nothing()
        self._record: ResultRecord | None = None  # which the map follows
        self.of = combo_box(SOURCES, name="Regions on the map", tip="Whose regions are shown")
        self.way = combo_box(
            _WAYS,
            name="Way to draw the map",
            tip="PCA shows the largest differences; t-SNE keeps neighbours together",
        )
        self.make = button("Show map", "Draw the regions as points, below the image", self.run)
        self.about = Note(_ABOUT)
        stack(self, form([line(self.of, self.way), self.make, self.progress, self.about]))

    def bind(self) -> None:
        """Follow the session."""
        super().bind()
        run = self._session.run.events
        review = self._session.review.events
        project = self._session.project.events
        explore = self._session.explore.events
        self.after(self._follow_record, run.record, project.state)
        self.after(self.recolor, review.state, review.changes)
        self.after(self._mark, review.row, review.rows, review.marked)
        self.after(lambda _: self._say_newer(LIBRARY), explore.library_changes)
        self.after(lambda _: self._say_newer(PROJECT), project.computed)
        self.after(self._decided, self._session.decisions.changed)

    def stop(self) -> None:
        """Follow the session no more, and close the map."""
        super().stop()
        self._session.explore.mapped, self.mapped = None, _nothing()
        self._record = None
        if self.view is not None:
            self._viewer.window.remove_dock_widget(self.view)

    def refresh(self, _: object = None) -> None:
        """Show what can be done now."""
        self.make.setEnabled(not self.job.busy)

    def set_colors(self, background: str, line: str) -> None:
        """Follow the theme."""
        self._colors = background, line
        if self.view is not None:
            self.view.set_colors(background, line)

    # -- the work -----------------------------------------------------------------------------

    def run(self) -> None:
        """Map the chosen regions, or say why not."""
        with refusing():
            source = self.of.currentText()
            of = self._session.run.results if source == IMAGE else None
            read = SOURCES[source](self._session)
            about = regions_shown if source == IMAGE else SUBJECTS[source]
            self.start(partial(make_map, read, source, of, self.way.currentData()), about)

    def show_news(self, news: Mapped) -> None:
        """Show the first map, until the better one is there."""
        self.answered(news)

    def answered(self, answer: Mapped) -> None:
        """Show a map."""
        if self.view is None:
            self._open()
        self._show(answer)
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
        view.into_layer.clicked.connect(lambda _=False: self._session.run.write_features.emit())
        dock = self._viewer.window.add_dock_widget(
            view, name="Map of embeddings", area="bottom", add_vertical_stretch=False
        )
        dock.parent().resizeDocks([dock], [_HEIGHT], Qt.Orientation.Vertical)

    def _closed(self) -> None:
        view, self.view = self.view, None
        if view is not None:
            view.deleteLater()

    def _show(self, mapped: Mapped) -> None:
        self.mapped = mapped
        self._find_here()
        if self.view is not None:
            self.view.show_points(mapped.map.points, *self._colored(self.view))
            self._mark()

    def _follow_record(self, _: object = None) -> None:
        """Keep the map while its regions are shown; words and limits may be others."""
        of, record = self.mapped.of, self._session.run.record
        before, self._record = self._record, record
        if record is not before and only_ranked_again(before, record):
            self._offer_columns()
            self.recolor()
        elif of is not None and not same_regions(of, self._session.run.results):
            self.job.drop()
            self._show(_nothing())
            self.about.setText(_OLD)
        else:
            self._find_here()
            self.recolor()

    def _decided(self, outcome: DecisionOutcome) -> None:
        """Show decisions about images; those of an open review are followed with its changes."""
        if outcome.request is not None:
            self.mapped.table.take(outcome)
            self.recolor()

    def _say_newer(self, source: str) -> None:
        if self.mapped.source == source:
            self.about.setText(_NEWER)

    def _find_here(self) -> None:
        """Find the regions of the table on the map, and offer its columns."""
        session, mapped = self._session, self.mapped
        mapped.table.find_here(session)
        here = mapped.table.here
        points = np.append(mapped.map.points, [[np.nan, np.nan]], axis=0)  # for -1
        results = session.run.results
        session.explore.mapped = None
        if results is not None and (here >= 0).any():
            session.explore.mapped = MappedResults(results, points[here])
        self._offer_columns()

    def _offer_columns(self) -> None:
        """Offer the columns that can colour points."""
        if self.view is not None:
            refill(self.view.color, [WORD, DECISION, *columns_of(self._frame)])

    # -- colours ------------------------------------------------------------------------------

    @property
    def _frame(self) -> pd.DataFrame:
        """The table whose columns colour the points."""
        record = self._session.run.record
        if self.mapped.of is None or record is None:
            return self.mapped.table.frame
        return record.results.to_frame() if record.table is None else record.table

    def recolor(self, _: object = None) -> None:
        """Colour the points by what is chosen, as it is now."""
        if self.view is not None:
            self.view.recolor(*self._colored(self.view))

    def _colored(self, view: MapView) -> Colored:
        mapped, chosen = self.mapped, view.color.currentText()
        if chosen not in (WORD, DECISION):
            return by_column(self._frame[chosen])
        mapped.table.follow(self._session)
        if chosen == DECISION:
            return groups(mapped.table.frame["decision"], DECISIONS)
        review, listed = self._session.reviewed, self._session.run.vocabulary
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
        if self.view is not None:
            self.view.mark(self.mapped.table.selected(self._session))

    def _picked(self, points: Any, more: bool) -> None:
        """Select the regions of points: those of the table there, which the image follows."""
        table = self.mapped.table
        table.select(self._session, points, more=more)
        if len(points) == 1 and not more:
            open_region(self._session, table.place(int(points[0])))


# -- in a worker -----------------------------------------------------------------------------


def make_map(read: Callable[[], RegionTable], source: str, of: Results | None, way: Way) -> Mapped:
    """Read regions and map them; while t-SNE goes on, the map of PCA is shown."""
    table = read()
    show(Job(text="Reading embeddings"))
    preload_torch()
    count = len(table.frame)
    embeddings = table.embed(range(count)) if count else np.zeros((0, 1), np.float32)
    first = Mapped(table, embedding_map(embeddings), source, of)
    if way == "pca":
        return first
    show(first)
    return replace(first, map=embedding_map(embeddings, way))


# -- colours of points ------------------------------------------------------------------------


class Colored(NamedTuple):
    """Colours of points."""

    rgba: npt.NDArray[np.float32]  # (N, 4)
    legend: Sequence[tuple[str, str]]  # Colour and text; numbers go on from the first to the last


def groups(values: Iterable[Any], colors: Mapping[str, str]) -> Colored:
    """Colour texts, each as it is given, or grey; the legend counts them."""
    import pandas as pd
    from napari.utils.colormaps.standardize_color import transform_color

    at, names = pd.factorize(np.asarray(list(values), object), sort=True)
    shown, counts = [colors.get(name) or NOTHING for name in names], np.bincount(at)
    order = np.argsort(-counts, kind="stable")
    legend = [(shown[i], f"{names[i] or 'none'} {counts[i]:,}") for i in order[:_LISTED]]
    if len(order) > _LISTED:
        legend.append((NOTHING, f"and {len(order) - _LISTED:,} more"))
    return Colored(np.asarray(transform_color([*shown, NOTHING]), np.float32)[at], legend)


def numbers(values: npt.NDArray[np.float64]) -> Colored:
    """Colour numbers from dark to bright; what is missing is grey."""
    from napari.utils.colormaps import ensure_colormap
    from napari.utils.colormaps.standardize_color import transform_color

    there = np.isfinite(values)
    low, high = np.percentile(values[there], _ENDS) if there.any() else (0.0, 1.0)
    share = np.clip((np.where(there, values, low) - low) / (high - low or 1), 0, 1)
    scale = ensure_colormap("viridis")
    rgba = np.where(there[:, None], scale.map(share), transform_color(NOTHING)[0])
    steps = (255 * scale.map(np.linspace(0, 1, _STEPS))).astype(int)
    legend = [(f"#{r:02x}{g:02x}{b:02x}", "") for r, g, b, _ in steps]
    legend[0], legend[-1] = (legend[0][0], f"{low:.4g}"), (legend[-1][0], f"{high:.4g}")
    return Colored(rgba.astype(np.float32), legend)


def columns_of(frame: pd.DataFrame) -> list[str]:
    """Return the columns that can colour points: numbers that differ, and a few texts."""
    from pandas.api.types import is_numeric_dtype

    return [
        str(name)
        for name in frame
        if name not in _NAMES
        and frame[name].nunique() > 1
        and (is_numeric_dtype(frame[name]) or frame[name].nunique() <= _MOST_GROUPS)
    ]


def by_column(column: pd.Series[Any]) -> Colored:
    """Colour points by a column of a table."""
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    if is_numeric_dtype(column) and not is_bool_dtype(column):
        return numbers(column.to_numpy(np.float64, na_value=np.nan))
    texts = column.astype(object).where(column.notna(), "").astype(str)
    return groups(texts.tolist(), colors_of(sorted(set(texts) - {""}), []))
