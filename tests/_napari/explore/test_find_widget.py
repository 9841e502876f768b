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


def test_words_find_a_region_and_embeddings_are_used_again(
    qtbot, panel, messages, run_to_end, counted
):
    part = panel.finder
    part.find.click()
    assert "expression is blank" in messages[-1]
    run_to_end(panel)
    qtbot.keyClicks(part.words, "a green frog")
    qtbot.keyClick(part.words, Qt.Key.Key_Return)
    assert not part.progress.isHidden()
    found(qtbot, panel)
    assert [config.alpha for config in counted["runs"]] == [0, 5]
    finding = part.model.finding
    truth = load_scene("everyday-1").truth
    best = finding.results.regions[finding.matches[0].row]
    assert truth[best.id] == "frog"
    values = [one.similarity for one in finding.matches]
    assert values == sorted(values, reverse=True)
    # The best is selected in the table, and the map on the canvas is the one that was ranked.
    heat = next(layer for layer in panel._viewer.layers if layer.name.startswith("heatmap"))
    assert panel.results.results.regions[panel.results.row].id == best.id
    assert is_map_of(heat, best)
    qtbot.keyClick(part.table, Qt.Key.Key_Down)
    second = finding.results.regions[finding.matches[1].row]
    assert panel.results.results.regions[panel.results.row].id == second.id
    assert is_map_of(heat, second)
    assert not is_map_of(heat, panel.results.results.regions[panel.results.row])
    # Other words: the embeddings are there. Another alpha, or another region: they are not.
    part.words.setText("a house")
    press(qtbot, part.find)
    found(qtbot, panel)
    assert len(counted["runs"]) == 2
    assert part.model.finding.reused
    panel._viewer.layers["Everyday things 1: regions"].data[:20, :20] = 9
    press(qtbot, part.find)
    found(qtbot, panel)
    assert len(counted["runs"]) == 3
    assert part.model.rowCount() == 5
    part.alpha.setValue(0)
    part.whole.setChecked(False)
    press(qtbot, part.find)
    found(qtbot, panel)
    assert len(counted["runs"]) == 4
    run_to_end(panel)
    press(qtbot, part.find)  # with those of the table, where alpha is the same
    found(qtbot, panel)
    assert len(counted["runs"]) == 5
    assert part.model.finding.results is panel.results.results


def test_what_was_found_is_in_view_below_the_words_and_told_in_plain_words(
    window, qtbot, panel, run_to_end, counted
):
    part = panel.finder
    panel._viewer.window.resize(1366, 768)
    panel._viewer.show()  # a hidden window is not laid out
    run_to_end(panel)
    panel.tabs.show_tab("explore")
    qtbot.keyClicks(part.words, "a green frog")
    qtbot.keyClick(part.words, Qt.Key.Key_Return)
    found(qtbot, panel)

    def in_view(row):
        place = part.table.visualRect(part.model.index(row, 0))
        return part.table.viewport().visibleRegion().contains(place.bottomLeft())

    qtbot.waitUntil(lambda: in_view(2))
    shown = [one.text() for one in part.findChildren(QLabel) if one.isVisibleTo(part)]
    assert not [text for text in shown if "alpha" in text]
    count = part.model.rowCount()
    assert any(text.startswith(f"'a green frog': {count} regions ranked, from ") for text in shown)


def test_the_canvas_shows_what_was_found_only_beside_the_words(window, qtbot, panel, run_to_end):
    part, canvas = panel.finder, panel.canvas
    run_to_end(panel)
    panel.tabs.show_tab("explore")
    part.words.setText("a green frog")
    press(qtbot, part.find)
    found(qtbot, panel)
    best, heat = part.model.finding.region(0), canvas.heatmap.layer
    bordered = canvas.border.corners
    assert is_map_of(heat, best)
    assert bordered is not None
    panel.tabs.show_tab("label")
    own = panel.results.results.regions[panel.results.row]
    assert own.id == best.id
    assert is_map_of(heat, own)
    assert np.allclose(canvas.border.corners, bordered, rtol=0, atol=1e-9)
    for tab in ("review", "images"):
        panel.tabs.show_tab("explore")
        assert is_map_of(heat, best)
        panel.tabs.show_tab(tab)
        assert is_map_of(heat, own)
    panel.tabs.show_tab("explore")
    assert is_map_of(heat, best)
    panel.why.section.open()
    assert is_map_of(heat, own)
    part.section.open()
    assert is_map_of(heat, best)
    # Another row that is selected elsewhere is what the canvas shows, now and later.
    panel.results.select(0 if panel.results.row else 1)
    other = panel.results.results.regions[panel.results.row]
    assert not part.table.selectionModel().hasSelection()
    for tab in ("label", "explore"):
        panel.tabs.show_tab(tab)
        assert is_map_of(heat, other)
    # With results of other regions, one of the same number is not what was found.
    turned = panel._viewer.add_labels(panel.session.run.regions.data[::-1])
    panel.session.choose(image=panel.session.run.image, regions=turned)
    run_to_end(panel)
    ids = panel.results.results.ids
    panel.results.select(row := (ids.index(best.id) + 1) % len(ids))
    part.table.selectRow(0)
    assert panel.session.review.row == row


def is_map_of(layer, region):
    """Whether a heatmap layer shows a region's heatmap."""
    return np.array_equal(layer.data, region.heatmap())
