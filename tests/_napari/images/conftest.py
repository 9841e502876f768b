"""A project of three small images, and an empty window with the panel."""

import numpy as np
import pytest
import skimage.io
from qtpy.compat import isalive

from napari_maskinversion._napari.panel.widget import MaskInversionWidget
from napari_maskinversion.batch.opened import OpenProject
from napari_maskinversion.batch.project import Project, ProjectImage, write_project
from tests.scenes import label_image, picture

WAIT = 60_000
FAST = {"inversion.steps": 1, "resolution": 64}


def save(path, pixels):
    path.parent.mkdir(parents=True, exist_ok=True)
    skimage.io.imsave(path, pixels, check_contrast=False)
    return path


@pytest.fixture
def project(tmp_path):
    """The folder of a project of three images; the third has no regions."""
    images = []
    for number in (1, 2, 3):
        save(tmp_path / "images" / f"cell-{number}.png", picture(64, 64, number))
        regions = None
        if number < 3:
            save(tmp_path / "masks" / f"cell-{number}.png", label_image(number, 64, 64))
            regions = f"masks/cell-{number}.png"
        name = f"cell-{number}.png"
        images.append(ProjectImage(name=name, image=f"images/{name}", regions=regions))
    made = Project(labels=("car", "dog"), settings=FAST, images=tuple(images))
    write_project(made, tmp_path / "project.yaml")
    return tmp_path


@pytest.fixture
def opened(project):
    return OpenProject.read(project)


@pytest.fixture
def panel(make_napari_viewer):
    """The panel docked in an empty window."""
    viewer = make_napari_viewer()
    made = MaskInversionWidget(viewer)
    viewer.window.add_dock_widget(made, name="test")
    yield made
    if isalive(made):  # a test may close the window
        made.shut_down()


def ids(labels):
    return sorted(int(value) for value in np.unique(labels) if value)


def open_project(qtbot, panel, place):
    panel.open_images([place])
    qtbot.waitUntil(lambda: panel.images.shown is not None, timeout=WAIT)


def go(qtbot, panel, name):
    panel.images.go(name)
    qtbot.waitUntil(lambda: panel.session.project.current == name, timeout=WAIT)


def on_disk(qtbot, panel):
    """Wait until nothing is left to be written."""
    images = panel.images
    for later in (images.regions.later, images._words_later, images._place_later):
        later.flush()
    qtbot.waitUntil(lambda: not images.writing.busy, timeout=WAIT)


def suggested(qtbot, panel):
    """Suggest for all images."""
    panel.images.part.suggest.click()
    qtbot.waitUntil(lambda: panel.session.many is None, timeout=WAIT)
    qtbot.waitUntil(lambda: panel.session.results is not None, timeout=WAIT)


def accept_all(qtbot, panel, *words):
    """Accept all suggestions of some words in all images, however unsure."""
    part = panel.images.part
    part.limit.setValue(0)
    for word in words:
        part.word.setCurrentText(word)
        part.accept.click()
        qtbot.waitUntil(lambda: panel.session.many is None, timeout=WAIT)


def paint(layer, value, box):
    y0, x0, y1, x1 = box
    layer.data_setitem(tuple(np.mgrid[y0:y1, x0:x1].reshape(2, -1)), value)
