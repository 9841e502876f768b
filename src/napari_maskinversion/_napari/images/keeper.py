"""Keeps what somebody does to a project: regions drawn in whatever layer, words, results, place."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final
from weakref import ref

from qtpy.QtCore import QObject, QTimer, Signal
from superqt.utils import QSignalThrottler

from ...app.layer_input.layer_facts import EDITS, MOVES, is_regions
from ...app.project.project_disk import ProjectDisk, Written
from ...app.session import (
    Action,
    ResultRecord,
    RunState,
    Session,
    Topic,
    job_kinds,
    only_ranked_again,
)
from ...app.work.driver import Work
from ...base.errors import MaskInversionError
from ...batch.opened import Place
from ...results.results import Results
from ..widgets.layer_list import LayerEvents, layer_of
from ..workers.notify import inform, refuse, refusing
from .shown_image import ShownImage

_WAIT: Final = 800  # milliseconds after a stroke, a step or another word until it is kept
_CLOSING: Final = 60  # seconds that a closing window waits for the disk


class Keeper(Topic, QObject):
    """Follows the session and the layers of the image shown, and has a worker write what changes.

    Edits of regions are counted: those drawn, those sent to the disk, and those that are there.
    """

    written = Signal(object)
    refused = Signal()

    def __init__(self, viewer: Any, session: Session, parent: QObject) -> None:
        super().__init__(parent)
        self._viewer, self._session = viewer, session
        self.disk: ProjectDisk | None = None
        self.shown: ShownImage | None = None
        self._kept_record: ResultRecord | None = None  # results that are on the disk
        self._record: ResultRecord | None = None  # the results shown
        # An image whose results were ranked by decisions, or again without them, since it is shown
        self._ranked: tuple[str, Results] | None = None
        self._drawn = self._sent = self._kept = 0
        self._is_sending = False
        self._then: Callable[[], object] | None = None  # once all regions are there
        self._watched: list[Any] = []  # its layers, as they were when they were looked at last
        self._unsaved: set[str] = set()  # "words", "place"
        self._begun: tuple[Any, bool] = (None, False)  # a run; whether it is one of the project
        self._later = QSignalThrottler(parent=self)
        self._later.setTimeout(_WAIT)
        self._later.triggered.connect(self._save)
        slots = {
            "inserted": self._layer_added,
            "removing": self._layer_leaving,
            "removed": self._layer_removed,
            **dict.fromkeys((*EDITS, *MOVES), self._drawn_on),
        }
        self._events = LayerEvents(viewer, slots)
        self.writing = session.jobs.of(job_kinds.KEEP_PROJECT)

    # -- life ---------------------------------------------------------------------------------

    def bind(self) -> None:
        """Follow the session and the viewer."""
        run = self._session.run.events
        review = self._session.review.events
        self.after(self._chosen, run.layers)
        self.after(self._run_changed, run.progress)
        self.after(self._record_changed, run.record)
        self.after(lambda _: self.save_soon("place"), review.row)
        self.after(lambda _: self.save_soon("words"), run.vocabulary, run.settings)
        self.after(self._all_written, self.writing.ended)
        self._events.connect()
        self._watched = self.layers
        self._edited()  # perhaps, while nobody followed

    def stop(self) -> None:
        """Write what is not on the disk yet, and follow nothing more."""
        self.flush()
        super().stop()
        self._events.disconnect()
        self._watched = []
        self._record = None
        self._is_sending, self._then = False, None

    def write(self, work: Work) -> None:
        """Have something written, after all that waits to be written."""
        self.writing.start(work, self._outcome)

    def save_soon(self, what: str) -> None:
        """Write "words" or the "place" after a pause."""
        self._unsaved.add(what)
        self._later.throttle()

    def flush(self) -> None:
        """Begin to write all that is not on the disk yet, also what was refused before."""
        self._save(again=True)
        self._save_ranking()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being written; may be asked from any thread."""
        return self.writing.idle

    def finish(self) -> None:
        """Write all that is not on the disk yet, and wait for it: the window closes."""
        self.flush()
        end = time.monotonic() + _CLOSING
        while not self.writing.idle and time.monotonic() < end:
            time.sleep(0.002)

    def forget(self) -> None:
        """Write what is left, and follow no image: words and place of another project come."""
        self._save()
        self.show(None)
        self.disk = None
        self._unsaved.clear()

    def _save(self, *, again: bool = False) -> None:
        self._later.cancel()
        self._save_regions(again=again)
        self.save_words()
        self._save_place()

    # -- the image ----------------------------------------------------------------------------

    def show(self, shown: ShownImage | None) -> None:
        """Follow an image in place of the one before; its regions are on the disk."""
        self._save_ranking()
        self.shown = shown
        self._watched = self.layers
        self._kept = self._drawn

    @property
    def layers(self) -> list[Any]:
        """The layers that hold regions of the image; its own one comes first."""
        return [] if self.shown is None else self.shown.region_layers

    @property
    def is_kept(self) -> bool:
        """Whether the regions of the image are on the disk."""
        return self.shown is None or self._drawn == self._kept

    @property
    def own(self) -> ShownImage | None:
        """The image, if it is the one chosen."""
        return self.shown if self.shown is not None and self.shown.is_chosen else None

    def when_kept(self, then: Callable[[], object]) -> None:
        """Call a function, once all is on the disk; never, if that is refused."""
        self._then = None
        if self.is_kept:
            then()
        else:
            self._then = then
            self._save_regions(again=True)

    def _save_regions(self, *, again: bool = False) -> None:
        """Write the regions if they have changed, or ``again`` after that was refused."""
        shown, disk, is_new = self.shown, self.disk, self._drawn != self._sent
        if self.is_kept or shown is None or disk is None:
            return
        if not is_new and (self._is_sending or not again):
            return
        self._sent = self._drawn
        try:
            layers = shown.copy_regions()
        except MaskInversionError as error:
            self._refuse(str(error))
            return
        self._is_sending = True
        work = partial(disk.keep_regions, self._sent, shown.name, layers, shown.saved)
        self.write(work)

    # -- its layers ---------------------------------------------------------------------------

    def _drawn_on(self, event: Any) -> None:
        if layer_of(event) in self._watched:
            self._edited()

    def _edited(self) -> None:
        if self.shown is not None:
            self._drawn += 1
            self._later.throttle()

    def _chosen(self, _: object = None) -> None:
        """Take other regions that are chosen for the image as regions of it."""
        shown, layer = self.own, self._session.run.regions
        if shown is None or layer is None:
            return
        if layer not in self.layers:
            if shown.labels not in self._viewer.layers:
                return  # taken by itself, in place of the image's own
            try:
                shown.check_planes(layer)
            except MaskInversionError as error:
                # Later: another choice takes back what was said before it.
                QTimer.singleShot(0, partial(refuse, str(error)))
                return
            shown.also.append(layer)
        if layer not in self._watched:
            self._watched = self.layers
            self._edited()

    def _layer_added(self, event: Any) -> None:
        """Say where regions that somebody draws on a layer of his own belong."""
        if self.own is not None and is_regions(event.value):
            QTimer.singleShot(0, partial(self._tell_of, ref(event.value)))

    def _tell_of(self, reference: Callable[[], Any]) -> None:
        shown, layer = self.own, reference()
        if shown is None or layer not in self._viewer.layers or layer in self.layers:
            return
        self._session.say(  # in place of what the session has said of it
            f"'{layer.name}' does not belong to {shown.name} yet; choose it under Regions to "
            "keep what you draw there with the image.",
            action=Action.SWITCH_LAYER if self._session.choice.added() is layer else None,
        )

    def _layer_leaving(self, event: Any) -> None:
        layer = self._viewer.layers[event.index]
        if self.shown is not None and (layer in self.shown.images or layer in self.layers):
            self.flush()

    def _layer_removed(self, event: Any) -> None:
        """Notice that the user has removed the image, a channel of it, or some of its regions."""
        shown, project = self.shown, self._session.project.state
        if shown is not None and event.value in shown.images and not shown.lose(event.value):
            self.show(None)
            if project is not None:
                self._session.project.state = replace(project, current="")
        # Later: a viewer that closes removes all layers, and that deletes no regions.
        QTimer.singleShot(0, self._layer_gone)

    def _layer_gone(self) -> None:
        if self.shown is not None and set(self._watched) - set(self.layers):
            self._watched = self.layers
            self._edited()

    # -- how writing ends ---------------------------------------------------------------------

    def _refuse(self, text: str, action: Action | None = None) -> None:
        self._then = None
        self.refused.emit()
        refuse(text, action)

    def _all_written(self) -> None:
        """Wait no longer for regions that an unexpected error has kept from the disk."""
        if self._is_sending:
            self._is_sending, self._then = False, None
            self.refused.emit()

    def _outcome(self, written: Any) -> None:
        """Go on where the regions are on the disk; else stay, since they are nowhere else."""
        if not isinstance(written, Written):
            return
        self.written.emit(written)
        if not written.stamp:
            return
        if written.stamp >= self._sent:
            self._is_sending = False
        if written.problem:
            why = written.problem.rstrip(".")
            text = f"{why}. What you drew is not saved: solve this, then save it again."
            self._refuse(text, Action.SAVE_REGIONS)
            return
        self._kept = max(self._kept, written.stamp)
        if written.layers > 1 and self.shown is not None:
            others = ", ".join(f"'{one.name}'" for one in self.layers[1:])
            count = len(written.regions or ())
            inform(
                f"{self.shown.name} has {count:,} regions, with those of {others}; all are kept, "
                "in one layer when it is opened again. Until then a run takes those of the layer "
                "that is chosen under Regions."
            )
        if self._then is not None and self.is_kept:
            self.when_kept(self._then)

    # -- words, results, place ----------------------------------------------------------------

    def save_words(self) -> None:
        if "words" not in self._unsaved:
            return
        self._unsaved.discard("words")
        disk, session = self.disk, self._session
        if disk is not None and disk.edits.note(session.run.settings, session.run.vocabulary):
            with refusing():
                words, settings = disk.edits.made_in(disk.project.settings)
                self.write(partial(disk.set_words, words, settings))

    def use_words(self) -> None:
        """Make the words in the panel those of a project that has none."""
        disk = self.disk
        if disk is not None and disk.project.project.labels is None and not disk.edits.of_regions:
            disk.edits.words = None
            self._unsaved.add("words")

    def _save_place(self) -> None:
        session, disk, state = self._session, self.disk, self._session.project.state
        if "place" not in self._unsaved or disk is None or state is None or not state.current:
            return
        self._unsaved.discard("place")
        place, results, row = Place(image=state.current), session.run.results, session.review.row
        # The row that new results select says nothing about where somebody was.
        gone_to = (
            session.review.picked or session.reviewed is not None or row == session.review.place
        )
        own = gone_to and self.own is not None
        if own and results is not None and 0 <= row < len(results):
            region = results.regions[row]
            place = Place(image=state.current, region=region.id, position=dict(region.position))
        self.write(partial(disk.keep_place, place))

    def _save_ranking(self) -> None:
        ranked, self._ranked = self._ranked, None
        if ranked is not None and self.disk is not None:
            self.write(partial(self.disk.save_ranking, *ranked))

    def _run_changed(self, run: RunState) -> None:
        """Notice whether a run that begins is what a batch would do."""
        own, snapshot = self.own, run.snapshot
        if run.phase == "running" and snapshot is not None and snapshot is not self._begun[0]:
            self._begun = snapshot, own is not None and own.is_seen_as_opened(snapshot.scope)

    def _record_changed(self, record: ResultRecord | None) -> None:
        """Keep the results of a run beside the project, as a batch would write them."""
        own, disk = self.own, self.disk
        before, self._record = self._record, record
        if record is None or own is None or disk is None or record is self._kept_record:
            return
        if record is not before and only_ranked_again(before, record):
            # After each decision, so it is written once: when the image is left.
            self._ranked = own.name, record.results
            return
        whole = record.settled and record.only is None and len(record.results) >= record.total
        if not whole or record.live or record.reopened:
            return
        if self._begun != (record.snapshot, True):
            return
        self._kept_record = record
        self.flush()
        if isinstance(record.masks, dict):
            self.write(
                partial(
                    disk.save_results,
                    own.name,
                    record.results.without_decisions(),
                    record.masks,
                    record.snapshot.settings,
                    identities=record.identities,
                    saved=own.saved,
                )
            )
            if record.results.has_decisions:
                self._ranked = own.name, record.results
