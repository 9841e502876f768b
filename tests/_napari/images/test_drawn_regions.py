"""Regions that somebody draws on the images of a project: none is lost, whatever layer has it."""

import errno
import json
import shutil
import threading
import time

import numpy as np
import pytest
import skimage.io
from qtpy.QtCore import QTimer

from napari_maskinversion._napari.images import ahead
from napari_maskinversion.app.layer_input.layer_facts import is_ours
from napari_maskinversion.app.project.project_files import new_project
from napari_maskinversion.app.project.project_opening import open_project_image
from napari_maskinversion.app.work.driver import show
from napari_maskinversion.base.errors import InputError
from napari_maskinversion.batch import opened
from napari_maskinversion.batch.image_run import run_task
from napari_maskinversion.batch.opened import OpenProject, Place, write_place
from napari_maskinversion.batch.project import Project, read_project
from napari_maskinversion.regions.annotations.annotation_reading import read_annotations
from tests.scenes import picture

from .conftest import (
    FAST,
    accept_all,
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

SQUARE = [[40, 5], [40, 20], [55, 20], [55, 5]]
FIRST, SECOND, THIRD = "cell-1.png", "cell-2.png", "cell-3.png"


@pytest.fixture
def third(qtbot, panel, project, monkeypatch):
    """The window at the third image, which has no regions; nothing is computed ahead."""
    monkeypatch.setattr(ahead, "open_work", read_ahead)
    write_place(project / "project.yaml", Place(image=THIRD))
    open_project(qtbot, panel, project)
    return panel


def read_ahead(project, name, *_, **__):
    return open_project_image(project, name)


def label_file(folder):
    labels = np.zeros((64, 64), np.uint8)
    labels[2:12, 2:12], labels[30:40, 30:40] = 1, 2
    return save(folder / "elsewhere" / "nuclei.png", labels)


def from_file(qtbot, panel, file):
    before = len(panel._viewer.layers)
    panel.from_file.open_file(file)
    qtbot.waitUntil(lambda: len(panel._viewer.layers) > before)


def layer_names(panel):
    return [layer.name for layer in panel._viewer.layers if not is_ours(layer)]


def test_regions_from_a_file_are_those_of_the_image_and_their_layer_leaves_with_it(
    qtbot, third, project
):
    from_file(qtbot, third, label_file(project))
    on_disk(qtbot, third)
    assert kept(project, THIRD) == {1: 100, 2: 100}
    go(qtbot, third, FIRST)
    assert layer_names(third) == [FIRST, f"{FIRST}: regions"]
    go(qtbot, third, THIRD)
    assert ids(third.session.run.regions.data) == [1, 2]


def test_regions_of_segment_are_those_of_the_image_and_its_boxes_leave_with_it(
    qtbot, third, project
):
    third.segment.part.add_boxes.click()
    boxes = third.segment.part.boxes.layer
    boxes.add_rectangles([np.array(SQUARE)])
    third.segment.part.checkpoint.setCurrentIndex(0)  # none: the shapes are the regions
    before = len(third._viewer.layers)
    third.segment.start()
    qtbot.waitUntil(lambda: len(third._viewer.layers) > before)
    on_disk(qtbot, third)
    assert list(kept(project, THIRD).values()) == [256]
    go(qtbot, third, FIRST)
    assert boxes not in third._viewer.layers
    assert layer_names(third) == [FIRST, f"{FIRST}: regions"]
    go(qtbot, third, THIRD)
    assert np.count_nonzero(third.session.run.regions.data) == 256


def test_painted_regions_and_those_of_a_file_are_kept_together(qtbot, third, project):
    paint(third.session.run.regions, 1, (44, 44, 54, 60))
    from_file(qtbot, third, label_file(project))
    on_disk(qtbot, third)
    areas = kept(project, THIRD)
    assert sorted(areas.values()) == [100, 100, 160]
    assert areas[1] == 160  # what was there keeps its number
    records = json.loads(OpenProject.read(project).regions(THIRD).read_text())["annotations"]
    assert len({one["region"] for one in records}) == 3  # also for other programs
    assert "'nuclei'" in third.foot.status.text()
    assert "3 regions" in third.foot.status.text()


def test_polygons_on_a_layer_of_the_user_are_added_and_the_layer_stays(qtbot, third, project):
    viewer = third._viewer
    paint(third.session.run.regions, 1, (4, 4, 14, 14))
    qtbot.waitUntil(lambda: third.session.run.region_count == 1)
    mine = viewer.add_shapes(ndim=2, name="my polygons")
    qtbot.waitUntil(lambda: "'my polygons' does not belong" in third.foot.status.text())
    assert third.foot.help.text() == "Work on it"
    third.session.choose(regions=mine)
    mine.add_polygons([np.array(SQUARE), np.array(SQUARE) + 500])  # one lies outside
    on_disk(qtbot, third)
    assert sorted(kept(project, THIRD).values()) == [100, 256]
    paint(third.images.shown.labels, 2, (20, 20, 30, 30))  # not the chosen one
    on_disk(qtbot, third)
    assert sorted(kept(project, THIRD).values()) == [100, 100, 256]
    go(qtbot, third, FIRST)
    assert layer_names(third) == [FIRST, f"{FIRST}: regions", "my polygons"]  # still on top
    mine.add_polygons([np.array(SQUARE) - 4])
    on_disk(qtbot, third)
    assert OpenProject.read(project).by_name[FIRST].regions == "masks/cell-1.png"
    go(qtbot, third, THIRD)
    assert len(ids(third.session.run.regions.data)) == 3
    third.session.choose(regions=mine)  # once more: nothing is there twice
    on_disk(qtbot, third)
    assert len(kept(project, THIRD)) == 4


def test_regions_of_the_users_own_image_stay_his_when_the_projects_is_chosen_again(
    qtbot, panel, project
):
    open_project(qtbot, panel, project)
    panel.images.ahead.job.drop()
    viewer, session, cell = panel._viewer, panel.session, panel.session.run.image
    photo = viewer.add_image(picture(64, 64, 9), name="photo")
    mine = viewer.add_labels(skimage.io.imread(label_file(project)), name="mine")
    session.choose(image=photo)
    session.choose(regions=mine)
    session.choose(image=cell)
    assert session.run.regions is panel.images.shown.labels
    on_disk(qtbot, panel)
    assert OpenProject.read(project).by_name[FIRST].regions == "masks/cell-1.png"
    stack = np.zeros((5, 64, 64), np.uint8)
    stack[2, 5:20, 40:60] = 7
    session.choose(regions=viewer.add_labels(stack, name="stack"))
    told = "'stack' has 5 planes but cell-1.png has 1."
    qtbot.waitUntil(lambda: told in panel.foot.status.text())
    paint(panel.images.shown.labels, 9, (2, 50, 6, 54))  # the image's own are still followed
    on_disk(qtbot, panel)
    assert 9 in kept(project, FIRST)
    assert 7 not in kept(project, FIRST)


def test_results_of_some_of_the_regions_are_not_those_of_the_image(qtbot, third, project):
    paint(third.session.run.regions, 1, (44, 44, 54, 60))
    from_file(qtbot, third, label_file(project))
    third.start()
    qtbot.waitUntil(lambda: bool(third.session.run.results))
    qtbot.waitUntil(lambda: not third.session.run.progress.running)
    assert len(third.session.run.results) == 2
    on_disk(qtbot, third)
    assert not (project / "maskinversion_batch" / "archives" / THIRD / "results.npz").exists()
    assert len(kept(project, THIRD)) == 3


def test_removing_a_layer_from_a_file_removes_its_regions(qtbot, third, project):
    paint(third.session.run.regions, 7, (44, 44, 54, 60))
    from_file(qtbot, third, label_file(project))
    on_disk(qtbot, third)
    assert len(kept(project, THIRD)) == 3
    third._viewer.layers.remove(third._viewer.layers["nuclei"])
    qtbot.waitUntil(lambda: not third.images.keeper.is_kept)
    on_disk(qtbot, third)
    assert list(kept(project, THIRD)) == [7]


def test_a_disk_that_refuses_keeps_the_user_at_the_image_until_its_regions_are_kept(
    qtbot, third, project, monkeypatch
):
    write, causes = opened.coco_writing.write_coco, [OSError(errno.EACCES, "Permission denied")]

    def refuse(*_, **__):
        why = causes[-1]
        raise InputError(f"cell-3.png.json could not be written ({why.strerror}).") from why

    monkeypatch.setattr(opened.coco_writing, "write_coco", refuse)
    paint(third.session.run.regions, 1, (4, 4, 14, 14))
    qtbot.waitUntil(lambda: third.session.run.region_count == 1)  # which takes back messages
    third.images.move(-1)
    qtbot.waitUntil(lambda: "Permission denied" in third.foot.status.text())
    assert "not saved: solve this, then save it again" in third.foot.status.text()
    assert third.session.project.state.current == THIRD
    assert third.session.project.state.opening == ""
    causes.append(OSError(errno.ENOSPC, "No space left on device"))
    third.session.project.open_images.emit([project])  # nor does another project take its place
    qtbot.waitUntil(lambda: not third.images.finding.busy)
    qtbot.waitUntil(lambda: not third.images.keeper.writing.busy)
    assert ids(third.images.shown.labels.data) == [1]
    assert "not saved: solve this, then save it again" in third.foot.status.text()
    assert third.foot.help.text() == "Save again"
    monkeypatch.setattr(opened.coco_writing, "write_coco", write)
    third.foot.help.click()
    qtbot.waitUntil(lambda: third.images.keeper.is_kept)
    assert kept(project, THIRD) == {1: 100}
    go(qtbot, third, SECOND)


def test_what_is_drawn_while_the_next_image_is_read_is_kept(qtbot, third, project):
    third.images.ahead.forget()
    third.images.go(FIRST)
    paint(third.images.shown.labels, 1, (4, 4, 14, 14))
    qtbot.waitUntil(lambda: third.session.project.state.current == FIRST)
    on_disk(qtbot, third)
    assert kept(project, THIRD) == {1: 100}


def test_what_is_drawn_while_nobody_follows_is_written_later(qtbot, third, project):
    third.images.stop()
    paint(third.session.run.regions, 1, (4, 4, 14, 14))
    third.images.follow()
    on_disk(qtbot, third)
    assert kept(project, THIRD) == {1: 100}


def test_a_window_that_closes_waits_for_the_disk_and_not_for_the_event_loop(qtbot, third, project):
    seen = []

    def draw_and_close():
        paint(third.session.run.regions, 1, (4, 4, 14, 14))
        third.keep()
        seen.append(kept(project, THIRD))

    QTimer.singleShot(0, draw_and_close)
    qtbot.waitUntil(lambda: bool(seen))
    assert seen == [{1: 100}]


@pytest.fixture
def named(project):
    """A project whose images share one COCO file, with suggestions for the first image.

    One of its regions lies below two smaller ones, which are at one place.
    """
    boxes = [
        {"id": 40 + n, "image_id": 92, "category_id": 1 + n % 2, "bbox": box}
        for n, box in enumerate(([2, 4, 30, 30], [10, 10, 12, 12], [10, 10, 12, 12]))
    ]
    sizes = {"height": 64, "width": 64}
    names = {92: FIRST, 127: SECOND, 300: THIRD}
    content = {
        "images": [{"id": n, "file_name": name, **sizes} for n, name in names.items()],
        "categories": [{"id": 1, "name": "car"}, {"id": 2, "name": "dog"}],
        "annotations": [*boxes, {**boxes[0], "id": 60, "image_id": 127}],
    }
    folder = project / "coco"
    folder.mkdir()
    (folder / "instances.json").write_text(json.dumps(content))
    words = Project(labels=("car", "dog"), settings=FAST)
    # By mouse, somebody may choose the file or the folder that holds it.
    for number, regions in enumerate((folder, folder / "instances.json")):
        file = project / f"named-{number}.yaml"
        made = new_project(file, project / "images", regions, words).project
    run_task(made.task(FIRST))
    return file


def test_a_stroke_keeps_the_names_of_the_file_and_what_was_suggested_and_decided(
    qtbot, panel, named, dock
):
    open_project(qtbot, panel, named)
    panel.images.ahead.forget()
    assert len(panel.session.run.results) == panel.session.run.region_count == 3
    review(qtbot, panel)
    panel.review.act("accept")
    qtbot.waitUntil(lambda: panel.session.review.decided_count == 1)
    paint(panel.session.run.regions, 77, (50, 2, 60, 12))
    on_disk(qtbot, panel)
    file = OpenProject.read(named).regions(FIRST)
    there = read_annotations(file, (64, 64), image=FIRST).items
    assert [(one.label, one.source_id) for one in there] == [
        *(("car", "40"), ("dog", "41"), ("car", "42")),
        ("", "77"),
    ]
    assert [one.region.area for one in there] == [900, 144, 144, 100]  # whole, also below others
    panel.shut_down()
    panel._viewer.layers.clear()
    again = dock(words=None)
    open_project(qtbot, again, named)
    assert len(again.session.run.results) == 3
    assert len(ids(again.session.run.regions.data)) == 3
    assert again.session.run.region_count == 4
    qtbot.waitUntil(lambda: len(again.session.run.changed_regions) == 1)
    qtbot.waitUntil(lambda: again.session.review.decided_count == 1)
    assert again.foot.button.text() == "Update 1 region"
    assert again.images.part.model.summary(FIRST).decided == 1


@pytest.fixture
def late(monkeypatch):
    """What is computed ahead ends once this event is set."""
    gate, work = threading.Event(), ahead.open_work

    def slow(*arguments):
        while not gate.is_set():
            time.sleep(0.01)
            show("...")
        return work(*arguments)

    monkeypatch.setattr(ahead, "open_work", slow)
    yield gate
    gate.set()


def test_regions_drawn_before_late_suggestions_arrive_stay(qtbot, panel, project, late):
    open_project(qtbot, panel, project)
    go(qtbot, panel, SECOND)
    before = kept(project, SECOND)
    from_file(qtbot, panel, label_file(project))
    on_disk(qtbot, panel)
    both = kept(project, SECOND)
    assert len(both) == len(before) + 2
    late.set()
    qtbot.waitUntil(lambda: panel.images.ahead.name != SECOND)
    assert f"{SECOND}: regions" in layer_names(panel)
    assert "nuclei" in layer_names(panel)
    paint(panel.session.run.regions, 9, (2, 50, 6, 54))
    on_disk(qtbot, panel)
    assert len(kept(project, SECOND)) == len(both) + 1


def test_images_that_were_added_to_the_folder_are_offered(qtbot, panel, project):
    skimage.io.imsave(project / "images" / "new.png", picture(64, 64, 9), check_contrast=False)
    shutil.copy(project / "masks" / FIRST, project / "masks" / "new.png")
    open_project(qtbot, panel, project)
    qtbot.waitUntil(lambda: "new.png" in panel.foot.status.text())
    assert panel.foot.help.text() == "Add them"
    panel.foot.help.click()
    qtbot.waitUntil(lambda: "new.png" in panel.session.project.state.names)
    assert read_project(project).images[3].regions == "masks/new.png"
    assert panel.images.part.model.rowCount() == 4
    go(qtbot, panel, "new.png")
    assert ids(panel.session.run.regions.data) != []


def test_an_image_is_done_when_all_is_accepted_and_open_with_a_new_region(qtbot, panel, project):
    open_project(qtbot, panel, project)
    suggested(qtbot, panel)
    accept_all(qtbot, panel, "car", "dog")
    assert SECOND in panel.session.project.state.done
    on_disk(qtbot, panel)
    assert SECOND in OpenProject.read(project).done
    go(qtbot, panel, SECOND)
    free = np.argwhere(panel.session.run.regions.data == 0)[0]
    panel.session.run.regions.data_setitem(tuple(free[:, None]), 99)
    on_disk(qtbot, panel)
    assert SECOND not in OpenProject.read(project).done
    qtbot.waitUntil(lambda: SECOND not in panel.session.project.state.done)


def test_the_suggestions_of_the_shown_image_come_before_the_next_image_is_prepared(
    qtbot, panel, project
):
    open_project(qtbot, panel, project)
    panel.images.ahead.job.drop()
    panel.images.computed(FIRST)  # as work on all images tells
    panel.images.recount()
    assert panel.images.ahead.name == FIRST
