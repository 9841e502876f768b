"""Two regions of a picture, and the bundled model."""

import numpy as np
import pytest

from napari_maskinversion.app.work.model_store import ModelStore
from tests.scenes import demo_model, picture


@pytest.fixture
def panel(viewer, dock, qtbot, monkeypatch, inverted):
    """Two regions of a picture; live mode is off."""
    monkeypatch.setattr(ModelStore, "get", lambda self, name, device: demo_model())
    monkeypatch.setattr(ModelStore, "has", lambda self, name, device: True)
    viewer.add_image(picture(90, 120), name="photo")
    labels = np.zeros((90, 120), np.uint8)
    labels[8:38, 10:46], labels[52:82, 66:102] = 1, 2
    viewer.add_labels(labels, name="cells")
    made = dock(words="apple\ncar\nhouse\nfish")
    made.model.form.set_values({"inversion.steps": 2})
    qtbot.wait(50)
    return made
