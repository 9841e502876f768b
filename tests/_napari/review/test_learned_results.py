"""Results that a review ranked by its decisions: what they say, where they go, what comes back."""

import json
import threading
from dataclasses import replace

import pandas as pd
import pytest
from qtpy.QtCore import Qt

from napari_maskinversion.app.work.model_store import ModelStore
from napari_maskinversion.results.columns import columns_in
from napari_maskinversion.results.export.archive import open_archive
from napari_maskinversion.results.results import Results

from .reviewing import (
    assert_same_bits,
    canvas,
    press,
    results_of,
    results_of_words,
    settled,
    show,
    switch_on,
)

UNDECIDED = range(2, 50)


@pytest.fixture
def by_words():
    """The results of `learned`, before anything was learned."""
    return []


@pytest.fixture
def learned(qtbot, opened, model, by_words):
    """A review that learned that region 1 is a dog, 2 a cat; odd ones look like 1."""
    widget = opened()
    by_words.append(results_of_words(widget))
    show(qtbot, widget, by_words[0])
    widget.review.part.form.set_values({"order": "given", "learn": True})
    press(qtbot, canvas(widget), "12")
    settled(qtbot, widget)
    assert suggestions(widget)[2:] == ["dog", "cat"] * 24
    return widget


def suggestions(widget):
    return [region.suggestion for region in widget.session.run.results.regions]


def cells(widget, name, rows=UNDECIDED):
    """What the table shows in a column."""
    model = widget.results.model
    place = [column.name for column in model.columns].index(name)
    return [model.index(row, place).data() for row in rows]


def switch_learning(qtbot, widget):
    widget.review.part.form["learn"].click()
    settled(qtbot, widget)


# -- exports ------------------------------------------------------------------------------------


def test_exports_hold_what_the_table_shows(qtbot, learned, tmp_path, export):
    export(learned, tmp_path, "csv", "npz", "coco")
    table = pd.read_csv(tmp_path / "regions.csv", keep_default_na=False)
    archive = open_archive(tmp_path / "results.npz").results.to_frame()
    coco = json.loads((tmp_path / "coco.json").read_text())
    names = {category["id"]: category["name"] for category in coco["categories"]}
    annotations = {one["region"]: one for one in coco["annotations"]}
    shown = cells(learned, "suggestion")
    assert shown == ["dog", "cat"] * 24
    in_coco = [annotations[row + 1] for row in UNDECIDED]
    assert [names[one["category_id"]] for one in in_coco] == shown
    assert [f"{100 * one['score']:.0f} %" for one in in_coco] == cells(learned, "probability")
    for column in (*columns_in("panel"), *columns_in("menu")):
        if column.name in table and column.name != "status":
            for frame in (table, archive):
                texts = [
                    column.text(frame[column.name][row], digits=2, missing="\N{EN DASH}")
                    for row in UNDECIDED
                ]
                assert texts == cells(learned, column.name), column.name
    assert [text.split(":")[0] for text in table["status"][2:]] == cells(learned, "status")
    assert table["accepted_label"].tolist()[:2] == cells(learned, "suggestion", range(2))
    assert table["decision"].tolist()[:2] == cells(learned, "status", range(2))


def test_exports_say_what_decisions_changed_and_that_nobody_can_rank_so_again(
    qtbot, learned, tmp_path, export
):
    export(learned, tmp_path, "csv", "json")
    table = pd.read_csv(tmp_path / "regions.csv", keep_default_na=False)
    assert set(table["classifier"]) == {"unsaved (2 decisions)"}
    assert table["changed_by_decisions"].tolist()[2:] == ["", "dog"] * 24
    assert cells(learned, "changed_by_decisions") == ["", "dog"] * 24
    record = json.loads((tmp_path / "result.json").read_text())
    classifier = record["vocabulary"]["learned"]
    assert (classifier["chosen"], classifier["decisions"]) == (["dog", "cat"], 2)
    assert "changed_from" not in record["regions"][2]
    assert record["regions"][3]["changed_from"] == "dog"
    assert record["regions"][3]["review"]["decision"] == "undecided"


def test_the_features_of_the_layer_are_those_of_the_table(qtbot, learned):
    learned.exports.to_features()
    features = learned._viewer.layers["marks"].features
    assert features["suggestion"].tolist()[2:] == cells(learned, "suggestion")


# -- what comes back ----------------------------------------------------------------------------


def test_undo_brings_the_suggestions_by_words_back_in_every_bit(qtbot, learned, by_words):
    press(qtbot, canvas(learned), "U")
    settled(qtbot, learned)
    assert_same_bits(learned.session.run.results, by_words[0])
    assert learned.review.part.learning.text().startswith("Learns once two words are accepted")
    press(qtbot, canvas(learned), "Y")
    settled(qtbot, learned)
    assert suggestions(learned)[2:] == ["dog", "cat"] * 24


def test_decisions_stay_as_they_were_made(qtbot, learned, photo):
    review = learned.review.state.review
    before = dict(review.decisions)
    press(qtbot, canvas(learned), "A")  # region 3
    settled(qtbot, learned)
    switch_learning(qtbot, learned)
    switch_learning(qtbot, learned)
    assert {key: review.decisions[key] for key in before} == before
    assert [decision.label for decision in review.decisions.values()] == ["dog", "cat", "dog"]
    assert cells(learned, "suggestion", range(3)) == ["dog", "cat", "dog"]
    assert cells(learned, "status", range(3)) == ["accepted"] * 3
    by = [decision.suggestion.by for decision in review.decisions.values()]
    assert by == ["text", "text", "decisions"]
    lines = photo.with_name(photo.name + ".maskinversion.jsonl").read_text().splitlines()
    runs = [line for line in lines if json.loads(line)["kind"] == "run"]
    assert len({json.dumps(json.loads(run)["vocabulary"]) for run in runs[-2:]}) == 1
    assert json.loads(runs[-1])["vocabulary"]["learned"] is None


def test_a_file_of_learned_results_shows_them_again_and_has_those_by_words(
    qtbot, learned, by_words, tmp_path, export, model
):
    shown = cells(learned, "suggestion"), cells(learned, "probability")
    export(learned, tmp_path, "npz")
    switch_learning(qtbot, learned)
    assert cells(learned, "suggestion") == ["dog"] * 48
    learned.exports.open_file(tmp_path / "results.npz")
    qtbot.waitUntil(lambda: learned.session.run.record.reopened)
    switch_on(qtbot, learned)
    settled(qtbot, learned)
    assert (cells(learned, "suggestion"), cells(learned, "probability")) == shown
    assert "changed" not in learned.session.run.results.info.recipe.ranking
    switch_learning(qtbot, learned)
    switch_learning(qtbot, learned)
    reopened = learned.session.run.results
    assert_same_bits(Results(by_words[0].info, reopened.regions), by_words[0])
    assert reopened.info.vocabulary == by_words[0].info.vocabulary


def test_a_threshold_is_for_similarities_to_words_also_of_learned_results(qtbot, learned):
    for threshold, expected in ((0.25, ["dog", "cat"]), (0.35, ["none of these", "cat"])):
        learned.vocabulary.threshold.setValue(threshold)
        learned.vocabulary.none.setChecked(True)
        qtbot.waitUntil(
            lambda threshold=threshold: (
                learned.session.run.results.info.vocabulary.threshold == threshold
                and not learned.rerank.job.busy
            )
        )
        settled(qtbot, learned)
        assert cells(learned, "suggestion") == expected * 24
    assert cells(learned, "status")[0] == "doubtful"
    switch_learning(qtbot, learned)
    assert cells(learned, "suggestion") == ["none of these"] * 48


# -- answers that come too late -----------------------------------------------------------------


@pytest.fixture
def gate(monkeypatch, model):
    """Keeps the learner waiting for its model until it is set."""
    opened = threading.Event()
    monkeypatch.setattr(ModelStore, "get", lambda *_: opened.wait(60) and model)
    yield opened
    opened.set()


def test_an_answer_to_decisions_that_were_taken_back_is_dropped(qtbot, learned, by_words, gate):
    press(qtbot, canvas(learned), "1")
    assert learned.review.learning.busy
    press(qtbot, canvas(learned), "UU")  # one decision is left, which teaches nothing
    gate.set()
    settled(qtbot, learned)
    qtbot.waitUntil(lambda: learned.review.learning._learning.idle)
    assert_same_bits(learned.session.run.results, by_words[0])


def test_an_answer_about_results_that_are_shown_no_more_is_dropped(qtbot, learned, gate):
    press(qtbot, canvas(learned), "1")
    assert learned.review.learning.busy
    others = results_of(learned, fingerprint="model b", seed=1)
    learned.review.part.form["learn"].setChecked(False)
    record = learned.session.run.record
    snapshot = replace(record.snapshot)  # of another run
    learned.session.show(record.changed(results=others, table=None, snapshot=snapshot))
    gate.set()
    qtbot.waitUntil(lambda: learned.review.learning._learning.idle)
    settled(qtbot, learned)
    assert learned.session.run.results is others


def test_learning_that_was_switched_off_on_another_image_is_off_here_as_well(
    qtbot, learned, by_words
):
    session = learned.session
    image, regions = session.run.layers
    other = learned._viewer.add_image(image.data[::-1], name="other")
    session.choose(image=other, regions=regions)
    learned.review.part.form["learn"].setChecked(False)
    session.choose(image=image, regions=regions)
    qtbot.waitUntil(lambda: learned.review.state is not None)
    settled(qtbot, learned)
    assert_same_bits(session.run.results, by_words[0])


# -- what fails ---------------------------------------------------------------------------------


def test_results_that_cannot_be_ranked_without_decisions_are_tried_once_and_told(
    qtbot, learned, monkeypatch, messages
):
    tries = []

    def fail(results):
        tries.append(results)
        assert len(tries) < 10, "it never ends"
        raise MemoryError

    shown = suggestions(learned)
    monkeypatch.setattr(Results, "without_decisions", fail)
    switch_learning(qtbot, learned)
    assert len(tries) == 1
    assert suggestions(learned) == shown
    (told,) = [text for text in messages if "not enough memory" in text]
    assert told.startswith("There was not enough memory.")


# -- what follows -------------------------------------------------------------------------------


def test_the_gallery_takes_learned_suggestions_without_reading_the_regions_again(
    qtbot, learned, window
):
    gallery = learned.gallery
    qtbot.mouseClick(learned.review.part.gallery, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: len(gallery._table.frame) == 50 and not gallery.loader.busy)
    table = gallery._table
    qtbot.waitUntil(lambda: list(table.frame["suggestion"]) == suggestions(learned))
    press(qtbot, canvas(learned), "U")
    settled(qtbot, learned)
    qtbot.waitUntil(lambda: list(table.frame["suggestion"]) == ["dog"] * 50)
    assert gallery._table is table
    gallery.hide()
