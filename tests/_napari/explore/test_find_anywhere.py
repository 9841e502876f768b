"""Finding by words or by an example on an image without regions, as its user meets it."""

import gc

import numpy as np
import pytest
from qtpy.QtCore import Qt

from napari_maskinversion._napari.explore.hits import make_regions
from napari_maskinversion.app.layer_input.coordinates import Grid, ViewPoint, plane_of
from napari_maskinversion.base.errors import InputError
from napari_maskinversion.base.regions import Region
from napari_maskinversion.images.sample_scenes import load_scene
from napari_maskinversion.pipeline import finding
from napari_maskinversion.regions.sam import sam3, sam_loading
from napari_maskinversion.regions.sam.sam_checkpoints import sam3_folder
from tests.regions.sam.tiny import save_sam3


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
    qtbot.waitUntil(lambda: not part.job.busy, timeout=120_000)


def test_words_become_regions_in_one_click_and_one_undo_takes_them_back(
    qtbot, window, viewer, dock, frog, messages, run_to_end
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
    # Borders are drawn around them; the best hit is first in the table.
    assert "No SAM checkpoint" in part.about.text()
    usual = part.model.rowCount()
    regions, border = part.model.finding.regions, part.hits.border
    where = np.argwhere(mask)
    ends = regions[0].bbox, (*where.min(0), *(where.max(0) + 1))
    assert np.abs(np.subtract(*ends)).max() < 10

    def drawn(count):
        boxes = np.array([region.bbox for region in regions[:count]])
        corners = [boxes[:, :2].min(0) - 0.5, boxes[:, 2:].max(0) - 0.5]
        return border.corners is not None and np.allclose(
            border.corners, corners, rtol=0, atol=1e-9
        )

    assert drawn(usual)
    # A lower threshold shows more, a higher one less.
    part.hits.threshold.setValue(part.hits.threshold.minimum())
    assert part.model.rowCount() >= usual > 1
    qtbot.waitUntil(lambda: drawn(part.model.rowCount()))
    part.hits.threshold.setValue(part.hits.threshold.maximum())
    assert part.model.rowCount() == 1
    qtbot.waitUntil(lambda: drawn(1))
    assert part.hits.make.text() == "Make 1 region"
    qtbot.mouseClick(part.hits.make, Qt.MouseButton.LeftButton)
    made = panel.session.run.regions
    assert border.corners is None
    assert part.hits.isHidden()
    assert part.model.rowCount() == 0
    assert made.features.set_index("index").loc[1, "label"] == "frog"
    assert set(np.unique(made.data)) == {0, 1}
    made.undo()
    assert not made.data.any()
    made.redo()
    # An example of the results finds itself; its regions join the layer, in one step to undo.
    run_to_end(panel)
    panel.reveal("explore")
    panel.results.table.selectRow(0)
    search(qtbot, panel)
    assert part.about.text().startswith("All like this one")
    before = made.data.copy()
    part.hits.threshold.setValue(part.hits.threshold.minimum())
    qtbot.mouseClick(part.hits.make, Qt.MouseButton.LeftButton)
    assert panel.session.run.regions is made
    assert made.data.max() > 2
    assert np.array_equal(made.data[before > 0], before[before > 0])  # nothing is painted over
    made.undo()
    assert np.array_equal(made.data, before)
    # Where there are regions, these are sorted, unless more are wanted.
    search(qtbot, panel, "frog")
    assert part.hits.isHidden()
    assert part.model.rowCount() == 0
    assert len(panel.session.explore.order.hits) == 1
    part.anywhere.setChecked(True)
    search(qtbot, panel, "a green frog")
    assert not part.hits.isHidden()
    assert panel.session.explore.order is None
    assert np.array_equal(layer.data, image)
    assert not any("Error" in one or "There" in one for one in messages)


def test_without_an_image_the_search_says_what_is_missing(qtbot, viewer, dock, messages):
    panel = dock(words="frog")
    panel.reveal("explore")
    panel.finder.section.open()
    panel.finder.words.setText("frog")
    qtbot.keyClick(panel.finder.words, Qt.Key.Key_Return)
    assert messages == ["Open an image first."]


def test_hits_belong_to_their_image(qtbot, viewer, dock, frog):
    pond, _ = frog
    first, second = (viewer.add_image(pond, name=name) for name in ("pond", "sky"))
    panel = dock(words="frog")
    panel.session.choose(image=first)
    panel.reveal("explore")
    part = panel.finder
    part.section.open()
    search(qtbot, panel, "frog")
    assert not part.hits.isHidden()
    panel.session.choose(image=second)
    assert part.hits.isHidden()
    assert part.model.rowCount() == 0
    # An answer that comes after another image was chosen is not shown; a closed image has no hits.
    panel.session.choose(image=first)
    part.words.setText("frog")
    part.run()
    panel.session.choose(image=second)
    qtbot.waitUntil(lambda: not part.job.busy, timeout=120_000)
    assert part.hits.isHidden()
    panel.session.choose(image=first)
    search(qtbot, panel, "frog")
    assert not part.hits.isHidden()
    viewer.layers.remove(first)
    assert part.hits.isHidden()


def test_hits_of_an_image_that_was_closed_meanwhile_are_not_shown(qtbot, viewer, dock, frog):
    pond, _ = frog
    viewer.add_image(pond, name="pond")
    panel = dock(words="frog")
    panel.reveal("explore")
    part = panel.finder
    part.section.open()
    part.words.setText("frog")
    part.run()
    viewer.layers.clear()
    viewer.layers.selection.clear()  # napari holds what was current
    gc.collect()
    assert panel.session.run.image is None
    qtbot.waitUntil(lambda: not part.job.busy, timeout=120_000)
    assert part.hits.isHidden()
    assert part.model.rowCount() == 0
    assert part.model.finding is None


def squares(*corners, name="cell", side=8):
    mask = np.ones((side, side), bool)
    return [
        Region(number, (y, x, y + side, x + side), mask, name=name)
        for number, (y, x) in enumerate(corners, 1)
    ]


def plane(viewer, image):
    view = ViewPoint.of(viewer)
    return plane_of(Grid.of(image, view), view)


def test_regions_are_made_for_the_image_of_the_hits(viewer, dock):
    first, second = (viewer.add_image(np.zeros((40, 40)), name=name) for name in "ab")
    session = dock().session
    session.choose(image=second)
    make_regions(viewer, session, first, plane(viewer, first), squares((2, 2)))
    assert session.run.layers == (second, None)
    session.choose(image=first)
    assert session.run.regions.name == "cell (found)"
    viewer.layers.remove(second)
    with pytest.raises(InputError, match="closed"):
        make_regions(viewer, session, second, plane(viewer, first), squares((2, 2)))


def test_hits_join_regions_where_there_is_room_and_keep_their_words(viewer, dock):
    image = viewer.add_image(np.zeros((40, 40)), name="a")
    labels = np.zeros((40, 40), np.int32)
    labels[:20] = 4
    layer = viewer.add_labels(labels, name="drawn", features={"index": [4], "size": [7]})
    session = dock().session
    where = plane(viewer, image)
    assert make_regions(viewer, session, image, where, squares((25, 2), (2, 2), (15, 20))) == 2
    assert np.unique(layer.data).tolist() == [0, 4, 5, 6]
    words = layer.features.set_index("index")
    assert words.loc[[5, 6], "label"].tolist() == ["cell", "cell"]
    assert words.loc[4, "size"] == 7
    before = layer.data.copy()
    with pytest.raises(InputError, match="lie on regions"):
        make_regions(viewer, session, image, where, squares((2, 2)))
    layer.undo()
    assert np.array_equal(layer.data, labels)
    layer.redo()
    assert np.array_equal(layer.data, before)


def test_settings_of_drawn_regions_show_only_where_these_are_ranked(widget):
    part = widget.finder
    widget.reveal("explore")
    rows = part.alpha, part.whole
    assert not part.surroundings.isHidden()
    assert all(row.isHidden() for row in rows)  # the table's embeddings are compared
    part.surroundings.setChecked(True)
    assert not any(row.isHidden() for row in rows)
    part.anywhere.setChecked(True)
    assert all(row.isHidden() for row in rows)
    part.anywhere.setChecked(False)
    assert not any(row.isHidden() for row in rows)
    widget.session.run.region_count = 0
    assert all(row.isHidden() for row in rows)
    # There is nothing yet that others could be like; the button says what is missing.
    assert not part.like.isEnabled()
    assert part.like.toolTip().startswith("Suggest words first")


def test_sam_3_finds_by_words_where_its_folder_is(qtbot, viewer, dock, monkeypatch):
    save_sam3(sam3_folder())
    monkeypatch.setattr(sam3, "_SCORE", 0.0)  # random weights are sure of nothing
    asked, loaded = [], []
    real, load = sam3.Concepts.segment_everything, sam_loading.load_proposer
    monkeypatch.setattr(
        sam3.Concepts,
        "segment_everything",
        lambda one, *a: (asked.append(one.words), real(one, *a))[1],
    )
    monkeypatch.setattr(sam_loading, "load_proposer", lambda *a: (loaded.append(1), load(*a))[1])
    viewer.add_image(np.random.default_rng(1).integers(0, 255, (60, 60, 3), dtype=np.uint8))
    panel = dock(words="cell")
    panel.reveal("explore")
    part = panel.finder
    part.section.open()
    panel.model.form.set_values({"inversion.steps": 1})
    for words in ("cell", "dot, not cell", "dot, not cell"):
        search(qtbot, panel, words)
        assert "sam3 proposed" in part.about.text()
        assert part.model.rowCount() >= 1
        # What embeddings do not depend on asks nothing anew.
        panel.session.run.change_settings({"unsure.margin": 0.2 + len(asked) / 100})
    assert (asked, loaded) == ([["cell"], ["dot"]], [1])
