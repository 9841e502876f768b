"""Find by words: an expression, and the regions ranked by how well it fits."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from qtpy.QtCore import QModelIndex, Qt
from qtpy.QtWidgets import QAbstractItemView, QHeaderView

from ...app.explore.region_sources import library_source, project_source
from ...app.explore.searches import (
    Example,
    FarHits,
    Finding,
    Query,
    find_anywhere,
    find_regions,
    reusable,
    search_of,
    search_regions,
)
from ...app.requests.preparing import find_request
from ...app.session import job_kinds
from ...app.session.subjects import image_chosen
from ...app.work.model_store import Kept
from ...base.errors import InputError
from ...base.wording import counted
from ...language.ranking.query import check_query
from ...language.ranking.ranking import EXPRESSION_ALPHA
from ...results.settings import fields_of
from ...review.decisions import STATUSES
from ..widgets.form import SettingsForm
from ..widgets.sections import Note, button, check_box, combo_box, form, line, stack, text_field
from ..widgets.table_views import RowsModel, table_view
from ..workers.notify import refusing
from .hits import FarHitsList, HitsRow
from .work_section import ProgressSection, Shared

_ROWS_SHOWN: Final = 6
_WHY: Final = (
    "How much of its surroundings a region's embedding keeps: alpha. For words about places, "
    "about 5 works best in the paper: 42 % of RefCOCO's expressions find their region at 0, "
    "56 % at 5, 21 % at 20."
)
_WHERE: Final = ("In this image", "In the project", "In the library")
_WHOLE: Final = (
    "For words about places, such as 'on the left'. Off: windows as in a run; small regions of "
    "large images are found in windows only."
)
_ALL: Final = "all"
_ABOUT: Final = "Describe one region and what is around it."
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
    """The words, the settings and the ranked regions."""

    title, tip = "Find by words", "Show where typed words are"
    kind = job_kinds.FIND
    doing, cancel_tip = "finding", "Stop; nothing is shown"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._sam: Kept[Any] = Kept()  # That proposes regions; used in the worker
        self._proposed: Kept[Any] = Kept()  # Regions of the last search without any
        self._example: Example | None = None  # Of the last search by one
        tip = "Say which region you mean, and press Enter: red cell, not debris"
        name = "Words that describe a region"
        self.words = text_field("the dog on the left", tip, name=name)
        self.words.setClearButtonEnabled(True)
        tip = "Rank the regions by how well these words fit them (Enter)"
        self.find = button("Find", tip, self.run)
        (alpha,) = (field for field in fields_of("inversion") if field.name == "alpha")
        self.form = SettingsForm(
            [replace(alpha, default=EXPRESSION_ALPHA, help=_WHY)],
            options={alpha.key: {"step": 0.5}},
            parent=self,
        )
        self.alpha = self.form[alpha.key]
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
        self.far = FarHitsList(shared.session)
        self.hits = HitsRow(shared)
        self.about = Note(_ABOUT)
        self.model = MatchesModel(self)
        self.table = table_view(self.model, "Regions by how well the words fit them")
        self._build()
        self.anywhere.toggled.connect(self._show_rows)
        self.where.currentIndexChanged.connect(lambda _: self._turn_elsewhere())
        self.words.returnPressed.connect(self.run)
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
            self.progress,
            self.about,
            self.hits,
            self.far,
            table,
            ("Surroundings", self.alpha),
            self.whole,
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
        self.after(self._layers_changed, run.layers)
        self.after(self._show_rows, run.layers, run.region_count)
        self.after(self._turned, status.tab)
        self.after(self._row_changed, review.row)
        self.after(self.refresh, run.record, review.row)
        self.after(self._offer, run.vocabulary)
        self._offer()
        self._show_rows()

    def stop(self) -> None:
        """Follow the session no more, and release image and results."""
        super().stop()
        self._sam.clear()
        self._proposed.clear()
        self._example = None
        self._forget()

    def refresh(self, _: object = None) -> None:
        """Show what can be done now."""
        self.find.setEnabled(not self.job.busy)
        there = bool(self._selected) or self._example is not None
        self.like.setEnabled(not self.job.busy and there)
        self.like.setToolTip(_LIKE if there else _LIKE_WHAT)

    def _layers_changed(self, _: object = None) -> None:
        """Show nothing of an image that is no longer chosen."""
        finding = self.model.finding
        if finding is not None and finding.snapshot.image is not self._session.run.image:
            self._forget()
            if self._canvas.foreign:  # not what the new image's selected row shows
                self._canvas.blank()

    def _forget(self) -> None:
        self.hits.clear()
        self.far.show_hits(())
        self._show_finding(None)
        self.about.setText(_ABOUT)

    def _show_rows(self, _: object = None) -> None:
        """Hide what says how drawn regions are embedded where these are not ranked."""
        self._rows.layout().setRowVisible(self.alpha, self._ranks_drawn)
        self.whole.setVisible(self._ranks_drawn)
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

    def _place(self, _: object) -> bool:
        """Return what the answer is about: this image, or others."""
        return self._is_here

    def _turn_elsewhere(self) -> None:
        """Show nothing of a search in another place."""
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
            if not self._ranks_drawn:
                self._search(expression)
                return
            run, image = find_request(
                self._viewer, self._session, self.alpha.value(), self.whole.isChecked()
            )
            records = [self._session.run.record]
            if self.model.finding is not None:
                records.append(self.model.finding.record)
            alike = reusable(records, image, run.settings)
            work = partial(find_regions, expression, run, alike, self._store)
            self.start(work, image_chosen, self._place)

    def _run_like(self) -> None:
        """Find what is like the selected region, or say why not."""
        if not self.job.busy and (example := self._example_now()) is not None:
            with refusing():
                self._search("", example)
                self._example = example

    def _search(self, expression: str, like: Example | None = None) -> None:
        """Search where nobody drew regions, or in the stored results of many images."""
        session, store = self._session, self._store
        settings, project, library = (
            session.run.settings,
            session.project.state,
            session.explore.library,
        )
        query = Query(
            words=expression,
            like=like,
            only=self._only,
            model=settings.model,
            device=settings.device,
        )
        if self._is_here:
            search = search_of(self._viewer, session, expression, like)
            work = partial(find_anywhere, search, store, self._sam, self._proposed)
            self.start(work, image_chosen, self._place)
        elif self.where.currentIndex() == 1:
            if project is None or not project.file:
                raise InputError("No project is open; open one on the tab Images.")
            source = partial(project_source, Path(project.file))
            self.start(partial(search_regions, query, source, store), self._place)
        elif library is None:
            raise InputError("Choose a library first, above.")
        else:
            source = partial(library_source, library)
            self.start(partial(search_regions, query, source, store), self._place)

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

    def answered(self, answer: Finding | FarHits) -> None:
        """Show a ranking."""
        if isinstance(answer, FarHits):
            self.about.setText(answer.about)
            self.far.show_hits(answer.hits)
            return
        self.hits.clear()
        if answer.how:
            self.model.show(answer, 0)
            self.hits.show_hits(answer)  # which tells how many are to be shown
        else:
            self._show_finding(answer)

    def _made(self, count: int, covered: int) -> None:
        """Show that hits have become regions."""
        self._forget()
        self._canvas.blank()
        others = f"; {covered:,} more lie on regions that are there" if covered else ""
        self.about.setText(f"Made {counted(count, 'region')}{others}.")

    def _show_finding(self, finding: Finding | None) -> None:
        """Show a ranking and select its best; None clears it."""
        self.model.show(finding)
        if finding is not None:
            made = "existing embeddings" if finding.reused else "a new run"
            ranked = counted(len(finding.matches), "region")
            self.about.setText(f"'{finding.words}': {ranked} ranked, from {made}.")
        self._show_best()

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
        """Show the region at one rank in the table and on the canvas."""
        finding = self.model.finding
        if finding is None or place < 0:
            return
        region, row = finding.region(place), self._row_of(place)
        if row >= 0:
            self._session.select(row)
        if finding.results is not self._session.run.results:
            # The table has another embedding of this region; show the one that was ranked.
            mask = finding.masks.get((region.position, region.id))
            of = finding.snapshot.image, finding.finder, mask
            self._canvas.show(region, outlined=self._session.run.outlined, of=of)

    def _row_of(self, place: int) -> int:
        """Return the row of the results that has the region at one rank; -1 for none."""
        record, finding = self._session.run.record, self.model.finding
        if finding is None or place < 0 or record is None or finding.how:
            return -1
        then, now = finding.snapshot, record.snapshot
        if now.image is not then.image or now.regions is not then.regions:
            return -1  # a region of the same number is another one
        keys = [one.key for one in record.results.regions]
        key = finding.region(place).key
        return keys.index(key) if key in keys else -1

    def _row_changed(self, row: int) -> None:
        """Select nothing when another row was selected elsewhere: the canvas shows that."""
        if row not in (-1, self._row_of(self.table.currentIndex().row())):
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
    """Regions, best first."""

    titles = _COLUMNS
    finding: Finding | None = None
    count = 0

    def show(self, finding: Finding | None, count: int | None = None) -> None:
        """Show the best of a finding."""
        self.beginResetModel()
        self.finding = finding
        self.count = len(finding.matches) if finding and count is None else count or 0
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
