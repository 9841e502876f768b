"""What the user sees and has chosen: one object for each viewer.

Workers take `RunModel.snapshot` and hand results back with it; `RunModel.matches` says whether they
still count. Touch a session on the GUI thread only.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ...base.identity import Position
from ...language.labels.vocabulary import Vocabulary
from ..layer_input.viewer_protocols import ImageLayer, Layer, RegionsLayer
from ..review.decision_book import DecisionBook
from ..review.region_place import RegionPlace
from ..review.review_state import ReviewState
from .actions import Action
from .choice import Choice, among
from .jobs import Jobs
from .records import ResultRecord, Snapshot, reference, same_run
from .session_models import ExploreModel, ProjectModel, ReviewModel, RunModel, StatusModel
from .state import Notice, RunState, Severity

# What changes after the results were made, as they are when nothing has.
_UNCHANGED: Final[Mapping[str, Any]] = {
    "changed_regions": frozenset(),
    "image_changed": False,
    "pixels_changed": False,
    "others_picked": False,
}
# The events of fields that others depend on.
_TOLD_BY: Final[Mapping[str, tuple[str, ...]]] = {
    "layers": ("image_ref", "regions_ref", "image", "regions", "layers"),
}
# Events that come after those of all other fields, in this order.
_TOLD_LAST: Final[Mapping[str, int]] = {"row": 1, **dict.fromkeys(_TOLD_BY["layers"], 2)}
_SESSIONS: dict[int, Session] = {}


@dataclass(slots=True)
class _Fields:
    """Values of fields by name, in the order in which they are set."""

    run: dict[str, Any] = field(default_factory=dict)
    review: dict[str, Any] = field(default_factory=dict)


def _latest(_: tuple[Any, ...], latest: tuple[Any, ...]) -> tuple[Any, ...]:
    return latest


def session_of(viewer: object) -> Session:
    """Return the session of a viewer, which lives as long as the viewer."""
    viewer = getattr(viewer, "__wrapped__", viewer)
    session = _SESSIONS.get(id(viewer))
    if session is None:
        session = _SESSIONS[id(viewer)] = Session()
        # Not a WeakKeyDictionary: it would compare viewers field by field.
        weakref.finalize(viewer, _SESSIONS.pop, id(viewer), None).atexit = False
    return session


class Session:
    """What the user sees and has chosen: four models, a status line, jobs, a book of decisions.

    What concerns several models is a method here.
    """

    __slots__ = (
        *("run", "review", "project", "explore", "status", "jobs", "decisions"),
        *("_choice", "_changes", "__weakref__"),
    )

    def __init__(self) -> None:
        self.run, self.review = RunModel(), ReviewModel()
        self.project, self.explore = ProjectModel(), ExploreModel()
        self.status = StatusModel()
        self.jobs = Jobs(self)
        run, review = self.run.events, self.review.events
        for changed in (  # what `subjects` read
            *(run.image_ref, run.regions_ref, run.plane, run.settings, run.scope),
            *(run.record, run.progress, run.live, self.project.events.state),
            *(review.row, review.target, review.state, self.explore.events.library),
        ):
            changed.connect(self.jobs.drop_outdated)
        self.decisions = DecisionBook()
        self._choice = Choice()
        # By the run's snapshot: what had changed since its results were made, and the selected
        # row, when other results took their place.
        self._changes: weakref.WeakKeyDictionary[Snapshot, _Fields] = weakref.WeakKeyDictionary()

    def _set(self, fields: _Fields) -> None:
        """Set several fields in order; their events come after the last one.

        A row is one of the record, so its event comes after that of the record, and those of the
        layers come last.
        """
        signals = []
        for events, values in (
            (self.run.events, fields.run),
            (self.review.events, fields.review),
        ):
            for changed in values:
                for name in _TOLD_BY.get(changed, (changed,)):
                    signals.append((events, name))
        signals.sort(key=lambda signal: _TOLD_LAST.get(signal[1], 0))
        with ExitStack() as paused:
            for events, name in reversed(signals):  # what is paused first is told last
                paused.enter_context(events[name].paused(_latest))
            for name, value in fields.run.items():
                setattr(self.run, name, value)
            for name, value in fields.review.items():
                setattr(self.review, name, value)

    # -- layers -------------------------------------------------------------------------------

    @property
    def choice(self) -> Choice:
        """The layers of the viewer, and whose they are."""
        return self._choice

    def choose(
        self, *, image: ImageLayer | None = None, regions: RegionsLayer | None = None
    ) -> None:
        """Choose layers for the user: they stay when other layers are added.

        An image brings back its regions: those with results, else those made for it, else those
        that belong to no other image.
        """
        self._take(*self._choice.choose(self.run.layers, image, regions))
        if self._asked_about_added:
            self.status.notice = None

    def choose_added(self) -> None:
        """Choose what was added last while another one stayed chosen."""
        self.choose(image=self._choice.added_image, regions=self._choice.added_regions)

    def choose_for(self, image: ImageLayer, regions: RegionsLayer) -> bool:
        """Choose regions that were made for an image, unless another one is chosen now."""
        if image is self.run.image:
            self.choose(regions=regions)
        return image is self.run.image

    def offer(
        self,
        images: Sequence[ImageLayer],
        regions: Sequence[RegionsLayer],
        added: Layer | None = None,
    ) -> None:
        """Follow the viewer's layers, of which one may have been ``added``."""
        choice = self._choice
        image, layer = choice.offer(
            self.run.layers, images, regions, added, asked=self._asked_about_added
        )
        self._take(image, layer)
        if choice.is_kept or added is None:
            return
        if image is not None and among(added, images) and added is not image:
            self._say_added("Image", added, image)
        # While the user is asked about an image, regions may be those of it.
        elif (
            layer is not None
            and among(added, regions)
            and added is not layer
            and not (self._asked_about_added and choice.added_image is not None)
        ):
            self._say_added("Layer", added, layer)

    def _say_added(self, what: str, added: Layer, chosen: Layer) -> None:
        self._choice.added = reference(added)
        self.say(
            f"{what} '{added.name}' was added; '{chosen.name}' stays chosen.",
            action=Action.SWITCH_LAYER,
        )

    @property
    def _asked_about_added(self) -> bool:
        """Whether the notice is about an image, or regions, added while others stay chosen."""
        notice = self.status.notice
        return notice is not None and notice.action is Action.SWITCH_LAYER

    def _take(self, image: ImageLayer | None, regions: RegionsLayer | None) -> None:
        self._choice.own(image, regions)
        if image is self.run.image and regions is self.run.regions:
            return
        record = self._choice.records.of(image, regions)
        fields = _Fields(run={"layers": (image, regions)})
        if record is not None:
            fields.run["scope"] = record.snapshot.scope
        elif self.run.regions is not None and regions is not self.run.regions:
            # Numbers and selection are of the other layer.
            fields.run["scope"] = replace(self.run.scope, limited=False, ids="", merge=False)
        # Results stay until others take their place.
        stay = image is None or (regions is None and image is self.run.image)
        if record is not None or not stay:
            shown = self._showing(record)
            fields.run.update(shown.run)
            fields.review.update(shown.review)
        self._set(fields)

    def change_words(self, vocabulary: Vocabulary | None, problem: str = "") -> None:
        """Set the words, or why what was typed cannot be used."""
        self._set(_Fields(run={"words_problem": problem, "vocabulary": vocabulary}))

    # -- results ------------------------------------------------------------------------------

    def begin_run(self, snapshot: Snapshot) -> None:
        """Begin a run: from now on its layers are the user's choice."""
        self._choice.by_user |= {"image", "regions"}
        self.status.notice = None
        self.run.progress = RunState("running", snapshot=snapshot)

    def show(self, record: ResultRecord) -> bool:
        """Show results and keep them for their layers.

        Results of layers that are not chosen any more are kept without being shown. Those whose
        layers were removed meanwhile are shown until others are chosen. Layers with results stay
        chosen when others are added.
        """
        image, regions = record.snapshot.image, record.snapshot.regions
        self._choice.records.keep(record)
        if self.run.image is not None:
            both_have_regions = record.snapshot.has_regions and self.run.regions is not None
            if both_have_regions and regions is not self.run.regions:
                return False
            if image is not self.run.image:
                return False
        if image is not None and image is self.run.image:
            self._choice.by_user.add("image")
            # In live mode a layer is added to draw in it.
            if regions is not None and regions is self.run.regions and not record.live:
                self._choice.by_user.add("regions")
        self._set(self._showing(record))
        return True

    def select(self, row: int, *, picked: bool = True) -> None:
        """Select a region by its row; who picks one, marks no others."""
        fields = _Fields(review={"picked": picked, "row": row})
        if picked:
            fields.review["marked"] = ()
        self._set(fields)

    def mark(self, rows: Iterable[int], marked: Iterable[RegionPlace]) -> None:
        """Select several regions, of this image and of others; see `rows`."""
        self.review.rows = tuple(rows)
        self.review.picked = self.review.picked or bool(self.review.rows)
        self.review.marked = tuple(marked)  # last: the table picks one of the rows

    def select_place(self, place: RegionPlace) -> bool:
        """Select a region of the results shown, and look at it; return whether it is there."""
        for row, region in enumerate(self.run.regions_with_results):
            if region.key == place.key and place.box in (None, region.bbox):
                self.select(row)
                return True
        return False

    def turn_to(self, plane: Position | None) -> None:
        """Take another plane of the image into view; results that it has come back."""
        self.run.plane = plane
        if self.run.elsewhere and plane is not None and not self.run.running:
            record = self._choice.records.at(self.run.image, self.run.regions, plane)
            if record is not None:
                self.show(record)

    def forget_results(self) -> None:
        """Drop the results shown."""
        if self.run.record is not None:
            self._choice.records.forget(self.run.record)
            self._set(self._showing(None))

    def _showing(self, record: ResultRecord | None) -> _Fields:
        """Return the fields that show a record: those kept with it, else as after a run."""
        before = self.run.record
        if same_run(before, record):
            return _Fields(run={"record": record})
        if before is not None:
            changed = {name: getattr(self.run, name) for name in _UNCHANGED}
            self._changes[before.snapshot] = _Fields(changed, {"row": self.review.row})
        fields = _Fields(dict(_UNCHANGED), {"row": -1, "picked": False, "decided_count": 0})
        kept = None if record is None else self._changes.get(record.snapshot)
        if kept is not None:
            fields.run.update(kept.run)
            fields.review.update(kept.review)
        # The record comes last: its followers select a row, and read all the others.
        fields.run["record"] = record
        return fields

    @property
    def reviewed(self) -> ReviewState | None:
        """The review of the results shown; None if there is none, or it is of others."""
        review = self.review.state
        return review if review is not None and review.results is self.run.results else None

    @property
    def undecided(self) -> int:
        """Regions of the results that have no decision."""
        return max(len(self.run.results or ()) - self.review.decided_count, 0)

    def say(self, text: str, severity: Severity = "info", action: Action | None = None) -> None:
        """Show a message in the status line; "" clears it."""
        self.status.notice = Notice(text, severity, action) if text else None

    def refuse(self, source: str, text: str) -> None:
        """Show why a part of the panel cannot do something, until it settles that."""
        self.status.notice = Notice(text, "error", source=source)

    def settle(self, source: str) -> None:
        """Take back what a part of the panel refused, unless something else is shown by now."""
        if self.status.notice is not None and self.status.notice.source == source:
            self.status.notice = None
