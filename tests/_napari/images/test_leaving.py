"""Leaving an image of a project while something else is still at work."""

import shutil
import threading

import pytest

from napari_maskinversion._napari.images import images_controller
from napari_maskinversion.app.project.project_disk import ProjectDisk
from napari_maskinversion.batch.opened import OpenProject

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
    read = slowed(images_controller, "open_work", lambda _, name: name == "cell-2.png")
    kept = slowed(ProjectDisk, "keep_regions")
    shown = []
    panel.session.project.events.state.connect(lambda state: shown.append(state.current))
    panel.images.go("cell-2.png")
    paint(panel.session.run.regions, 99, (40, 2, 46, 9))
    panel.images.go("cell-3.png")  # waits for the region
    read.set()
    qtbot.waitUntil(lambda: panel.images.reader.idle)
    qtbot.wait(50)  # it would be shown
    kept.set()
    qtbot.waitUntil(lambda: panel.session.project.state.opening == "")
    on_disk(qtbot, panel)
    assert panel.session.project.state.current == "cell-3.png"
    assert "cell-2.png" not in shown


def test_a_late_write_of_the_project_before_is_not_shown_in_the_one_that_is_open_now(
    qtbot, panel, project, tmp_path_factory, slowed
):
    other = tmp_path_factory.mktemp("other") / "second"
    shutil.copytree(project, other)
    open_project(qtbot, panel, project)
    panel.images.ahead.forget()
    late = slowed(ProjectDisk, "set_states")
    panel.images.mark({"cell-3.png": True})
    panel.session.project.open_images.emit([other])
    qtbot.waitUntil(lambda: panel.images.project.folder == other)
    late.set()
    on_disk(qtbot, panel)
    assert OpenProject.read(project).done == {"cell-3.png"}
    assert panel.images.project.folder == other
    assert not panel.session.project.state.done
    assert not OpenProject.read(other).done
