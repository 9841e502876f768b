"""The model of the results that are reviewed."""

import pytest

from napari_maskinversion.app.work.model_store import ModelStore

from .reviewing import Model


@pytest.fixture
def model(opened, monkeypatch):
    """The model of `results_of`."""
    made = Model(
        name="demo", fingerprint="model a", logit_scale=10.0, embed_dim=4, device="cpu", spec=None
    )
    monkeypatch.setattr(ModelStore, "get", lambda *_: made)
    return made
