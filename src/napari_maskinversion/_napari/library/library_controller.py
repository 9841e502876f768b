"""The library in use: one row to choose it and to add the regions shown; decisions follow."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from qtpy.QtCore import QObject
from qtpy.QtWidgets import QMenu, QWidget

from ...app.layer_input.input_pictures import copy_picture
from ...app.layer_input.layer_facts import IDENTITY, file_of, levels_of
from ...app.requests.preparing import background_of, image_layers
from ...app.session import ResultRecord, Session, Topic, job_kinds, outdated
from ...app.work.driver import Job, show
from ...app.work.model_store import ModelStore
from ...base.cache_folder import cache_folder, make_folder
from ...base.errors import InputError, MaskInversionError
from ...base.identity import Position, identify_image
from ...base.wording import counted
from ...batch.opened import OpenProject
from ...batch.project_decisions import add_to_library
from ...engine.models.specs import DEMO
from ...images.opening import open_image
from ...images.sample_scenes import load_scene, scene_names
from ...library.library import Library
from ...results.export.bundle import Bundle, compress_masks
from ..widgets.dialogs import ask_folder
from ..widgets.progress_row import ProgressRow
from ..widgets.sections import MARGINS, button, debouncer, line, stack
from ..workers.notify import inform, refusing

if TYPE_CHECKING:
    from napari.components import ViewerModel


_QUIET: Final = 500  # milliseconds after the last decision until the library follows
FOLDER: Final = "sample-library"  # in the cache folder
_SETTINGS: Final[dict[str, Any]] = {}  # of the sample library; tests compute less
_SHOWN: Final = 22  # letters of a library's name


class LibraryRow(QWidget):
    """Which library is in use, and a button that adds to it."""

    def __init__(self) -> None:
        super().__init__()
        self.choose = button("", "", name="Library")
        self.add = button("Add these regions", "")
        self.progress = ProgressRow("adding to the library", "Stop; nothing is added")
        self.menu = QMenu(self)
        self.choose.setMenu(self.menu)
        row = line(self.choose, self.add, shares=(1, 0))
        stack(self, row, self.progress, margins=MARGINS, spacing=4)

    def show_library(self, library: Library | None, *, addable: bool) -> None:
        """Show the library in use."""
        name = "none" if library is None else library.folder.name
        short = name if len(name) <= _SHOWN else f"{name[: _SHOWN - 1]}\N{HORIZONTAL ELLIPSIS}"
        self.choose.setText(f"Library: {short}".replace("&", "&&"))
        about = "A folder with the regions of many images, found by words and by examples"
        self.choose.setToolTip(about if library is None else f"{about}: {library.folder}")
        self.add.setEnabled(addable)
        self.add.setToolTip(
            "Add the regions of the table; those that the library has of this image are replaced. "
            "Decisions follow by themselves"
            if library is not None
            else "Choose a library first"
        )


class LibraryController(Topic, QObject):
    """Opens libraries, adds results, and hands decisions on to the rows that a library has."""

    def __init__(
        self,
        viewer: ViewerModel,
        session: Session,
        store: ModelStore,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._viewer, self._session, self._store = viewer, session, store
        self.part = LibraryRow()
        self.part.menu.addAction("Open or make...", self.ask)
        self.whole = self.part.menu.addAction("Add all images of the project", self.add_project)
        self.none = self.part.menu.addAction("None", lambda: self.open(""))
        self.part.add.clicked.connect(lambda _=False: self.add())
        self.adding = session.jobs.of(job_kinds.ADD_TO_LIBRARY)
        self.part.progress.cancelled.connect(self.adding.cancel)
        self.following = session.jobs.of(job_kinds.UPDATE_LIBRARY)
        self._lacking: tuple[Library, Any, Any, Path | None] | None = None
        self._later = debouncer(self, _QUIET, self._follow_decisions)

    def bind(self) -> None:
        """Follow the session."""
        run = self._session.run.events
        review = self._session.review.events
        project = self._session.project.events
        explore = self._session.explore.events
        self.after(self._show, explore.library, run.record, run.progress, project.state)
        self.after(self._decided, review.changes)
        self.after(self._show_job, self.adding.changed)
        self.after(self._show, self.adding.began, self.adding.ended)
        self._show_job()
        self._show()

    def keep(self) -> None:
        """Pass on what was decided last, without a pause: the window closes."""
        self._later.flush()

    def stop(self) -> None:
        """Follow the session no more; the last decisions still reach the library."""
        self.keep()
        super().stop()

    # -- which one ----------------------------------------------------------------------------

    def ask(self) -> None:
        """Ask for a folder, and use the library in it; an empty folder becomes one."""
        title = "Folder of a library, or an empty folder for a new one"
        if folder := ask_folder(self.part, title):
            self.open(folder, create=True)

    def open(self, folder: str | Path, *, create: bool = False) -> None:
        """Use the library in a folder, or none; say why not."""
        if not folder:
            self._session.explore.library = None
            return
        with refusing():
            self._session.explore.library = Library.open(folder, create=create)

    def open_sample(self) -> None:
        """Use the sample library, which is made at first."""
        device = self._session.run.settings.device
        self.adding.start(partial(sample_library, self._store, device), self._added)

    def _show(self, _: object = None) -> None:
        session = self._session
        library, project = session.explore.library, session.project.state
        can_add = library is not None and not self.adding.busy
        has_results = bool(session.run.results) and not session.run.progress.running
        self.part.show_library(library, addable=can_add and has_results)
        self.none.setEnabled(library is not None)
        self.whole.setEnabled(can_add and project is not None and bool(project.file))

    # -- what it holds ------------------------------------------------------------------------

    def add(self) -> None:
        """Add the regions of the table, with their decisions, or say why not."""
        library, record = self._session.explore.library, self._session.run.record
        if library is None or record is None or self.adding.busy:
            return
        with refusing():
            if why := outdated(self._session):
                raise InputError(why)
            self.adding.start(partial(_add, library, self._source(record)), self._added)

    def add_project(self) -> None:
        """Add what is computed of all images of the project, with decisions."""
        library, project = self._session.explore.library, self._session.project.state
        if library is not None and project is not None:
            self.adding.start(partial(_add_project, library, Path(project.file)), self._added)

    def _source(self, record: ResultRecord) -> Callable[[], dict[str, Any]]:
        """Return a function for the worker that makes what `Library.add` takes."""
        image, finder = record.snapshot.image, record.finder
        if image is None or image not in self._viewer.layers:
            raise InputError("The image of these results is not in the viewer; open it again.")
        review, plane = self._session.reviewed, record.plane
        pixels, about = levels_of(image)[0], image.metadata.get(IDENTITY)
        assert finder is not None  # results of layers have one
        picture = copy_picture(
            image,
            finder.view,
            channels=record.snapshot.scope.channels,
            others=image_layers(self._viewer),
            background=background_of(self._viewer),
            shown_only=not finder.all_planes,
        )
        columns = {} if review is None else review.columns()
        masks, name, file = record.masks or {}, str(image.name), file_of(image)

        def make() -> dict[str, Any]:
            bundle = Bundle(
                results=record.results,
                masks=masks if isinstance(masks, dict) else compress_masks(masks),
                image=about or identify_image(name, pixels),
                columns=columns,
            )
            named = _naming(file)
            planes = {}
            for region in bundle.results.regions:
                position = plane or region.position
                if named(position) not in planes:
                    view = finder.view_at(position)
                    planes[named(position)] = picture.source(finder.plane(position), view)
            return {"source": _placed_as_in(file, bundle, plane), "image": file, "planes": planes}

        return make

    def _added(self, added: str | Library) -> None:
        """Say what was added; the sample library is used from now on."""
        if not isinstance(added, str):
            self._session.explore.library = added
            added = "The sample library: Find by words searches it with 'In the library'."
        self._session.explore.library_changes += 1
        inform(added)

    def _show_job(self) -> None:
        self.part.progress.show_job(self.adding.job)

    def _decided(self, _: object) -> None:
        """Note whose decisions the library lacks: another image may be shown after the pause."""
        library, review = self._session.explore.library, self._session.reviewed
        record = self._session.run.record
        if self._lacking is not None and self._lacking[1] is not review:
            self._later.flush()
        if library is not None and review is not None and record is not None:
            self._lacking = library, review, record.plane, file_of(record.snapshot.image)
            self._later.throttle()

    def _follow_decisions(self) -> None:
        """Pass to the library the decisions about an image, if it has the image."""
        if self._lacking is not None:
            (library, review, plane, file), self._lacking = self._lacking, None
            image, columns = review.review.image, review.columns()
            bundle = Bundle(results=review.results, image=image, columns=columns)
            self.following.start(lambda: library.update(_placed_as_in(file, bundle, plane)))


def _placed_as_in(file: Path | None, bundle: Bundle, plane: Position | None) -> Bundle:
    """Return results with planes as the command line calls them, so that none is there twice.

    Results of the plane shown get its position, as runs of all planes have it.
    """
    named = _naming(file)

    def place(position: Position) -> Position:
        return named(plane or position)

    regions = [
        replace(region, position=place(region.position)) for region in bundle.results.regions
    ]
    masks = {}
    for (position, number), mask in bundle.masks.items():
        masks[place(position), number] = mask
    results = replace(bundle.results, regions=tuple(regions))
    return replace(bundle, results=results, masks=masks)


def _naming(file: Path | None) -> Callable[[Position], Position]:
    """Return what gives axes without a name the name that they have in the file, by their order."""
    axes = cache(partial(_axes_in, file))

    def named(position: Position) -> Position:
        if not any(axis.startswith("axis ") for axis, _ in position):
            return position
        if len(axes()) != len(position):
            return position
        indices = [index for _, index in position]
        return tuple(zip(axes(), indices, strict=True))

    return named


def _axes_in(file: Path | None) -> tuple[str, ...]:
    if file is not None:
        with suppress(MaskInversionError, OSError), open_image(file) as stack:
            return tuple(stack.plane_axes)
    return ()


def _add(library: Library, make: Callable[[], dict[str, Any]]) -> str:
    """Add results; return a line about it; in a worker."""
    return _added_to(library, library.add(**make()))


def _add_project(library: Library, file: Path) -> str:
    """Add the stored results of a project; return a line about it; in a worker."""
    project = OpenProject.read(file)
    count, problems = 0, []
    for number, name in enumerate(project.by_name):
        show(Job(text=f"adding {name}", fraction=number / len(project.by_name)))
        try:
            count += add_to_library(project, name, library)
        except MaskInversionError as error:
            problems.append(f" {name} was left out: {error}")
    text = _added_to(library, count)
    if problems:
        text += problems[0]
    if len(problems) > 1:
        text += f" And {len(problems) - 1:,} more."
    return text


def _added_to(library: Library, count: int) -> str:
    total = library.info()["regions"]
    return f"Added {counted(count, 'region')} to {library.folder.name}, which has {total:,} now."


def sample_library(store: ModelStore, device: str) -> Library:
    """Open the sample library; scenes that it lacks are computed first. For a worker."""
    from ...language.labels.presets import vocabulary_of
    from ...language.labels.vocabulary import Vocabulary
    from ...library.adding import stored_path
    from ...pipeline.job import open_job, run_job
    from ...results.settings import RunSettings

    folder = cache_folder() / FOLDER
    make_folder(folder)
    library, names = Library.open(folder, create=True), scene_names()
    model, rows = store.load(DEMO, device), library.rows()
    # There may be rows of an earlier demo model, and of scenes that lay in another folder.
    spaces = library.info()["spaces"]
    stored = set()
    for image_of_row, space in zip(rows["image"], rows["space"], strict=True):
        if spaces[space]["space"].partition("/")[0] == model.fingerprint:
            stored.add(image_of_row)
    settings = RunSettings(model=DEMO, device=device).changed(_SETTINGS)
    for number, name in enumerate(names):
        scene = load_scene(name)
        image, regions = scene.files
        if stored_path(image) in stored:
            continue
        words = vocabulary_of(Vocabulary(scene.vocabulary), ())
        text = f"Sample {number + 1} of {len(names)}: {scene.title}"
        show(Job(text=text, fraction=number / len(names)))
        with open_job(image, regions, settings) as job:
            bundle = run_job(job, model, words)
            planes = {task.position: task.source for task in job.tasks}
            library.add(bundle, image=image, planes=planes)
    return library
