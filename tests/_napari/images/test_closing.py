"""A window that closes, and a process that is killed: nothing that was drawn is lost."""

import json
import signal
import subprocess
import sys

import pytest

from napari_maskinversion._napari.panel.widget import MaskInversionWidget
from napari_maskinversion.batch.opened import read_place
from napari_maskinversion.batch.project import read_project

from .conftest import go, kept, open_project, paint

THIRD = "cell-3.png"


@pytest.mark.parametrize("closed", ["by its cross", "by a script"])
def test_closing_the_window_loses_no_stroke_no_word_and_no_place(
    qtbot, make_napari_viewer, project, closed, own_config_folder
):
    viewer = make_napari_viewer()
    third = MaskInversionWidget(viewer)
    viewer.window.add_dock_widget(third, name="test")
    open_project(qtbot, third, project)
    go(qtbot, third, THIRD)
    third.vocabulary.text.setPlainText("car\ncat")
    paint(third.session.run.regions, 1, (4, 4, 14, 14))
    third.tabs.show_tab("explore")
    if closed == "by its cross":
        viewer.window._qt_window.close()
    else:
        viewer.close()
    assert kept(project, THIRD) == {1: 100}
    assert read_project(project).labels == ("car", "cat")
    assert read_place(project / "project.yaml").image == THIRD
    state = json.loads(next(own_config_folder.rglob("preferences.json")).read_text())
    assert state["panel"]["tab"] == "explore"


KILLED = """
import os, signal, sys, time
from pathlib import Path
import napari, numpy as np
from qtpy.QtWidgets import QApplication
from napari_maskinversion._napari.panel.widget import MaskInversionWidget

viewer = napari.Viewer(show=False)
panel = MaskInversionWidget(viewer)
viewer.window.add_dock_widget(panel, name="test")


def wait(done):
    end = time.monotonic() + 60
    while not done() and time.monotonic() < end:
        QApplication.processEvents()
        time.sleep(0.01)


panel.session.project.open_images.emit([Path(sys.argv[1])])
wait(lambda: panel.images.shown is not None)
panel.images.go("cell-3.png")
wait(lambda: panel.session.project.state.current == "cell-3.png")
for region in (1, 2):
    box = np.mgrid[8 * region : 8 * region + 5, 0:10].reshape(2, -1)
    panel.session.run.regions.data_setitem(tuple(box), region)
    wait(lambda: panel.images.keeper.is_kept)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_kill_9_loses_nothing_that_the_pause_after_a_stroke_has_written(project):
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, str(project)], check=False, timeout=120, capture_output=True
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    assert kept(project, THIRD) == {1: 50, 2: 50}
    assert not list(project.rglob("*.part"))
