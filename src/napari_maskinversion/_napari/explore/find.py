"""Find by words: an expression, and the regions ranked by how well it fits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from qtpy.QtCore import QModelIndex, Qt
from qtpy.QtWidgets import QAbstractItemView, QHeaderView

from ...base import progress_words as words
from ...base.errors import InputError
from ...language.ranking.query import check_query
from ...language.ranking.ranking import EXPRESSION_ALPHA, RegionMatch, find
from ...results.export.bundle import Masks
from ...results.region_result import RegionResult
from ...results.results import Results
from ...results.settings import RunSettings, fields_of
from ...review.decisions import STATUSES
from ..layers.coordinates import ViewPoint
from ..layers.layers import count_regions
from ..layers.tasks import ImageFingerprint, PlaneFinder, identities
from ..run_requests.estimator import Estimator, Work
from ..run_requests.preparing import estimate_of, find_request
from ..run_requests.run_task import Request, RunTask
from ..session import ResultRecord
from ..widgets.form import SettingsForm
from ..widgets.sections import Note, button, check_box, combo_box, form, line, stack, text_field
from ..widgets.tables import RowsModel, table_view
from ..workers.driver import Update, check_stopped, show
from ..workers.model_store import ModelStore
from ..workers.notify import refusing
from .find_across import FarHits, Query, in_library, in_project
from .find_anywhere import Anywhere, Example, Proposed, find_anywhere, search_of
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
    work = "The search"
    doing, cancel_tip = "finding", "Stop; nothing is shown"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        # The last finding, its layers and planes; and those of the search that goes on.
        self._shown: tuple[Finding, Any, Any, PlaneFinder] | None = None
        self._next: tuple[Any, Any, PlaneFinder] | None = None
        self._proposed: Proposed | None = None  # Of the last search without regions
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
        self.estimate = Note(name="What finding would take")
        self.estimate.hide()
        self.about = Note(_ABOUT)
        self.model = MatchesModel(self)
        self.table = table_view(self.model, "Regions by how well the words fit them")
        self._build()
        self.estimator = Estimator(self)
        self.estimator.due.connect(lambda: self.estimator.estimate(self._estimation))
        self.estimator.ready.connect(self.estimate.say)
        self.form.changed.connect(self.estimator.later)
        self.whole.toggled.connect(self.estimator.later)
        self.anywhere.toggled.connect(self._show_rows)
        self.where.currentIndexChanged.connect(lambda _: self._turn_elsewhere())
        self.anywhere.toggled.connect(self.estimator.later)
        self.words.returnPressed.connect(self.run)
        self.hits.changed.connect(self._cut)
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
            self.estimate,
        ]
        self._rows = form(rows)
        stack(self, self._rows)

    def showEvent(self, event: Any) -> None:  # noqa: N802 - Qt's name
        """Ask for an estimate when the widget is shown."""
        super().showEvent(event)
        self.estimator.later()

    # -- for the panel ------------------------------------------------------------------------

    def bind(self) -> None:
        """Follow the session."""
        super().bind()
        self.after("layers settings scope live", self.estimator.later)
        self.after("layers", self._layers_changed)
        self.after("layers region_count", self._show_rows)
        self.after("edits", self._edited)
        self.after("tab", self._turned)
        self.after("row", self._row_changed)
        self.after("record row", self.refresh)
        self.after("vocabulary", self._offer)
        self._offer()
        self._show_rows()

    def stop(self) -> None:
        """Follow the session no more, and release image and results."""
        super().stop()
        self.estimator.stop()
        self._next = self._proposed = self._example = None
        self._forget()

    def refresh(self, _: object = None) -> None:
        """Show what can be done now."""
        self.find.setEnabled(not self.worker.busy)
        there = bool(self._selected) or self._example is not None
        self.like.setEnabled(not self.worker.busy and there)
        self.like.setToolTip(_LIKE if there else _LIKE_WHAT)

    def ended(self) -> None:
        """Estimate the next search."""
        super().ended()
        self.estimator.later()

    def _layers_changed(self, _: object = None) -> None:
        """Show nothing of an image that is no longer chosen."""
        if self._shown is not None and self._shown[1] is not self._session.image:
            self._forget()
            if self._canvas.foreign:  # not what the new image's selected row shows
                self._canvas.blank()
            self.about.setText(_ABOUT)

    def _forget(self) -> None:
        self._shown = None
        self.hits.clear()
        self.far.show_hits(())
        self._show_finding(None)

    def _show_rows(self, _: object = None) -> None:
        """Hide what says how drawn regions are embedded where these are not ranked."""
        ranked = self._ranks_drawn
        self._rows.layout().setRowVisible(self.alpha, ranked)
        self.whole.setVisible(ranked)
        self.anywhere.setVisible(self._is_here)
        self._rows.layout().setRowVisible(self.only, not self._is_here)
        if not ranked:
            self.estimate.say("")

    def _offer(self, _: object = None) -> None:
        """Offer decisions and the words as what to look for only."""
        words, text = self._session.vocabulary, self.only.currentText()
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
        there = session.regions is not None and session.region_count != 0
        return there and self._is_here and not self.anywhere.isChecked()

    @property
    def _is_here(self) -> bool:
        """Whether this image is searched, and no others."""
        return self.where.currentIndex() == 0

    def _turn_elsewhere(self) -> None:
        """Show nothing of a search in another place."""
        self._forget()
        self.about.setText(_ABOUT)
        self._show_rows()
        self.estimator.later()

    def _edited(self, _: int) -> None:
        if not self._session.live:  # each stroke is answered anyway
            self.estimator.later()

    def _estimation(self) -> Work | None:
        if not self.isVisible() or self.worker.busy or not self._ranks_drawn:
            return None
        return estimate_of(self._viewer, self._session, self._store, self._how)

    # -- the search ---------------------------------------------------------------------------

    @property
    def _how(self) -> tuple[float, bool]:
        """Alpha, and whether the whole image is seen with each region."""
        return self.alpha.value(), self.whole.isChecked()

    def run(self) -> None:
        """Find the typed words, or say why not."""
        if self.worker.busy:
            return
        expression = " ".join(self.words.text().split())
        with refusing():
            check_query(expression)
            if not self._is_here:
                settings = self._session.settings
                self._search_across(
                    Query(expression, None, self._only, settings.model, settings.device)
                )
                return
            if self.anywhere.isChecked() or not self._has_regions():
                self._search(expression)
                return
            run, image = find_request(self._viewer, self._session, *self._how)
            self._next = image, self._session.regions, run.input.finder
            known = [one for one in self._known(image) if fits(one.results, run.settings)]
            self.start(partial(find_regions, expression, run, known, self._store))

    def _example_now(self) -> Example | None:
        """Return the selected regions; without any those of the last search, on any image."""
        rows, results = self._selected, self._session.results
        return Example.of(results, rows) if rows and results is not None else self._example

    @property
    def _selected(self) -> tuple[int, ...]:
        row, rows = self._session.row, self._session.rows
        if not 0 <= row < len(self._session.results or ()):
            return ()
        return rows if row in rows else (row,)

    def _has_regions(self) -> bool:
        layer = self._session.regions
        return layer is not None and count_regions(layer, ViewPoint.of(self._viewer)) != 0

    def _run_like(self) -> None:
        """Find what is like the selected region, or say why not."""
        if not self.worker.busy and (example := self._example_now()) is not None:
            with refusing():
                if self._is_here:
                    self._search("", example)
                else:
                    self._search_across(Query(like=example, only=self._only))
                self._example = example

    def _search_across(self, query: Query) -> None:
        """Search the stored results of many images."""
        session, store = self._session, self._store
        if self.where.currentIndex() == 1:
            self.start(in_project(query, session, store))
        elif session.library is None:
            raise InputError("Choose a library first, above.")
        else:
            self.start(partial(in_library, query, session.library, store))

    def _search(self, expression: str, like: Example | None = None) -> None:
        search = search_of(self._viewer, self._session, expression, like, self._proposed)
        # The search stands for the layer of regions: no row of the results is of it.
        self._next = self._session.image, search, search.finder
        self.start(partial(find_anywhere, search, self._store))

    def _known(self, image: Any) -> list[ResultRecord]:
        """Return results of the same image layer; the worker compares the pixels."""
        known = [self._session.record, self._shown and self._shown[0].record]
        return [
            one
            for one in known
            if one and one.fingerprint is not None and one.snapshot.image is image
        ]

    def answered(self, answer: Finding | Anywhere | FarHits) -> None:
        """Show a ranking."""
        if isinstance(answer, FarHits):
            if not self._is_here:
                self.about.setText(answer.about)
                self.far.show_hits(answer.hits)
            return
        if self._next is None or not self._is_here:
            return
        image = self._next[0]
        if isinstance(answer, Anywhere):
            self._proposed = answer.proposed
        if image is not self._session.image:
            self._next = None
            return
        finding = answer if isinstance(answer, Finding) else _finding(answer)
        self._shown, self._next = (finding, *self._next), None
        if isinstance(answer, Finding):
            self.hits.clear()
            self._show_finding(answer)
        else:
            self.hits.show_hits(answer, image)

    def _cut(self, count: int) -> None:
        """Show the best hits of a search without regions."""
        if self._shown is not None:
            finding = self._shown[0]
            self._show_finding(replace(finding, matches=finding.matches[:count]))

    def _made(self, count: int, covered: int) -> None:
        """Show that hits have become regions."""
        self._forget()
        self._canvas.blank()
        others = f"; {covered:,} more lie on regions that are there" if covered else ""
        self.about.setText(f"Made {count:,} region{'s' * (count != 1)}{others}.")

    def _show_finding(self, finding: Finding | None) -> None:
        """Show a ranking and select its best; None clears it."""
        self.model.show(finding)
        count = self.model.rowCount()
        self.table.setVisible(count > 0)
        if finding is None:
            return
        if finding.how:
            total = len(finding.results)
            self.about.setText(f"{finding.expression}: {count:,} of {total:,} hits. {finding.how}")
        if not count:
            self._canvas.blank()
            return
        row = self.table.verticalHeader().defaultSectionSize()
        title = self.table.horizontalHeader().sizeHint().height() + 4
        self.table.setFixedHeight(title + min(count, _ROWS_SHOWN) * row)
        if not finding.how:
            made = "existing embeddings" if finding.reused else "a new run"
            summary = f"{count:,} region{'s' * (count != 1)} ranked, from {made}."
            self.about.setText(f"'{finding.expression}': {summary}")
        self.table.selectRow(0)
        self.table.scrollToTop()

    def _show(self, place: int) -> None:
        """Show the region at one rank in the table and on the canvas."""
        if self._shown is None or place < 0:
            return
        finding, image, _, finder = self._shown
        region, row = finding.region(place), self._row_of(place)
        if row >= 0:
            self._session.select(row)
        if finding.results is not self._session.results:
            # The table has another embedding of this region; show the one that was ranked.
            mask = finding.masks.get((region.position, region.id))
            self._canvas.show(region, outlined=self._session.outlined, of=(image, finder, mask))

    def _row_of(self, place: int) -> int:
        """Return the row of the results that has the region at one rank; -1 for none."""
        record = self._session.record
        if self._shown is None or place < 0 or record is None:
            return -1
        finding, image, regions, _ = self._shown
        if record.snapshot.image is not image or record.snapshot.regions is not regions:
            return -1  # a region of the same number is another one
        one = finding.region(place)
        key = one.id, one.position
        keys = [(other.id, other.position) for other in record.results.regions]
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
        results, row = self._session.results, self._session.row
        self.hits.display(seen)
        if seen or self._shown is None:
            self._show(self.table.currentIndex().row())
        elif results is None or not 0 <= row < len(results):
            self._canvas.blank()
        else:
            outlined = self._session.outlined
            self._canvas.show(results.regions[row], outlined=outlined, move=False)


class MatchesModel(RowsModel):
    """Regions, best first."""

    titles = _COLUMNS
    finding: Finding | None = None

    def show(self, finding: Finding | None) -> None:
        """Show another finding."""
        self.beginResetModel()
        self.finding = finding
        self.endResetModel()

    @property
    def count(self) -> int:
        """Number of regions."""
        return 0 if self.finding is None else len(self.finding.matches)

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


# -- in a worker -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Finding:
    """Regions ranked by how well words fit them."""

    expression: str
    results: Results
    masks: Masks  # By plane and id; empty where they are not known
    matches: tuple[RegionMatch, ...]  # Best first
    record: ResultRecord | None = None  # Of drawn regions
    reused: bool = False  # Whether existing embeddings were used
    how: str = ""  # What proposed the regions, where nobody drew them

    def region(self, place: int) -> RegionResult:
        """Return the region at one rank."""
        return self.results.regions[self.matches[place].row]


def _finding(answer: Anywhere) -> Finding:
    """Return all hits as a ranking."""
    hits, values = answer.hits, [*answer.hits.similarities.tolist(), math.nan]
    matches = (RegionMatch(row, one, one - values[row + 1]) for row, one in enumerate(values[:-1]))
    what = f"'{answer.search.words}'" if answer.search.words else "All like this one"
    return Finding(what, hits.results, answer.masks, tuple(matches), how=hits.how)


def find_regions(
    expression: str, run: Request, candidates: Sequence[ResultRecord], store: ModelStore
) -> Finding:
    """Rank regions by how well words fit them; a run is done only if no candidate is of them."""
    name = run.settings.model
    known = None
    if candidates:
        show(words.COMPARING_INPUTS)
        now = identities(run.input.tasks(check_stopped))
        same = [one for one in candidates if one.identities == now]
        # A run that was cancelled has results of its first regions only.
        same = [one for one in same if len(one.results) == len(now)]
        pixels = ImageFingerprint.of(run.input) if same else None
        known = next((one for one in same if one.fingerprint == pixels), None)
    record = known or RunTask(run, store).run()
    results, masks = record.results, record.masks
    show(Update(text=words.COMPARING_WORDS, fraction=1.0))
    model = store.load(name, run.settings.device)
    if model.fingerprint != results.info.fingerprint:
        raise InputError(
            f"The weights of {name} have changed since these results were made; run again."
        )
    matches = tuple(find(model, results.embeddings, expression))
    known_masks = masks if isinstance(masks, dict) else {}
    return Finding(expression, results, known_masks, matches, record, known is not None)


def fits(results: Results, wanted: RunSettings) -> bool:
    """Return whether results are what a run with other settings would embed, if of its regions."""
    was = results.info.settings
    names = ("model", "method", "inversion", "resolution", "keep_aspect")
    if not len(results) or any(was.get(name) != wanted.get(name) for name in names):
        return False
    if wanted.window.mode == "whole":
        return all(region.window.whole for region in results.regions)
    return was.window == wanted.window
