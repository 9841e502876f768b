"""Labels of any number and kind, and places that refuse: told in the panel, and nothing is lost."""

import pandas as pd
from qtpy.QtCore import Qt

ODD = ['a "b", c', "\u732b | \u0645\u0627\u0631", "x; y|z", "=1+1", '5"', "tab\tin it"]


def type_labels(qtbot, widget, labels):
    from napari_maskinversion.language.labels.vocabulary import to_text

    widget.vocabulary.text.setPlainText(to_text(labels))
    qtbot.waitUntil(lambda: " word" in widget.vocabulary.count.text())


def review(qtbot, widget):
    qtbot.mouseClick(widget.review.part.switch, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: widget.review.state is not None)
    return widget.review.part


def accepted(widget):
    accepted_labels = widget.review.state.review.decisions.accepted()
    return {key.id: label for key, label in accepted_labels.items()}


def test_of_one_label_every_region_gets_it_and_there_is_no_margin(qtbot, widget, slow, run_to_end):
    slow.free = True
    type_labels(qtbot, widget, ["cell"])
    run_to_end(widget)
    model = widget.results.model
    assert set(model.frame["suggestion"]) == {"cell"}
    assert model.index(0, 5).data() == "\N{EN DASH}"
    assert not any("margin" in text for text in model.frame["status"])
    part = review(qtbot, widget)
    assert [button.label.text() for button in part.suggestions[:2]] == ["cell", ""]
    qtbot.keyClick(part.switch, Qt.Key.Key_2)
    assert "no suggestion 2" in widget.foot.status.text()
    qtbot.keyClick(part.switch, Qt.Key.Key_A)
    assert accepted(widget) == {1: "cell"}


def test_without_labels_nothing_is_run_and_what_is_shown_stays(
    qtbot, ran, slow, run_to_end, messages
):
    before, steps = ran.results.results, len(slow.reached)
    for text in ("", " , \n# only a comment"):
        ran.vocabulary.text.setPlainText(text)
        run_to_end(ran)
        assert "no words" in messages[-1]
        assert ran.vocabulary.text.toPlainText() == text
    assert len(messages) == 2
    assert ran.results.results is before
    assert len(slow.reached) == steps


def test_words_of_any_kind_come_through_review_layer_and_files_unchanged(
    qtbot, widget, slow, run_to_end, tmp_path, export
):
    slow.free = True
    type_labels(qtbot, widget, [*ODD, ODD[0]])
    assert widget.vocabulary.count.text().startswith("6 words, 1 repeated\n")
    run_to_end(widget)
    assert set(widget.results.model.frame["suggestion"]) == set(widget_labels(widget))
    part = review(qtbot, widget)
    for _ in range(6):
        qtbot.keyClick(part.switch, Qt.Key.Key_A)
    made = accepted(widget)
    assert sorted(made.values()) == sorted(widget_labels(widget))
    cells = widget._viewer.layers["cells"]
    qtbot.waitUntil(lambda: "accepted_label" in cells.features)
    rows = cells.features.set_index("index")["accepted_label"]
    assert {key: rows[key] for key in made} == made
    export(widget, tmp_path, "csv")
    table = pd.read_csv(tmp_path / "regions.csv", keep_default_na=False).set_index("region")
    # A spreadsheet would run this one.
    safe = {key: word.replace("=1+1", "'=1+1") for key, word in made.items()}
    assert safe != made
    assert {key: table["accepted_label"][key] for key in made} == safe
    assert {key: table["suggestion"][key] for key in made} == safe


def widget_labels(widget):
    return widget.results.results.info.vocabulary.labels
