"""A project of three small images, one with suggestions, and an empty window with the panel."""

import shutil

import numpy as np
import pytest
import skimage.io

from napari_maskinversion.app.project.images_work import suggest_work
from napari_maskinversion.app.session import Action
from napari_maskinversion.app.work.model_store import ModelStore
from napari_maskinversion.batch.opened import OpenProject
from napari_maskinversion.batch.project import Project, ProjectImage, write_project
from napari_maskinversion.batch.project_decisions import summarize
from napari_maskinversion.batch.project_index import archive_file
from napari_maskinversion.regions.region_reading import read_regions
from napari_maskinversion.results.export.archive import open_archive
from napari_maskinversion.review.reporting import identities_of, image_of
from napari_maskinversion.review.review import Review
from tests._napari.tasks import do
from tests.scenes import label_image, picture

WAIT = 60_000
FAST = {"inversion.steps": 1, "resolution": 64}


def save(path, pixels):
    path.parent.mkdir(parents=True, exist_ok=True)
    skimage.io.imsave(path, pixels, check_contrast=False)
    return path


def make_project(folder):
    """Make a project of three images; the third has no regions."""
    images = []
    for number in (1, 2, 3):
        name = f"cell-{number}.png"
        save(folder / "images" / name, picture(64, 64, number))
        if number < 3:
            save(folder / "masks" / name, label_image(number, 64, 64))
        regions = f"masks/{name}" if number < 3 else None
        images.append(ProjectImage(name=name, image=f"images/{name}", regions=regions))
    made = Project(labels=("car", "dog"), settings=FAST, images=tuple(images))
    write_project(made, folder / "project.yaml")
    return folder


@pytest.fixture
def project(tmp_path):
    """The folder of a project of three images; the third has no regions."""
    return make_project(tmp_path)


@pytest.fixture(scope="session")
def computed_once(tmp_path_factory):
    """Such a project with suggestions, for copies of it."""
    folder = make_project(tmp_path_factory.mktemp("computed"))
    do(lambda: suggest_work(OpenProject.read(folder), "cpu", ModelStore()))
    return folder


@pytest.fixture
def computed(qtbot, panel, tmp_path, computed_once):
    """The folder of such a project, with suggestions, and open in the panel."""
    folder = tmp_path / "computed"
    shutil.copytree(computed_once, folder)
    open_project(qtbot, panel, folder)
    assert panel.session.run.results
    return folder


@pytest.fixture
def opened(project):
    return OpenProject.read(project)


@pytest.fixture
def panel(dock):
    """The panel on an empty viewer, with the words of its last state."""
    return dock(words=None)


@pytest.fixture(autouse=True)
def one_model(monkeypatch):
    """Load each model once for all panels."""
    load = ModelStore.get

    def get(self, name, device):
        if (name, device) not in _LOADED:
            _LOADED[name, device] = load(self, name, device)
        return _LOADED[name, device]

    monkeypatch.setattr(ModelStore, "get", get)


_LOADED = {}


def ids(labels):
    return sorted(int(value) for value in np.unique(labels) if value)


def open_project(qtbot, panel, place):
    panel.session.project.open_images.emit([place])
    qtbot.waitUntil(lambda: panel.images.shown is not None)


def go(qtbot, panel, name):
    panel.images.go(name)
    qtbot.waitUntil(lambda: panel.session.project.state.current == name)


def on_disk(qtbot, panel):
    """Wait until nothing is left to be written."""
    panel.images.keeper.flush()
    qtbot.waitUntil(lambda: not panel.images.keeper.writing.busy)


def suggested(qtbot, panel):
    """Suggest for all images."""
    panel.images.part.suggest.click()
    settled(qtbot, panel)
    qtbot.waitUntil(lambda: panel.session.run.results is not None)


def accept(panel, word):
    """Press Accept for all suggestions of a word, however unsure."""
    part = panel.images.part
    part.together.limit.setValue(0)
    part.together.word.setCurrentText(word)
    part.together.accept.click()


def settled(qtbot, panel):
    """Wait until the work on all images is over."""
    qtbot.waitUntil(lambda: panel.session.status.many is None)


def accept_all(qtbot, panel, *words):
    """Accept all suggestions of some words in all images."""
    for word in words:
        accept(panel, word)
        settled(qtbot, panel)


def undo_all(qtbot, panel):
    """Press Undo of the work on all images."""
    panel.images.part.undo.click()
    settled(qtbot, panel)


def cancelled_after(count, work):
    """Return work that saves decisions in files, and that somebody cancels after so many images."""

    def save_decisions(task, is_saved):
        unreached = task.pending[count:]
        del task.pending[count:]
        work(task, is_saved)
        task.pending, task.stopped = unreached, True
        return task

    return save_decisions


def stopped(task, is_saved):
    """Save no decisions, since somebody has cancelled before the first image."""
    return cancelled_after(0, lambda *_: None)(task, is_saved)


def redo_elsewhere(project, name):
    """Do again what was undone last about an image, as another window does."""
    bundle = open_archive(archive_file(project, name))
    about = image_of(bundle), identities_of(bundle), bundle.results.info
    with Review(*about, file=project.path(name)) as other:
        assert other.redo()


def review(qtbot, panel):
    """Switch the review on."""
    panel.do(Action.REVIEW)
    qtbot.waitUntil(lambda: panel.review.state is not None)
    qtbot.waitUntil(lambda: not panel.session.review.opening)
    return panel.review.state


def decided(folder):
    """Return how many regions of each image are decided, on the disk."""
    opened = OpenProject.read(folder)
    return [summarize(opened, name).decided for name in ("cell-1.png", "cell-2.png")]


def paint(layer, value, box):
    y0, x0, y1, x1 = box
    layer.data_setitem(tuple(np.mgrid[y0:y1, x0:x1].reshape(2, -1)), value)


def kept(project, name):
    """Return the regions of an image as they are on the disk: pixels by id."""
    file = OpenProject.read(project).regions(name)
    if file is None:
        return {}
    return {one.id: one.area for one in read_regions(file, (64, 64), image=name)}
