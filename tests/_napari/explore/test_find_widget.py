"""Captions and finding by words, as their user meets them; on the bundled model."""

import numpy as np
import pytest
from qtpy.QtCore import Qt
from qtpy.QtGui import QGuiApplication
from qtpy.QtWidgets import QFileDialog, QLabel

from napari_maskinversion._napari.plugin.commands import everyday_1
from napari_maskinversion.app.work import driver
from napari_maskinversion.images.sample_scenes import load_scene
from tests._napari.running import texts_of

CAPTIONS = [
    "a picture of grapes",
    "a picture of an airplane",
    "a photo of a house",
    "a photo of a frog",
]


@pytest.fixture
def panel(viewer, dock):
    """The widget on the sample scene, with the sections of this file open."""
    for data, options, kind in everyday_1():
        getattr(viewer, f"add_{kind}")(data, **options)
    made = dock(words="grapes\nairplane\nhouse\nfrog")
    made.reveal("explore")
    made.finder.section.open()
    made.model.form.set_values({"inversion.steps": 3})
    return made


def press(qtbot, button):
    assert not button.isHidden()
    assert button.isEnabled()
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)


def built(qtbot, panel):
    qtbot.waitUntil(lambda: not panel.captions.job.busy, timeout=120_000)


def found(qtbot, panel):
    qtbot.waitUntil(lambda: not panel.finder.job.busy, timeout=120_000)


def build(qtbot, panel, monkeypatch, file):
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *a, **k: (str(file), ""))
    press(qtbot, panel.captions.build)


def shown(panel):
    items = panel.results.captions
    return [items.item(row).data(Qt.ItemDataRole.UserRole) for row in range(items.count())]


def test_regions_get_captions_of_a_bank(
    qtbot, panel, monkeypatch, tmp_path, run_to_end, messages, counted, export
):
    part = panel.captions
    monkeypatch.setattr(driver, "LONGEST_INTERVAL", 0.0)  # every piece of news reaches the panel
    texts = texts_of(panel.runner)
    run_to_end(panel)
    assert any(text.startswith("Labels ") and text.endswith(" of 4") for text in texts)
    assert not shown(panel)
    assert part.search.isHidden()
    # A bank that is chosen afterwards: nothing is inverted again.
    file = tmp_path / "few.csv"
    file.write_text("note\n" + "\n".join(CAPTIONS))
    qtbot.keyClicks(part.column, "note")
    build(qtbot, panel, monkeypatch, file)
    built(qtbot, panel)
    assert part.banks.currentText() == "few.csv, 4 captions"
    part.top.setValue(2)
    press(qtbot, part.search)
    built(qtbot, panel)
    assert len(counted["runs"]) == 1
    truth, right = load_scene("everyday-1").truth, 0
    for row in range(4):
        panel.results.table.selectRow(row)
        region = panel.results.results.regions[row]
        best, _ = shown(panel)
        right += best.endswith(
            CAPTIONS[["grapes", "airplane", "house", "frog"].index(truth[region.id])]
        )
    assert right >= 3
    qtbot.keyClick(panel.results.captions, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert QGuiApplication.clipboard().text() == "\n".join(shown(panel))
    # A run with the bank, and without any label.
    panel.vocabulary.text.setPlainText("")
    part.top.setValue(3)
    run_to_end(panel)
    assert len(shown(panel)) == 3
    export(panel, tmp_path, "csv")
    assert "caption_similarity_3" in (tmp_path / "regions.csv").read_text()
    # And none again.
    part.banks.setCurrentIndex(0)
    panel.vocabulary.text.setPlainText("frog")
    run_to_end(panel)
    assert not shown(panel)
    assert panel.results.captions.isHidden()
    assert len(messages) == 1  # of the table saved


def search(qtbot, panel, words):
    panel.finder.words.setText(words)
    qtbot.keyClick(panel.finder.words, Qt.Key.Key_Return)
    found(qtbot, panel)
    qtbot.waitUntil(lambda: not panel.gallery.loader.busy)
    return panel.session.explore.order


def rows_of_table(panel):
    """Numbers of the regions in the table, from the top."""
    model = panel.results.model
    return [int(model.index(place, 0).data()) for place in range(model.rowCount())]


def rows_of_gallery(panel):
    """Numbers of the regions in the gallery, from the start."""
    model = panel.gallery.model
    return model.table.frame["region"].iloc[model.rows(0, 99)].tolist()


def test_words_sort_the_table_and_the_gallery_and_the_usual_order_comes_back(
    qtbot, panel, messages, run_to_end, counted
):
    part, session = panel.finder, panel.session
    part.find.click()
    assert "expression is blank" in messages[-1]
    run_to_end(panel)
    usual = rows_of_table(panel)
    order = search(qtbot, panel, "a green frog")
    assert len(counted["runs"]) == 1  # that of the table
    ids = [hit.place.key.id for hit in order.hits]
    assert load_scene("everyday-1").truth[ids[0]] == "frog"
    assert rows_of_table(panel) == rows_of_gallery(panel) == ids != usual
    like = [panel.results.model.index(n, len(panel.results.model.columns) - 1) for n in range(4)]
    assert [one.data() for one in like] == [f"{hit.similarity:.3f}" for hit in order.hits]
    tip = panel.gallery.model.index(0).data(Qt.ItemDataRole.ToolTipRole)
    assert tip.endswith(f"similarity {order.hits[0].similarity:.2f}")
    assert panel.results.order.text() == "Most like: a green frog"
    assert panel.gallery.sort.currentText() == "most like: a green frog"
    # The best is selected; arrows go to the next one, in the table and in the gallery.
    chosen = session.run.results.regions
    assert chosen[session.review.row].id == ids[0]
    qtbot.keyClick(panel.results.table, Qt.Key.Key_Down)
    assert chosen[session.review.row].id == ids[1]
    assert panel.results.table.currentIndex().row() == 1
    panel.gallery.wall.setCurrentIndex(panel.gallery.model.index(2))
    qtbot.waitUntil(lambda: chosen[session.review.row].id == ids[2])
    # Back to the usual order: by the button, or by another one in the gallery.
    press(qtbot, panel.results.usual)
    assert rows_of_table(panel) == usual
    assert not panel.results.usual.isVisibleTo(panel.results)
    assert panel.gallery.sort.currentText() == "by word"
    assert chosen[session.review.row].id == ids[2]
    search(qtbot, panel, "a house")
    panel.gallery.sort.setCurrentIndex(1)
    panel.gallery.sort.activated.emit(1)
    assert session.explore.order is None
    assert rows_of_table(panel) == usual
    assert panel.gallery.sort.currentText() == "least certain first"


def test_down_goes_from_the_words_to_what_was_found(window, qtbot, panel, run_to_end):
    panel._viewer.show()  # a hidden window has no focus
    run_to_end(panel)
    panel.reveal("explore")
    panel.finder.words.setFocus()
    search(qtbot, panel, "a green frog")
    qtbot.keyClick(panel.finder.words, Qt.Key.Key_Down)
    assert panel.gallery.wall.window().focusWidget() is panel.gallery.wall
    panel.gallery.hide()


def test_with_surroundings_the_canvas_shows_what_was_compared(qtbot, panel, run_to_end, counted):
    run_to_end(panel)
    part, session = panel.finder, panel.session
    part.surroundings.setChecked(True)
    heat = panel.canvas.heatmap.layer
    order = search(qtbot, panel, "a green frog")
    assert [config.alpha for config in counted["runs"]] == [0, 5]
    compared = {region.id: region for region in order.compared.results.regions}
    own = session.run.results.regions[session.review.row]
    assert own.id == order.hits[0].place.key.id
    assert is_map_of(heat, compared[own.id])
    assert not is_map_of(heat, own)
    qtbot.keyClick(panel.results.table, Qt.Key.Key_Down)
    second = session.run.results.regions[session.review.row]
    assert second.id == order.hits[1].place.key.id
    assert is_map_of(heat, compared[second.id])
    # Other words: the embeddings are there. Another alpha, or another region: they are not.
    search(qtbot, panel, "a house")
    assert len(counted["runs"]) == 2
    panel._viewer.layers["Everyday things 1: regions"].data[:20, :20] = 9
    order = search(qtbot, panel, "a house")
    assert len(counted["runs"]) == 3
    assert len(order.hits) == 5
    part.alpha.setValue(0)
    part.whole.setChecked(False)
    search(qtbot, panel, "a house")
    assert len(counted["runs"]) == 4
    panel.session.explore.order = None
    own = session.run.results.regions[session.review.row]
    assert is_map_of(heat, own)


def test_what_was_found_is_told_in_plain_words(window, qtbot, panel, run_to_end):
    panel._viewer.show()  # a hidden window is not laid out
    run_to_end(panel)
    panel.tabs.show_tab("explore")
    search(qtbot, panel, "a green frog")
    part = panel.finder
    shown = [one.text() for one in part.findChildren(QLabel) if one.isVisibleTo(part)]
    assert not [text for text in shown if "alpha" in text]
    assert any(text.startswith("'a green frog': 4 regions, most like first") for text in shown)
    panel.gallery.hide()


def is_map_of(layer, region):
    """Whether a heatmap layer shows a region's heatmap."""
    return np.array_equal(layer.data, region.heatmap())
