"""The gallery: a wall of regions, in order, and one decision about all that are marked."""

import shutil
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from qtpy.QtCore import QItemSelection, Qt

from napari_maskinversion._napari.explore.gallery import Gallery
from napari_maskinversion._napari.explore.gallery_model import SORTS, WallModel, arranged
from napari_maskinversion._napari.review import decision_worker
from napari_maskinversion._napari.review.decision_worker import DecisionWorker
from napari_maskinversion._napari.review.review_keeper import ReviewKeeper
from napari_maskinversion.app.explore.region_sources import (
    IMAGE,
    LIBRARY,
    PROJECT,
    SOURCES,
    RegionTable,
)
from napari_maskinversion.app.review.decision_requests import DecisionOutcome, TakeBackRequest
from napari_maskinversion.app.session import ProjectState, RegionPlace, outdated
from napari_maskinversion.base.errors import InputError
from napari_maskinversion.base.identity import ImagePlace, RegionKey
from napari_maskinversion.base.progress import tick
from napari_maskinversion.batch.opened import OpenProject
from napari_maskinversion.batch.project_decisions import ProjectRegions
from napari_maskinversion.batch.project_index import archive_file, place_in
from napari_maskinversion.library.library import Library
from napari_maskinversion.library.store import Store
from napari_maskinversion.results.export.archive import open_archive
from napari_maskinversion.review.decisions import Change, Decision
from tests._napari.images.conftest import (
    cancelled_after,
    decided,
    go,
    paint,
    redo_elsewhere,
    review,
    settled,
)
from tests.decisions import decide
from tests.library.made import bundle, write_image


def frame_of(suggestions, confidences, decisions=(), labels=()):
    count = len(suggestions)
    return pd.DataFrame(
        {
            "image": "",
            "region": np.arange(1, count + 1),
            "position": [()] * count,
            "suggestion": suggestions,
            "confidence": confidences,
            "doubtful": False,
            "decision": [*decisions, *["undecided"] * (count - len(decisions))],
            "label": [*labels, *[""] * (count - len(labels))],
        }
    )


def test_regions_stand_by_word_the_largest_run_first_and_the_least_certain_first():
    frame = frame_of(
        ["cat", "dog", "dog", "cat", "dog", "frog"],
        [0.9, 0.8, 0.3, 0.2, np.nan, 0.5],
        ["accepted"],
        ["dog"],
    )
    order, runs = arranged(frame)
    assert order.tolist() == [4, 2, 1, 0, 3, 5]
    assert [(begin, word, count) for begin, word, count in runs if word == "dog"] == [(0, "dog", 4)]
    order, runs = arranged(frame, SORTS[2], "undecided")
    assert (order.tolist(), runs) == ([1, 5, 2, 3, 4], [])


def test_what_is_most_like_comes_first_and_what_was_not_compared_last():
    frame = frame_of(["cat", "dog", "cat", "dog"], [0.1, 0.2, 0.3, 0.4], ["rejected"])
    similarities = np.array([0.5, np.nan, 0.2, 0.3])
    assert arranged(frame, similarities=similarities)[0].tolist() == [0, 3, 2, 1]
    order, runs = arranged(frame, shown="undecided", similarities=similarities)
    assert (order.tolist(), runs) == ([3, 2, 1], [])


def test_doubtful_ones_are_undecided_and_those_in_review_are_the_ones_of_its_queue():
    frame = frame_of(["cat", "dog", "cat"], [0.1, 0.2, 0.3], ["accepted"], ["frog"])
    frame["doubtful"] = [True, True, False]
    assert arranged(frame, shown="doubtful")[0].tolist() == [1]
    assert sorted(arranged(frame, shown="in Review", queue=np.array([2, 0]))[0]) == [0, 2]


def test_a_tile_says_what_is_decided_or_suggested(qapp):
    frame = frame_of(["cat"] * 4, [0.104, 0.2, np.nan, 0.5], ["accepted", "rejected"], ["frog"])
    model = WallModel()
    model.show(RegionTable(frame=frame, cut=iter, embed=list), SORTS[0], "all")
    says = [model.caption(row) for row in range(4)]
    assert says == ["\N{CHECK MARK} frog", "\N{MULTIPLICATION X} 20 % cat", "cat", "50 % cat"]
    assert "region 2" in model.index(2).data(Qt.ItemDataRole.ToolTipRole)


def test_nothing_to_show_has_no_runs():
    order, runs = arranged(frame_of(["cat"], [0.5]), shown="accepted")
    assert (len(order), runs) == (0, [])


def opened(qtbot, gallery, source):
    """Open the gallery on a source, and wait for its regions."""
    gallery.source.setCurrentText(source)
    gallery.open()
    qtbot.waitUntil(lambda: not gallery.loader.busy)
    return gallery


def mark(gallery, *rows):
    """Mark regions as clicks with Ctrl do."""
    model, selection = gallery.model, gallery.wall.selectionModel()
    selection.clearSelection()
    for item in range(model.rowCount()):
        if model.index(item).data(Qt.ItemDataRole.UserRole) in rows:
            index = model.index(item)
            selection.select(QItemSelection(index, index), selection.SelectionFlag.Select)


def cannot(*_, **__):
    raise InputError("It cannot be done.")


def states(gallery):
    frame = gallery.model.table.frame
    return list(frame[["decision", "label"]].itertuples(index=False, name=None))


def test_the_gallery_shows_only_regions_that_it_was_asked_for_until_another_choice(
    qtbot, panel, computed
):
    gallery, file = panel.gallery, place_in(OpenProject.read(computed), "cell-2.png")
    panel.session.explore.show_gallery.emit(([], [RegionPlace("cell-2.png", RegionKey(1), file)]))
    qtbot.waitUntil(lambda: not gallery.loader.busy)
    frame = gallery.model.table.frame
    shown = frame.iloc[gallery.model.rows(0, 99)]
    assert list(shown["image"]) == ["cell-2.png"]
    assert list(shown["region"]) == [1]
    gallery.sort.activated.emit(1)
    assert len(gallery.model.rows(0, 99)) == 1
    gallery.shown.setCurrentText("all")
    gallery.shown.activated.emit(0)
    assert len(gallery.model.rows(0, 99)) == len(frame) > 1
    gallery.hide()


def test_one_key_decides_about_regions_of_all_images_and_one_takes_it_back(
    qtbot, panel, computed, monkeypatch
):
    gallery = opened(qtbot, panel.gallery, PROJECT)
    assert set(gallery.model.table.frame["image"]) == {"cell-1.png", "cell-2.png"}
    total = len(gallery.model.table.frame)
    qtbot.keyClick(gallery.wall, Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
    assert len(gallery.wall.marked) == total
    qtbot.keyClick(gallery.wall, Qt.Key.Key_2)  # the second word, in one step
    settled(qtbot, panel)
    assert states(gallery) == [("accepted", "dog")] * total
    assert sum(decided(computed)) == total
    qtbot.keyClick(gallery.wall, Qt.Key.Key_R)
    settled(qtbot, panel)
    assert {one for one, _ in states(gallery)} == {"rejected"}
    with monkeypatch.context() as patch:  # what could not be taken back can be once more
        patch.setattr(decision_worker, "save_decisions", cannot)
        gallery.undo()
        settled(qtbot, panel)
    qtbot.keyClick(gallery.wall, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    settled(qtbot, panel)
    qtbot.waitUntil(lambda: states(gallery) == [("accepted", "dog")] * total)
    gallery.buttons["undo"].click()
    settled(qtbot, panel)
    qtbot.waitUntil(lambda: states(gallery) == [("undecided", "")] * total)
    assert decided(computed) == [0, 0]
    assert not gallery.buttons["undo"].isEnabled()


@pytest.mark.parametrize(("image", "others"), [("cell-3.png", 1), ("cell-2.png", 0)])
def test_what_a_cancelled_undo_has_taken_back_is_not_taken_back_again(
    qtbot, panel, computed, monkeypatch, image, others
):
    go(qtbot, panel, image)
    gallery = opened(qtbot, panel.gallery, PROJECT)
    assert rejected_all(qtbot, panel, gallery)
    assert decided(computed) == [1, 2]
    if not others:  # the image shown is under review by now, which takes back its part by itself
        qtbot.waitUntil(lambda: panel.review.state is not None)
    with monkeypatch.context() as patch:
        work = cancelled_after(others, decision_worker.save_decisions)
        patch.setattr(decision_worker, "save_decisions", work)
        gallery.undo()
        settled(qtbot, panel)
    assert panel.foot.status.text().endswith("Undo takes back the rest.")
    assert decided(computed) == [1, 0]
    if others:
        redo_elsewhere(panel.images.project, "cell-2.png")
    else:
        panel.review.act("redo")
    gallery.undo()
    settled(qtbot, panel)
    qtbot.waitUntil(lambda: decided(computed) == [0, 2])
    assert not gallery.buttons["undo"].isEnabled()


def test_the_image_whose_review_is_open_is_decided_there(qtbot, panel, computed):
    gallery = opened(qtbot, panel.gallery, IMAGE)
    assert len(gallery.model.table.frame) == len(panel.session.run.results) == 1
    mark(gallery, 0)
    qtbot.keyClick(gallery.wall, Qt.Key.Key_R)  # opens the review
    qtbot.waitUntil(lambda: panel.session.review.decided_count == 1)
    assert states(gallery) == [("rejected", "")]
    opened(qtbot, gallery, PROJECT)
    qtbot.keyClick(gallery.wall, Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
    qtbot.keyClick(gallery.wall, Qt.Key.Key_1)
    settled(qtbot, panel)
    decisions = panel.review.state.review.decisions
    assert set(decisions.accepted().values()) == {"car"}
    gallery.undo()
    settled(qtbot, panel)
    assert [one.status for one in decisions.values()] == ["rejected"]
    panel.review.act("undo")
    qtbot.waitUntil(lambda: {one for one, _ in states(gallery)} == {"undecided"})


@pytest.fixture
def changed(qtbot, panel, computed):
    """The wall of the project; then a region of the image shown, under review, is changed."""
    go(qtbot, panel, "cell-2.png")
    gallery = opened(qtbot, panel.gallery, PROJECT)
    review(qtbot, panel)
    paint(panel.session.run.regions, 0, (10, 10, 20, 20))
    qtbot.waitUntil(lambda: outdated(panel.session).startswith("1 region has"))
    return gallery


def rejected_all(qtbot, panel, gallery):
    """Reject all regions of the wall; return what the foot says."""
    qtbot.keyClick(gallery.wall, Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
    qtbot.keyClick(gallery.wall, Qt.Key.Key_R)
    settled(qtbot, panel)
    return panel.foot.status.text()


def test_what_did_not_change_on_the_shown_image_is_decided_and_the_rest_is_said(
    qtbot, panel, computed, changed
):
    text = rejected_all(qtbot, panel, changed)
    assert "2 regions of 2 images. cell-2.png: 1 has changed since and stayed as before." in text
    assert decided(computed) == [1, 1]
    paint(panel.session.run.regions, 0, (10, 40, 20, 50))
    qtbot.waitUntil(lambda: outdated(panel.session).startswith("2 regions have"))
    changed.undo()
    settled(qtbot, panel)
    text = rejected_all(qtbot, panel, changed)
    assert "1 image left out, such as cell-2.png: 2 regions have changed" in text


def test_other_regions_than_those_on_the_wall_are_not_decided(qtbot, panel, computed, changed):
    panel.start()
    qtbot.waitUntil(lambda: not panel.session.run.progress.running)
    review(qtbot, panel)
    qtbot.waitUntil(lambda: "newer ones: press Reload" in changed.about.text())
    text = rejected_all(qtbot, panel, changed)
    assert "cell-2.png: 1 has changed since and stayed as before." in text
    assert panel.session.review.decided_count == 1
    assert decided(computed)[0] > 0


def test_what_was_decided_last_is_saved_when_the_window_closes(qtbot, panel, computed, tmp_path):
    names = ("cell-1.png", "cell-2.png")
    library = panel.session.explore.library = library_of(tmp_path / "library", names, computed)
    gallery = opened(qtbot, panel.gallery, PROJECT)
    review(qtbot, panel)
    qtbot.keyClick(gallery.wall, Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
    qtbot.keyClick(gallery.wall, Qt.Key.Key_R)
    panel.keep()  # as a closing window does
    panel.shut_down()
    qtbot.waitUntil(lambda: decided(computed) == [1, 2])
    qtbot.waitUntil(lambda: len(library.rows(decision="rejected")) == 3)


def test_a_missing_image_is_left_out_as_missing(computed_once, tmp_path):
    project = OpenProject.read(shutil.copytree(computed_once, tmp_path / "copy"))
    project.path("cell-1.png").unlink()
    outcome = decide(project, {"cell-1.png": [RegionKey(1)]}, "rejected")
    assert outcome.problems["cell-1.png"].startswith("its file is not there any more")


def test_a_click_opens_the_region_on_its_image(qtbot, panel, computed):
    gallery = opened(qtbot, panel.gallery, PROJECT)
    frame = gallery.model.table.frame
    row = int(np.flatnonzero(frame["image"] == "cell-2.png")[-1])
    gallery.wall.opened.emit(row)
    qtbot.waitUntil(lambda: panel.session.project.state.current == "cell-2.png")
    shown = panel.session.run.results.regions[panel.session.review.row]
    assert (shown.id, panel.session.review.picked) == (frame["region"][row], True)


def library_of(folder, images, project):
    """A library of images of a project."""
    library, project = Library.new(folder), OpenProject.read(project)
    for name in images:
        library.add(open_archive(archive_file(project, name)), image=project.path(name))
    return library


def test_marks_go_to_other_images_and_come_from_them(qtbot, panel, computed, tmp_path):
    session, gallery = panel.session, opened(qtbot, panel.gallery, PROJECT)
    frame, here = gallery.model.table.frame, np.flatnonzero
    mine, others = (here(frame["image"] == name) for name in ("cell-1.png", "cell-2.png"))
    gallery.wall.mark([mine[0], others[0]])
    qtbot.waitUntil(lambda: len(session.review.marked) == 1)
    key = RegionKey(int(frame["region"][others[0]]))
    marked = RegionPlace("cell-2.png", key, place_in(OpenProject.read(computed), "cell-2.png"))
    assert (session.review.rows, session.review.marked) == ((0,), (marked,))
    # A library has other names for the same images, also for the one shown.
    names = ("cell-2.png", "cell-1.png")
    session.explore.library = library_of(tmp_path / "library", names, computed)
    opened(qtbot, gallery, LIBRARY)
    assert sorted(gallery.wall.marked) == [0, len(others)]
    gallery.wall.mark([len(others)])
    qtbot.waitUntil(lambda: session.review.marked == ())
    assert session.review.rows == (0,)
    gallery.wall.opened.emit(1)
    qtbot.waitUntil(lambda: session.project.state.current == "cell-2.png")
    assert session.review.row == 1
    assert gallery.wall.marked.tolist() == [1]
    panel.session.select(0)  # what is chosen in its place is marked alone
    assert gallery.wall.marked.tolist() == [0]


def test_regions_of_a_library_are_decided_and_taken_back(
    qtbot, section_of, tmp_path, messages, monkeypatch
):
    library = Library.new(tmp_path / "library")
    for seed in (0, 1):
        library.add(bundle(4, seed), image=write_image(tmp_path, seed))
    gallery = section_of
    gallery._session.explore.library = library

    def over():
        qtbot.waitUntil(lambda: gallery._session.status.many is None)

    opened(qtbot, gallery, LIBRARY)
    mark(gallery, 1, 6)
    with monkeypatch.context() as patch:  # they are saved, and can be undone
        patch.setattr(Store, "update", cannot)
        gallery.decide("accepted", "dust")
        gallery.decide("accepted", "dust")
        assert messages.pop() == "Wait until the work before is over, or cancel it."
        over()
    said = messages.pop()
    assert "image-1.png: saved with the image; the library could not take it" in said
    assert said.endswith("And 1 more.")
    assert not len(library.rows(decision="accepted"))
    for work in (cannot, decision_worker.save_decisions):
        assert gallery.buttons["undo"].isEnabled()
        with monkeypatch.context() as patch:
            patch.setattr(decision_worker, "save_decisions", work)
            gallery.undo()
            over()
    assert not gallery.buttons["undo"].isEnabled()
    mark(gallery, 1, 6)
    gallery.decide("accepted", "dust")
    over()
    assert [at for at, one in enumerate(states(gallery)) if one == ("accepted", "dust")] == [1, 6]
    assert list(library.rows(decision="accepted")["label"]) == ["dust"] * 2
    gallery.undo()
    over()
    assert {one for one, _ in states(gallery)} == {"undecided"}
    assert not len(library.rows(decision="accepted"))
    # A typed word is the known one; what an image does not take is said, and stays to be undone.
    mark(gallery, 0, 4)
    gallery.word.setEditText(" WHITE  cell")
    qtbot.keyClick(gallery.word.lineEdit(), Qt.Key.Key_Return)
    over()
    assert states(gallery)[4] == ("accepted", "white cell")
    (tmp_path / "image-0.png").rename(tmp_path / "away.png")
    gallery.undo()
    over()
    assert "image-0.png" in messages[-1]
    assert [states(gallery)[row][0] for row in (0, 4)] == ["accepted", "undecided"]
    (tmp_path / "away.png").rename(tmp_path / "image-0.png")
    with monkeypatch.context() as patch:  # only the rest is taken back by now
        work, asked = decision_worker.save_decisions, []
        patch.setattr(
            decision_worker,
            "save_decisions",
            lambda task, is_saved: asked.extend(task.pending) or work(task, is_saved),
        )
        gallery.undo()
        over()
    assert asked == [(tmp_path / "image-0.png").as_posix()]
    assert {one for one, _ in states(gallery)} == {"undecided"}
    # What another part of the panel decides in a project whose images the library has.
    taken = Change(RegionKey(2), None, Decision(region=RegionKey(2), status="rejected"))
    outcome = DecisionOutcome(
        request=TakeBackRequest(DecisionOutcome()),
        places={"one": ImagePlace((tmp_path / "image-0.png").as_posix())},
        steps={"one": (taken,)},
    )
    gallery._session.decisions.changed.emit(outcome)
    assert states(gallery)[1] == ("rejected", "")
    gallery._session.explore.library_changes += 1
    assert "There are newer ones" in gallery.about.text()


def test_decisions_about_a_library_go_on_and_can_be_taken_back_when_a_project_is_opened(
    qtbot, section_of, tmp_path, monkeypatch
):
    library = Library.new(tmp_path / "library")
    library.add(bundle(4, 0), image=write_image(tmp_path, 0))
    gallery, session = section_of, section_of._session
    session.explore.library = library
    opened(qtbot, gallery, LIBRARY)
    mark(gallery, 1)
    work, changed = decision_worker.save_decisions, threading.Event()
    monkeypatch.setattr(
        decision_worker, "save_decisions", lambda *about: changed.wait(60) and work(*about)
    )
    gallery.decide("accepted", "dust")
    session.project.state = ProjectState("others", (), file="others.yaml")
    changed.set()
    qtbot.waitUntil(lambda: session.status.many is None)
    assert states(gallery)[1] == ("accepted", "dust")
    gallery.undo()
    qtbot.waitUntil(lambda: session.status.many is None)
    assert states(gallery)[1][0] == "undecided"


@pytest.fixture
def section_of(shared, qtbot):
    """The gallery, and what carries out its decisions, by themselves."""
    gallery = Gallery(shared)
    qtbot.addWidget(gallery)
    keeper = ReviewKeeper(shared.viewer, shared.session, gallery)
    decider = DecisionWorker(shared.session, keeper, gallery)
    for topic in (gallery, decider):
        topic.follow()
    yield gallery
    for topic in (decider, gallery):
        topic.stop()


def made_table(count, read):
    """A table of regions with words that take turns; it notes the rows whose picture is read."""
    rng = np.random.default_rng(0)
    frame = frame_of(np.array(["cat", "dog", "frog"])[rng.integers(0, 3, count)], rng.random(count))

    def cut(rows):
        for row in rows:
            tick("Files", row, 0)  # as reading a store of many files does
            read.append(row)
            yield row, np.full((96, 96, 4), row % 255, np.uint8)

    return RegionTable(frame=frame, words=("cat", "dog"), cut=cut, embed=lambda rows: rows)


def test_decisions_about_another_project_are_not_taken_back(section_of):
    gallery, session = section_of, section_of._session
    session.project.state = ProjectState("cells", (), file="cells.yaml")
    table = made_table(1, [])
    table.frame["box"], table.frame["area"], table.frame["id"] = [(0, 0, 5, 5)], 25, 1
    table.frame["image"] = "cell-1.png"
    table.source = lambda _: ProjectRegions(Path("cells.yaml"))
    gallery._show(table)
    mark(gallery, 0)
    requests = []
    session.review.decide.disconnect()  # nobody else answers
    session.review.decide.connect(requests.append)
    gallery.decide("rejected")
    key = RegionKey(1)
    step = (Change(key, None, Decision(region=key, status="rejected")),)
    (request,) = requests
    outcome = DecisionOutcome(
        request=request, places=request.images, source=request.source, steps={"cell-1.png": step}
    )
    session.decisions.changed.emit(outcome)
    assert gallery.buttons["undo"].isEnabled()
    session.project.state = ProjectState("others", (), file="others.yaml")
    assert not gallery.buttons["undo"].isEnabled()


def test_only_pictures_in_view_are_read(qtbot, section_of):
    gallery, read = section_of, []
    gallery.resize(900, 500)
    gallery.show()
    gallery._show(made_table(100_000, read))
    qtbot.waitUntil(lambda: len(read) > 0 and not gallery.pictures.busy)
    seen = len(read)
    first, last = gallery.wall.items_in_view
    assert set(gallery.model.rows(first, last).tolist()) <= set(read)
    assert seen < 200
    bar = gallery.wall.verticalScrollBar()
    bar.setValue(bar.maximum() // 2)
    qtbot.waitUntil(lambda: len(read) > seen and not gallery.pictures.busy)
    assert len(read) < 2 * 200
    first, last = gallery.wall.items_in_view
    assert not gallery.model.without_picture(first, last)


def test_a_click_on_a_heading_marks_its_run(qtbot, section_of):
    gallery = section_of
    gallery.resize(900, 500)
    gallery.show()
    gallery._show(made_table(50, []))
    word, count = gallery.model.heading(0)
    place = gallery.wall.visualRect(gallery.model.index(0)).center()
    qtbot.mouseClick(gallery.wall.viewport(), Qt.MouseButton.LeftButton, pos=place)
    marked = gallery.wall.marked
    assert len(marked) == count
    assert set(gallery.model.table.frame["suggestion"].iloc[marked]) == {word}
    assert f"{count} marked" in gallery.about.text()


def test_nothing_marked_or_nothing_there_is_said(qtbot, section_of, messages):
    gallery = opened(qtbot, section_of, PROJECT)
    assert "No project is open" in gallery.about.text()
    qtbot.wait(300)  # longer than the pause after which a gallery follows a review
    assert "No project is open" in gallery.about.text()
    gallery._show(made_table(3, []))
    gallery.shown.setCurrentText("accepted")
    gallery.shown.activated.emit(3)
    assert "none accepted; choose 'all'" in gallery.about.text()
    gallery.act("reject")
    assert "Mark regions first" in messages[-1]


@pytest.fixture
def reading(qtbot, section_of, monkeypatch):
    """A gallery that reads the regions of a project, until ``go``."""
    gallery, begun, go = section_of, threading.Event(), threading.Event()

    def read():
        begun.set()
        go.wait(60)
        return made_table(3, [])

    monkeypatch.setitem(SOURCES, PROJECT, lambda session: read)
    gallery._session.project.state = ProjectState("cells", (), file="cells.yaml")
    gallery.source.setCurrentText(PROJECT)
    gallery.open()
    qtbot.waitUntil(begun.is_set)
    yield gallery, go
    go.set()


def test_what_cannot_be_read_stays_said_when_what_was_read_before_comes_late(qtbot, reading):
    gallery, go = reading
    gallery.source.setCurrentText(LIBRARY)
    gallery.source.activated.emit(2)
    assert gallery.about.text() == "No library is open."
    go.set()
    qtbot.waitUntil(lambda: gallery.loader.idle and not gallery.loader.busy)
    assert gallery.about.text() == "No library is open."
    assert gallery.model.rowCount() == 0


@pytest.mark.parametrize(("project", "count"), [("cells", 3), ("others", 0)])
def test_a_hidden_gallery_takes_no_regions_of_a_project_that_was_left(
    qtbot, reading, project, count
):
    gallery, go = reading
    gallery.hide()
    gallery._session.project.state = ProjectState(project, (), file=f"{project}.yaml")
    go.set()
    qtbot.waitUntil(lambda: gallery.loader.idle and not gallery.loader.busy)
    assert len(gallery.model.table.frame) == count
