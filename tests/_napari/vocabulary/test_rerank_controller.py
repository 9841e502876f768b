"""Changed words rank the stored embeddings again."""

import pytest

from napari_maskinversion.app.session import staleness
from napari_maskinversion.app.work.model_store import ModelStore
from tests.scenes import demo_model


@pytest.fixture
def ran(widget, monkeypatch, run_to_end):
    """The scene's regions 1 and 2, run with the bundled model."""
    monkeypatch.setattr(ModelStore, "get", lambda self, name, device: demo_model())
    monkeypatch.setattr(ModelStore, "has", lambda self, name, device: True)
    cells = widget._viewer.layers["cells"]
    cells.data[cells.data > 2] = 0
    widget.model.form.set_values({"inversion.steps": 1})
    run_to_end(widget)
    return widget


def words_shown(panel):
    results = panel.session.run.results
    return {label for region in results.regions for label in region.ranking.labels}


def test_new_words_reach_the_table_without_a_run(qtbot, ran):
    embeddings = [region.raw_embedding for region in ran.session.run.results.regions]
    ran.results.select(1)
    ran.vocabulary.text.setPlainText("apple\ncar\nhouse")
    assert staleness(ran.session).words
    qtbot.waitUntil(lambda: words_shown(ran) == {"apple", "car", "house"})
    assert not staleness(ran.session)
    assert ran.results.row == 1
    now = ran.session.run.results.regions
    assert [region.raw_embedding for region in now] == embeddings
    assert ran.results.model.index(0, 1).data() in ("apple", "car", "house")


def test_words_that_cannot_be_used_leave_the_results(qtbot, ran):
    before = ran.session.run.results
    ran.vocabulary.text.setPlainText('"unclosed')
    ran.vocabulary.text.setPlainText("")
    qtbot.wait(600)  # longer than the pause after the last change
    assert ran.session.run.results is before
