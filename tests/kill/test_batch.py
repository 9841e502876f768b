"""A batch that is killed is finished by the same command, and what was done stays."""

import shutil

import numpy as np
import pytest
import skimage.io

from napari_maskinversion.batch.opened import OpenProject
from napari_maskinversion.batch.project_index import FOLDER, ProjectIndex
from tests.batch.test_project_index import contents
from tests.scenes import label_image, picture

COUNT = 3
BATCH = ("command", "batch", "project", "--out", "project/maskinversion_batch")
MEASURED = {}


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    """A folder with images and regions."""
    folder = tmp_path_factory.mktemp("scene")
    for name in ("images", "masks"):
        (folder / name).mkdir()
    for number in range(COUNT):
        name = f"cell-{number}.png"
        skimage.io.imsave(folder / "images" / name, picture(64, 64, number), check_contrast=False)
        labels = label_image(number + 1, 64, 64)
        skimage.io.imsave(folder / "masks" / name, labels, check_contrast=False)
    return folder


@pytest.fixture
def place(forks, scene, tmp_path):
    """A copy of it with a project, and beside the copies a whole batch."""
    if not MEASURED:
        words = ("--images", "images", "--regions", "masks", "--labels", "car,dog")
        fast = ("--steps", "1", "--resolution", "64")
        new = forks.run("command", "project", "new", "project", *words, *fast, folder=scene)
        assert new["code"] == 0, new["said"]
        shutil.copytree(scene, scene.with_name("whole"))
        done = forks.run(*BATCH, folder=scene.with_name("whole"))
        assert done["code"] == 0, done["said"]
        MEASURED["batch"] = done
    return shutil.copytree(scene, tmp_path / "place")


def embeddings(folder):
    """Return the embeddings of each image, and when they were written."""
    arrays = {}
    times = {}
    for file in sorted(folder.rglob("archives/*/batch.json")):  # the mark that an image is done
        with np.load(file.with_name("results.npz")) as archive:
            arrays[file.parent.name] = archive["embeddings"]
        times[file.parent.name] = file.stat().st_mtime_ns
    return arrays, times


def test_a_batch_is_finished_by_the_next_start(forks, killed, scene, place, number):
    killed(*BATCH, folder=place, number=number, whole=MEASURED["batch"])
    _, before = embeddings(place)
    done = forks.run(*BATCH, folder=place)
    assert done["code"] == 0, done["said"]
    whole, _ = embeddings(scene.with_name("whole"))
    finished, after = embeddings(place)
    assert before.items() <= after.items()  # what was done is not computed again
    assert finished.keys() == whole.keys()
    for name, rows in whole.items():
        np.testing.assert_array_equal(finished[name], rows)
    project = OpenProject.read(place / "project")
    index = ProjectIndex.fresh(project)
    assert len(index.images()) == COUNT
    kept = contents(index)
    shutil.rmtree(project.out / FOLDER)
    assert contents(ProjectIndex.fresh(project)) == kept
    hidden = [file for file in project.out.rglob(".*") if "index" not in file.parts]
    assert hidden == []
