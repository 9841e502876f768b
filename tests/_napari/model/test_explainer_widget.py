"""The choice of an explainability map in the panel."""

import pytest
from qtpy.QtCore import Qt

from napari_maskinversion._napari.model.model_widget import ModelWidget
from napari_maskinversion.app.session import Session
from napari_maskinversion.engine.explain.registry import MAPS


@pytest.fixture
def session():
    return Session()


@pytest.fixture
def part(qtbot, session):
    made = ModelWidget(session)
    qtbot.addWidget(made)
    return made


def test_a_map_is_chosen_by_keyboard_and_told_of(part, session, qtbot):
    combo = part.explainer.combo
    assert session.run.settings.inversion.explainer == "legrad"
    said = []
    for name in list(MAPS)[1:]:
        qtbot.keyClick(combo, Qt.Key.Key_Down)
        assert session.run.settings.inversion.explainer == name
        said.append(part.explainer.about.text())
    assert len(set(said)) == 3
    assert "[CLS]" in said[-1]
    assert combo.toolTip()
    assert combo.accessibleName()


def test_gradcam_leaves_no_choice_of_layers(part, session, qtbot):
    layers = part.form["inversion.layers"]
    layers.setValue(3)
    qtbot.keyClick(part.explainer.combo, Qt.Key.Key_Down)
    assert session.run.settings.inversion.layers == 1
    assert not layers.isEnabled()
    for _ in range(2):
        qtbot.keyClick(part.explainer.combo, Qt.Key.Key_Down)
    assert layers.isEnabled()
