"""Work on all images of a project in the real window: suggest, accept, take back."""

import json
import shutil
import threading
from collections import Counter

import pytest
from qtpy.QtWidgets import QFileDialog

from napari_maskinversion._napari.review import decision_worker, review_keeper
from napari_maskinversion._napari.review.review_keeper import open_review
from napari_maskinversion.app.project.images_work import suggest_work
from napari_maskinversion.app.session import Action, staleness
from napari_maskinversion.app.work.driver import show
from napari_maskinversion.app.work.model_store import ModelStore
from napari_maskinversion.batch.opened import OpenProject
from napari_maskinversion.batch.project import read_project, write_project
from napari_maskinversion.batch.project_index import archive_file
from napari_maskinversion.results.export import bundle as bundle_module
from napari_maskinversion.results.export.archive import open_archive
from napari_maskinversion.results.export.catalogue import MANY
from napari_maskinversion.review.reporting import identities_of, image_of
from napari_maskinversion.review.review import Review
from napari_maskinversion.review.stored_images import Summary
from tests._napari.tasks import do
from tests.scenes import label_image, picture

from .conftest import (
    WAIT,
    accept,
    accept_all,
    cancelled_after,
    decided,
    go,
    on_disk,
    open_project,
    redo_elsewhere,
    review,
    settled,
    stopped,
    suggested,
    undo_all,
)


def first_word(panel):
    return panel.session.run.results.regions[0].suggestion


def test_accepting_in_all_images_is_taken_back_in_one(qtbot, panel, computed):
    part, opened = panel.images.part, panel.images.project
    bundle = open_archive(archive_file(opened, "cell-2.png"))
    accept_all(qtbot, panel, bundle.results.regions[0].suggestion)
    assert sum(decided(computed)) > 0
    args = image_of(bundle), identities_of(bundle), bundle.results.info
    with Review(*args, file=opened.path("cell-2.png")) as other:
        there = len(other.decisions)
        undo_all(qtbot, panel)
        assert (
            "cell-2.png: it is under review, here or in another window" in panel.foot.status.text()
        )
        assert len(other.decisions) == there > 0
    assert part.undo.isEnabled()
    undo_all(qtbot, panel)
    assert sum(decided(computed)) == 0


def test_accept_counts_what_waits_and_goes_on_to_a_word_that_has_some(qtbot, panel, computed):
    part = panel.images.part
    files = [archive_file(panel.images.project, f"cell-{number}.png") for number in (1, 2)]
    words = Counter(one.suggestion for file in files for one in open_archive(file).results.regions)
    panel.show()
    panel.tabs.show_tab("images")  # it counts the images in view
    part.together.limit.setValue(0)
    for word, count in words.items():
        part.together.word.setCurrentText(word)
        qtbot.waitUntil(lambda count=count: part.together.accept.text() == f"Accept {count}")
    (first, _), (other, left) = words.most_common()
    accept_all(qtbot, panel, first)
    assert part.together.word.currentText() == other
    qtbot.waitUntil(lambda: part.together.accept.text() == f"Accept {left}")


def test_accepting_in_all_images_reaches_the_open_review_and_so_does_undo(qtbot, panel, computed):
    state, word = review(qtbot, panel), first_word(panel)
    accept_all(qtbot, panel, word)
    assert panel.review.state is state  # open all the while
    assert panel.session.review.decided_count > 0
    assert {one.label for one in state.review.decisions.values()} == {word}
    undo_all(qtbot, panel)
    assert panel.session.review.decided_count == 0


@pytest.mark.parametrize(
    ("name", "typed", "file"), [("csv", "mine.csv", "mine.csv"), ("coco", "mine", "mine.json")]
)
def test_the_export_of_all_images_has_the_name_that_was_typed(
    qtbot, panel, computed, tmp_path, monkeypatch, name, typed, file
):
    usual = []

    def ask(_, title, place, *more, **options):
        usual.append(place)
        return str(tmp_path / "out" / typed), ""

    monkeypatch.setattr(QFileDialog, "getSaveFileName", ask)
    panel.images.part.exporting.emit(name)
    file = tmp_path / "out" / file
    qtbot.waitUntil(file.exists)
    qtbot.waitUntil(lambda: panel.session.status.many is None)
    assert usual == [str(panel.images.project.folder / MANY[name].file)]
    assert [one.name for one in file.parent.iterdir()] == [file.name]


def texts_in(menu):
    """The texts of a menu, and of those below it."""
    for action in menu.actions():
        yield action.text()
        if action.menu() is not None:
            yield from texts_in(action.menu())


def test_the_menu_offers_every_format_and_asks_for_a_folder_where_it_writes_one(
    qtbot, panel, computed, tmp_path, monkeypatch
):
    offered = set(texts_in(panel.images.part.export.menu()))
    assert {f"{many.title}..." for many in MANY.values()} <= offered
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda *_, **__: str(tmp_path))
    panel.images.part.exporting.emit("qupath")
    qtbot.waitUntil((tmp_path / "qupath").exists)
    qtbot.waitUntil(lambda: panel.session.status.many is None)
    names = {file.name for file in (tmp_path / "qupath").iterdir()}
    assert names == {"cell-1.png.geojson", "cell-2.png.geojson", "images.csv"}


def test_a_format_whose_packages_are_missing_is_refused_before_it_asks_where(
    panel, computed, monkeypatch
):
    def ask(*_, **__):
        pytest.fail("asked where")

    monkeypatch.setattr(QFileDialog, "getExistingDirectory", ask)
    monkeypatch.setattr(bundle_module, "find_spec", lambda _: None)
    panel.images.part.exporting.emit("geopackage")
    assert "The format geopackage needs geopandas, pyogrio" in panel.foot.status.text()


def test_suggesting_gives_a_project_without_words_those_in_the_panel(qtbot, panel, project):
    file = project / "project.yaml"
    write_project(read_project(file).model_copy(update={"labels": None}), file)
    panel.vocabulary.text.setPlainText("bus\nkey")
    qtbot.waitUntil(lambda: panel.session.run.vocabulary is not None)
    open_project(qtbot, panel, project)
    on_disk(qtbot, panel)
    assert read_project(file).labels is None  # opening changes nothing
    suggested(qtbot, panel)
    assert tuple(read_project(file).labels) == ("bus", "key")
    assert {row.suggestion for row in panel.session.run.results.regions} <= {"bus", "key"}


def test_names_of_the_regions_of_one_image_are_not_the_words_of_all(qtbot, panel, project):
    file, names = project / "project.yaml", {1: ("car", "dog"), 2: ("bus", "key")}
    for number, words in names.items():
        content = {
            "images": [{"id": 1, "file_name": f"cell-{number}.png", "height": 64, "width": 64}],
            "categories": [{"id": at, "name": word} for at, word in enumerate(words, 1)],
            "annotations": [
                {"id": at, "image_id": 1, "category_id": at, "bbox": [9 * at, 9, 8, 20]}
                for at in (1, 2)
            ],
        }
        (project / f"masks/cell-{number}.json").write_text(json.dumps(content))
    images = tuple(
        one.model_copy(update={"regions": f"masks/cell-{number}.json"})
        for number, one in enumerate(read_project(file).images[:2], 1)
    )
    write_project(read_project(file).model_copy(update={"labels": None, "images": images}), file)
    open_project(qtbot, panel, project)
    suggested(qtbot, panel)
    on_disk(qtbot, panel)
    assert read_project(file).labels is None
    for number, words in names.items():
        bundle = open_archive(archive_file(panel.images.project, f"cell-{number}.png"))
        assert bundle.results.info.vocabulary.labels == words


def test_accepting_in_all_images_leaves_an_image_outside_the_project_alone(qtbot, panel, computed):
    word = first_word(panel)
    foreign = panel._viewer.add_image(picture(64, 64, 9), name="foreign")
    mine = panel._viewer.add_labels(label_image(2, 64, 64), name="mine")
    panel.session.choose(image=foreign, regions=mine)
    panel.start()
    qtbot.waitUntil(lambda: not panel.session.run.progress.running)
    panel.do(Action.REVIEW)
    qtbot.waitUntil(lambda: panel.session.reviewed is not None)
    accept_all(qtbot, panel, word)
    assert panel.session.review.decided_count == 0
    assert decided(computed)[0] > 0
    undo_all(qtbot, panel)
    assert decided(computed)[0] == 0


@pytest.fixture
def slow_review(monkeypatch):
    """Reviews hold their file once ``held`` is set, and are open once this event is set."""
    gate = threading.Event()
    gate.held = threading.Event()

    def open_slowly(request):
        opened = open_review(request)
        gate.held.set()
        assert gate.wait(WAIT / 1000)
        return opened

    monkeypatch.setattr(review_keeper, "open_review", open_slowly)
    yield gate
    gate.set()


@pytest.fixture
def accepting(qtbot, panel, computed, slow_review):
    """Images with suggestions, and *Accept* clicked while the review of the first one opens."""
    panel.do(Action.REVIEW)
    qtbot.waitUntil(slow_review.held.is_set)
    accept(panel, first_word(panel))
    assert "Opening the review" in panel.foot.status.text()
    return panel.images.part


def test_accepting_in_all_images_waits_for_the_review_that_is_being_opened(
    qtbot, panel, accepting, slow_review
):
    word = accepting.together.chosen[0]
    assert not accepting.together.accept.isEnabled()
    slow_review.set()
    settled(qtbot, panel)
    text = panel.foot.status.text()
    assert f"Accepted as {word}" in text
    assert "left out" not in text
    assert {one.label for one in panel.review.state.review.decisions.values()} == {word}


def test_what_waits_for_a_review_can_be_cancelled(qtbot, panel, accepting, slow_review):
    panel.stop()
    assert panel.session.status.many is None
    slow_review.set()
    qtbot.waitUntil(lambda: not panel.session.review.opening)
    assert panel.review.state is not None
    assert not panel.review.decider.busy
    assert not panel.review.state.review.decisions


def test_undo_waits_for_the_review_that_is_being_opened(qtbot, panel, computed, slow_review):
    accept(panel, first_word(panel))
    qtbot.waitUntil(lambda: panel.images.part.undo.isEnabled())
    # The review opens by itself now, to show what was decided.
    qtbot.waitUntil(slow_review.held.is_set)
    panel.images.part.undo.click()
    assert "Opening the review" in panel.foot.status.text()
    assert decided(computed)[0] > 0
    slow_review.set()
    settled(qtbot, panel)
    assert "Undecided again" in panel.foot.status.text()
    assert "could not be changed" not in panel.foot.status.text()
    assert decided(computed) == [0, 0]


def test_decisions_that_go_on_while_the_panel_is_closed_are_counted_when_it_opens_again(
    qtbot, panel, computed, monkeypatch
):
    work, closed = decision_worker.save_decisions, threading.Event()
    monkeypatch.setattr(
        decision_worker, "save_decisions", lambda *about: closed.wait(60) and work(*about)
    )
    second = open_archive(archive_file(panel.images.project, "cell-2.png")).results
    accept(panel, second.regions[0].suggestion)
    qtbot.waitUntil(lambda: panel.review.decider.busy)
    panel.shut_down()
    closed.set()
    qtbot.waitUntil(lambda: decided(computed)[1] > 0)
    panel.resume()

    def counted():
        summary = panel.images.part.model.summary("cell-2.png")
        return summary is not None and summary.decided

    qtbot.waitUntil(lambda: counted() == decided(computed)[1])


def test_what_a_cancelled_undo_did_not_reach_can_be_undone_later(
    qtbot, panel, computed, monkeypatch
):
    bundle = open_archive(archive_file(panel.images.project, "cell-2.png"))
    accept_all(qtbot, panel, bundle.results.regions[0].suggestion)
    monkeypatch.setattr(decision_worker, "save_decisions", stopped)
    undo_all(qtbot, panel)
    assert "takes back the rest" in panel.foot.status.text()
    monkeypatch.undo()
    assert panel.images.part.undo.isEnabled()
    undo_all(qtbot, panel)
    assert decided(computed) == [0, 0]


def test_what_a_cancelled_undo_has_taken_back_is_not_taken_back_again(
    qtbot, panel, project, monkeypatch
):
    for folder in ("images", "masks"):  # two images with the same suggestions
        shutil.copy(project / folder / "cell-2.png", project / folder / "cell-1.png")
    do(lambda: suggest_work(OpenProject.read(project), "cpu", ModelStore()))
    open_project(qtbot, panel, project)
    go(qtbot, panel, "cell-3.png")
    word = (
        open_archive(archive_file(panel.images.project, "cell-2.png")).results.regions[0].suggestion
    )
    accept_all(qtbot, panel, word)
    before = decided(project)
    assert before[0] == before[1] > 0
    with monkeypatch.context() as patch:
        work = cancelled_after(1, decision_worker.save_decisions)
        patch.setattr(decision_worker, "save_decisions", work)
        undo_all(qtbot, panel)
    assert "takes back the rest" in panel.foot.status.text()
    assert decided(project) == [0, before[1]]
    redo_elsewhere(panel.images.project, "cell-1.png")
    undo_all(qtbot, panel)
    assert decided(project) == [2, 0]


def test_counts_of_a_project_are_not_those_of_another_one(
    qtbot, panel, project, tmp_path_factory, monkeypatch
):
    other = tmp_path_factory.mktemp("other") / "second"
    shutil.copytree(project, other)
    opened = threading.Event()

    def slow(task, _):
        assert opened.wait(60)
        show({"cell-2.png": Summary(regions=2, decided=2)})
        return task

    monkeypatch.setattr(decision_worker, "save_decisions", slow)
    open_project(qtbot, panel, project)
    panel.images.ahead.forget()
    panel.images.part.together.accept.click()
    panel.session.project.open_images.emit([other])
    qtbot.waitUntil(lambda: panel.images.project.folder == other)
    opened.set()
    settled(qtbot, panel)
    on_disk(qtbot, panel)
    assert not panel.session.project.state.done
    assert not OpenProject.read(other).done
    assert not panel.images.part.undo.isEnabled()


@pytest.mark.parametrize("is_under_review", [False, True])
def test_what_was_accepted_or_left_out_is_told_after_another_project_was_opened(
    qtbot, panel, computed, tmp_path, monkeypatch, is_under_review
):
    other = tmp_path / "other"
    shutil.copytree(computed, other)
    work, opened = decision_worker.save_decisions, threading.Event()
    monkeypatch.setattr(
        decision_worker, "save_decisions", lambda *about: opened.wait(60) and work(*about)
    )
    outcomes = []
    panel.session.decisions.changed.connect(outcomes.append)
    bundle = open_archive(archive_file(panel.images.project, "cell-2.png"))
    about = image_of(bundle), identities_of(bundle), bundle.results.info
    with Review(*about, file=panel.images.project.path("cell-2.png")) as elsewhere:
        if not is_under_review:
            elsewhere.close()
        accept(panel, bundle.results.regions[0].suggestion)
        panel.session.project.open_images.emit([other])
        qtbot.waitUntil(lambda: panel.images.project.folder == other)
        opened.set()
        settled(qtbot, panel)
    text = panel.foot.status.text()
    assert ("cell-2.png: it is under review, here or in another window" in text) == is_under_review
    assert ("Accepted as" in text) != is_under_review
    assert "Undo on this tab" not in text
    assert not panel.images.part.undo.isEnabled()
    (outcome,) = outcomes
    assert outcome.count == sum(decided(computed))
    assert (outcome.count > 0) != is_under_review
    assert decided(other) == [0, 0]


def test_nothing_is_accepted_from_suggestions_of_other_words(qtbot, panel, computed):
    review(qtbot, panel)
    panel.vocabulary.text.setPlainText("car\ndog\nhouse")
    qtbot.waitUntil(lambda: staleness(panel.session).words)
    for word in ("car", "dog"):
        accept_all(qtbot, panel, word)  # at once: the words are not in project.yaml yet
        text = panel.foot.status.text()
        assert "cell-1.png" in text, text
        assert "Nothing is suggested" in text
    assert panel.session.review.decided_count == 0
    assert decided(computed)[1] == 0
