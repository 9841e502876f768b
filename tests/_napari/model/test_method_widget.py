"""The method chooser in the settings, and runs of other methods in the panel."""

import numpy as np
import pytest
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QFileDialog

from napari_maskinversion import list_methods, region_embedder
from napari_maskinversion._napari.model.method_widget import MethodWidget
from napari_maskinversion._napari.model.model_widget import ModelWidget
from napari_maskinversion.app.requests.preparing import usable_settings
from napari_maskinversion.app.session import Session
from napari_maskinversion.app.work.model_store import ModelStore
from napari_maskinversion.base.errors import ConfigError
from napari_maskinversion.results.settings import RunSettings
from tests.scenes import demo_model, picture


@pytest.fixture
def part(qtbot):
    made = MethodWidget()
    qtbot.addWidget(made)
    made.show()
    return made


def pick(qtbot, combo, title):
    """Type a title into the combo box, as the keyboard does."""
    combo.setFocus()
    combo.setCurrentIndex(0)
    qtbot.keyClicks(combo, title)
    assert combo.currentText() == title


def test_the_chosen_method_says_what_it_does_and_costs(qtbot, part):
    assert part.method.name == "maskinversion"
    assert part.about.text().startswith("An embedding optimised until its heatmap")
    assert "no heatmaps" not in part.about.text()
    with qtbot.waitSignal(part.changed):
        pick(qtbot, part.first, "Crop")
    assert part.method.name == "crop"
    assert "10 regions cost 10 passes of the model at its native size" in part.about.text()
    assert "Crop has no heatmaps" in part.about.text()
    pick(qtbot, part.second, "nothing")
    part.second.setCurrentText("MaskInversion")
    assert part.method.name == "crop+maskinversion"
    assert part.about.text().startswith("The similarities of Crop and MaskInversion, averaged.")
    part.second.setCurrentText("Crop")  # with itself: no fusion
    assert part.method.name == "crop"
    titles = [part.first.itemText(i) for i in range(part.first.count())]
    assert titles == [spec.title for spec in list_methods()]
    tips = [part.first.itemData(i, Qt.ItemDataRole.ToolTipRole) for i in range(part.first.count())]
    assert all("10 regions cost" in tip for tip in tips)


def test_a_method_that_needs_weights_asks_for_them(qtbot, part, tmp_path, monkeypatch):
    assert part.file.isHidden()
    pick(qtbot, part.first, "AlphaCLIP")
    assert not part.file.isHidden()
    assert "Needs weights" in part.file.text()
    with pytest.raises(ConfigError, match="AlphaCLIP needs weights: choose the file"):
        usable_settings(RunSettings(method=part.method))
    file = tmp_path / "alpha.pt"
    file.touch()
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: ("", ""))
    qtbot.keyClick(part.file, Qt.Key.Key_Space)
    assert "Needs weights" in part.file.text()
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: (str(file), ""))
    qtbot.mouseClick(part.file, Qt.MouseButton.LeftButton)
    assert part.file.text() == "Weights: alpha.pt"
    assert part.method.weights == file


def test_settings_of_the_inversion_are_off_where_nothing_is_inverted(qtbot):
    model = ModelWidget(Session())
    qtbot.addWidget(model)
    for name, used in (("crop", False), ("crop+maskinversion", True), ("maskinversion", True)):
        model.method.choose(name)
        for key in ("alpha", "steps", "learning_rate", "layers"):
            assert model.form[f"inversion.{key}"].isEnabled() is used
        assert model.form["keep_aspect"].isEnabled()


def test_a_run_of_another_method_has_labels_and_no_heatmap(
    viewer, dock, qtbot, monkeypatch, run_to_end, messages
):
    monkeypatch.setattr(ModelStore, "get", lambda self, name, device: demo_model())
    monkeypatch.setattr(ModelStore, "has", lambda self, name, device: True)
    image = picture(90, 120)
    viewer.add_image(image, name="photo")
    labels = np.zeros((90, 120), np.uint8)
    labels[8:38, 10:46], labels[50:80, 60:110] = 1, 2
    viewer.add_labels(labels, name="cells")
    widget = dock(words="apple\ncar\nfish")
    widget.model.form.set_values({"inversion.steps": 1})
    widget.input.scope.live.setChecked(True)  # heatmaps as they form
    run_to_end(widget)
    widget.results.table.selectRow(0)
    assert widget.canvas.heatmap.layer.data.max() > 0

    widget.model.method.choose("crop")
    run_to_end(widget)
    results = widget.results.results
    assert results.info.method.name == "crop"
    masks = np.stack([labels == 1, labels == 2])
    crop = region_embedder("crop", demo_model())
    crop.set_image(image)
    np.testing.assert_allclose(results.embeddings, crop.embed(masks), atol=1e-5)
    overlap = [widget.results.model.index(row, 7).data() for row in (0, 1)]
    assert overlap == ["\N{EN DASH}"] * 2
    widget.results.table.selectRow(1)
    assert widget.canvas.heatmap.layer.data.max() == 0
    why = widget.why.section
    qtbot.keyClick(why.toggle, Qt.Key.Key_Space)
    assert widget.why.line.text() == "Crop has no heatmaps, overlaps or losses."

    widget.model.method.choose("alphaclip")
    widget.start()
    assert not widget.runner.busy
    assert any("AlphaCLIP needs weights" in text for text in messages)
    widget.model.method.choose("maskinversion")
    run_to_end(widget)
    widget.results.table.selectRow(1)
    assert widget.canvas.heatmap.layer.data.max() > 0
