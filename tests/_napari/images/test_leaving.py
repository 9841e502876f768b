"""Leaving an image of a project while something else is still at work."""

import json
import threading

import pytest

from napari_maskinversion._napari.images import images_controller
from napari_maskinversion._napari.images.project_disk import ProjectDisk
from napari_maskinversion.batch.image_run import run_task
from napari_maskinversion.batch.opened import OpenProject
from napari_maskinversion.batch.project import read_project, write_project

from .conftest import WAIT, on_disk, open_project, paint


@pytest.fixture
def slowed(monkeypatch):
    """Return a function that lets work wait for an event, which a test must set."""
    events = []

    def slow(owner, name, waits=lambda *_: True):
        work, event = getattr(owner, name), threading.Event()
        events.append(event)

        def late(*arguments):
            if waits(*arguments):
                assert event.wait(WAIT / 1000)
            return work(*arguments)

        monkeypatch.setattr(owner, name, late)
        return event

    yield slow
    for event in events:
        event.set()


def test_an_image_that_was_left_before_it_was_read_is_never_shown(qtbot, panel, project, slowed):
    open_project(qtbot, panel, project)
    panel.images.ahead.forget()
    read = slowed(images_controller, "open_image_work", lambda _, name: name == "cell-2.png")
    kept = slowed(ProjectDisk, "keep_regions")
    shown = []
    panel.session.events.project.connect(lambda state: shown.append(state.current))
    panel.images.go("cell-2.png")
    paint(panel.session.regions, 99, (40, 2, 46, 9))
    panel.images.go("cell-3.png")  # waits for the region
    read.set()
    qtbot.waitUntil(lambda: panel.images.reader.idle, timeout=WAIT)
    qtbot.wait(50)  # it would be shown
    kept.set()
    qtbot.waitUntil(lambda: panel.session.project.opening == "", timeout=WAIT)
    on_disk(qtbot, panel)
    assert panel.session.project.current == "cell-3.png"
    assert "cell-2.png" not in shown


def test_words_that_are_being_written_are_not_replaced_by_those_of_the_next_image(
    qtbot, panel, project, slowed
):
    boxes = [
        {"id": number, "image_id": 1, "category_id": number, "bbox": [9 * number, 9, 8, 20]}
        for number in (1, 2)
    ]
    content = {
        "images": [{"id": 1, "file_name": "cell-2.png", "height": 64, "width": 64}],
        "categories": [{"id": 1, "name": "car"}, {"id": 2, "name": "dog"}],
        "annotations": boxes,
    }
    (project / "masks/cell-2.json").write_text(json.dumps(content))
    file = project / "project.yaml"
    first, second, third = read_project(file).images
    second = second.model_copy(update={"regions": "masks/cell-2.json"})
    images = (first, second, third)
    write_project(read_project(file).model_copy(update={"labels": None, "images": images}), file)
    run_task(OpenProject.read(project).task("cell-2.png"))
    open_project(qtbot, panel, project)
    written = slowed(ProjectDisk, "set_words")
    panel.vocabulary.text.setPlainText("bus\nkey")
    words = ("bus", "key")
    qtbot.waitUntil(
        lambda: panel.session.vocabulary and panel.session.vocabulary.labels == words, timeout=WAIT
    )
    panel.images.go("cell-2.png")
    qtbot.waitUntil(lambda: panel.session.project.current == "cell-2.png", timeout=WAIT)
    assert panel.session.results
    assert panel.session.vocabulary.labels == words
    written.set()
    on_disk(qtbot, panel)
    assert tuple(read_project(file).labels) == words
