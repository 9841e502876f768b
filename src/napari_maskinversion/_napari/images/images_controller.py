"""Works through the images of a project: shows one, prepares the next, keeps what was drawn."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from qtpy.QtCore import QObject
from qtpy.QtWidgets import QFileDialog

from ...batch.decided import Summary
from ...batch.opened import OpenProject, Place, added_images, read_place
from ...batch.project import FILE as PROJECT_FILE
from ...batch.project import Project
from ..session import Bindings, ManyImages, ProjectState, ResultRecord, RunState, Session
from ..widgets.sections import debouncer
from ..workers.model_store import ModelStore
from ..workers.notify import refuse, refusing
from ..workers.worker import Worker
from .across import AcrossImages
from .images_widget import ImagesWidget
from .images_work import (
    Listed,
    ModelLoader,
    ahead_work,
    list_work,
    open_image_work,
)
from .own_layers import ShownImage, remove_image, show_image, show_results
from .project_disk import Edits, ProjectDisk, Written, defaults
from .project_files import OpenedPlace, new_project, open_place
from .region_keeper import RegionKeeper

if TYPE_CHECKING:
    from .opening import OpenedImage

_PLACE: Final = 400  # milliseconds after the last step until the place is kept
_WORDS: Final = 800  # after the last change of words or settings
_LOOK: Final = 60  # after scrolling
_LISTED_AT_ONCE: Final = 40
_CLOSING: Final = 60  # seconds that a closing window waits for the disk


class ImagesController(QObject):
    """One project at a time."""

    def __init__(
        self, viewer: Any, session: Session, store: ModelStore, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._viewer, self._session, self._store = viewer, session, store
        self._bindings = Bindings()
        self.part = ImagesWidget()
        self.disk: ProjectDisk | None = None
        self._edits: Edits | None = None  # of its words and settings
        self.shown: ShownImage | None = None
        self._ready: dict[str, OpenedImage] = {}
        self._reviewing = False  # the review goes on with the next image that has results
        self._place: Place | None = None  # where to go on, once the image is shown
        self._begun: tuple[Any, bool] = (None, False)  # a run; whether it is one of the project
        self._kept: Any = None  # results that are on the disk
        self._flags: tuple[Any, list[bool]] = (None, [])
        self.writing = Worker("queue", "Keeping the project", parent=self)
        self.finding = Worker("latest", "Opening the project", parent=self)
        self.reader = Worker("latest", "Opening the image", parent=self)
        self.ahead = Worker("latest", "Preparing the next image", parent=self)
        self.lister = Worker("latest", "Listing images", parent=self)
        self.across = AcrossImages(self, session, store)
        self.regions = RegionKeeper(viewer, session, self.writing, self)
        self._place_later = debouncer(self, _PLACE, self._keep_place)
        self._words_later = debouncer(self, _WORDS, self._save_words)
        self._look_later = debouncer(self, _LOOK, self._look)
        self._note = ""  # about the project, said with its first image
        self._new: Sequence[Any] = ()  # images of the folder that the project lacks
        self._preparing = ""  # the image that is being prepared
        self._connect()

    def _connect(self) -> None:
        part = self.part
        part.opening.connect(self.ask)
        part.chosen.connect(self.go)
        part.moved.connect(self.move)
        part.seen.connect(self._look_later.throttle)
        self.writing.done.connect(self._written)
        self.writing.failed.connect(refuse)
        self.regions.written.connect(self._written)
        self.regions.refused.connect(self._stay)
        self.regions.layer_leaving.connect(self.flush)
        self.finding.done.connect(self._opened)
        self.finding.failed.connect(refuse)
        self.reader.done.connect(self._show)
        self.reader.failed.connect(self._unreadable)
        self.ahead.done.connect(self._prepared)
        self.ahead.failed.connect(self._not_prepared)
        self.lister.progressed.connect(self._list)

    # -- life ---------------------------------------------------------------------------------

    def follow(self) -> None:
        """Follow the session and the viewer."""
        events = self._session.events
        if self.disk is None:  # a new panel: nobody keeps the project of the one before
            self._session.project = None
        self._bindings.connect(events.run, self._run_changed)
        self._bindings.connect(events.record, self._record_changed)
        self._bindings.connect(events.row, self._moved)
        self._bindings.connect(events.decisions, self._count)
        self._bindings.connect((events.vocabulary, events.settings), self._words_changed)
        self._bindings.connect((events.project, events.vocabulary), self._show_state)
        self._bindings.connect(events.many, self._show_working)
        self._bindings.connect(events.review_opening, self.across.review_opening_changed)
        self._bindings.answer(self._session, "open images", self.open)
        self._viewer.layers.events.removed.connect(self._layer_removed)
        self.regions.follow()
        self._show_state()

    def stop(self) -> None:
        """Keep what is not on the disk yet, and stop all work; the project stays open."""
        self.flush()
        self._bindings.release()
        self._viewer.layers.events.removed.disconnect(self._layer_removed)
        self.regions.stop()
        self._look_later.cancel()
        for worker in (self.finding, self.reader, self.ahead, self.lister, self.writing):
            worker.drop()
        self.across.stop()
        self._stay()  # what was being read is not shown
        self._ready.clear()

    def flush(self) -> None:
        """Begin to write all that is not on the disk yet."""
        self.regions.flush()
        self._words_later.flush()
        self._place_later.flush()

    def keep(self) -> None:
        """Write all that is not on the disk yet, and wait for it: the window closes."""
        self.flush()
        end = time.monotonic() + _CLOSING
        while not self.writing.idle and time.monotonic() < end:
            time.sleep(0.002)

    # -- opening ------------------------------------------------------------------------------

    def ask(self, what: str) -> None:
        """Ask what to open: a key of `images_widget.OPEN`."""
        part = self.part
        if what == "folder":
            folder = QFileDialog.getExistingDirectory(part, "Folder of images")
            self.open([Path(folder)] if folder else [])
        elif what == "images":
            files, _ = QFileDialog.getOpenFileNames(part, "Images")
            self.open([Path(file) for file in files])
        elif what == "project":
            file, _ = QFileDialog.getOpenFileName(
                part, "Project", "", "Projects (*.yaml *.yml);;All files (*)"
            )
            self.open([Path(file)] if file else [])
        else:
            self._ask_new()

    def _ask_new(self) -> None:
        part = self.part
        images = QFileDialog.getExistingDirectory(part, "New project: folder of images")
        if not images:
            return
        regions = QFileDialog.getExistingDirectory(
            part, "New project: folder of their regions (Cancel: none yet)", images
        )
        file, _ = QFileDialog.getSaveFileName(
            part,
            "New project: where to keep it",
            str(Path(images) / PROJECT_FILE),
            "Projects (*.yaml)",
            options=QFileDialog.Option.DontConfirmOverwrite,
        )
        if file:
            self.new(Path(file), Path(images), Path(regions) if regions else None)

    def open(self, paths: Sequence[Path]) -> None:
        """Open a project, a folder of images, or images."""
        if paths:
            self.finding.start(partial(open_place, list(paths), self._defaults(paths[0])))

    def new(self, file: Path, images: Path, regions: Path | None) -> None:
        """Make a project with the words and settings of the panel, and open it."""
        self.finding.start(partial(new_project, file, images, regions, self._defaults(file)))

    def _defaults(self, place: Path) -> Project:
        folder = place if place.is_dir() else place.parent
        return defaults(self._session.vocabulary, self._session.settings, folder)

    def _opened(self, opened: OpenedPlace) -> None:
        """Take a project in place of the one before."""
        self._leave(partial(self._take_project, opened))

    def _take_project(self, opened: OpenedPlace) -> None:
        before, self.shown = self.shown, None
        self.regions.show(None, None)
        if before is not None:
            remove_image(self._viewer, self._session, before)
        self.ahead.drop()
        self.lister.drop()
        self._ready.clear()
        self.part.model.forget()
        project = opened.project
        self.disk = ProjectDisk(project)
        self.across.forget()
        self._session.project = ProjectState(project.title, tuple(project.by_name), project.done)
        words = None
        with refusing():
            self._session.ask("take settings", project.settings)
            words = project.vocabulary
            if words is not None and words != self._session.vocabulary:
                self._session.ask("take words", words.content)
        self._edits = Edits(self._session.settings, self._session.vocabulary or words)
        self._new, self._note = opened.new, opened.note
        self._place = read_place(project.file)
        names, first = project.by_name, self._session.project.next_open
        self.go(self._place.image if self._place.image in names else first or next(iter(names)))

    def add_new(self) -> None:
        """Add the images that the folder has and the project lacks."""
        disk, new = self.disk, self._new
        if disk is not None and new:
            self._new = ()
            self._session.notice = None
            folder = disk.project.folder
            self.writing.start(
                partial(disk.add, lambda project: added_images(project, new, folder))
            )

    # -- from image to image ------------------------------------------------------------------

    def move(self, step: int) -> None:
        """Go to the image so many places after this one in the list."""
        if self._session.project is not None:
            self.go(self._session.project.beside(step))

    def next_open(self) -> None:
        """Go to the next image that is not done."""
        if self._session.project is not None:
            self.go(self._session.project.next_open)

    def go(self, name: str) -> None:
        """Go to an image; what was drawn and decided about this one is kept."""
        state, disk = self._session.project, self.disk
        if disk is None or state is None or name not in disk.project.by_name:
            return
        self.reader.drop()
        if self.shown is not None and self.shown.name == name and state.current == name:
            self.regions.when_kept(self._stay)  # in place of leaving
            return
        self._session.project = replace(state, opening=name)
        self._leave(partial(self._enter, name))

    def _enter(self, name: str) -> None:
        state, disk = self._session.project, self.disk
        if disk is None or state is None or name not in disk.project.by_name:
            return
        ready = self._ready.pop(name, None)
        if ready is not None:
            self._show(ready)
            return
        self.reader.start(partial(open_image_work, disk.project, name))

    def _leave(self, then: Callable[[], object]) -> None:
        """Finish with the image that is shown, then go on: once its regions are on the disk."""
        self._words_later.flush()
        self.regions.when_kept(partial(self._left, then))

    def _left(self, then: Callable[[], object]) -> None:
        session = self._session
        if self.shown is not None:
            reviewed = session.reviewed is not None and session.tab == "review"
            self._reviewing = reviewed or self._reviewing
            if session.run.running:
                session.ask("cancel run")
        then()

    def _stay(self) -> None:
        """Stay at the image."""
        state = self._session.project
        if state is not None and state.opening:
            self._session.project = replace(state, opening="")

    def _show(self, opened: OpenedImage) -> None:
        """Show an image in place of the one before; only the project's own layers are removed."""
        if self.disk is None or self._session.project is None:
            return
        if not self.regions.is_kept:  # somebody drew while this one was read
            self._leave(partial(self._show, opened))
            return
        before, self._kept = self.shown, None
        self.shown = show_image(self._viewer, self._session, opened, before)
        self._kept = self._session.record
        self.regions.show(None, None)  # what leaves now is on the disk
        if before is not None:
            remove_image(self._viewer, self._session, before)
        self._viewer.reset_view()
        self.regions.show(self.shown, self.disk)
        self.part.model.set_summary(opened.name, opened.summary)
        self._session.project = replace(self._session.project, current=opened.name, opening="")
        self._bring_words(opened)
        if opened.problem:
            self._session.say(f"{opened.name}: {opened.problem}", "warning")
        if self._note:
            problem = f" {opened.name}: {opened.problem}" if opened.problem else ""
            self._session.say(self._note + problem, action="add images" if self._new else "")
            self._note = ""
        self._go_on(opened)
        self._place_later.throttle()
        self._prepare()

    def _go_on(self, opened: OpenedImage) -> None:
        """Go on at the region where the user was, and with the review."""
        place, self._place = self._place, None
        session = self._session
        if opened.bundle is None:
            return
        if place is not None and place.image == opened.name and place.region is not None:
            wanted = (place.region, tuple(place.position.items()))
            rows = [(region.id, region.position) for region in opened.bundle.results.regions]
            if wanted in rows:
                session.place = rows.index(wanted)
                session.select(session.place, picked=False)
        if self._reviewing:
            self._reviewing = False
            if session.review is None:
                session.ask("review")

    def _layer_removed(self, event: Any) -> None:
        """Notice that the user has removed the image, or a channel of it."""
        shown = self.shown
        if shown is None or event.value not in shown.images:
            return
        rest = [image for image in shown.images if image is not event.value]
        if rest:
            self._session.made_for(rest[0], *shown.made(self._viewer, self._session))
            shown.images = rest
            return
        self.shown = None
        self.regions.show(None, None)
        if self._session.project is not None:
            self._session.project = replace(self._session.project, current="")

    def _unreadable(self, reason: str) -> None:
        """Leave out an image that cannot be read; the others go on."""
        state = self._session.project
        if state is None or not state.opening:
            refuse(reason)
            return
        name = state.opening
        self.part.model.set_summary(name, Summary(problem=reason))
        self._session.project = replace(state, current=name, opening="")
        refuse(f"{reason} The other images can be opened.")
        self._prepare()

    def _bring_words(self, opened: OpenedImage) -> None:
        """Show the words of a file of regions, where the project has none of its own."""
        project, bundle = self._project, opened.bundle
        if project is None or bundle is None or project.project.labels is not None:
            return
        if self._edits is not None and self._edits.has_words:
            return  # they are being written
        words = bundle.results.info.vocabulary
        if words is not None and words != self._session.vocabulary:
            self._session.ask("take words", words.content)
            if self._edits is not None:
                self._edits.words = self._session.vocabulary or words
                self._edits.of_regions = True

    # -- the next image -----------------------------------------------------------------------

    def _prepare(self) -> None:
        """Compute and read the image that will probably follow, in a worker."""
        state, project = self._session.project, self._project
        if state is None or project is None:
            return
        following = state.next_open or state.beside(1)
        self._ready = {name: one for name, one in self._ready.items() if name == following}
        if not following or following in self._ready or following == state.current:
            return
        if self.ahead.busy and self._preparing in (following, state.current):
            return  # the one that is shown comes first, and calls this again
        model = ModelLoader(project, self._session.settings.device, self._store)
        computed = self._session.many is None
        self._preparing = following
        self.ahead.start(partial(ahead_work, project, following, model, computed=computed))

    def _prepared(self, opened: OpenedImage) -> None:
        state = self._session.project
        if state is None or self._preparing != opened.name:
            return
        if opened.name == state.current:
            self._take_results(opened)
            self._prepare()
        else:
            self._ready[opened.name] = opened
            self.part.model.set_summary(opened.name, opened.summary)

    def _not_prepared(self, _: str) -> None:
        """Say nothing: it is told when the user goes there."""
        state = self._session.project
        if state is not None and self._preparing == state.current:
            self._prepare()

    def _take_results(self, opened: OpenedImage) -> None:
        """Show results that were computed while their image was shown already."""
        session, shown = self._session, self.shown
        if shown is None or shown.name != opened.name or not self.regions.is_kept:
            return
        if session.results or session.run.running or opened.bundle is None:
            return
        drawn = set(shown.saved.regions)
        same = drawn == set(opened.identities)
        if not same and drawn != set(opened.results_of):
            return  # regions were drawn since the results were begun
        if len(self.regions.layers) > 1:  # the regions of all of them are in one layer now
            self._show(opened)
            return
        if same and session.regions is shown.labels:
            show_results(self._viewer, session, opened, shown, session.scope)
            self._kept = session.record
            self._bring_words(opened)
            self._go_on(opened)
            self.part.model.set_summary(opened.name, opened.summary)

    def computed(self, name: str) -> None:
        """Take note that another image was computed."""
        self.part.model.drop_summary(name)
        self._ready.pop(name, None)
        self._look_later.throttle()
        state, project = self._session.project, self._project
        if state is not None and project is not None and name == state.current:
            self._preparing = name
            self.ahead.start(partial(open_image_work, project, name))

    # -- what is kept -------------------------------------------------------------------------

    @property
    def _project(self) -> OpenProject | None:
        return None if self.disk is None else self.disk.project

    def _own(self) -> ShownImage | None:
        """Return the image that is shown, if it is the one chosen."""
        shown = self.shown
        return shown if shown is not None and self._session.image in shown.images else None

    def _run_changed(self, run: RunState) -> None:
        """Notice whether a run that begins is what a batch would do."""
        shown, snapshot = self._own(), run.snapshot
        if run.phase == "running" and snapshot is not self._begun[0]:
            seen = shown is not None and shown.is_seen_as_opened(self._viewer, snapshot.scope)
            self._begun = snapshot, seen

    def _record_changed(self, record: ResultRecord | None) -> None:
        """Keep the results of a run beside the project, as a batch would write them."""
        shown, disk = self._own(), self.disk
        if record is None or shown is None or disk is None or record is self._kept:
            return
        whole = record.settled and record.only is None and len(record.results) >= record.total
        if not whole or record.live or record.reopened:
            return
        if self._begun != (record.snapshot, True):
            return
        self._kept = record
        self.flush()
        masks, settings = record.masks, record.snapshot.settings
        if isinstance(masks, dict):
            self.writing.start(
                partial(
                    disk.save_results,
                    shown.name,
                    record.results,
                    masks,
                    settings,
                    identities=record.identities,
                    saved=shown.saved,
                )
            )

    def _count(self, _: object = None) -> None:
        """Show how far the review is, and keep whether the image is done."""
        session, shown, disk = self._session, self._own(), self.disk
        if shown is None or disk is None or session.reviewed is None or session.results is None:
            return
        decided = session.reviewed.review.decisions
        flags = self._flags
        if flags[0] is not session.results:
            flags = session.results, [one.flagged for one in session.results.regions]
            self._flags = flags
        keys = session.reviewed.queue.keys
        flagged = sum(flag for flag, key in zip(flags[1], keys, strict=True) if key not in decided)
        summary = Summary(
            regions=len(keys), decided=session.decided, flagged=flagged, suggested=True
        )
        self.part.model.set_summary(shown.name, summary)
        done = session.undecided == 0 and not session.changed_regions
        self.mark({shown.name: done})

    def decided(self, name: str, summary: Summary) -> None:
        """Take note how far another image is decided."""
        self.part.model.set_summary(name, summary)
        self.mark({name: summary.decided == summary.regions})

    def mark(self, done: Mapping[str, bool]) -> None:
        """Keep which images are done, and which are not any more."""
        state, disk = self._session.project, self.disk
        if state is None or disk is None:
            return
        changed = {name: now for name, now in done.items() if now != (name in state.done)}
        if not changed:
            return
        names = (state.done | {name for name, now in changed.items() if now}) - {
            name for name, now in changed.items() if not now
        }
        self._session.project = replace(state, done=names)
        self.writing.start(partial(disk.set_states, changed))
        self._prepare()

    def _words_changed(self, _: object) -> None:
        if self.disk is not None:
            self._words_later.throttle()

    def use_words(self) -> None:
        """Make the words in the panel those of a project that has none."""
        project, edits = self._project, self._edits
        none = project is not None and project.project.labels is None
        if none and edits is not None and not edits.of_regions:
            edits.words = None
            self._save_words()

    def _save_words(self) -> None:
        disk, edits, session = self.disk, self._edits, self._session
        if disk is None or edits is None:
            return
        if edits.note(session.settings, session.vocabulary):
            with refusing():
                words, settings = edits.made_in(disk.project.settings)
                self.writing.start(partial(disk.set_words, words, settings))

    def _moved(self, _: int) -> None:
        if self.shown is not None:
            self._place_later.throttle()

    def _keep_place(self) -> None:
        session, disk, state = self._session, self.disk, self._session.project
        if disk is None or state is None or not state.current:
            return
        region, row = None, session.row
        # The row that new results select says nothing about where somebody was.
        gone_to = session.picked or session.reviewed is not None or row == session.place
        if gone_to and session.results is not None and 0 <= row < len(session.results):
            region = session.results.regions[row]
        place = Place(image=state.current)
        if region is not None and self._own() is not None:
            place = Place(image=state.current, region=region.id, position=dict(region.position))
        self.writing.start(partial(disk.keep_place, place))

    def _written(self, written: Any) -> None:
        state = self._session.project
        if not isinstance(written, Written) or self.disk is None or state is None:
            return
        here = self.shown is not None and self.shown.name == written.image
        if written.listed:
            names = tuple(written.project.by_name)
            self._session.project = replace(state, names=names, done=written.project.done)
            self._prepare()
        if written.regions is not None:
            is_done = written.image in written.project.done
            if not is_done and written.image in state.done:  # with regions to decide about
                self._session.project = replace(state, done=state.done - {written.image})
            if here and self._session.results is None:
                summary = Summary(regions=len(written.regions))
                self.part.model.set_summary(written.image, summary)
        if written.image and not here:
            self._outdated(written.image)
            self.part.model.drop_summary(written.image)
            self._look_later.throttle()
        if written.words:  # what was prepared has other words
            self._ready.clear()
            self._outdated(self._preparing)
            self._prepare()

    def _outdated(self, name: str) -> None:
        """Forget what was prepared of an image."""
        self._ready.pop(name, None)
        if name == self._preparing:
            self.ahead.drop()
            self._preparing = ""

    # -- what is shown ------------------------------------------------------------------------

    def _show_state(self, _: object = None) -> None:
        state, part = self._session.project, self.part
        if state is None:
            part.show_project("", ())
            return
        part.model.show_project(state.names, state.done, state.current)
        title = f"{state.title}: {state.progress} images done"
        part.show_project(title, self._words())
        place = state.opening or state.current
        ends = [state.beside(step) == "" for step in (-1, 1)] if state.current else [True, False]
        part.show_place(place, first=ends[0], last=ends[1])
        self._look_later.throttle()

    def _words(self) -> tuple[str, ...]:
        words = self._session.vocabulary
        return () if words is None else words.labels

    def _show_working(self, many: ManyImages | None) -> None:
        self.part.show_working(many is not None)

    def _look(self) -> None:
        """Read pictures and counts of the images in view."""
        project, part = self._project, self.part
        if project is None or not part.list.isVisible():
            return
        names = part.model.unknown(*part.rows_in_view)[:_LISTED_AT_ONCE]
        names = [name for name in names if name in project.by_name]
        if names:
            self.lister.start(partial(list_work, project, names))

    def _list(self, listed: Listed) -> None:
        self.part.model.set_picture(listed.name, listed.picture)
        if self.shown is None or listed.name != self.shown.name:
            self.part.model.set_summary(listed.name, listed.summary)

    # -- for the work on all images -----------------------------------------------------------

    @property
    def project(self) -> OpenProject | None:
        """The project as it is on the disk; None without one."""
        return self._project

    def settle(self, then: Callable[[], object]) -> None:
        """Have written what is not on the disk yet, and do something."""
        self.flush()
        with refusing():
            then()

    def recount(self) -> None:
        """Count all images again: decisions about many of them have changed."""
        shown = None if self.shown is None else self.shown.name
        for name in self.part.model.names:
            if name != shown:
                self.part.model.drop_summary(name)
                self._outdated(name)
        self._look_later.throttle()
        self._prepare()
