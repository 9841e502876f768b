"""The tab for many images in the real window."""

import shutil
import threading
import time

import numpy as np
import pytest
from qtpy.QtCore import Qt

from napari_maskinversion._napari.images import across
from napari_maskinversion._napari.images.images_work import Decided
from napari_maskinversion._napari.panel.widget import MaskInversionWidget
from napari_maskinversion._napari.review import review_keeper
from napari_maskinversion._napari.review.review_keeper import open_review
from napari_maskinversion._napari.session import ManyImages
from napari_maskinversion._napari.workers.driver import show
from napari_maskinversion.batch.decided import (
    Accepted,
    Summary,
    archive_file,
    identities_of,
    image_of,
    summarize,
)
from napari_maskinversion.batch.opened import OpenProject, is_drawn, read_place
from napari_maskinversion.batch.project import Project, read_project, write_project
from napari_maskinversion.regions.reading import read_regions
from napari_maskinversion.results.export.archive import open_archive
from napari_maskinversion.review.review import Review
from tests.scenes import label_image, picture

from ..panel.test_frame import MOST, NARROW, controls, names
from ..panel.test_keyboard import CTRL, bring, press
from .conftest import FAST, WAIT, go, ids, on_disk, open_project, paint, suggested


def test_only_the_projects_own_layers_come_and_go(qtbot, panel, project):
    viewer = panel._viewer
    own = viewer.add_points(np.zeros((1, 2)), name="mine")
    photo = viewer.add_image(np.zeros((9, 9)), name="photo")
    open_project(qtbot, panel, project)
    assert panel.session.image.name == "cell-1.png"
    assert ids(panel.session.regions.data) == ids(panel.images.shown.labels.data) != []
    go(qtbot, panel, "cell-2.png")
    assert panel.session.image.name == "cell-2.png"
    others = [layer.name for layer in viewer.layers if layer not in (own, photo)]
    # There is a heatmap if its results were computed in the meantime.
    assert [name for name in others if name != "heatmap: cell-2.png"] == [
        "cell-2.png",
        "cell-2.png: regions",
    ]
    assert own in viewer.layers
    assert photo in viewer.layers


def test_regions_drawn_by_hand_are_beside_the_project_when_the_next_image_follows(
    qtbot, panel, project
):
    before = (project / "masks" / "cell-1.png").read_bytes()
    open_project(qtbot, panel, project)
    paint(panel.session.regions, 77, (40, 2, 46, 9))
    panel.images.move(1)
    qtbot.waitUntil(lambda: panel.session.project.current == "cell-2.png", timeout=WAIT)
    on_disk(qtbot, panel)
    opened = OpenProject.read(project)
    file = opened.regions("cell-1.png")
    assert is_drawn(file)
    assert 77 in [region.id for region in read_regions(file, (64, 64), image="cell-1.png")]
    assert (project / "masks" / "cell-1.png").read_bytes() == before
    assert opened.by_name["cell-2.png"].regions == "masks/cell-2.png"  # untouched
    go(qtbot, panel, "cell-1.png")
    assert 77 in ids(panel.session.regions.data)


def test_the_first_regions_of_an_image_are_kept_without_a_step_more(qtbot, panel, project):
    open_project(qtbot, panel, project)
    go(qtbot, panel, "cell-3.png")
    assert panel.foot.button.text() == "Draw regions"
    paint(panel.session.regions, 1, (4, 4, 20, 20))
    qtbot.waitUntil(lambda: read_project(project).images[2].regions is not None, timeout=WAIT)


def test_results_of_a_run_are_those_of_the_project(qtbot, panel, project):
    open_project(qtbot, panel, project)
    panel.start()
    qtbot.waitUntil(lambda: bool(panel.session.results), timeout=WAIT)
    qtbot.waitUntil(lambda: not panel.session.run.running, timeout=WAIT)
    on_disk(qtbot, panel)
    opened = OpenProject.read(project)
    assert archive_file(opened, "cell-1.png") is not None
    go(qtbot, panel, "cell-2.png")
    go(qtbot, panel, "cell-1.png")
    assert panel.session.results is not None
    assert panel.session.record.reopened


def test_a_review_goes_on_from_image_to_image_by_one_key(qtbot, panel, project):
    bring(qtbot, panel)
    open_project(qtbot, panel, project)
    suggested(qtbot, panel)
    panel.do("review")
    for name in ("cell-1.png", "cell-2.png"):
        qtbot.waitUntil(lambda: panel.review.state is not None, timeout=WAIT)
        assert panel.session.project.current == name
        state = panel.review.state
        for count in range(len(panel.session.results)):
            assert panel.session.rows in ((), (panel.session.row,))  # never several at once
            press("A")
            qtbot.waitUntil(lambda n=count: panel.session.decided == n + 1, timeout=WAIT)
        if name == "cell-1.png":
            assert panel.foot.button.text() == "Next image"
            press("Return", CTRL)
            qtbot.waitUntil(lambda s=state: panel.review.state not in (None, s), timeout=WAIT)
            assert panel.session.tab == "review"
    on_disk(qtbot, panel)
    opened = OpenProject.read(project)
    assert opened.done == {"cell-1.png", "cell-2.png"}
    assert panel.tabs.tabText(3) == "Images 2/3"
    for name in opened.done:
        assert summarize(opened, name).decided == summarize(opened, name).regions


def test_a_review_goes_on_when_the_suggestions_of_the_next_image_come_later(qtbot, panel, project):
    open_project(qtbot, panel, project)
    suggested(qtbot, panel)
    panel.do("review")
    qtbot.waitUntil(lambda: panel.review.state is not None, timeout=WAIT)
    archive = panel.images.project.task("cell-2.png").archive
    archive.rename(project / "later")
    panel.images.ahead.drop()
    panel.images._ready.clear()
    go(qtbot, panel, "cell-2.png")
    qtbot.waitUntil(lambda: panel.review.state is None, timeout=WAIT)
    heatmap = panel.canvas.heatmap.layer
    assert not heatmap.data.any()  # nothing of the image before
    (project / "later").rename(archive)
    panel.images.computed("cell-2.png")
    qtbot.waitUntil(lambda: panel.review.state is not None, timeout=WAIT)
    assert panel.session.reviewed is not None
    assert panel.session.project.current == "cell-2.png"
    assert heatmap.data.any()
    names_ = [layer.name for layer in panel._viewer.layers]
    assert names_ == ["cell-2.png", "heatmap: cell-2.png", "cell-2.png: regions"]


def test_accepting_in_all_images_is_taken_back_in_one(qtbot, panel, project):
    open_project(qtbot, panel, project)
    suggested(qtbot, panel)
    part, opened = panel.images.part, panel.images.project
    bundle = open_archive(archive_file(opened, "cell-2.png"))
    part.limit.setValue(0)
    part.word.setCurrentText(bundle.results.regions[0].suggestion)
    part.accept.click()
    qtbot.waitUntil(lambda: panel.session.many is None, timeout=WAIT)
    names_ = ("cell-1.png", "cell-2.png")
    assert sum(summarize(opened, name).decided for name in names_) > 0
    args = image_of(bundle), identities_of(bundle), bundle.results.info
    with Review(*args, file=opened.path("cell-2.png")) as other:
        there = len(other.decisions)
        part.undo.click()
        qtbot.waitUntil(lambda: panel.session.many is None, timeout=WAIT)
        assert "cell-2.png: its decisions are open in another window" in panel.foot.status.text()
        assert len(other.decisions) == there > 0
    assert part.undo.isEnabled()
    part.undo.click()
    qtbot.waitUntil(lambda: panel.session.many is None, timeout=WAIT)
    assert sum(summarize(opened, name).decided for name in names_) == 0


def test_what_a_cancelled_undo_did_not_reach_can_be_undone_later(
    qtbot, panel, project, monkeypatch
):
    open_project(qtbot, panel, project)
    suggested(qtbot, panel)
    part, opened = panel.images.part, panel.images.project
    part.limit.setValue(0)
    part.word.setCurrentText(
        open_archive(archive_file(opened, "cell-2.png")).results.regions[0].suggestion
    )
    part.accept.click()
    qtbot.waitUntil(lambda: panel.session.many is None, timeout=WAIT)
    monkeypatch.setattr(
        across, "take_back_work", lambda _, accepted: Accepted(word=accepted.word, stopped=True)
    )
    part.undo.click()
    qtbot.waitUntil(lambda: panel.session.many is None, timeout=WAIT)
    assert "takes back the rest" in panel.foot.status.text()
    monkeypatch.undo()
    assert part.undo.isEnabled()
    part.undo.click()
    qtbot.waitUntil(lambda: panel.session.many is None, timeout=WAIT)
    assert sum(summarize(opened, name).decided for name in ("cell-1.png", "cell-2.png")) == 0


def test_a_new_panel_does_not_look_as_if_the_project_of_the_last_one_were_open(
    qtbot, panel, project
):
    open_project(qtbot, panel, project)
    panel.shut_down()
    new = MaskInversionWidget(panel._viewer)
    assert new.session is panel.session
    assert new.session.project is None
    new.shut_down()


def test_what_is_drawn_while_nobody_follows_is_written_later(qtbot, panel, project):
    open_project(qtbot, panel, project)
    go(qtbot, panel, "cell-3.png")
    on_disk(qtbot, panel)
    panel.images.stop()
    paint(panel.session.regions, 1, (4, 4, 14, 14))
    panel.images.follow()
    on_disk(qtbot, panel)
    file = OpenProject.read(project).regions("cell-3.png")
    assert [one.id for one in read_regions(file, (64, 64), image="cell-3.png")] == [1]


def test_accepting_in_all_images_reaches_the_open_review_and_so_does_undo(qtbot, panel, project):
    open_project(qtbot, panel, project)
    suggested(qtbot, panel)
    panel.do("review")
    qtbot.waitUntil(lambda: panel.review.state is not None, timeout=WAIT)
    part, state = panel.images.part, panel.review.state
    word = panel.session.results.regions[0].suggestion
    part.limit.setValue(0)
    part.word.setCurrentText(word)
    part.accept.click()
    qtbot.waitUntil(lambda: panel.session.many is None, timeout=WAIT)
    assert panel.review.state is state  # open all the while
    assert panel.session.decided > 0
    assert {one.label for one in state.review.decisions.values()} == {word}
    part.undo.click()
    qtbot.waitUntil(lambda: panel.session.many is None, timeout=WAIT)
    assert panel.session.decided == 0


def test_suggesting_gives_a_project_without_words_those_in_the_panel(qtbot, panel, project):
    file = project / "project.yaml"
    write_project(read_project(file).model_copy(update={"labels": None}), file)
    panel.vocabulary.text.setPlainText("bus\nkey")
    qtbot.waitUntil(lambda: panel.session.vocabulary is not None, timeout=WAIT)
    open_project(qtbot, panel, project)
    qtbot.wait(500)
    on_disk(qtbot, panel)
    assert read_project(file).labels is None  # opening changes nothing
    suggested(qtbot, panel)
    assert tuple(read_project(file).labels) == ("bus", "key")
    assert {row.suggestion for row in panel.session.results.regions} <= {"bus", "key"}


def test_accepting_in_all_images_leaves_an_image_outside_the_project_alone(qtbot, panel, project):
    open_project(qtbot, panel, project)
    suggested(qtbot, panel)
    word = panel.session.results.regions[0].suggestion
    foreign = panel._viewer.add_image(picture(64, 64, 9), name="foreign")
    mine = panel._viewer.add_labels(label_image(2, 64, 64), name="mine")
    panel.session.choose(image=foreign, regions=mine)
    panel.start()
    qtbot.waitUntil(lambda: not panel.session.run.running, timeout=WAIT)
    panel.do("review")
    qtbot.waitUntil(lambda: panel.session.reviewed is not None, timeout=WAIT)
    part, opened = panel.images.part, panel.images.project
    part.limit.setValue(0)
    part.word.setCurrentText(word)
    part.accept.click()
    qtbot.waitUntil(lambda: panel.session.many is None, timeout=WAIT)
    assert panel.session.decided == 0
    assert summarize(opened, "cell-1.png").decided > 0
    part.undo.click()
    qtbot.waitUntil(lambda: panel.session.many is None, timeout=WAIT)
    assert summarize(opened, "cell-1.png").decided == 0


@pytest.fixture
def slow_review(monkeypatch):
    """Reviews hold their file, and are open once this event is set."""
    gate = threading.Event()

    def open_slowly(request):
        opened = open_review(request)
        assert gate.wait(WAIT / 1000)
        return opened

    monkeypatch.setattr(review_keeper, "open_review", open_slowly)
    yield gate
    gate.set()


@pytest.fixture
def accepting(qtbot, panel, project, slow_review):
    """Images with suggestions, and *Accept* clicked while the review of the first one opens."""
    open_project(qtbot, panel, project)
    suggested(qtbot, panel)
    panel.do("review")
    qtbot.wait(300)  # until the file is held
    part = panel.images.part
    part.limit.setValue(0)
    part.word.setCurrentText(panel.session.results.regions[0].suggestion)
    part.accept.click()
    assert "Opening the review" in panel.foot.status.text()
    return part


def test_accepting_in_all_images_waits_for_the_review_that_is_being_opened(
    qtbot, panel, accepting, slow_review
):
    word = accepting.together[0]
    assert not accepting.accept.isEnabled()
    slow_review.set()
    qtbot.waitUntil(lambda: panel.session.many is None, timeout=WAIT)
    text = panel.foot.status.text()
    assert f"Accepted as {word}" in text
    assert "left out" not in text
    assert {one.label for one in panel.review.state.review.decisions.values()} == {word}


def test_what_waits_for_a_review_can_be_cancelled(qtbot, panel, accepting, slow_review):
    panel.stop()
    assert panel.session.many is None
    slow_review.set()
    qtbot.waitUntil(lambda: panel.review.state is not None, timeout=WAIT)
    qtbot.wait(200)
    assert not panel.review.state.review.decisions


def test_work_on_all_images_does_not_go_on_into_another_project(
    qtbot, panel, project, tmp_path_factory, monkeypatch
):
    other = tmp_path_factory.mktemp("other") / "second"
    shutil.copytree(project, other)
    went_on = threading.Event()

    def slow(*_, **__):
        while panel.images.project.folder == project:
            show(ManyImages("..."))
            time.sleep(0.01)
        went_on.set()
        show(Decided("cell-2.png", Summary(regions=2, decided=2)))
        return Accepted(word="car", regions={"cell-2.png": [(1, ())]})

    monkeypatch.setattr(across, "accept_work", slow)
    open_project(qtbot, panel, project)
    panel.images.ahead.drop()
    panel.images.part.accept.click()
    assert panel.session.many is not None
    panel.open_images([other])
    qtbot.waitUntil(lambda: panel.images.project.folder == other, timeout=WAIT)
    assert panel.session.many is None
    went_on.wait(1)
    on_disk(qtbot, panel)
    assert not panel.session.project.done
    assert not OpenProject.read(other).done
    assert not panel.images.part.undo.isEnabled()


def test_a_project_is_opened_as_it_is_and_changed_where_the_user_changes_it(
    qtbot, panel, project, tmp_path_factory
):
    file, bare = project / "project.yaml", tmp_path_factory.mktemp("bare") / "project.yaml"
    first = read_project(file)
    own = {"model": "own.safetensors", "architecture": "ViT-B-32", "inversion.alpha": 0.125}
    write_project(
        Project(**{**dict(first), "settings": {**FAST, **own, "threshold": 0.2345}}), file
    )
    shutil.copytree(project / "images", bare.parent / "images")
    images = tuple(one.model_copy(update={"regions": None}) for one in first.images)
    write_project(Project(images=images), bare)
    for place in (file, bare):
        before = place.read_bytes()
        panel.open_images([place])
        qtbot.waitUntil(
            lambda place=place: (
                panel.images.project is not None
                and panel.images.project.file == place
                and panel.images.shown is not None
            ),
            timeout=WAIT,
        )
        on_disk(qtbot, panel)
        assert place.read_bytes() == before
        if place == file:
            assert panel.session.settings.get("inversion.alpha") == 0.125
            assert panel.session.vocabulary.threshold == 0.2345
    panel.vocabulary.text.setPlainText("car\ncat")
    panel.model.form.set_values({"inversion.steps": 7})
    on_disk(qtbot, panel)
    after = read_project(bare)
    assert (after.labels, after.settings) == (("car", "cat"), {"inversion.steps": 7})


def test_going_back_while_the_next_image_is_read_stays_and_two_steps_are_two_images(
    qtbot, panel, project
):
    open_project(qtbot, panel, project)
    panel.images.ahead.drop()
    panel.images._ready.clear()
    panel.images.go("cell-2.png")
    panel.images.go("cell-1.png")
    assert panel.session.project.opening == ""
    assert not panel.images.reader.busy
    panel.images.move(1)
    panel.images.move(1)
    qtbot.waitUntil(lambda: panel.session.project.opening == "", timeout=WAIT)
    assert panel.session.project.current == "cell-3.png"


def test_what_waits_for_a_review_does_not_reach_another_project(
    qtbot, panel, accepting, slow_review, project, tmp_path_factory
):
    other = tmp_path_factory.mktemp("other")
    shutil.copytree(project, other, dirs_exist_ok=True)
    panel.open_images([other])
    qtbot.waitUntil(lambda: panel.images.project.folder == other, timeout=WAIT)
    slow_review.set()
    qtbot.wait(500)
    qtbot.waitUntil(lambda: panel.session.many is None, timeout=WAIT)
    for place in (project, other):
        opened = OpenProject.read(place)
        assert [summarize(opened, f"cell-{n}.png").decided for n in (1, 2)] == [0, 0]


def test_undo_waits_for_the_review_that_is_being_opened(qtbot, panel, project, slow_review):
    open_project(qtbot, panel, project)
    suggested(qtbot, panel)
    part, opened = panel.images.part, panel.images.project
    word = panel.session.results.regions[0].suggestion
    part.limit.setValue(0)
    part.word.setCurrentText(word)
    part.accept.click()
    qtbot.waitUntil(lambda: part.undo.isEnabled(), timeout=WAIT)
    qtbot.wait(300)  # the review opens by itself now, to show what was decided
    part.undo.click()
    assert "Opening the review" in panel.foot.status.text()
    assert summarize(opened, "cell-1.png").decided > 0
    slow_review.set()
    qtbot.waitUntil(lambda: panel.session.many is None, timeout=WAIT)
    assert "Undecided again" in panel.foot.status.text()
    assert "could not be changed" not in panel.foot.status.text()
    assert summarize(opened, "cell-1.png").decided == 0


def test_a_closed_panel_leaves_no_review_opening_in_the_session(panel, accepting):
    assert panel.session.review_opening
    panel.shut_down()
    assert not panel.session.review_opening
    assert panel.session.many is None


def test_nothing_is_accepted_in_all_images_while_the_reviewed_one_is_computed_again(
    qtbot, panel, project, messages, request
):
    open_project(qtbot, panel, project)
    paint(panel.session.regions, 77, (40, 2, 46, 9))
    suggested(qtbot, panel)
    panel.do("review")
    qtbot.waitUntil(lambda: panel.review.state is not None, timeout=WAIT)
    word = panel.session.results.regions[0].suggestion
    run = request.getfixturevalue("slow")
    panel.model.form.set_values({"chunk_size": 1})
    panel.start()
    run.go.release(8)  # the first region is in, the run is not over
    qtbot.waitUntil(lambda: panel.session.reviewed is None, timeout=WAIT)
    part = panel.images.part
    part.limit.setValue(0)
    part.word.setCurrentText(word)
    part.accept.click()
    assert messages[-1] == "Wait until the run is over, or cancel it: its image is under review."
    assert panel.session.many is None
    run.free = True
    run.go.release(1000)
    qtbot.waitUntil(lambda: not panel.session.run.running, timeout=WAIT)
    opened = panel.images.project
    assert [summarize(opened, f"cell-{n}.png").decided for n in (1, 2)] == [0, 0]


def test_nothing_is_accepted_from_suggestions_of_other_words(qtbot, panel, project):
    open_project(qtbot, panel, project)
    suggested(qtbot, panel)
    panel.do("review")
    qtbot.waitUntil(lambda: panel.review.state is not None, timeout=WAIT)
    panel.vocabulary.text.setPlainText("car\ndog\nhouse")
    qtbot.waitUntil(lambda: panel.session.stale.words, timeout=WAIT)
    part = panel.images.part
    part.limit.setValue(0)
    for word in ("car", "dog"):
        part.word.setCurrentText(word)
        part.accept.click()  # at once: the words are not in project.yaml yet
        qtbot.waitUntil(lambda: panel.session.many is None, timeout=WAIT)
        text = panel.foot.status.text()
        assert "cell-1.png" in text, text
        assert "Nothing is suggested" in text
    assert panel.session.decided == 0
    assert summarize(panel.images.project, "cell-2.png").decided == 0


def test_a_project_opened_again_goes_on_at_the_same_image_and_region(
    qtbot, panel, project, make_napari_viewer
):
    from napari_maskinversion._napari.panel.widget import MaskInversionWidget

    open_project(qtbot, panel, project)
    suggested(qtbot, panel)
    go(qtbot, panel, "cell-2.png")
    qtbot.waitUntil(lambda: panel.session.results is not None, timeout=WAIT)
    on_disk(qtbot, panel)
    assert panel.session.row == 0
    assert read_place(project / "project.yaml").region is None  # it was only looked at
    panel.session.select(1)
    on_disk(qtbot, panel)
    region = panel.session.results.regions[1].id
    assert read_place(project / "project.yaml").region == region
    panel.shut_down()
    viewer = make_napari_viewer()
    other = MaskInversionWidget(viewer)
    viewer.window.add_dock_widget(other, name="test")
    open_project(qtbot, other, project)
    assert other.session.project.current == "cell-2.png"
    assert other.session.row == 1
    on_disk(qtbot, other)
    assert read_place(project / "project.yaml").region == region
    other.shut_down()


def test_a_broken_image_is_named_and_the_others_go_on(qtbot, panel, project):
    (project / "images" / "cell-2.png").write_bytes(b"no picture")
    open_project(qtbot, panel, project)
    panel.images.move(1)
    qtbot.waitUntil(lambda: panel.session.project.current == "cell-2.png", timeout=WAIT)
    assert "cell-2.png" in panel.foot.status.text()
    assert panel.images.part.model.summary("cell-2.png").problem
    paint(panel.images.shown.labels, 9, (40, 2, 46, 9))  # still the first image's
    panel.images.move(1)
    qtbot.waitUntil(lambda: panel.session.project.current == "cell-3.png", timeout=WAIT)
    on_disk(qtbot, panel)
    files = {one.name: one.regions for one in read_project(project).images}
    assert "drawn" in files["cell-1.png"]
    assert files["cell-2.png"] == "masks/cell-2.png"


def test_few_controls_that_fit_320_pixels_and_all_have_keys(qtbot, panel, project):
    open_project(qtbot, panel, project)
    inside = panel.tabs.areas["images"].widget()
    shown = list(controls(inside))
    assert 5 < len(shown) <= MOST, names(shown)
    assert inside.minimumSizeHint().width() <= NARROW - 20
    for one in shown:
        assert one.accessibleName() or one.text()
        assert one.focusPolicy() & Qt.FocusPolicy.TabFocus, one
    table = panel.images.part.list
    table.setCurrentIndex(panel.images.part.model.index(1, 0))
    qtbot.keyClick(table, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: panel.session.project.current == "cell-2.png", timeout=WAIT)


def test_a_thousand_images_are_read_where_they_are_in_view_only(qtbot, panel, tmp_path, project):
    from napari_maskinversion.batch.project import Project, ProjectImage, write_project

    first = read_project(project).images[0]
    images = [
        ProjectImage(name=f"{number}.png", image=first.image, regions=first.regions)
        for number in range(1000)
    ]
    write_project(Project(images=tuple(images)), project / "many.yaml")
    bring(qtbot, panel)
    open_project(qtbot, panel, project / "many.yaml")
    part = panel.images.part
    known = part.model
    qtbot.waitUntil(lambda: not known.unknown(*part.rows_in_view), timeout=WAIT)
    assert known.rowCount() == 1000
    assert len(known.unknown(0, 999)) > 900
    part.list.scrollToBottom()
    qtbot.waitUntil(lambda: not known.unknown(995, 999), timeout=WAIT)


@pytest.mark.parametrize("step", [1, -1])
def test_the_keys_of_previous_and_next_work_from_the_canvas(qtbot, panel, project, step):
    bring(qtbot, panel)
    open_project(qtbot, panel, project)
    go(qtbot, panel, "cell-2.png")
    press("PageDown" if step > 0 else "PageUp", Qt.KeyboardModifier.AltModifier)
    expected = "cell-3.png" if step > 0 else "cell-1.png"
    qtbot.waitUntil(lambda: panel.session.project.current == expected, timeout=WAIT)
