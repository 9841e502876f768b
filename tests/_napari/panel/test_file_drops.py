"""Files dropped on the panel."""

import numpy as np
import pytest
import skimage.io
from qtpy.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from qtpy.QtGui import QDragEnterEvent, QDropEvent
from qtpy.QtWidgets import QApplication

from napari_maskinversion.batch.project import Project, ProjectImage, write_project
from napari_maskinversion.regions.annotations.annotation import Annotation, Annotations
from napari_maskinversion.regions.annotations.coco_writing import write_coco
from napari_maskinversion.regions.annotations.geojson import write_geojson
from tests.regions.annotations.shapes import RING
from tests.scenes import picture

SHAPE = (7, 7)
COPY = Qt.DropAction.CopyAction


def drop(onto, *urls):
    """Drag files over a widget and let go, as Qt tells of it."""
    mime = QMimeData()
    mime.setUrls([url if isinstance(url, QUrl) else QUrl.fromLocalFile(str(url)) for url in urls])
    mime.setText("file name")  # as file managers add it
    how = (COPY, mime, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier)
    QApplication.sendEvent(onto, QDragEnterEvent(QPoint(5, 5), *how))
    event = QDropEvent(QPointF(5, 5), *how)
    QApplication.sendEvent(onto, event)
    return event.isAccepted()


@pytest.fixture
def small(widget, monkeypatch):
    """The panel on an image of 7 x 7 pixels; napari's readers open nothing."""
    viewer = widget._viewer
    viewer.layers.clear()
    viewer.add_image(np.zeros(SHAPE), name="photo")
    opened = []
    for reads in ("napari.Viewer.open", "napari._qt.qt_viewer.QtViewer._qt_open"):
        monkeypatch.setattr(reads, lambda *args, **more: opened.append(args[1:]))
    yield widget
    assert opened == []


@pytest.mark.parametrize(("name", "place"), [("a.json", "foot"), ("a.geojson", "words")])
def test_regions_become_a_layer_on_the_image_wherever_they_are_dropped(
    small, tmp_path, qtbot, name, place
):
    write = write_geojson if name.endswith("geojson") else write_coco
    item = Annotation(region=RING, label="ring")
    write(Annotations(shape=SHAPE, items=(item,), image="photo"), tmp_path / name)
    words = small.vocabulary.text
    onto = words.viewport() if place == "words" else small.foot.status
    assert drop(onto, tmp_path / name)
    qtbot.waitUntil(lambda: small.session.run.regions is not None)
    qtbot.waitUntil(lambda: not small.from_file.reading.busy)
    assert len(small._viewer.layers) == 2
    assert np.count_nonzero(small.session.run.regions.data) == RING.area
    assert words.toPlainText() == "cat\ndog"


def test_results_are_opened_again(ran, export, tmp_path, qtbot):
    export(ran, tmp_path, "npz")
    (path,) = tmp_path.glob("*.npz")
    ran._viewer.layers.remove("cells")
    ran.session.forget_results()
    assert drop(ran, path)
    qtbot.waitUntil(lambda: ran.results.model.rowCount() == 50)
    assert ran.session.run.record.reopened
    assert "Opened 50 regions" in ran.foot.status.text()


@pytest.mark.parametrize(
    ("files", "says"),
    [
        (["notes.docx"], "notes.docx holds neither regions nor results; drop a file of regions"),
        (["folder"], "There is no file at"),
        (["a.json", "b.json"], "Drop one file at a time, or several images; these are 2."),
        ([QUrl("https://example.org/a.json")], "is not on this machine; download it first"),
        (["empty.json"], "empty.json"),
        (["broken.npz"], "broken.npz"),
    ],
)
def test_what_cannot_be_opened_is_refused_in_the_status_line(small, tmp_path, qtbot, files, says):
    for name in ("a.json", "b.json", "empty.json", "broken.npz", "notes.docx"):
        (tmp_path / name).write_text("{}")
    (tmp_path / "folder").mkdir()
    assert drop(small, *(one if isinstance(one, QUrl) else tmp_path / one for one in files))
    qtbot.waitUntil(lambda: says in small.foot.status.text())
    assert small.session.status.notice.severity == "error"
    assert len(small._viewer.layers) == 1


@pytest.mark.parametrize("what", ["folder", "images", "project.yaml"])
def test_many_images_are_opened_on_their_tab(small, tmp_path, qtbot, what):
    for name in ("one.png", "two.png"):
        skimage.io.imsave(tmp_path / name, picture(64, 64, 1), check_contrast=False)
    images = tuple(ProjectImage(name=name, image=name) for name in ("one.png", "two.png"))
    if what == "project.yaml":
        write_project(Project(images=images), tmp_path / what)
    files = {"folder": [tmp_path], "images": [tmp_path / one.name for one in images]}
    assert drop(small, *files.get(what, [tmp_path / what]))
    qtbot.waitUntil(lambda: small.images.shown is not None)
    assert small.session.project.state.names == ("one.png", "two.png")
    assert small.session.status.tab == "images"


def test_text_that_is_dragged_is_left_to_the_fields(small):
    mime = QMimeData()
    mime.setText("horse")
    how = (COPY, mime, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier)
    field = small.vocabulary.text.viewport()
    QApplication.sendEvent(field, QDragEnterEvent(QPoint(5, 5), *how))
    QApplication.sendEvent(field, QDropEvent(QPointF(5, 5), *how))
    assert "horse" in small.vocabulary.text.toPlainText()
