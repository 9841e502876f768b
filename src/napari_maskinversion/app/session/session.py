"""What the user sees and has chosen: one object for each viewer; and what follows it.

Widgets bind to its fields: they set them when the user does something, and follow ``events`` to
show them. Workers take `Session.snapshot` and hand results back with it; `Session.matches` says
whether they still count. Touch a session on the GUI thread only.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Final

from pydantic import ConfigDict, PrivateAttr, computed_field

from ...base.errors import ConfigError
from ...base.identity import Position, place_text
from ...language.labels.vocabulary import Vocabulary
from ...results.results import Results
from .choice import Choice, among
from .records import ResultRecord, Snapshot, indices, reference, same_run
from .state import Ask, Asked, Notice, RegionPlace, RunState, Severity, State

SWITCH: Final = "switch"
"""Action of the notice about an image, or regions, that were added while others stay chosen."""
# What changes after the results were made, as they are when nothing has.
_UNCHANGED: Final[Mapping[str, Any]] = {
    "changed_regions": frozenset(),
    "image_changed": False,
    "pixels_changed": False,
    "others_picked": False,
}
_BY_VALUE: Final = ("settings", "scope", "vocabulary")
_SESSIONS: dict[int, Session] = {}


def session_of(viewer: Any) -> Session:
    """Return the session of a viewer, which lives as long as the viewer."""
    viewer = getattr(viewer, "__wrapped__", viewer)
    session = _SESSIONS.get(id(viewer))
    if session is None:
        session = _SESSIONS[id(viewer)] = Session()
        # Not a WeakKeyDictionary: it would compare viewers field by field.
        weakref.finalize(viewer, _SESSIONS.pop, id(viewer), None).atexit = False
    return session


class Session(State):
    """What the user sees and has chosen. One for each viewer; see `session_of`."""

    model_config = ConfigDict(  # type: ignore[typeddict-unknown-key]  # psygnal has more keys
        allow_property_setters=True,
        field_dependencies={
            "image": ["image_ref"],
            "regions": ["regions_ref"],
            "layers": ["image_ref", "regions_ref"],
            "running": ["run"],
        },
    )

    _choice: Choice = PrivateAttr(default_factory=Choice)
    # What had changed since then when other results took their place, by the run's snapshot; and
    # the row that was selected.
    _changes: weakref.WeakKeyDictionary[Snapshot, dict[str, Any]] = PrivateAttr(
        default_factory=weakref.WeakKeyDictionary
    )

    # -- layers -------------------------------------------------------------------------------

    @property
    def image(self) -> Any:
        """The chosen image layer, or None."""
        return self.image_ref()

    @image.setter
    def image(self, layer: Any) -> None:
        self.image_ref = reference(layer)

    @property
    def regions(self) -> Any:
        """The chosen regions layer, or None."""
        return self.regions_ref()

    @regions.setter
    def regions(self, layer: Any) -> None:
        self.regions_ref = reference(layer)

    @property
    def layers(self) -> tuple[Any, Any]:
        """The chosen image and regions layers."""
        return self.image, self.regions

    @layers.setter
    def layers(self, layers: tuple[Any, Any]) -> None:
        self.image, self.regions = layers

    @computed_field  # type: ignore[prop-decorator]  # so that it has an event
    @property
    def running(self) -> bool:
        """Whether a run is at work, also one that is being stopped."""
        return self.run.running

    @property
    def _together(self) -> Mapping[str, Any]:
        return {}

    @_together.setter
    def _together(self, values: Mapping[str, Any]) -> None:
        """Set several fields in order; the events of row and layers come after the last one."""
        with self.events.row.paused(lambda _, now: now):  # a row is one of the record
            for name, value in values.items():
                setattr(self, name, value)

    @property
    def choice(self) -> Choice:
        """The layers of the viewer, and whose they are."""
        return self._choice

    def choose(self, *, image: Any = None, regions: Any = None) -> None:
        """Choose layers for the user: they stay when other layers are added.

        An image brings back its regions: those with results, else those made for it, else those
        that belong to no other image.
        """
        self._take(*self._choice.choose(self.layers, image, regions))
        if self._asked_about_added:
            self.notice = None

    def choose_added(self) -> None:
        """Choose what was added last while another one stayed chosen."""
        is_image = self._choice.has_added_image
        self.choose(**{"image" if is_image else "regions": self._choice.added()})

    def choose_for(self, image: Any, regions: Any) -> bool:
        """Choose regions that were made for an image, unless another one is chosen now."""
        if image is self.image:
            self.choose(regions=regions)
        return image is self.image

    def offer(self, images: Sequence[Any], regions: Sequence[Any], added: Any = None) -> None:
        """Follow the viewer's layers, of which one may have been ``added``."""
        choice, asked = self._choice, self._asked_about_added
        image, layer = choice.offer(self.layers, images, regions, added, asked=asked)
        self._take(image, layer)
        if choice.is_kept or added is None:
            return
        if among(added, images) and added is not image:
            self._say_added("Image", added, image)
        # While the user is asked about an image, regions may be those of it.
        elif (
            among(added, regions)
            and added is not layer
            and not (self._asked_about_added and choice.has_added_image)
        ):
            self._say_added("Layer", added, layer)

    def _say_added(self, what: str, added: Any, chosen: Any) -> None:
        self._choice.added = reference(added)
        self.say(f"{what} '{added.name}' was added; '{chosen.name}' stays chosen.", action=SWITCH)

    @property
    def _asked_about_added(self) -> bool:
        return self.notice is not None and self.notice.action == SWITCH

    def _take(self, image: Any, regions: Any) -> None:
        self._choice.own(image, regions)
        if image is self.image and regions is self.regions:
            return
        record = self._choice.records.of(image, regions)
        changes: dict[str, Any] = {"layers": (image, regions)}
        if record is not None:
            changes["scope"] = record.snapshot.scope
        elif self.regions is not None and regions is not self.regions:
            # Numbers and selection are of the other layer.
            changes["scope"] = replace(self.scope, limited=False, ids="", merge=False)
        # Results stay until others take their place.
        stay = image is None or (regions is None and image is self.image)
        if record is not None or not stay:
            changes |= self._showing(record)
        self._together = changes

    @property
    def image_unknown(self) -> bool:
        """Whether the image is of a kind that the model was not trained on."""
        doubt = self.doubt
        return (
            doubt is not None
            and self.image is not None
            and doubt.image is self.image
            and doubt.settings.model == self.settings.model
        )

    @property
    def image_note(self) -> str:
        """What the model sees of the image, where that is next to nothing; else empty."""
        snapshot, note = self.looked_at or (None, "")
        return str(note) if snapshot is not None and snapshot.image is self.image else ""

    def change_settings(self, values: Mapping[str, Any]) -> None:
        """Change settings by key; where they cannot work, `settings_problem` says why."""
        try:
            self.settings = self.settings.changed(values)
        except ConfigError as error:
            self.settings_problem = str(error)
        else:
            self.settings_problem = ""

    def change_words(self, vocabulary: Vocabulary | None, problem: str = "") -> None:
        """Set the words, or why what was typed cannot be used."""
        self._together = {"words_problem": problem, "vocabulary": vocabulary}

    # -- results ------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """Return what a worker may work on."""
        return Snapshot(
            image_ref=self.image_ref,
            regions_ref=self.regions_ref,
            settings=self.settings,
            scope=self.scope,
            vocabulary=self.vocabulary,
        )

    def matches(self, snapshot: Snapshot, *names: str) -> bool:
        """Return whether fields are as they were in a snapshot.

        Settings, scope and vocabulary are compared by value, all else by identity.
        """
        for name in names or ("image", "regions"):
            now, then = getattr(self, name), getattr(snapshot, name)
            if now is not then and (name not in _BY_VALUE or now != then):
                return False
        return True

    def begin_run(self, snapshot: Snapshot) -> None:
        """Begin a run: from now on its layers are the user's choice."""
        self._choice.by_user |= {"image", "regions"}
        self.notice = None
        self.run = RunState("running", snapshot=snapshot)

    def show(self, record: ResultRecord) -> bool:
        """Show results and keep them for their layers.

        Results of layers that are not chosen any more are kept without being shown. Those whose
        layers were removed meanwhile are shown until others are chosen. Layers with results stay
        chosen when others are added.
        """
        image, regions = record.snapshot.image, record.snapshot.regions
        self._choice.records.keep(record)
        others = record.snapshot.has_regions and self.regions is not None
        if self.image is not None and (
            image is not self.image or (others and regions is not self.regions)
        ):
            return False
        if image is not None and image is self.image:
            self._choice.by_user.add("image")
            # In live mode a layer is added to draw in it.
            if regions is not None and regions is self.regions and not record.live:
                self._choice.by_user.add("regions")
        self._together = self._showing(record)
        return True

    def select(self, row: int, *, picked: bool = True) -> None:
        """Select a region by its row; who picks one, marks no others."""
        self._together = {"picked": picked, "row": row, **({"marked": ()} if picked else {})}

    @property
    def chosen_rows(self) -> tuple[int, ...]:
        """The selected rows, unless it is the first one because nobody has chosen any."""
        if len(self.rows) > 1 or (self.rows and self.picked):
            return self.rows
        return (self.row,) if self.picked and self.row >= 0 and not self.marked else ()

    def mark(self, rows: Iterable[int], marked: Iterable[RegionPlace]) -> None:
        """Select several regions, of this image and of others; see `rows`."""
        self.rows = tuple(rows)
        self.picked = self.picked or bool(self.rows)
        self.marked = tuple(marked)  # last: the table picks one of the rows

    def select_place(self, place: RegionPlace) -> bool:
        """Select a region of the results shown, and look at it; return whether it is there."""
        regions = () if self.results is None else self.results.regions
        for row, region in enumerate(regions):
            same = (region.id, region.position) == (place.region, place.position)
            if same and place.box in (None, region.bbox):
                self.select(row)
                return True
        return False

    def turn_to(self, plane: Position | None) -> None:
        """Take another plane of the image into view; results that it has come back."""
        self.plane = plane
        if self.elsewhere and plane is not None and not self.running:
            record = self._choice.records.at(self.image, self.regions, plane)
            if record is not None:
                self.show(record)

    @property
    def elsewhere(self) -> str:
        """The plane of the results shown, if it is not the one in view; else ""."""
        record: ResultRecord | None = self.record
        there = None if record is None or self.live else record.plane
        if there is None or self.plane is None or indices(there) == indices(self.plane):
            return ""
        return place_text(there)

    def forget_results(self) -> None:
        """Drop the results shown."""
        if self.record is not None:
            self._choice.records.forget(self.record)
            self._together = self._showing(None)

    def _showing(self, record: ResultRecord | None) -> dict[str, Any]:
        before = self.record
        if same_run(before, record):
            return {"record": record}
        if before is not None:
            names = (*_UNCHANGED, "row")
            self._changes[before.snapshot] = {name: getattr(self, name) for name in names}
        changes = {} if record is None else self._changes.get(record.snapshot, {})
        # The record comes last: its followers select a row, and read all the others.
        return {"row": -1, "picked": False, "decided": 0, **_UNCHANGED, **changes, "record": record}

    @property
    def results(self) -> Results | None:
        """The results shown."""
        record: ResultRecord | None = self.record
        return None if record is None else record.results

    @property
    def reviewed(self) -> Any:
        """The review of the results shown; None if there is none, or it is of others."""
        review = self.review
        return review if review is not None and review.results is self.results else None

    @property
    def undecided(self) -> int:
        """Regions of the results that have no decision."""
        return max(len(self.results or ()) - self.decided, 0)

    @property
    def total(self) -> int:
        """Regions of the run shown; those that it has results of while they are not counted."""
        record: ResultRecord | None = self.record
        return 0 if record is None else max(record.total, len(record.results))

    @property
    def missing(self) -> int:
        """Regions of the run shown that have no results: it was cancelled, or broke off."""
        return self.total - len(self.results or ())

    def say(self, text: str, severity: Severity = "info", action: str = "") -> None:
        """Show a message in the status line; "" clears it."""
        self.notice = Notice(text, severity, action) if text else None

    def ask(self, what: Ask, value: Any = None) -> None:
        """Let the part of the panel that `Topic.answer` bound do something, now."""
        self.asked = Asked(what, value)
        self.asked = None

    def refuse(self, source: str, text: str) -> None:
        """Show why a part of the panel cannot do something, until it settles that."""
        self.notice = Notice(text, "error", source=source)

    def stop_download(self) -> None:
        """Stop the download; the next one resumes there."""
        if self.download is not None:
            self.download = replace(self.download, stopping=True)

    def settle(self, source: str) -> None:
        """Take back what a part of the panel refused, unless something else is shown by now."""
        if self.notice is not None and self.notice.source == source:
            self.notice = None


class Topic:
    """A part of the panel that follows the session, which outlives it.

    A subclass has `bind`, which connects it by `after` and `answer` each time the panel is docked;
    `stop` lets go of all this.
    """

    _session: Session

    @cached_property
    def _bindings(self) -> list[tuple[Any, Callable[..., object]]]:
        return []

    def bind(self) -> None:
        """Connect to the session, and show what it has."""
        raise NotImplementedError

    def follow(self) -> None:
        """Follow the session."""
        self._let_go()
        self.bind()

    def stop(self) -> None:
        """Follow the session no more."""
        self._let_go()

    def after(self, names: str, slot: Callable[..., object]) -> None:
        """Call a function after each of some events of the session: ``"image settings"``."""
        for name in names.split():
            signal = self._session.events[name]
            signal.connect(slot)
            self._bindings.append((signal, slot))

    def answer(self, what: Ask, slot: Callable[[Any], object]) -> None:
        """Call a function with the value of each request of a kind."""

        def called(asked: Asked | None) -> None:
            if asked is not None and asked.what == what:
                slot(asked.value)

        self.after("asked", called)

    def _let_go(self) -> None:
        for signal, slot in self._bindings:
            signal.disconnect(slot, missing_ok=True)
        self._bindings.clear()
