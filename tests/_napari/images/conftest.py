"""A project of three small images, and an empty window with the panel."""

import numpy as np
import pytest
import skimage.io

from napari_maskinversion._napari.panel.widget import MaskInversionWidget
from napari_maskinversion.batch.opened import OpenProject
from napari_maskinversion.batch.project import Project, ProjectImage, write_project
from tests.scenes import label_image, picture

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
    made.shut_down()


def ids(labels):
    return sorted(int(value) for value in np.unique(labels) if value)
