"""What the panel writes for a project, without a window."""

import errno
import os
import shutil
from dataclasses import replace

import numpy as np
import pytest

from napari_maskinversion.app.project.images_work import About, suggest_work
from napari_maskinversion.app.project.project_disk import Edits, ProjectDisk, defaults
from napari_maskinversion.app.project.project_opening import (
    count_regions,
    is_computed,
    open_project_image,
)
from napari_maskinversion.app.review.decision_book import DecisionBook
from napari_maskinversion.app.work.driver import Job
from napari_maskinversion.app.work.model_store import ModelStore
from napari_maskinversion.base import progress, reading
from napari_maskinversion.base.errors import Cancelled, InputError
from napari_maskinversion.base.identity import RegionKey
from napari_maskinversion.batch import batch_outcome, image_run
from napari_maskinversion.batch import opened as batch_opened
from napari_maskinversion.batch.finished import read_finished, write_finished
from napari_maskinversion.batch.opened import OpenProject
from napari_maskinversion.batch.project import Project, ProjectImage, read_project, write_project
from napari_maskinversion.batch.project_decisions import add_to_library
from napari_maskinversion.language.labels.label import Label
from napari_maskinversion.language.labels.presets import vocabulary_of
from napari_maskinversion.language.labels.vocabulary import Vocabulary
from napari_maskinversion.learning.classifier import Classifier
from napari_maskinversion.library.library import Library
from napari_maskinversion.results.settings import RunSettings
from tests._napari.tasks import do
from tests.decisions import region_request

from .conftest import save


def suggest(project, stop=lambda value: False):
    """Suggest for all, as the button does."""
    return do(lambda: suggest_work(project, "cpu", ModelStore()), stop)


def test_suggest_for_all_computes_each_image_once_and_goes_on_where_it_stopped(project):
    opened = OpenProject.read(project)
    ended, told = suggest(opened, stop=lambda value: isinstance(value, About))
    assert (ended.computed, ended.planned, ended.stopped) == (1, 2, True)
    assert is_computed(opened.task("cell-1.png"))
    ended, told = suggest(opened)
    assert (ended.computed, ended.planned) == (1, 1)
    assert any("Image 1 of 1: cell-2.png" in one.text for one in told if isinstance(one, Job))
    ended, _ = suggest(opened)
    assert ended.text == "All images with regions have suggestions."


def test_decisions_that_were_saved_when_it_stopped_are_in_the_library(computed_once, tmp_path):
    opened = OpenProject.read(shutil.copytree(computed_once, tmp_path / "copy"))
    names, library = ("cell-1.png", "cell-2.png"), Library.new(tmp_path / "library")
    for name in names:
        add_to_library(opened, name, library)
    regions, last = {name: [RegionKey(1)] for name in names}, "Image 1 of 2"
    task = DecisionBook().start(region_request(opened, regions, "rejected", library=library))
    do(task.run, lambda value: isinstance(value, Job) and last in value.text)
    assert (task.outcome.count, task.outcome.stopped) == (2, True)
    assert len(library.rows(decision="rejected")) == 2


def test_stopping_within_an_image_keeps_nothing_of_it_and_says_how_to_go_on(project):
    opened = OpenProject.read(project)
    ended, _ = suggest(opened, stop=lambda value: "Looking at" in value.text)
    assert ended.text == "0 of 2 images computed. Press Suggest for all to continue."
    assert not is_computed(opened.task("cell-1.png"))


def test_cancel_is_heard_while_a_busy_disk_is_waited_for(project, monkeypatch):
    waited = [0.0]

    def sleep(seconds):
        waited[0] += seconds

    def busy(*_, **__):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(progress, "monotonic", lambda: waited[0])
    monkeypatch.setattr(progress, "sleep", sleep)
    monkeypatch.setattr(image_run, "write_parquet", busy)
    ended, told = suggest(OpenProject.read(project), lambda value: "trying again" in value.text)
    assert ended.stopped
    assert "Input/output error; trying again." in told[-1].text
    assert waited[0] < 1


def test_cancel_is_heard_while_files_are_compared_with_those_that_were_computed(
    computed_once, tmp_path, monkeypatch
):
    folder = shutil.copytree(computed_once, tmp_path / "copy")
    for image in (folder / "images").iterdir():
        os.utime(image, (1e9, 1e9))
    compared = []
    digest = reading.sha256
    monkeypatch.setattr(reading, "sha256", lambda: compared.append(1) or digest())
    monkeypatch.setattr(reading, "INTERVAL", -1.0)
    outcome, told = suggest(OpenProject.read(folder), lambda value: True)
    assert outcome is None
    assert told == [Job("Looking for images to compute ...")]
    assert len(compared) == 1


def test_what_waits_for_the_library_when_it_is_stopped_is_named(project, monkeypatch):
    def waits(*_):
        raise Cancelled("Stopped.")

    monkeypatch.setattr(batch_outcome, "keep_computed", waits)
    ended, _ = suggest(OpenProject.read(project))
    assert (ended.computed, ended.stopped) == (1, True)
    assert "cell-1.png was left out: it was computed, but not added to the library" in ended.text


def test_a_broken_image_is_named_and_the_others_are_computed(project):
    (project / "images" / "cell-1.png").write_bytes(b"no picture")
    opened = OpenProject.read(project)
    ended, _ = suggest(opened)
    assert (ended.computed, ended.planned) == (1, 2)
    assert list(ended.problems) == ["cell-1.png"]
    assert "cell-1.png was left out" in ended.text


def test_suggest_for_all_stops_at_a_full_disk_and_goes_on_with_more_room(project, monkeypatch):
    tried = []

    def full(bundle, path, **_):
        tried.append(path)
        raise InputError(f"{path} could not be written.") from OSError(errno.ENOSPC, "No room")

    monkeypatch.setattr(image_run, "write_parquet", full)
    opened = OpenProject.read(project)
    ended, _ = suggest(opened)
    assert len(tried) == 1  # no other image
    assert (ended.computed, ended.planned, ended.problems) == (0, 2, {})
    assert "could not be written" in ended.text
    assert "Free some space, then press Suggest for all" in ended.text
    monkeypatch.undo()
    ended, _ = suggest(opened)
    assert (ended.computed, ended.disk_full) == (2, "")


def test_an_image_is_opened_with_its_regions_and_then_with_its_results(opened):
    bare = open_project_image(opened, "cell-1.png")
    assert bare.bundle is None
    assert bare.summary.regions == len(bare.identities) > 0
    suggest(opened)
    whole = open_project_image(opened, "cell-1.png")
    assert whole.bundle is not None
    assert whole.identities == bare.identities
    assert (whole.labels == bare.labels).all()
    assert not open_project_image(opened, "cell-3.png").labels.any()


def test_regions_of_another_size_are_told_and_the_image_is_shown(project, opened):
    save(project / "masks" / "cell-1.png", np.ones((32, 99), np.uint8))
    shown = open_project_image(opened, "cell-1.png")
    assert "32" in shown.problem
    assert not shown.labels.any()
    shutil.rmtree(project / "masks")
    assert "masks" in open_project_image(opened, "cell-1.png").problem


def test_the_number_of_regions_is_known_before_there_are_results(project, opened):
    labels = np.zeros((64, 64), np.uint8)
    labels[8:60:8, 8:60] = np.arange(1, 8)[:, None]
    save(project / "masks" / "cell-1.png", labels)
    assert count_regions(opened, "cell-1.png") == 7
    assert count_regions(opened, "cell-3.png") == 0


def test_regions_that_may_be_of_another_image_are_shown_and_said(project):
    box = "<bndbox><xmin>8</xmin><ymin>8</ymin><xmax>28</xmax><ymax>28</ymax></bndbox>"
    (project / "a.xml").write_text(
        "<annotation><filename>other.png</filename>"
        f"<object><name>car</name>{box}</object></annotation>"
    )
    image = ProjectImage(name="cell-1.png", image="images/cell-1.png", regions="a.xml")
    write_project(Project(images=(image,)), project / "own.yaml")
    shown = open_project_image(OpenProject.read(project / "own.yaml"), "cell-1.png")
    assert "says it is about other.png, and the image is cell-1.png." in shown.problem
    assert shown.labels.any()


def test_words_are_kept_for_the_images_that_follow_with_groups_in_a_file_of_our_own(project):
    users = project / "project_words.yaml"
    users.write_text("mine")
    disk = ProjectDisk(OpenProject.read(project))
    settings = disk.project.settings
    same = Vocabulary(("car", "dog"))
    assert disk.set_words(same, settings) is None  # nothing changed
    plain = Vocabulary(("car", "cat"), synonyms=(("auto",), ()), threshold=0.2)
    assert disk.set_words(plain, settings).words
    assert OpenProject.read(project).vocabulary == plain
    grouped = Vocabulary.of([Label("car", group="things", color="#ff0000"), Label("dog")])
    disk.set_words(grouped, settings)
    disk.set_words(replace(grouped, threshold=0.1), settings)
    again = OpenProject.read(project)
    assert again.vocabulary == replace(grouped, threshold=0.1)
    assert users.read_text() == "mine"


def test_the_classifier_of_the_words_stays_with_the_project(project, tmp_path):
    texts = np.eye(2, 4, dtype=np.float32)
    file = Classifier.of_words(("car", "dog"), texts, 10.0).save(tmp_path / "pets")
    learned = vocabulary_of(str(file))
    words = replace(Vocabulary(("car", "dog", "cat")), learned=learned.learned)  # one was typed
    disk = ProjectDisk(OpenProject.read(project))
    assert disk.set_words(words, disk.project.settings).words
    again = OpenProject.read(project)
    assert again.vocabulary == words
    assert again.vocabulary.learned.file == file
    assert file in again.project.files(project)
    assert ProjectDisk(again).set_words(words, disk.project.settings) is None
    made = defaults(learned, RunSettings(), project)
    assert made.vocabulary(project, None) == learned
    disk.set_words(Vocabulary(("car",)), disk.project.settings)
    assert OpenProject.read(project).project.classifier is None
    file.unlink()
    with pytest.raises(InputError, match="pets.safetensors"):
        _ = again.project.vocabulary(project, None)


@pytest.mark.parametrize(
    ("change", "labels", "threshold"),
    [
        ({"labels": ("car", "cat")}, ("car", "cat"), 0.3),
        ({"threshold": 0.2}, "words.yaml", 0.2),
        ({"threshold": None}, ("car", "dog"), None),
    ],
)
def test_a_threshold_in_the_file_of_words_lasts_until_it_is_changed(
    project, change, labels, threshold
):
    (project / "words.yaml").write_text("labels:\n- car\n- dog\nthreshold: 0.3\n")
    image = ProjectImage(name="cell-1.png", image="images/cell-1.png")
    write_project(Project(labels="words.yaml", images=(image,)), project / "own.yaml")
    disk = ProjectDisk(OpenProject.read(project / "own.yaml"))
    words, settings = disk.project.vocabulary, disk.project.settings
    assert words.threshold == 0.3
    edits = Edits(settings, words)
    assert edits.note(settings, replace(words, **change))
    disk.set_words(*edits.made_in(settings))
    again = OpenProject.read(project / "own.yaml")
    assert again.project.labels == labels
    assert again.vocabulary == replace(words, **change)
    assert again.vocabulary.threshold == threshold


def test_settings_are_kept_without_words_and_without_those_of_the_machine(project):
    disk = ProjectDisk(OpenProject.read(project))
    words = disk.project.vocabulary
    settings = disk.project.settings.changed({"device": "cpu", "inversion.alpha": 3.0})
    disk.set_words(None, settings)
    again = OpenProject.read(project)
    assert again.project.settings["inversion.alpha"] == 3.0
    assert "device" not in again.project.settings
    assert again.vocabulary == words


EXACT = {"model": "models/own.safetensors", "architecture": "ViT-B-32", "inversion.alpha": 0.125}
SHOWN = {"model": "demo", "architecture": None, "inversion.alpha": 0.12}


@pytest.mark.parametrize(
    ("settings", "words", "labels", "stored"),
    [
        ({}, {}, ("car", "dog"), {}),
        ({"inversion.steps": 7}, {}, ("car", "dog"), {"inversion.steps": 7}),
        ({}, {"labels": ("car", "cat"), "colors": ()}, ("car", "cat"), {}),
        ({}, {"threshold": 0.3}, ("car", "dog"), {"threshold": 0.3}),
        # Another model is kept without the architecture of the one before.
        ({"model": "ViT-B-16/openai"}, {}, ("car", "dog"), {"model": "ViT-B-16/openai"}),
    ],
)
def test_only_what_was_changed_is_kept_where_the_panel_shows_other_values(
    project, settings, words, labels, stored
):
    file = project / "project.yaml"
    own = {**read_project(file).settings, **EXACT, "threshold": 0.23456}
    write_project(read_project(file).model_copy(update={"settings": own}), file)
    disk = ProjectDisk(OpenProject.read(project))
    shown = disk.project.settings.changed(SHOWN)
    first = Vocabulary(("car", "dog"), threshold=0.235, colors=("#ff0000", ""))
    edits = Edits(shown, first)
    for now, then in ((shown, first), (shown.changed(settings), replace(first, **words))):
        if edits.note(now, then):
            disk.set_words(*edits.made_in(disk.project.settings))
    after = read_project(file)
    if "model" in settings:
        del own["architecture"]
    assert after.settings == {**own, **stored}
    assert (after.labels, after.colors) == (labels, {})


def test_a_change_that_is_taken_back_is_taken_back_in_the_project(project):
    disk = ProjectDisk(OpenProject.read(project))
    shown = disk.project.settings
    edits = Edits(shown, None)
    for alpha in (3.0, shown.inversion.alpha):
        edits.note(shown.changed({"inversion.alpha": alpha}), None)
        disk.set_words(*edits.made_in(disk.project.settings))
    assert OpenProject.read(project).settings == shown


def test_a_new_project_takes_words_and_settings_of_the_panel(project, opened):
    words = Vocabulary(("car", "dog"), synonyms=(("auto",), ()))
    made = defaults(words, opened.settings, project)
    assert made.vocabulary(project, None) == words
    assert made.run_settings(project) == opened.settings


def test_an_image_is_done_once_and_open_again(project):
    disk = ProjectDisk(OpenProject.read(project))
    disk.set_states({"cell-1.png": True})
    assert OpenProject.read(project).done == {"cell-1.png"}
    assert disk.set_states({"cell-1.png": True}) is None
    disk.set_states({"cell-1.png": False})
    assert OpenProject.read(project).done == frozenset()


def test_a_full_disk_is_told_and_the_earlier_project_stays(project, monkeypatch):
    disk, name = ProjectDisk(OpenProject.read(project)), "cell-1.png"
    before = (project / "project.yaml").read_bytes()

    def refuse(*_):
        raise InputError("project.yaml could not be written (No space left on device).")

    monkeypatch.setattr(batch_opened, "write_project", refuse)
    with pytest.raises(InputError, match="No space"):
        disk.set_states({name: True})
    assert (project / "project.yaml").read_bytes() == before
    monkeypatch.undo()
    disk.set_states({name: True})
    assert OpenProject.read(project).done == {name}


def test_results_with_captions_of_a_batch_are_not_computed_again_without(project):
    opened = OpenProject.read(project)
    suggest(opened)
    archive = opened.task("cell-1.png").archive
    kept = read_finished(archive)
    write_finished(kept.model_copy(update={"captions": "0" * 64}), archive)
    ended, _ = suggest(opened)
    assert ended.planned == 0
