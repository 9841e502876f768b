"""Works through the images of a project: shows one, prepares the next, keeps what was drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qtpy.QtCore import QObject

from ...app.project.images_work import open_work
from ...app.project.project_disk import Edits, ProjectDisk, Written, defaults
from ...app.project.project_files import OpenedPlace, new_project, open_place
from ...app.session import Action, ProjectState, RegionPlace, Session, Topic, job_kinds
from ...app.work.model_store import ModelStore
from ...batch.opened import OpenProject, Place, added_images, read_place
from ...batch.project import Project
from ...batch.project_decisions import words_of
from ...batch.project_index import place_in
from ...library.library import Library
from ...review.stored_images import Summary
from ..workers.notify import refuse, refusing
from .across import AcrossImages
from .ahead import Ahead
from .images_widget import ImagesWidget
from .keeper import Keeper
from .shown_image import Elsewhere, ShownImage, show_image

if TYPE_CHECKING:
    from ...app.project.project_opening import OpenedImage


class ImagesController(Topic, QObject):
    """One project at a time, in one of five states.

    Closed: the session has no project. Opening: a project is looked for, or the image that
    ``session.project.state.opening`` names is read. Shown: its image is in the viewer. Leaving:
    another image is wanted, and what was drawn on this one is on its way to the disk; a disk that
    refuses leads back to shown. Working: all images are worked on (`AcrossImages`), while one
    is shown.
    """

    def __init__(
        self, viewer: Any, session: Session, store: ModelStore, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._viewer, self._session, self._store = viewer, session, store
        self.part = ImagesWidget(session.jobs)
        self._opened: OpenedPlace | None = None  # its note is said with its first image
        self._new: Sequence[Any] = ()  # images of the folder that the project lacks
        self._place: Place | None = None  # where to go on, once the image is shown
        self._look_there = False  # at that place, since the user wants to see it
        self._reviewing = False  # the review goes on with the next image that has results
        self.keeper = Keeper(viewer, session, self)
        self.finding = session.jobs.of(job_kinds.OPEN_PROJECT)
        self.reader = session.jobs.of(job_kinds.READ_IMAGE)
        self.ahead = Ahead(self.keeper, session, store, self)
        self.across = AcrossImages(self, session, store)
        self.elsewhere = Elsewhere(viewer, session, self)
        self._connect()

    def _connect(self) -> None:
        part = self.part
        part.opened.connect(self.open)
        part.making.connect(self._make)
        part.chosen.connect(self.go)
        part.moved.connect(self.move)
        self.keeper.written.connect(self._written)
        self.keeper.refused.connect(self._stay)
        self.ahead.late.connect(self._take_results)
        self.ahead.ready.connect(lambda image: part.model.set_summary(image.name, image.summary))

    # -- life ---------------------------------------------------------------------------------

    def bind(self) -> None:
        """Follow the session and the viewer."""
        run = self._session.run.events
        review = self._session.review.events
        project = self._session.project.events
        status = self._session.status.events
        if self.keeper.disk is None:  # a new panel: nobody keeps the project of the one before
            self._session.project.state = None
        self.after(self._count, review.changes)
        self.after(self._show_state, project.state, run.vocabulary)
        self.after(lambda many: self.part.show_working(many is not None), status.many)
        self.after(self.elsewhere.hide, run.layers, run.record, review.row)
        self.after(self.open, self._session.project.open_images)
        self.after(self._open_region, self._session.project.open_region)
        self.after(self.across.decided, self._session.decisions.changed)
        self.after(self.counted, self._session.project.counted)
        self.after(self.part.list_on, self.part.lister.ended)
        self.after(self.across.show_job, self.across.job.changed)
        self.after(self.across.show_end, self.across.job.ended)
        self.keeper.follow()
        if self.keeper.disk is not None:
            self.recount()  # decisions about many images went on while the panel was closed
        self._show_state()

    def stop(self) -> None:
        """Keep what is not on the disk yet; the project stays open."""
        self.keeper.stop()
        super().stop()
        self.part.stop()
        self.across.stop()
        self.elsewhere.hide()
        self._stay()  # what was being read is not shown
        self.ahead.forget()

    @property
    def project(self) -> OpenProject | None:
        """The project as it is on the disk; None without one."""
        return None if self.keeper.disk is None else self.keeper.disk.project

    @property
    def shown(self) -> ShownImage | None:
        """The image in the viewer."""
        return self.keeper.shown

    # -- opening ------------------------------------------------------------------------------

    def _make(self, file: Path, images: Path, regions: Path | None) -> None:
        """Make a project with the words and settings of the panel."""
        work = partial(new_project, file, images, regions, self._defaults(file))
        self.finding.start(work, self._found)

    def open(self, paths: Sequence[Path]) -> None:
        """Open a project, a folder of images, or images."""
        if paths:
            work = partial(open_place, list(paths), self._defaults(paths[0]))
            self.finding.start(work, self._found)

    def _defaults(self, place: Path) -> Project:
        folder = place if place.is_dir() else place.parent
        return defaults(self._session.run.vocabulary, self._session.run.settings, folder)

    def _found(self, opened: OpenedPlace) -> None:
        """Take a project in place of the one before."""
        self._leave(partial(self._take_project, opened))

    def _take_project(self, opened: OpenedPlace) -> None:
        before = self.shown
        self.keeper.forget()
        if before is not None:
            before.remove()
        self.ahead.forget()
        project = opened.project
        self.part.forget()
        self.part.project = project
        self.part.remember(str(project.file))
        self.across.forget()
        self._session.project.state = ProjectState(
            project.title, tuple(project.by_name), project.done, file=str(project.file)
        )
        words = None
        if project.library is not None:
            with refusing():
                self._session.explore.library = Library.open(project.library, create=True)
        with refusing():
            self._session.run.take_settings.emit(project.settings)
            words = project.vocabulary
            if words is not None:
                self._session.run.take_words.emit(words.content)
        edits = Edits(self._session.run.settings, self._session.run.vocabulary or words)
        self.keeper.disk = ProjectDisk(project, edits)
        self._opened, self._new = opened, opened.new
        self._place = read_place(project.file)
        names, first = project.by_name, self._session.project.state.next_open
        self.go(self._place.image if self._place.image in names else first or next(iter(names)))

    def add_new(self) -> None:
        """Add the images that the folder has and the project lacks."""
        disk, new = self.keeper.disk, self._new
        if disk is not None and new:
            self._new = ()
            self._session.status.notice = None
            folder = disk.project.folder
            self.keeper.write(partial(disk.add, lambda project: added_images(project, new, folder)))

    # -- from image to image ------------------------------------------------------------------

    def move(self, step: int) -> None:
        """Go to the image so many places after this one in the list, of those that it shows."""
        state, further = self._session.project.state, step
        while state is not None and (name := state.beside(further)):
            if self.part.shows(name):
                self.go(name)
                return
            further += step

    def next_open(self) -> None:
        """Go to the next image that is not done."""
        if self._session.project.state is not None:
            self.go(self._session.project.state.next_open)

    def go(self, name: str) -> None:
        """Go to an image; what was drawn and decided about this one is kept."""
        state, project = self._session.project.state, self.project
        if project is None or state is None or name not in project.by_name:
            return
        self.reader.drop()
        if self.shown is not None and self.shown.name == name and state.current == name:
            self.keeper.when_kept(self._stay)  # in place of leaving
            return
        self._session.project.state = replace(state, opening=name)
        self._leave(partial(self._enter, name))

    def _open_region(self, place: RegionPlace) -> None:
        """Go to a region of another image: of the project, else of the library."""
        name = "" if self.project is None else _name_in(self.project, place)
        if not name:
            self.elsewhere.open(place)
        elif self.shown is not None and self.shown.name == name:
            if not self.shown.is_chosen:
                self._session.choose(image=self.shown.images[0])
            self._session.select_place(place)
        else:
            self._place = Place(image=name, region=place.key.id, position=dict(place.key.position))
            self._look_there = True
            self.go(name)

    def _leave(self, then: Callable[[], object]) -> None:
        """Finish with the image that is shown, then go on: once its regions are on the disk."""
        self.keeper.save_words()
        self.keeper.when_kept(partial(self._left, then))

    def _left(self, then: Callable[[], object]) -> None:
        session = self._session
        if self.shown is not None:
            self._reviewing |= session.reviewed is not None and session.status.tab == "review"
            if session.run.progress.running:
                session.run.cancel.emit()
        then()

    def _stay(self) -> None:
        """Stay at the image."""
        state = self._session.project.state
        if state is not None and state.opening:
            self._session.project.state = replace(state, opening="")

    def _enter(self, name: str) -> None:
        project = self.project
        assert project is not None  # what is left has one
        if (prepared := self.ahead.take(name)) is not None:
            self._show(prepared)
        else:
            work = partial(open_work, project, name)
            self.reader.start(work, self._show, failed=self._unreadable)

    def _show(self, opened: OpenedImage) -> None:
        """Show an image in place of the one before; only the project's own layers are removed."""
        if self.keeper.disk is None or self._session.project.state is None:
            return
        if not self.keeper.is_kept:  # somebody drew while this one was read
            self._leave(partial(self._show, opened))
            return
        before, words = self.shown, self._session.run.vocabulary
        shown = show_image(self._viewer, self._session, opened, before)
        if self._session.run.vocabulary != words:
            self._take_as_of_regions()
        self.keeper.show(None)  # what leaves now is on the disk
        if before is not None:
            before.remove()
        self._viewer.reset_view()
        self.keeper.show(shown)
        self.part.model.set_summary(opened.name, opened.summary)
        self._session.project.state = replace(
            self._session.project.state, current=opened.name, opening=""
        )
        self._bring_words(opened)
        problem = f"{opened.name}: {opened.problem}" if opened.problem else ""
        if problem:
            self._session.say(problem, "warning")
        place, self._opened = self._opened, None
        if place is not None and place.note:
            note = f"{place.note} {problem}".strip()
            self._session.say(note, action=Action.ADD_IMAGES if self._new else None)
        self._go_on(opened)
        self.keeper.save_soon("place")
        self.ahead.prepare()

    def _go_on(self, opened: OpenedImage) -> None:
        """Go on at the region where the user was, and with the review."""
        place, self._place = self._place, None
        picked, self._look_there = self._look_there, False
        session = self._session
        if opened.bundle is None:
            return
        if place is not None and place.image == opened.name and place.region is not None:
            wanted = (place.region, tuple(place.position.items()))
            rows = [(region.id, region.position) for region in opened.bundle.results.regions]
            if wanted in rows:
                session.review.place = rows.index(wanted)
                session.select(session.review.place, picked=picked)
        if self._reviewing:
            self._reviewing = False
            if session.review.state is None:
                session.review.begin.emit()

    def _unreadable(self, reason: str) -> None:
        """Leave out an image that cannot be read; the others go on."""
        state = self._session.project.state
        if state is None or not state.opening:
            refuse(reason)
            return
        name = state.opening
        self.part.model.set_summary(name, Summary(problem=reason))
        self._session.project.state = replace(state, current=name, opening="")
        refuse(f"{reason} The other images can be opened.")
        self.ahead.prepare()

    def _bring_words(self, opened: OpenedImage) -> None:
        """Show the words of a file of regions, where the project has none of its own."""
        disk, bundle = self.keeper.disk, opened.bundle
        words = None if bundle is None else bundle.results.info.without_decisions.vocabulary
        if disk is None or words is None or disk.project.project.labels is not None:
            return
        # Words that the user has changed are being written.
        if not disk.edits.has_words and words != self._session.run.vocabulary:
            self._session.run.take_words.emit(words.content)
            self._take_as_of_regions()

    def _take_as_of_regions(self) -> None:
        """Note that the words came with the regions of one image: they are not the project's."""
        disk = self.keeper.disk
        if disk is not None and not disk.edits.has_words:
            disk.edits.words, disk.edits.of_regions = self._session.run.vocabulary, True

    def _take_results(self, opened: OpenedImage) -> None:
        """Show results that were computed while their image was shown already."""
        session, shown = self._session, self.shown
        if shown is None or shown.name != opened.name or not self.keeper.is_kept:
            return
        if session.run.results or session.run.progress.running or opened.bundle is None:
            return
        drawn = set(shown.saved.regions)
        same = drawn == set(opened.identities)
        if not same and drawn != set(opened.results_of):
            return  # regions were drawn since the results were begun
        if len(self.keeper.layers) > 1:  # the regions of all of them are in one layer now
            self._show(opened)
        elif same and session.run.regions is shown.labels:
            shown.show_results(opened, session.run.scope)
            self._bring_words(opened)
            self._go_on(opened)
            self.part.model.set_summary(opened.name, opened.summary)

    # -- what is done -------------------------------------------------------------------------

    def _count(self, _: object = None) -> None:
        """Show how far the review is, and keep whether the image is done."""
        session, own = self._session, self.keeper.own
        if own is None or session.reviewed is None or session.run.results is None:
            return
        decided, keys = session.reviewed.review.decisions, session.reviewed.queue.keys
        pairs = zip(session.run.results.regions, keys, strict=True)
        open_ = [region for region, key in pairs if key not in decided]
        summary = Summary(
            regions=len(keys),
            decided=session.review.decided_count,
            flagged=sum(region.flagged for region in open_),
            suggested=True,
            waiting=session.reviewed.waiting,
            words=words_of((word for word, _ in session.reviewed.waiting), decided.values()),
        )
        self.part.model.set_summary(own.name, summary)
        self.mark({own.name: session.undecided == 0 and not session.run.changed_regions})

    def mark(self, done: Mapping[str, bool]) -> None:
        """Keep which images are done, and which are not any more."""
        state, disk = self._session.project.state, self.keeper.disk
        if state is None or disk is None:
            return
        names = frozenset(name for name in {*state.done, *done} if done.get(name, True))
        if names != state.done:
            self._session.project.state = replace(state, done=names)
            self.keeper.write(partial(disk.set_states, dict(done)))
            self.ahead.prepare()

    def _written(self, written: Any) -> None:
        state, model, disk = self._session.project.state, self.part.model, self.keeper.disk
        if not isinstance(written, Written) or disk is None or state is None:
            return
        if written.project.file != disk.project.file:
            return  # of the project before
        project = self.part.project = written.project
        here = self.shown is not None and self.shown.name == written.image
        names = tuple(project.by_name)
        self._session.project.state = replace(state, names=names, done=project.done)
        if written.regions is not None and here and self._session.run.results is None:
            model.set_summary(written.image, Summary(regions=len(written.regions)))
        if written.image and not here:
            self.ahead.forget(written.image)
            model.drop_summary(written.image)
            self.part.look()
        if written.image and written.regions is None:
            self._session.project.computed += 1
        if written.words:  # what was prepared has other words
            self.ahead.forget()
        self.ahead.prepare()

    # -- what is shown ------------------------------------------------------------------------

    def _show_state(self, _: object = None) -> None:
        state, part, words = self._session.project.state, self.part, self._session.run.vocabulary
        if state is None:
            part.show_project("", ())
            return
        part.model.show_project(state.names, state.done, state.current)
        title = f"{state.title}: {state.progress} images done"
        part.show_project(title, () if words is None else words.labels)
        ends = [state.beside(step) == "" for step in (-1, 1)] if state.current else [True, False]
        part.show_place(state.opening or state.current, first=ends[0], last=ends[1])
        self.part.look()

    # -- for the work on all images -----------------------------------------------------------

    def computed(self, name: str) -> None:
        """Take note that another image was computed."""
        self._session.explore.library_changes += self._session.explore.library is not None
        self._session.project.computed += 1
        self.part.model.drop_summary(name)
        self.ahead.take(name)
        self.part.look()
        state, project = self._session.project.state, self.project
        if state is not None and project is not None and name == state.current:
            self.ahead.read_again(project, name)

    def counted(self, summaries: Mapping[str, Summary]) -> None:
        """Take note how far other images are decided."""
        done: dict[str, bool] = {}
        for name, summary in summaries.items():
            self.part.model.set_summary(name, summary)
            done[name] = summary.decided == summary.regions
        self.mark(done)

    def recount(self) -> None:
        """Count all images again: decisions about many of them have changed."""
        for name in self.part.model.names:
            if self.shown is None or name != self.shown.name:
                self.part.model.drop_summary(name)
                self.ahead.forget(name)
        self.part.look()
        self.ahead.prepare()


def _name_in(project: OpenProject, place: RegionPlace) -> str:
    """Return the name of an image in a project, by that or its file; "" if it has none."""
    if place.image in project.by_name:
        return place.image
    return next((name for name in project.by_name if place_in(project, name) == place.file), "")
