"""The index of a project: a library that can be deleted, and is built again from the truth."""

import os
import shutil
import sqlite3
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

from napari_maskinversion.base.errors import Cancelled
from napari_maskinversion.base.identity import RegionKey
from napari_maskinversion.base.progress import listening
from napari_maskinversion.batch import project_decisions, project_index
from napari_maskinversion.batch.finished import FILE
from napari_maskinversion.batch.image_task import ARCHIVES, file_name
from napari_maskinversion.batch.opened import OpenProject
from napari_maskinversion.batch.project import Project, ProjectImage, write_project
from napari_maskinversion.batch.project_decisions import summarize
from napari_maskinversion.batch.project_index import FOLDER, ProjectIndex
from napari_maskinversion.results.export.archive import open_archive, save_archive
from napari_maskinversion.review.decisions import Decision
from napari_maskinversion.review.reporting import identities_of, image_of
from napari_maskinversion.review.review import Review
from tests.decisions import accept
from tests.library.made import WORDS, bundle, write_image

COUNT = 4  # images of a project
LIBRARY = Path(__file__).parents[1] / "reference" / "at_f4c61888" / "library"


def compute(project, name, made):
    """Write results as a batch does."""
    folder = project.out / ARCHIVES / file_name(name)
    folder.mkdir(parents=True, exist_ok=True)
    save_archive(made, folder / "results.npz")
    (folder / FILE).write_text("{}")


def decide(project, seed, region, status="accepted", label="dust"):
    """Decide about a region of an image, as a review does."""
    made, label = bundle(seed=seed), label if status == "accepted" else ""
    file = project.path(f"image-{seed}.png")
    with Review(image_of(made), identities_of(made), made.results.info, file=file) as review:
        review.decide(Decision(region=RegionKey(region), status=status, label=label))


def make_project(folder):
    """Make a project of computed images, the first of which has decisions."""
    folder.mkdir(exist_ok=True)
    names = [f"image-{seed}.png" for seed in range(COUNT)]
    images = tuple(ProjectImage(name=name, image=name) for name in names)
    write_project(Project(images=images), folder / "project.yaml")
    project = OpenProject.read(folder)
    for seed, name in enumerate(names):
        write_image(folder, seed)
        compute(project, name, bundle(seed=seed))
    decide(project, 0, 1)
    decide(project, 0, 2, "rejected")
    return project


@pytest.fixture
def project(tmp_path):
    return make_project(tmp_path / "project")


def contents(index):
    """All that an index says of its regions, without numbers that depend on the order."""
    rows = index.library.rows()
    masks = index.library.masks(rows["id"].tolist())
    vectors = index.library.vectors(rows["id"].tolist())
    table = rows.drop(columns=["id", "space"]).assign(
        mask=[masks[number].data for number in rows["id"]],
        vector=[vector.tobytes() for vector in vectors],
    )
    table = table.sort_values(["image", "region"]).reset_index(drop=True)
    return [repr(row) for row in table.astype(object).itertuples(index=False, name=None)]


def read_names(index, monkeypatch):
    """Refresh an index; return the archives that were opened for it."""
    opened = []

    def opening(file):
        opened.append(file.parent.name)
        return open_archive(file)

    with monkeypatch.context() as patched:
        patched.setattr(project_index, "open_archive", opening)
        index.refresh()
    return opened


def test_it_holds_what_archives_and_decision_files_say(project):
    index = ProjectIndex.fresh(project)
    rows = index.library.rows(image="image-0.png")
    assert rows["region"].tolist() == [1, 2, 3, 4, 5]
    assert rows["decision"].tolist() == ["accepted", "rejected", *["undecided"] * 3]
    assert rows["label"].tolist() == ["dust", "", WORDS[0], WORDS[1], WORDS[0]]
    made = bundle(seed=0)
    assert rows["margin"].tolist() == [one.margin for one in made.results.regions]
    assert rows["flagged"].tolist() == [one.flagged for one in made.results.regions]
    vectors = index.library.vectors(rows["id"].tolist())
    np.testing.assert_allclose(vectors, made.results.embeddings, atol=1e-3)
    masks = index.library.masks(rows["id"].tolist())
    for number, region in zip(rows["id"], made.region_masks(), strict=True):
        np.testing.assert_array_equal(masks[number].unpack().mask, region.unpack().mask)
    image = index.images()["image-0.png"]
    assert [row.identity for row in index.regions([image])[image.name]] == identities_of(made)


def test_only_what_has_changed_is_read_again(project, monkeypatch):
    assert len(read_names(ProjectIndex.open(project), monkeypatch)) == COUNT
    assert read_names(ProjectIndex.open(project), monkeypatch) == []
    decide(project, 2, 4)
    compute(project, "image-3.png", bundle(3, seed=3))
    index = ProjectIndex.open(project)
    assert read_names(index, monkeypatch) == ["image-2.png", "image-3.png"]
    rows = index.library.rows()
    assert rows[rows["decision"] != "undecided"]["region"].tolist() == [1, 2, 4]
    assert len(index.library.rows(image="image-3.png")) == 3


def test_images_that_are_gone_leave_it(project):
    ProjectIndex.fresh(project)
    shutil.rmtree(project.out / ARCHIVES / "image-1.png")
    images = tuple(one for one in project.project.images if one.name != "image-2.png")
    left = project.with_project(project.project.changed(images=images))
    index = ProjectIndex.fresh(left)
    names = [row.rpartition("/")[2] for row in index.library.rows()["image"].unique()]
    assert sorted(names) == ["image-0.png", "image-3.png"]
    assert list(index.images()) == ["image-0.png", "image-3.png"]


def test_a_damaged_archive_is_a_problem_and_stops_no_other(project):
    ProjectIndex.fresh(project)
    file = project.out / ARCHIVES / "image-1.png" / "results.npz"
    file.write_bytes(file.read_bytes()[:500])
    index = ProjectIndex.fresh(project)
    assert list(index.problems) == ["image-1.png"]
    assert "\n" not in index.problems["image-1.png"]
    assert list(index.images()) == ["image-0.png", "image-2.png", "image-3.png"]
    compute(project, "image-1.png", bundle(seed=1))
    index.refresh()
    assert index.problems == {}
    assert len(index.images()) == COUNT


def test_an_index_that_was_deleted_is_built_again_and_equal(project):
    before = contents(ProjectIndex.fresh(project))
    shutil.rmtree(project.out / FOLDER)
    index = ProjectIndex.fresh(project)
    assert contents(index) == before
    assert index.notes == []


def _truncate(folder):
    os.truncate(folder / "rows.db", 5000)


def _empty(folder):
    (folder / "rows.db").write_bytes(b"")


def _garbage(folder):
    (folder / "rows.db").write_bytes(os.urandom(50_000))


def _no_vectors(folder):
    next(folder.glob("vectors-*")).unlink()


def _short_vectors(folder):
    os.truncate(next(folder.glob("vectors-*")), 40)


def _other_vectors(folder):
    file = next(folder.glob("vectors-*"))
    file.write_bytes(os.urandom(file.stat().st_size))


def _no_rows(folder):
    with sqlite3.connect(folder / "rows.db") as database:
        database.execute("DELETE FROM regions WHERE id = 3")


def _no_table(folder):
    with sqlite3.connect(folder / "rows.db") as database:
        database.execute("DROP TABLE thumbnails")
        database.execute("DROP TABLE spaces")


def _zeros(folder):
    data = bytearray((folder / "rows.db").read_bytes())
    data[4096 : 4096 + 9000] = bytes(9000)
    (folder / "rows.db").write_bytes(data)


def _newer(folder):
    with sqlite3.connect(folder / "rows.db") as database:
        database.execute("PRAGMA user_version = 99")


def _older(folder):
    with sqlite3.connect(folder / "rows.db") as database:
        database.execute("ALTER TABLE project_images_2 RENAME TO project_images_1")


def _flip(file, text):
    data = bytearray(file.read_bytes())
    place = bytes(data).index(text)
    data[place] ^= 1
    file.write_bytes(data)


def _bit_of_a_label(folder):
    _flip(folder / "rows.db", f"{WORDS[1]}{WORDS[1]}".encode())  # label and suggestion


def _bit_of_a_mask_hash(folder):
    with sqlite3.connect(folder / "rows.db") as database:
        (digits,) = database.execute("SELECT mask_hash FROM regions WHERE id = 7").fetchone()
    _flip(folder / "rows.db", digits.encode())


def _bit_of_what_is_known_of_an_image(folder):
    _flip(folder / "rows.db", b'"channels"')


def _bit_of_a_vector(folder):
    file = next(folder.glob("vectors-*"))
    data = bytearray(file.read_bytes())
    data[102] ^= 1
    file.write_bytes(data)


@pytest.mark.parametrize(
    "damage",
    [
        *(_truncate, _empty, _garbage, _no_vectors, _short_vectors, _other_vectors),
        *(_no_rows, _no_table, _zeros, _newer, _older, _bit_of_a_label, _bit_of_a_mask_hash),
        *(_bit_of_what_is_known_of_an_image, _bit_of_a_vector),
    ],
)
def test_a_damaged_index_is_built_again_and_that_is_said(project, damage):
    before = contents(ProjectIndex.fresh(project))
    truth = {file: file.read_bytes() for file in truth_of(project)}
    damage(project.out / FOLDER)
    index = ProjectIndex.fresh(project)
    assert contents(index) == before
    assert index.notes == ["The index of project was damaged and is built again."]
    assert {file: file.read_bytes() for file in truth_of(project)} == truth


def truth_of(project):
    """Return the files that an index is made from."""
    decisions = project.folder.glob("*.jsonl")
    archives = (file for file in (project.out / ARCHIVES).rglob("*") if file.is_file())
    return sorted([*archives, *decisions, project.file])


def test_files_of_others_in_its_folder_stay_and_the_project_works(project):
    folder = project.out / FOLDER
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    index = ProjectIndex.fresh(project)
    assert len(index.images()) == COUNT
    assert [file.name for file in folder.iterdir() if not file.name.startswith(".")] == [
        "notes.txt"
    ]
    assert index.notes[0].startswith("The index of project is not kept: ")


def test_a_library_of_the_users_in_its_place_stays_and_the_project_works(project):
    """It was written at f4c61888."""
    folder = shutil.copytree(LIBRARY, project.out / FOLDER)
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    index = ProjectIndex.fresh(project)
    assert len(index.images()) == COUNT
    assert index.notes[0].startswith("The index of project is not kept: ")
    assert "is a library; move it" in index.notes[0]
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


def test_a_link_in_its_place_goes_and_the_file_that_it_leads_to_stays(project, tmp_path):
    diary = tmp_path / "diary.txt"
    diary.write_text("mine")
    folder = project.out / FOLDER
    folder.mkdir()
    (folder / "rows.db").symlink_to(diary)
    (folder / "vectors-1-1.f16").symlink_to(diary)
    index = ProjectIndex.fresh(project)
    assert index.notes[0] == "The index of project was damaged and is built again."
    assert len(index.images()) == COUNT
    assert diary.read_text() == "mine"
    assert not (folder / "rows.db").is_symlink()


def test_a_folder_that_cannot_be_written_to_has_its_index_in_memory(project, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("napari_maskinversion.library.store.sync_folder", full)
        index = ProjectIndex.fresh(project)
        assert len(index.library.rows()) == 5 * COUNT
        assert read_names(ProjectIndex.open(project), monkeypatch) == []  # it is kept meanwhile
    assert index.notes[0].startswith("The index of project is not kept: ")


def test_nothing_is_written_where_nothing_was_computed(tmp_path):
    write_project(Project(), tmp_path / "project.yaml")
    index = ProjectIndex.fresh(OpenProject.read(tmp_path))
    assert len(index.library.rows()) == 0
    assert [file.name for file in tmp_path.iterdir()] == ["project.yaml"]


def test_what_was_read_before_cancel_is_kept(project, monkeypatch):
    monkeypatch.setattr(project_index, "_MOST_IMAGES", 1)

    def cancel(news):
        if getattr(news, "done", 0) == 2:
            raise Cancelled

    index = ProjectIndex.open(project)
    with pytest.raises(Cancelled), listening(cancel):
        index.refresh()
    assert list(index.images()) == ["image-0.png", "image-1.png"]
    assert read_names(ProjectIndex.open(project), monkeypatch) == ["image-2.png", "image-3.png"]


def test_decisions_go_to_the_files_and_to_the_index(project, monkeypatch):
    monkeypatch.setattr(project_decisions.ProjectImages, "_check_fresh", lambda *_: None)
    before = {name: summarize(project, name) for name in project.by_name}
    accepted = accept(project, WORDS[0], 0.5)
    assert [len(accepted.steps[name]) for name in project.by_name] == [2, 3, 3, 3]
    assert not accepted.problems
    index = ProjectIndex.open(project)
    assert read_names(index, monkeypatch) == []  # it has them
    kept = contents(index)
    shutil.rmtree(project.out / FOLDER)
    assert contents(ProjectIndex.fresh(project)) == kept
    after = {name: summarize(project, name) for name in project.by_name}
    assert [after[name].decided - before[name].decided for name in after] == [2, 3, 3, 3]


def test_two_programs_make_one_index(project):
    context = get_context("spawn")
    workers = [context.Process(target=_refresh, args=(project.folder,)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0]
    index = ProjectIndex.open(project)
    assert len(index.library.rows()) == 5 * COUNT
    assert list(index.library.store.problems()) == []
    assert index.notes == []


def test_one_program_decides_while_another_one_builds_the_index_again_and_again(project):
    context = get_context("spawn")
    works = (_decide_about_all, _build_again)
    workers = [context.Process(target=work, args=(project.folder,)) for work in works]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0]
    index = ProjectIndex.fresh(project)
    assert index.notes == []
    assert set(index.library.rows()["label"]) == {f"word {region}" for region in range(1, 6)}
    kept = contents(index)
    shutil.rmtree(project.out / FOLDER)
    assert contents(ProjectIndex.fresh(project)) == kept


def _decide_about_all(folder):
    project = OpenProject.read(folder)
    for seed in range(COUNT):
        for region in range(1, 6):
            decide(project, seed, region, label=f"word {region}")
            ProjectIndex.fresh(project)


def _build_again(folder):
    project = OpenProject.read(folder)
    for _ in range(10):
        for file in (project.out / ARCHIVES).rglob("results.npz"):
            os.utime(file)
        ProjectIndex.fresh(project)


def _refresh(folder):
    project = OpenProject.read(folder)
    for turn in range(3):
        index = ProjectIndex.fresh(project)
        assert len(index.library.rows()) == 5 * COUNT
        assert index.notes == []
        if turn < 2:
            for name in project.by_name:
                os.utime(project.out / ARCHIVES / name / "results.npz")
