"""A project is killed while its index is written: its files stay, the next refresh mends it."""

import shutil

import pytest

from napari_maskinversion.base.identity import RegionKey
from napari_maskinversion.batch.opened import OpenProject
from napari_maskinversion.batch.project_index import FOLDER, ProjectIndex
from napari_maskinversion.review.reporting import identities_of, image_of
from napari_maskinversion.review.review import Review
from tests.batch.test_project_index import COUNT, contents, make_project
from tests.library.made import bundle

KEYS = [RegionKey(1), RegionKey(3)]
# How long work without end goes on, and how much it does.
ENDLESS = {"operations": 200, "seconds": 0.6}


@pytest.fixture
def project(tmp_path):
    return make_project(tmp_path / "project")


def mended(project):
    """Return the index after a refresh, which has to be the one that is built anew."""
    index = ProjectIndex.fresh(OpenProject.read(project.folder))
    assert len(index.images()) == COUNT
    assert list(index.library.store.problems()) == []
    kept = contents(index)
    shutil.rmtree(project.out / FOLDER)
    assert kept == contents(ProjectIndex.fresh(project))
    return index


def test_no_decision_is_lost_and_the_next_refresh_mends_the_index(
    killed, project, tmp_path, number
):
    told = tmp_path / "told"
    killed("project_index", project.folder, told, folder=tmp_path, number=number, whole=ENDLESS)
    rows = mended(project).library.rows()
    last = max(map(int, told.read_text().split()), default=-1) if told.exists() else -1
    shown = zip(rows["image"], rows["region"], rows["label"], strict=True)
    labels = {(image.rpartition("/")[2], region): label for image, region, label in shown}
    for turn in range(max(0, last - 4), last + 1):  # the last decision about each of these
        label = labels[f"image-{turn % COUNT}.png", turn % 5 + 1]
        assert label in (f"word {turn}", f"word {last + 1}")


def test_an_index_that_was_half_built_is_finished(killed, project, tmp_path, number):
    killed("build_index", project.folder, folder=tmp_path, number=number, whole=ENDLESS)
    mended(project)


def test_decisions_about_many_images_that_were_confirmed_stay(killed, project, tmp_path, number):
    told = tmp_path / "told"
    for part in range(2):  # killed, continued, killed
        killed(
            "many_decisions",
            project.folder,
            told,
            folder=tmp_path,
            number=2 * number + part,
            whole=ENDLESS,
        )
    lines = [int(line) for line in told.read_text().splitlines()] if told.exists() else []
    last = lines[-1] if lines else 0
    for name in project.by_name:
        made = bundle(seed=int(name[6:-4]))
        about = image_of(made), identities_of(made), made.results.info
        with Review(*about, file=project.path(name)) as review:
            labels = review.decisions.accepted()
            chosen = {labels.get(key, "dust") for key in KEYS} - {"dust"}
            turns = {int(label.split()[1]) for label in chosen}
            assert len(turns) <= 1  # both regions, or none of them
            assert max(turns, default=0) >= last
            assert not any("could not be read" in note for note in review.notes)
    mended(project)
