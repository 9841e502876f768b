"""Finding by words or by an example on an image without regions, as its user meets it."""

import numpy as np
import pytest
from qtpy.QtCore import Qt

from napari_maskinversion.images.sample_scenes import load_scene
from napari_maskinversion.pipeline import finding


@pytest.fixture
def frog(monkeypatch):
    """The frog of a sample scene with what is around it, and its mask."""
    monkeypatch.setattr(finding, "_MOST", 24)
    scene = load_scene("everyday-1")
    mask = scene.regions == next(n for n, word in scene.truth.items() if word == "frog")
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    cut = (
        slice(max(0, rows[0] - 20), rows[-1] + 20, 2),
        slice(max(0, columns[0] - 20), columns[-1] + 20, 2),
    )
    return scene.image[cut], mask[cut]


def search(qtbot, panel, words=None):
    part = panel.finder
    if words is None:
        qtbot.mouseClick(part.like, Qt.MouseButton.LeftButton)
    else:
        part.words.setText(words)
        qtbot.keyClick(part.words, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: not part.worker.busy, timeout=120_000)


def outlines(viewer):
    return next((layer for layer in viewer.layers if layer.name.startswith("found: ")), None)


def test_words_become_regions_in_one_click_and_one_undo_takes_them_back(
    qtbot, viewer, dock, frog, messages, run_to_end
):
    image, mask = frog
    layer = viewer.add_image(image, name="pond")
    panel = dock(words="frog")
    panel.reveal("explore")
    part = panel.finder
    part.section.open()
    panel.model.form.set_values({"inversion.steps": 2})
    assert part.hits.isHidden()
    search(qtbot, panel, "frog")
    # The outlines lie in a layer of our own; the best hit is first in the table.
    assert "No SAM checkpoint" in part.about.text()
    usual = part.model.rowCount()
    assert outlines(viewer).contour
    assert len(np.unique(outlines(viewer).data)) == usual + 1
    assert (outlines(viewer).data[mask] == 1).mean() > 0.6
    # A lower threshold shows more, a higher one less.
    part.hits.threshold.setValue(part.hits.threshold.minimum())
    assert part.model.rowCount() >= usual > 1
    part.hits.threshold.setValue(part.hits.threshold.maximum())
    assert part.model.rowCount() == 1
    assert part.hits.make.text() == "Make 1 region"
    qtbot.mouseClick(part.hits.make, Qt.MouseButton.LeftButton)
    made = panel.session.regions
    assert outlines(viewer) is None
    assert part.hits.isHidden()
    assert part.model.rowCount() == 0
    assert made.features.set_index("index").loc[1, "label"] == "frog"
    assert set(np.unique(made.data)) == {0, 1}
    # An example of the results finds itself; its regions join the layer, in one step to undo.
    run_to_end(panel)
    panel.reveal("explore")
    panel.results.table.selectRow(0)
    search(qtbot, panel)
    assert part.about.text().startswith("All like this one")
    before = made.data.copy()
    part.hits.threshold.setValue(part.hits.threshold.minimum())
    qtbot.mouseClick(part.hits.make, Qt.MouseButton.LeftButton)
    assert panel.session.regions is made
    assert made.data.max() > 2
    assert np.array_equal(made.data[before > 0], before[before > 0])  # nothing is painted over
    made.undo()
    assert np.array_equal(made.data, before)
    # Where there are regions, these are ranked, unless more are wanted.
    search(qtbot, panel, "frog")
    assert part.hits.isHidden()
    assert part.model.rowCount() == 1
    part.anywhere.setChecked(True)
    search(qtbot, panel, "a green frog")
    assert not part.hits.isHidden()
    assert np.array_equal(layer.data, image)
    assert not any("Error" in one or "There" in one for one in messages)


def test_without_an_image_the_search_says_what_is_missing(qtbot, viewer, dock, messages):
    panel = dock(words="frog")
    panel.reveal("explore")
    panel.finder.section.open()
    panel.finder.words.setText("frog")
    qtbot.keyClick(panel.finder.words, Qt.Key.Key_Return)
    assert messages == ["Open an image first."]
