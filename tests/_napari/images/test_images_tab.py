"""The tab for many images in the real window: going from image to image."""

import shutil

import numpy as np
from qtpy.QtCore import Qt

from napari_maskinversion.app.session import Action
from napari_maskinversion.base import progress
from napari_maskinversion.batch.opened import OpenProject, is_drawn, read_place
from napari_maskinversion.batch.project import Project, ProjectImage, read_project, write_project
from napari_maskinversion.batch.project_decisions import summarize
from napari_maskinversion.batch.project_index import archive_file

from ..panel.test_frame import MOST, NARROW, controls, names
from ..panel.test_keyboard import CTRL, bring, press
from .conftest import (
    FAST,
    go,
    ids,
    kept,
    on_disk,
    open_project,
    paint,
    review,
    save,
    suggested,
)

FIRST, SECOND, THIRD = "cell-1.png", "cell-2.png", "cell-3.png"


def at(panel, name):
    return lambda: panel.session.project.state.current == name


def test_only_the_projects_own_layers_come_and_go(qtbot, panel, project):
    viewer = panel._viewer
    own = viewer.add_points(np.zeros((1, 2)), name="mine")
    photo = viewer.add_image(np.zeros((9, 9)), name="photo")
    open_project(qtbot, panel, project)
    assert panel.session.run.image.name == FIRST
    assert ids(panel.session.run.regions.data) == ids(panel.images.shown.labels.data) != []
    go(qtbot, panel, SECOND)
    assert panel.session.run.image.name == SECOND
    others = [layer.name for layer in viewer.layers if layer not in (own, photo)]
    # There is a heatmap if its results were computed in the meantime.
    others = [name for name in others if name != f"heatmap: {SECOND}"]
    assert others == [SECOND, f"{SECOND}: regions"]
    assert own in viewer.layers
    assert photo in viewer.layers


def test_regions_drawn_by_hand_are_beside_the_project_when_the_next_image_follows(
    qtbot, panel, project
):
    before = (project / "masks" / FIRST).read_bytes()
    open_project(qtbot, panel, project)
    paint(panel.session.run.regions, 77, (40, 2, 46, 9))
    panel.images.move(1)
    qtbot.waitUntil(at(panel, SECOND))
    on_disk(qtbot, panel)
    opened = OpenProject.read(project)
    assert is_drawn(opened.regions(FIRST))
    assert 77 in kept(project, FIRST)
    assert (project / "masks" / FIRST).read_bytes() == before
    assert opened.by_name[SECOND].regions == f"masks/{SECOND}"  # untouched
    go(qtbot, panel, FIRST)
    assert 77 in ids(panel.session.run.regions.data)


def test_the_first_regions_of_an_image_are_kept_without_a_step_more(qtbot, panel, project):
    save(project / "images" / THIRD, np.zeros((2100, 2100), np.uint8))  # too large to be counted
    open_project(qtbot, panel, project)
    go(qtbot, panel, THIRD)
    assert panel.foot.button.text() == "Draw regions"
    paint(panel.session.run.regions, 1, (4, 4, 20, 20))
    qtbot.waitUntil(lambda: read_project(project).images[2].regions is not None)


def test_results_of_a_run_are_those_of_the_project(qtbot, panel, project):
    open_project(qtbot, panel, project)
    panel.start()
    qtbot.waitUntil(lambda: bool(panel.session.run.results))
    qtbot.waitUntil(lambda: not panel.session.run.progress.running)
    on_disk(qtbot, panel)
    assert archive_file(OpenProject.read(project), FIRST) is not None
    go(qtbot, panel, SECOND)
    go(qtbot, panel, FIRST)
    assert panel.session.run.results is not None
    assert panel.session.run.record.reopened


def test_a_review_goes_on_from_image_to_image_by_one_key(qtbot, window, panel, project):
    bring(qtbot, panel)
    open_project(qtbot, panel, project)
    suggested(qtbot, panel)
    panel.do(Action.REVIEW)
    for name in (FIRST, SECOND):
        qtbot.waitUntil(lambda: panel.review.state is not None)
        assert panel.session.project.state.current == name
        state = panel.review.state
        for count in range(len(panel.session.run.results)):
            assert panel.session.review.rows in (
                (),
                (panel.session.review.row,),
            )  # never several at once
            press("A")
            qtbot.waitUntil(lambda n=count: panel.session.review.decided_count == n + 1)
        if name == FIRST:
            assert panel.foot.button.text() == "Next image"
            press("Return", CTRL)
            qtbot.waitUntil(lambda s=state: panel.review.state not in (None, s))
            assert panel.session.status.tab == "review"
    on_disk(qtbot, panel)
    opened = OpenProject.read(project)
    assert opened.done == {FIRST, SECOND}
    assert panel.tabs.tabText(3) == "Images 2/3"
    for name in opened.done:
        assert summarize(opened, name).decided == summarize(opened, name).regions


def test_a_review_goes_on_when_the_suggestions_of_the_next_image_come_later(qtbot, panel, computed):
    review(qtbot, panel)
    archive = panel.images.project.task(SECOND).archive
    archive.rename(computed / "later")
    panel.images.ahead.forget()
    go(qtbot, panel, SECOND)
    qtbot.waitUntil(lambda: panel.review.state is None)
    heatmap = panel.canvas.heatmap.layer
    assert not heatmap.data.any()  # nothing of the image before
    (computed / "later").rename(archive)
    panel.images.computed(SECOND)
    qtbot.waitUntil(lambda: panel.review.state is not None)
    assert panel.session.reviewed is not None
    assert panel.session.project.state.current == SECOND
    assert heatmap.data.any()
    layers = [layer.name for layer in panel._viewer.layers]
    assert layers == [SECOND, f"heatmap: {SECOND}", f"{SECOND}: regions"]


def test_a_project_is_opened_as_it_is_and_changed_where_the_user_changes_it(
    qtbot, panel, project, tmp_path_factory, monkeypatch
):
    file, bare = project / "project.yaml", tmp_path_factory.mktemp("bare") / "project.yaml"
    first = read_project(file)
    own = {"model": "own.safetensors", "architecture": "ViT-B-32", "inversion.alpha": 0.125}
    settings = {**FAST, **own, "threshold": 0.2345}
    write_project(Project(**{**dict(first), "settings": settings}), file)
    shutil.copytree(project / "images", bare.parent / "images")
    images = tuple(one.model_copy(update={"regions": None}) for one in first.images)
    write_project(Project(images=images), bare)
    for place in (file, bare):
        before = place.read_bytes()
        panel.session.project.open_images.emit([place])
        qtbot.waitUntil(lambda place=place: is_open(panel, place))
        on_disk(qtbot, panel)
        assert place.read_bytes() == before
        if place == file:
            assert panel.session.run.settings.get("inversion.alpha") == 0.125
            assert panel.session.run.vocabulary.threshold == 0.2345
            panel.vocabulary.text.setPlainText("bus\nkey")
            on_disk(qtbot, panel)
    panel.vocabulary.text.setPlainText("car\ncat")
    panel.model.form.set_values({"inversion.steps": 7})
    on_disk(qtbot, panel)
    after = read_project(bare)
    assert (after.labels, after.settings) == (("car", "cat"), {"inversion.steps": 7})


def is_open(panel, file):
    images = panel.images
    return images.project is not None and images.project.file == file and images.shown is not None


def test_going_back_while_the_next_image_is_read_stays_and_two_steps_are_two_images(
    qtbot, panel, project
):
    open_project(qtbot, panel, project)
    panel.images.ahead.forget()
    panel.images.go(SECOND)
    panel.images.go(FIRST)
    assert panel.session.project.state.opening == ""
    assert not panel.images.reader.busy
    panel.images.move(1)
    panel.images.move(1)
    qtbot.waitUntil(lambda: panel.session.project.state.opening == "")
    assert panel.session.project.state.current == THIRD


def test_a_project_opened_again_goes_on_at_the_same_image_and_region(qtbot, panel, computed, dock):
    go(qtbot, panel, SECOND)
    on_disk(qtbot, panel)
    assert panel.session.review.row == 0
    assert read_place(computed / "project.yaml").region is None  # it was only looked at
    panel.session.select(1)
    on_disk(qtbot, panel)
    region = panel.session.run.results.regions[1].id
    assert read_place(computed / "project.yaml").region == region
    panel.shut_down()
    panel._viewer.layers.clear()
    other = dock(words=None)
    last = other.images.part.open.menu().actions()[0]
    assert last.text() == str(computed)
    assert other.session is panel.session
    assert other.session.project.state is None  # nobody keeps the project of the panel before
    last.trigger()
    qtbot.waitUntil(lambda: other.images.shown is not None)
    assert other.session.project.state.current == SECOND
    assert other.session.review.row == 1
    on_disk(qtbot, other)
    assert read_place(computed / "project.yaml").region == region


def test_a_broken_image_is_named_and_the_others_go_on(qtbot, panel, project):
    (project / "images" / SECOND).write_bytes(b"no picture")
    open_project(qtbot, panel, project)
    panel.images.move(1)
    qtbot.waitUntil(at(panel, SECOND))
    assert SECOND in panel.foot.status.text()
    assert panel.images.part.model.summary(SECOND).problem
    paint(panel.images.shown.labels, 9, (40, 2, 46, 9))  # still the first image's
    panel.images.move(1)
    qtbot.waitUntil(at(panel, THIRD))
    on_disk(qtbot, panel)
    files = {one.name: one.regions for one in read_project(project).images}
    assert "drawn" in files[FIRST]
    assert files[SECOND] == f"masks/{SECOND}"


def test_few_controls_that_fit_320_pixels_and_all_have_keys(qtbot, window, panel, project):
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
    qtbot.waitUntil(at(panel, SECOND))


def test_a_thousand_images_are_read_where_they_are_in_view_only(qtbot, window, panel, project):
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
    qtbot.waitUntil(lambda: not known.unknown(0, 4))
    assert known.rowCount() == 1000
    assert len(known.unknown(0, 999)) > 900
    part.list.scrollToBottom()
    qtbot.waitUntil(lambda: not known.unknown(995, 999))


def test_the_list_is_filled_while_reading_tells_how_far_it_is(
    qtbot, window, panel, project, monkeypatch
):
    monkeypatch.setattr(progress, "INTERVAL", -1.0)  # a slow disk
    bring(qtbot, panel)
    open_project(qtbot, panel, project)
    known = panel.images.part.model
    qtbot.waitUntil(lambda: not known.unknown(0, 2))
    assert [known.summary(name).regions for name in (FIRST, SECOND, THIRD)] == [1, 2, 0]


def test_the_keys_of_previous_and_next_work_from_the_canvas(qtbot, window, panel, project):
    bring(qtbot, panel)
    open_project(qtbot, panel, project)
    for key, name in (("PageDown", SECOND), ("PageDown", THIRD), ("PageUp", SECOND)):
        press(key, Qt.KeyboardModifier.AltModifier)
        qtbot.waitUntil(at(panel, name))


def test_words_of_a_project_stay_when_regions_have_names(qtbot, panel, project):
    panel.vocabulary.restore("car\ndog", {})  # as the last session left them
    open_project(qtbot, panel, project)
    panel.vocabulary.prefill(["bus"])
    assert panel.vocabulary.text.toPlainText() == "car\ndog"
