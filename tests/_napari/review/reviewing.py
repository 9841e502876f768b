"""What a user of the review does, and results to review."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
from qtpy.QtCore import Qt

from napari_maskinversion.language.labels.vocabulary import Vocabulary
from napari_maskinversion.language.ranking.ranking import Ranking
from napari_maskinversion.results.results import Results


def switch_on(qtbot, widget):
    qtbot.mouseClick(widget.review.part.switch, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: widget.review.state is not None)


def canvas(widget):
    """Where keys reach the review; without a window, the table takes the place of the canvas."""
    window = getattr(widget._viewer, "window", None)
    return widget.results.table if window is None else window._qt_viewer.canvas.native


def press(qtbot, where, keys):
    for key in keys:
        qtbot.keyClick(where, getattr(Qt.Key, f"Key_{key}"))


def record_of(widget):
    """The record shown, or that of another image."""
    records = widget.session.choice.records._records.values()
    kept = (planes for layers in records for planes in layers.values())
    return widget.session.run.record or next(one for planes in kept for one in planes.values())


def results_of(widget, fingerprint="model a", seed=0):
    """Results of the widget's regions: embeddings of two kinds that the text cannot tell apart."""
    rng = np.random.default_rng(seed)
    results = record_of(widget).results
    info = replace(
        results.info, fingerprint=fingerprint, embed_dim=4, vocabulary=Vocabulary(("dog", "cat"))
    )
    rows = []
    for region in results.regions:
        kind = [3, 1, 0, 1] if region.id % 2 else [3, -1, 0, 1]
        ranking = Ranking(
            ("dog", "cat"), np.array([0.3, 0.2], np.float32), np.array([0.55, 0.45], np.float32)
        )
        embedding = np.array(kind + rng.normal(0, 0.1, 4), np.float32)
        rows.append(replace(region, raw_embedding=embedding, ranking=ranking))
    return Results(info, tuple(rows))


def results_of_words(widget):
    """Results as `results_of`, of the words in the panel: these do not rank them again."""
    widget.vocabulary.text.setPlainText("dog\ncat")
    results = results_of(widget)
    info = replace(results.info, vocabulary=widget.session.run.vocabulary)
    return Results(info, results.regions)


def show(qtbot, widget, results, model="demo"):
    """Show results as if a run had ended with them."""
    session = widget.session
    snapshot = session.run.snapshot()
    snapshot = replace(snapshot, settings=snapshot.settings.changed({"model": model}))
    made = record_of(widget).changed(results=results, table=None, snapshot=snapshot)
    session.show(made.changed(shown=None))  # the image may be another one
    if widget.review.keeper.state is None:
        switch_on(qtbot, widget)
    qtbot.waitUntil(lambda: widget.review.state is not None)


def settled(qtbot, widget):
    qtbot.waitUntil(lambda: not widget.review.learning.busy)


def kept(qtbot, widget):
    """Wait until what is known of earlier images is read, used, and written."""
    learning = widget.review.learning
    qtbot.waitUntil(lambda: not (learning.known.busy or learning.busy))


def assert_same_bits(results, others):
    """Rankings are the same in every bit, and so are the words that made them."""
    assert results.info == others.info
    assert [region.ranking.labels for region in results.regions] == [
        region.ranking.labels for region in others.regions
    ]
    for name in ("similarities", "probabilities"):
        values = [
            np.array([getattr(region.ranking, name) for region in every.regions]).tobytes()
            for every in (results, others)
        ]
        assert values[0] == values[1]


class Model(SimpleNamespace):
    def encode_text(self, texts):
        # A dog is nearer to every region, as in `results_of`.
        rows = np.array([[len(text), 0, text.count("a"), 1] for text in texts], np.float32)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)
