"""Find by words: stored regions are sorted by what is typed, and places without any are listed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from qtpy.QtCore import QEvent, QModelIndex, QObject, Qt
from qtpy.QtGui import QKeyEvent
from qtpy.QtWidgets import QAbstractItemView, QHeaderView

from ...app.explore.region_sources import (
    IMAGE,
    LIBRARY,
    PROJECT,
    SUBJECTS,
    library_source,
    project_source,
    shown_file,
)
from ...app.explore.searches import (
    Example,
    FoundPlaces,
    FoundRegions,
    ImageRegions,
    Query,
    find_anywhere,
    reusable,
    search_image,
    search_of,
    search_regions,
)
from ...app.requests.preparing import check_on_disk, embedding_request, surroundings_request
from ...app.session import ProjectState, RegionOrder, ResultRecord, job_kinds, outdated, same_run
from ...app.session.subjects import image_chosen, layers_chosen, run_shown
from ...app.work.model_store import Kept
from ...base.errors import InputError
from ...base.wording import counted
from ...language.ranking.query import check_query
from ...language.ranking.ranking import EXPRESSION_ALPHA
from ...results.settings import fields_of
from ...review.decisions import STATUSES
from ..layers.results_on_canvas import RegionOrigin
from ..widgets.form import SettingsForm
from ..widgets.keys import FIND, pressed
from ..widgets.sections import Note, button, check_box, combo_box, form, line, stack, text_field
from ..widgets.table_views import RowsModel, table_view
from ..workers.notify import refusing
from .hits import HitsRow
from .work_section import ProgressSection, Shared

_ROWS_SHOWN: Final = 6
_WHY: Final = (
    "How much of its surroundings a region's embedding keeps: alpha. For words about places, "
    "about 5 works best in the paper: 42 % of RefCOCO's expressions find their region at 0, "
    "56 % at 5, 21 % at 20."
)
_WHERE: Final = {"In this image": IMAGE, "In the project": PROJECT, "In the library": LIBRARY}
_SURROUNDINGS: Final = (
    "For words about places, such as 'on the left': embeds the regions again, with what is around "
    "them. Off: the embeddings of the table are compared."
)
_WHOLE: Final = (
    "For words about places, such as 'on the left'. Off: windows as in a run; small regions of "
    "large images are found in windows only."
)
_ALL: Final = "all"
_ABOUT: Final = "Table and gallery show first what is most like the words."
_LIKE: Final = (
    "Find all that looks like the selected region, also where no region is; without a "
    "selected region, as on another image, like that of the last search"
)
_LIKE_WHAT: Final = "Suggest words first, and select a region in the table"
_COLUMNS: Final = (
    ("Place", "Rank; 1 fits the words best"),
    ("Region", "Label value or shape row, and the plane"),
    ("Sim.", "Cosine similarity of region and words"),
    ("Margin", "Similarity minus that of the next region"),
    ("Status", "Why not to trust the place: what the model saw of the region"),
)


class FindSection(ProgressSection):
    """The words, where they are looked for, and the places found where nobody drew regions."""

    title, tip = "Find by words", "Show where typed words are"
    kind = job_kinds.FIND
    doing, cancel_tip = "finding", "Stop; nothing is shown"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._sam: Kept[Any] = Kept()  # That proposes regions; used in the worker
        self._proposed: Kept[Any] = Kept()  # Regions of the last search without any
        self._example: Example | None = None  # Of the last search by one
        self._embedded: ResultRecord | None = None  # What the last search embedded
        self._sorted: ResultRecord | None = None  # The results shown when they were sorted
        self._project_file = ""
        self._is_by_words = False  # Whether the last search was for the words in the field
        tip = (
            "Say which region you mean, and press Enter: red cell, not debris. Down goes to what "
            "was found; without words all is sorted as usual"
        )
        name = "Words that describe a region"
        self.words = text_field("the dog on the left", tip, name=name)
        self.words.setClearButtonEnabled(True)
        tip = "Show first what is most like these words (Enter)"
        self.find = button("Find", tip, self.run)
        (alpha,) = (field for field in fields_of("inversion") if field.name == "alpha")
        self.form = SettingsForm(
            [replace(alpha, default=EXPRESSION_ALPHA, help=_WHY)],
            options={alpha.key: {"step": 0.5}},
            parent=self,
        )
        self.alpha = self.form[alpha.key]
        self.surroundings = check_box("With surroundings", _SURROUNDINGS)
        self.whole = check_box("See the whole image with each region", _WHOLE)
        tip = "Regions are proposed in the whole image, as where there are none at all"
        self.anywhere = check_box("Also propose regions", tip)
        self.where = combo_box(
            _WHERE,
            name="Where to find",
            tip="This image; or the stored results of the project; or the library. There, commas "
            "separate words, and 'not debris' avoids what is like debris",
        )
        self.only = combo_box(
            name="Regions to find",
            tip="Only regions with this decision, or of this class: choose, or type a class",
            typed=True,
        )
        self.like = button("All like this one", "", self._run_like)
        self.hits = HitsRow(shared)
        self.about = Note(_ABOUT)
        self.model = MatchesModel(self)
        self.table = table_view(self.model, "Places by how well the words fit them")
        self._build()
        self.anywhere.toggled.connect(self._show_rows)
        self.surroundings.toggled.connect(self._show_rows)
        self.where.currentIndexChanged.connect(lambda _: self._turn_elsewhere())
        self.words.returnPressed.connect(self.run)
        self.words.textChanged.connect(self._words_changed)
        self.words.installEventFilter(self)
        self.hits.changed.connect(self._show_count)
        self.hits.made.connect(self._made)
        self.section.toggled.connect(self._seen)

    def _build(self) -> None:
        table = self.table
        table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        header = table.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setResizeContentsPrecision(_ROWS_SHOWN)
        header.setStretchLastSection(True)
        table.selectionModel().currentRowChanged.connect(lambda now, _: self._show(now.row()))
        table.hide()
        rows = [
            line(self.words, self.find, shares=(1, 0)),
            line(self.where, self.like, shares=(1, 0)),
            ("Only", self.only),
            self.anywhere,
            self.surroundings,
            ("Surroundings", self.alpha),
            self.whole,
            self.progress,
            self.about,
            self.hits,
            table,
        ]
        self._rows = form(rows)
        stack(self, self._rows)

    # -- for the panel ------------------------------------------------------------------------

    def bind(self) -> None:
        """Follow the session."""
        super().bind()
        run = self._session.run.events
        review = self._session.review.events
        status = self._session.status.events
        project = self._session.project.events
        explore = self._session.explore.events
        self.after(self._layers_changed, run.layers)
        self.after(self._record_changed, run.record)
        self.after(self._project_changed, project.state)
        self.after(lambda _: self._sort_as_usual(LIBRARY), explore.library)
        self.after(self._order_changed, explore.order)
        self.after(self._show_rows, run.layers, run.region_count)
        self.after(self._turned, status.tab)
        self.after(self._row_changed, review.row)
        self.after(self.refresh, run.record, review.row)
        self.after(self._offer, run.vocabulary)
        self._offer()
        self._show_rows()
        self._project_changed(self._session.project.state)

    def stop(self) -> None:
        """Follow the session no more, and release image and results."""
        super().stop()
        self._sam.clear()
        self._proposed.clear()
        self._example = self._embedded = self._sorted = None
        self._session.explore.order = None
        self._forget()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        """Let Down go from the words to what was found."""
        is_key = isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress
        if watched is not self.words or not is_key or pressed(event, FIND) != "go":
            return False
        if self.model.finding is not None:
            self.table.setFocus(Qt.FocusReason.ShortcutFocusReason)
        elif self._session.explore.order is not None:
            self._session.explore.show_gallery.emit(None)
        return True

    def refresh(self, _: object = None) -> None:
        """Show what can be done now."""
        self.find.setEnabled(not self.job.busy)
        there = bool(self._selected) or self._example is not None
        self.like.setEnabled(not self.job.busy and there)
        self.like.setToolTip(_LIKE if there else _LIKE_WHAT)

    def _layers_changed(self, _: object = None) -> None:
        """Show nothing of an image that is no longer chosen."""
        finding, image = self.model.finding, self._session.run.image
        if self._embedded is not None and self._embedded.snapshot.image is not image:
            self._embedded = None
        if finding is not None and finding.snapshot.image is not image:
            self._forget()
            if self._canvas.foreign:  # not what the new image's selected row shows
                self._canvas.blank()

    def _forget(self) -> None:
        self.hits.clear()
        self.model.show(None, 0)
        self._show_best()
        self.about.setText(_ABOUT)

    def _show_rows(self, _: object = None) -> None:
        """Hide what says how drawn regions are embedded where these are not ranked."""
        embeds = self._ranks_drawn and self.surroundings.isChecked()
        self.surroundings.setVisible(self._ranks_drawn)
        self._rows.layout().setRowVisible(self.alpha, embeds)
        self.whole.setVisible(embeds)
        self.anywhere.setVisible(self._is_here)
        self._rows.layout().setRowVisible(self.only, not self._is_here)

    def _offer(self, _: object = None) -> None:
        """Offer decisions and the words as what to look for only."""
        words, text = self._session.run.vocabulary, self.only.currentText()
        self.only.clear()
        self.only.addItems([_ALL, *STATUSES, *(() if words is None else words.labels)])
        self.only.setCurrentText(text or _ALL)

    @property
    def _only(self) -> str:
        text = " ".join(self.only.currentText().split())
        return "" if text == _ALL else text

    @property
    def _ranks_drawn(self) -> bool:
        session = self._session
        there = session.run.regions is not None and session.run.region_count != 0
        return there and self._is_here and not self.anywhere.isChecked()

    @property
    def _is_here(self) -> bool:
        """Whether this image is searched, and no others."""
        return self.where.currentIndex() == 0

    def _place(self, _: object) -> str:
        """Return where something is looked for, which the answer is about."""
        return str(self.where.currentData())

    def _turn_elsewhere(self) -> None:
        """Show no places that were found on this image."""
        if self.model.finding is not None:
            self._forget()
        self._show_rows()

    # -- the search ---------------------------------------------------------------------------

    def run(self) -> None:
        """Find the typed words, or say why not."""
        if self.job.busy:
            return
        expression = " ".join(self.words.text().split())
        with refusing():
            check_query(expression)
            self._is_by_words = True
            if not self._ranks_drawn:
                self._search(expression)
                return
            query = self._query(expression)
            work = partial(search_image, query, self._image_regions(), self._store)
            self.start(work, layers_chosen, run_shown, self._place)

    def _image_regions(self) -> ImageRegions:
        """Return the regions of the image shown, and what embeds them if that is needed."""
        session, file = self._session, shown_file(self._session)
        record = session.run.record
        if self.surroundings.isChecked():
            run = surroundings_request(
                self._viewer, session, self.alpha.value(), self.whole.isChecked()
            )
            alike = reusable([record, self._embedded], session.run.image, run.settings)
            return ImageRegions(file=file, records=alike, run=run)
        if record is not None and self._has_results:
            check_on_disk(record.snapshot.settings.model)
            return ImageRegions(file=file, records=[record])
        return ImageRegions(file=file, run=embedding_request(self._viewer, session))

    @property
    def _has_results(self) -> bool:
        """Whether the table has results of the plane shown."""
        return bool(self._session.run.results) and not self._session.run.elsewhere

    def _run_like(self) -> None:
        """Find what is like the selected region, or say why not."""
        if not self.job.busy and (example := self._example_now()) is not None:
            with refusing():
                self._is_by_words = False
                self._search("", example)
                self._example = example

    def _search(self, expression: str, like: Example | None = None) -> None:
        """Search where nobody drew regions, or in the stored results of many images."""
        session, store = self._session, self._store
        project, library = session.project.state, session.explore.library
        place = self._place(None)
        if place == IMAGE:
            search = search_of(self._viewer, session, expression, like)
            work = partial(find_anywhere, search, store, self._sam, self._proposed)
            self.start(work, image_chosen, self._place)
            return
        query = self._query(expression, like)
        if place == PROJECT:
            if project is None or not project.file:
                raise InputError("No project is open; open one on the tab Images.")
            source = partial(project_source, Path(project.file), library=library)
        elif library is None:
            raise InputError("Choose a library first, above.")
        else:
            source = partial(library_source, library)
        search_stored = partial(search_regions, query, source, place, store)
        self.start(search_stored, SUBJECTS[place], self._place)

    def _query(self, expression: str, like: Example | None = None) -> Query:
        """Return what is looked for."""
        settings, only = self._session.run.settings, "" if self._is_here else self._only
        return Query(
            words=expression, like=like, only=only, model=settings.model, device=settings.device
        )

    def _example_now(self) -> Example | None:
        """Return the selected regions; without any those of the last search, on any image."""
        rows, results = self._selected, self._session.run.results
        return Example.of(results, rows) if rows and results is not None else self._example

    @property
    def _selected(self) -> tuple[int, ...]:
        row, rows = self._session.review.row, self._session.review.rows
        if not 0 <= row < len(self._session.run.results or ()):
            return ()
        return rows if row in rows else (row,)

    def answered(self, answer: FoundPlaces | FoundRegions) -> None:
        """Show what was found."""
        if isinstance(answer, FoundRegions):
            self._sort_by(answer)
            return
        self._session.explore.order = None
        self.model.show(answer, 0)
        self.hits.show_hits(answer)  # which tells how many are to be shown

    def _sort_by(self, order: FoundRegions) -> None:
        """Sort table and gallery by a search."""
        session, compared = self._session, order.compared
        if compared is not None:
            self._embedded = compared
            if not self._has_results:
                session.show(compared)
            order = replace(order, about=" ".join([order.about, *self._reservations()]))
        self._forget()
        self._sorted = session.run.record
        session.explore.order = order
        self.about.setText(order.about)
        if compared is not None and session.run.results is not None:
            similarities = order.of_results(session.run.results, shown_file(session))
            if np.isfinite(similarities).any():
                session.select(int(np.nanargmax(similarities)))

    def _reservations(self) -> Sequence[str]:
        """Say what the results shown lack, on which a search of the image relies."""
        notes = []
        if self._session.run.missing:
            notes.append(f"{counted(self._session.run.missing, 'region')} were not computed yet.")
        if not self.surroundings.isChecked() and (reason := outdated(self._session)):
            notes.append(reason)
        return notes

    # -- the usual order ----------------------------------------------------------------------

    def _sort_as_usual(self, source: str) -> None:
        """End a search whose regions are gone."""
        order = self._session.explore.order
        if order is not None and order.source == source:
            self._session.explore.order = None

    def _words_changed(self, text: str) -> None:
        """Sort as usual when the words were cleared, whatever is being searched for them."""
        if text:
            return
        if self._is_by_words:
            self.job.drop()
        self._session.explore.order = None

    def _order_changed(self, order: RegionOrder | None) -> None:
        if order is None and self.model.finding is None:
            self.about.setText(_ABOUT)

    def _project_changed(self, project: ProjectState | None) -> None:
        """Sort as usual when another project is open."""
        file = "" if project is None else project.file
        if file != self._project_file:
            self._sort_as_usual(PROJECT)
        self._project_file = file

    def _record_changed(self, record: ResultRecord | None) -> None:
        """Sort the results of another run as usual."""
        if not same_run(self._sorted, record):
            self._sort_as_usual(IMAGE)

    # -- places without regions ---------------------------------------------------------------

    def _made(self, count: int, covered: int) -> None:
        """Show that hits have become regions."""
        self._forget()
        self._canvas.blank()
        others = f"; {covered:,} more lie on regions that are there" if covered else ""
        self.about.setText(f"Made {counted(count, 'region')}{others}.")

    def _show_count(self, count: int) -> None:
        """Show the best hits of a search without regions."""
        finding = self.model.finding
        if finding is not None:
            self.model.show(finding, count)
            what = f"'{finding.words}'" if finding.words else "All like this one"
            total = len(finding.matches)
            self.about.setText(f"{what}: {count:,} of {total:,} hits. {finding.how}")
            self._show_best()

    def _show_best(self) -> None:
        count, finding = self.model.count, self.model.finding
        self.table.setVisible(count > 0)
        if count:
            row = self.table.verticalHeader().defaultSectionSize()
            title = self.table.horizontalHeader().sizeHint().height() + 4
            self.table.setFixedHeight(title + min(count, _ROWS_SHOWN) * row)
            self.table.selectRow(0)
            self.table.scrollToTop()
        elif finding is not None:
            self._canvas.blank()

    def _show(self, place: int) -> None:
        """Show the place at one rank on the canvas."""
        finding = self.model.finding
        if finding is None or place < 0:
            return
        region = finding.region(place)
        mask = finding.masks.get((region.position, region.id))
        origin = RegionOrigin(finding.snapshot.image, finding.finder, mask)
        self._canvas.show(region, outlined=self._session.run.outlined, of=origin)

    def _row_changed(self, row: int) -> None:
        """Select nothing when another row was selected elsewhere: the canvas shows that."""
        if row != -1:
            self.table.setCurrentIndex(QModelIndex())

    def _turned(self, tab: str) -> None:
        """Show what was found again; on other tabs the canvas shows what the selected row says."""
        if tab == "explore" and self.section.is_open:
            self._show(self.table.currentIndex().row())

    def _seen(self, seen: bool) -> None:
        """Show what was found while the section is open, else what the selected row says."""
        results, row = self._session.run.results, self._session.review.row
        self.hits.display(seen)
        if seen or self.model.finding is None:
            self._show(self.table.currentIndex().row())
        elif results is None or not 0 <= row < len(results):
            self._canvas.blank()
        else:
            outlined = self._session.run.outlined
            self._canvas.show(results.regions[row], outlined=outlined, move=False)


class MatchesModel(RowsModel):
    """Places that were found, best first."""

    titles = _COLUMNS
    finding: FoundPlaces | None = None
    count = 0

    def show(self, finding: FoundPlaces | None, count: int) -> None:
        """Show the best of a finding."""
        self.beginResetModel()
        self.finding, self.count = finding, count
        self.endResetModel()

    def data(self, index: Any, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Text or alignment of a cell."""
        if role == Qt.ItemDataRole.TextAlignmentRole:
            flags = Qt.AlignmentFlag
            side = (flags.AlignHCenter, flags.AlignLeft, flags.AlignRight, flags.AlignRight)
            return int((*side, flags.AlignLeft)[index.column()] | flags.AlignVCenter)
        roles = (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.ToolTipRole)
        if self.finding is None or role not in roles:
            return None
        match = self.finding.matches[index.row()]
        region = self.finding.region(index.row())
        plane = "".join(f", {axis} {place}" for axis, place in region.position)
        margin = "\N{EN DASH}" if match.margin != match.margin else f"{match.margin:.3f}"
        status = replace(region, ranking=None).status  # no word was judged
        if role == Qt.ItemDataRole.ToolTipRole:
            return status or _COLUMNS[index.column()][1]
        numbers = f"{match.similarity:.3f}", margin, status.partition(":")[0]
        return (str(index.row() + 1), f"{region.id}{plane}", *numbers)[index.column()]
