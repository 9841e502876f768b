"""The review section as its user meets it: keys, decisions that are kept, labels on the layer."""

import errno
import json
import os
import threading
from dataclasses import replace

import napari
import numpy as np
import pandas as pd
import pytest
from napari.components import ViewerModel
from qtpy.compat import isalive
from qtpy.QtCore import QEvent, Qt
from qtpy.QtWidgets import QApplication
from skimage.io import imsave

from napari_maskinversion._napari.review import review_keeper
from napari_maskinversion._napari.review.review_keeper import ReviewKeeper, place_of
from napari_maskinversion._napari.review.review_keys import KEYS
from napari_maskinversion._napari.review.review_learning import KnownRegions
from napari_maskinversion.app.review.decision_requests import SHOWN, DecisionRequest
from napari_maskinversion.app.review.learning import learn
from napari_maskinversion.app.work.model_store import ModelStore
from napari_maskinversion.base.errors import InputError, InUseError, ModelError
from napari_maskinversion.base.identity import RegionKey, identify_image
from napari_maskinversion.results.results import Results
from napari_maskinversion.review.review import Review

from ..made import made_info, strongest_token
from .reviewing import (
    assert_same_bits,
    canvas,
    kept,
    press,
    results_of,
    results_of_words,
    settled,
    show,
    switch_on,
)


def sidecar(photo):
    lines = photo.with_name(photo.name + ".maskinversion.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def saved(photo):
    """State and label of each region, as the file has them."""
    decisions = [line for line in sidecar(photo) if line["kind"] == "decision"]
    return {line["region"]: (line["status"], line.get("label") or "") for line in decisions}


def states(widget):
    decisions = widget.review.state.review.decisions
    return {key.id: (decision.status, decision.label) for key, decision in decisions.items()}


def selected(widget):
    return widget.results.results.regions[widget.results.row].id


# -- keys ---------------------------------------------------------------------------------------


def test_keys_on_the_canvas_decide_and_go_on_and_every_decision_is_on_the_disk(
    window, qtbot, reviewing, photo
):
    viewer, cells = reviewing._viewer, reviewing._viewer.layers["marks"]
    viewer.layers.selection.active = cells
    cells.mode = "pan_zoom"
    where, part = canvas(reviewing), reviewing.review.part
    assert part.place.text() == "Region 1: 1 of 50"
    # Region k of the stand-in run has dog first where k is odd.
    assert [button.label.text() for button in part.suggestions[:2]] == ["dog", "cat"]
    for key, (region, status, label) in {
        "A": (1, "accepted", "dog"),
        "2": (2, "accepted", "dog"),
        "R": (3, "rejected", ""),
        "S": (4, "skipped", ""),
    }.items():
        assert selected(reviewing) == region
        press(qtbot, where, key)
        assert saved(photo)[region] == (status, label)
    assert selected(reviewing) == 5
    assert part.place.text() == "Region 5: 5 of 50"
    assert part.counts.text() == "2 accepted, 1 rejected, 1 skipped, 46 to go"
    assert strongest_token(reviewing.canvas.heatmap.layer.data) == (1, 0)  # that of region 5
    press(qtbot, where, "U")
    assert saved(photo)[4] == ("undecided", "")
    assert selected(reviewing) == 4
    press(qtbot, where, "Y")
    assert saved(photo)[4] == ("skipped", "")
    press(qtbot, where, "NNB")
    assert selected(reviewing) == 5
    assert cells.mode == "pan_zoom"  # 2 is the brush, elsewhere


def test_the_region_that_a_key_decides_about_is_outlined_on_the_canvas(window, qtbot, reviewing):
    marks = np.asarray(reviewing._viewer.layers["marks"].data)
    border, layers = reviewing.canvas.border, list(reviewing._viewer.layers)
    for key in "AN2":
        region = selected(reviewing)
        pixels = np.argwhere(marks == region)
        np.testing.assert_allclose(
            border.corners, [pixels.min(0) - 0.5, pixels.max(0) + 0.5], rtol=0, atol=1e-9
        )
        press(qtbot, canvas(reviewing), key)
        assert selected(reviewing) != region
    assert list(reviewing._viewer.layers) == layers
    reviewing._viewer.layers.remove("cells")
    assert not border.visible


def test_escape_gives_the_canvas_its_keys_back(window, qtbot, reviewing):
    cells = reviewing._viewer.layers["marks"]
    reviewing._viewer.layers.selection.active = cells
    where = canvas(reviewing)
    assert cells.mode == "pan_zoom"
    press(qtbot, where, ["Escape", "2"])
    assert states(reviewing) == {}
    assert cells.mode == "paint"
    assert not reviewing.review.part.switch.isChecked()
    # The section itself still takes them, and the switch brings the canvas back.
    press(qtbot, reviewing.review.part.buttons["skip"], "A")
    assert states(reviewing) == {1: ("accepted", "dog")}
    qtbot.mouseClick(reviewing.review.part.switch, Qt.MouseButton.LeftButton)
    press(qtbot, where, "R")
    assert states(reviewing)[2] == ("rejected", "")


def test_keys_with_a_modifier_and_keys_of_the_rest_of_the_panel_are_left_alone(
    window, qtbot, reviewing
):
    where = canvas(reviewing)
    qtbot.keyClick(where, Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
    qtbot.keyClicks(reviewing.vocabulary.text, "ars12")
    assert states(reviewing) == {}
    assert "ars12" in reviewing.vocabulary.text.toPlainText()
    press(qtbot, reviewing.results.table, "A")
    assert states(reviewing) == {1: ("accepted", "dog")}


def test_every_action_has_a_button_with_its_key_on_it(qtbot, reviewing):
    part = reviewing.review.part
    for action, button in part.buttons.items():
        assert button.text().endswith(f"  {KEYS[action]}")
        assert KEYS[action] in button.toolTip()
        assert button.accessibleName()
    assert len(set(KEYS.values())) == len(KEYS)
    qtbot.mouseClick(part.suggestions[1], Qt.MouseButton.LeftButton)
    qtbot.mouseClick(part.buttons["reject"], Qt.MouseButton.LeftButton)
    qtbot.mouseClick(part.buttons["skip"], Qt.MouseButton.LeftButton)
    qtbot.mouseClick(part.buttons["undo"], Qt.MouseButton.LeftButton)
    assert states(reviewing) == {1: ("accepted", "cat"), 2: ("rejected", "")}


def test_another_label_can_be_typed_and_is_completed(qtbot, reviewing, photo):
    part = reviewing.review.part
    part.label.setText("ra\u200bs  3")  # with a character that nobody sees, as pages have it
    qtbot.keyClick(part.label, Qt.Key.Key_Return)
    assert saved(photo) == {1: ("accepted", "ras 3")}
    qtbot.keyClicks(part.label, "DOG")
    qtbot.keyClick(part.label, Qt.Key.Key_Return)
    assert saved(photo)[2] == ("accepted", "dog")
    completer = part.label.completer()
    completer.setCompletionPrefix("a")
    offered = [completer.completionModel().index(row, 0).data() for row in range(2)]
    assert offered == ["cat", "ras 3"]
    qtbot.keyClicks(part.label, "never")
    qtbot.keyClick(part.label, Qt.Key.Key_Escape)
    assert part.label.text() == ""
    qtbot.keyClick(part.label, Qt.Key.Key_Return)
    assert "label" in reviewing.foot.status.text()
    assert 3 not in states(reviewing)


def test_the_queue_can_be_ordered_and_narrowed(qtbot, reviewing):
    part = reviewing.review.part
    press(qtbot, canvas(reviewing), "AR")
    part.form.set_values({"show": "rejected"})  # rejected
    assert part.place.text() == "Region 2: 1 of 1"
    press(qtbot, canvas(reviewing), "A")
    assert part.place.text() == "Region 2: 0 left"
    part.form.set_values({"show": "all"})  # all
    part.form.set_values({"order": "given"})  # as given
    assert part.place.text() == "Region 1: 1 of 50"
    press(qtbot, canvas(reviewing), "B")
    assert selected(reviewing) == 50
    reviewing.results.table.selectRow(6)  # somebody picks a row by hand
    assert part.place.text() == "Region 7: 7 of 50"


def test_the_table_shows_decisions_and_exports_them(qtbot, reviewing, tmp_path, photo, export):
    press(qtbot, canvas(reviewing), "2R")
    model = reviewing.results.model
    assert [model.index(row, 1).data() for row in range(3)] == ["cat", "cat", "dog"]
    assert [model.index(row, 3).data() for row in range(2)] == ["accepted", "rejected"]
    export(reviewing, tmp_path, "csv", "json")
    table = pd.read_csv(tmp_path / "regions.csv", keep_default_na=False)
    assert table["decision"].tolist()[:3] == ["accepted", "rejected", "undecided"]
    assert table["accepted_label"].tolist()[:2] == ["cat", ""]
    assert table["suggestion"].tolist()[0] == "dog"
    regions = json.loads((tmp_path / "result.json").read_text())["regions"]
    first, second, third = (region["review"] for region in regions[:3])
    assert (first["decision"], first["label"]) == ("accepted", "cat")
    assert first["suggested"] == {"label": "cat", "rank": 2, "by": "text"}
    assert (second["decision"], second["label"]) == ("rejected", None)
    decided = [line["time"] for line in sidecar(photo) if line["kind"] == "decision"]
    assert [first["time"], second["time"]] == decided == table["decided_at"].tolist()[:2]
    assert third == {"decision": "undecided", "label": None, "time": None, "suggested": None}
    assert table["similarity"].tolist()[0] == pytest.approx(0.5)  # exported: the suggestion's
    # Without a review there is nothing of it.
    qtbot.mouseClick(reviewing.review.part.switch, Qt.MouseButton.LeftButton)
    reviewing.review.stop()
    export(reviewing, tmp_path, "csv", "json")
    assert "review" not in json.loads((tmp_path / "result.json").read_text())["regions"][0]
    assert "decision" not in pd.read_csv(tmp_path / "regions.csv")


def test_figures_in_the_table_are_those_of_the_label_shown(qtbot, reviewing):
    part, model = reviewing.review.part, reviewing.results.model

    def figures(row):
        return [model.index(row, column).data() for column in (2, 4, 5)]

    assert figures(0) == ["50 %", "0.50", "0.40"]
    press(qtbot, canvas(reviewing), "12")
    qtbot.keyClicks(part.label, "wolf")
    qtbot.keyClick(part.label, Qt.Key.Key_Return)
    assert [model.index(row, 1).data() for row in range(3)] == ["dog", "dog", "wolf"]
    assert figures(0) == ["50 %", "0.50", "0.40"]
    assert figures(1) == ["50 %", "0.10", "-0.40"]
    assert figures(2) == ["\N{EN DASH}"] * 3
    assert model.index(1, 2).data(Qt.ItemDataRole.UserRole) == pytest.approx(0.5)  # the bar
    press(qtbot, canvas(reviewing), "UU")
    assert figures(1) == ["50 %", "0.50", "0.40"]


# -- nothing is lost ----------------------------------------------------------------------------


def test_decisions_survive_a_panel_that_is_closed_without_warning(
    window, qtbot, opened, photo, scene
):
    first = opened(viewer=napari.Viewer(show=False))
    switch_on(qtbot, first)
    press(qtbot, canvas(first), "A2R")
    viewer = first._viewer
    first.shut_down = lambda: None  # nobody tells it
    viewer.close()
    qtbot.wait(50)
    labels = scene[1].copy()
    labels[labels == 1] = 77  # the same outline under another number
    second = opened(labels)
    switch_on(qtbot, second)
    assert states(second) == {77: ("accepted", "dog"), 2: ("accepted", "dog"), 3: ("rejected", "")}
    said = second.review.part.status.text()
    assert "3 earlier decisions restored" in said
    assert "1 is now 77" in said
    assert selected(second) == 4
    press(qtbot, canvas(second), "U")
    assert 3 not in states(second)  # also a step of an earlier day
    features = second._viewer.layers["marks"].features
    assert dict(zip(features["index"], features["accepted_label"], strict=True)) == {
        2: "dog",
        77: "dog",
    }


def test_the_review_of_a_window_that_was_closed_keeps_nobody_out(
    qtbot, close_window, opened, reviewing
):
    state = reviewing.review.state  # the viewer may go on without the window
    reviewing.review.act("pick 1")
    close_window(reviewing)
    other = opened(viewer=ViewerModel())
    switch_on(qtbot, other)
    assert other.review.state is not state
    assert states(other) == {1: ("accepted", "dog")}


def test_a_window_that_was_closed_without_a_review_does_not_end_that_of_another(
    qtbot, reviewing, photo
):
    first = ReviewKeeper(reviewing._viewer, reviewing.session)
    first.deleteLater()
    QApplication.sendPostedEvents(first, QEvent.Type.DeferredDelete)
    assert not isalive(first)
    reviewing.review.keeper.begin()  # goes on with the open review
    qtbot.waitUntil(lambda: not reviewing.session.review.opening)
    with pytest.raises(InUseError):  # no other window may decide
        Review(reviewing.review.state.review.image, [], made_info(), file=photo)


def test_what_cannot_be_saved_is_told_kept_and_saved_later(
    qtbot, reviewing, photo, monkeypatch, messages
):
    part = reviewing.review.part
    press(qtbot, canvas(reviewing), "A")

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        press(qtbot, canvas(reviewing), "R")
        assert "not saved yet" in reviewing.foot.status.text()
        assert "No space left" in messages[-1]
        assert not part.save.isHidden()
        assert selected(reviewing) == 3  # work goes on
        qtbot.mouseClick(part.save, Qt.MouseButton.LeftButton)
        assert not part.save.isHidden()
    assert saved(photo) == {1: ("accepted", "dog")}
    qtbot.mouseClick(part.save, Qt.MouseButton.LeftButton)
    assert saved(photo)[2] == ("rejected", "")
    assert part.save.isHidden()


def test_an_image_reviewed_elsewhere_is_refused_until_that_ends(qtbot, opened, photo, messages):
    widget = opened()
    pixels = widget.input.image.layer.data
    other = Review(identify_image("cells", pixels), [], widget.results.results.info, file=photo)
    part = widget.review.part
    qtbot.mouseClick(part.switch, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: bool(messages))
    assert "another window or program" in messages[-1]
    assert messages[-1] == part.status.text()
    assert not part.switch.isChecked()
    other.close()
    switch_on(qtbot, widget)
    widget.shut_down()
    # Others may go on now.
    Review(other.image, [], made_info(), file=photo).close()


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ({"format": "napari-maskinversion decisions", "version": 99}, "99"),
        ({"format": "something else"}, "cells.png.maskinversion.jsonl"),
    ],
)
def test_a_file_that_is_not_ours_or_newer_is_told_and_left_alone(
    qtbot, opened, photo, messages, line, says
):
    file = photo.with_name(photo.name + ".maskinversion.jsonl")
    text = json.dumps(line | {"kind": "run"}) + "\n"
    file.write_text(text)
    widget = opened()
    qtbot.mouseClick(widget.review.part.switch, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: bool(messages))
    assert says in messages[-1]
    assert widget.review.state is None
    assert file.read_text() == text


@pytest.fixture
def ghost(photo, scene):
    """A decision about region 1 that was made when the image had other pixels."""
    other = identify_image("old cells", scene[0][::2])
    with Review(other, [], made_info(), file=photo) as review:
        review.save()
    with Review(other, _identities(scene[1]), made_info(), file=photo) as review:
        review.accept(_identities(scene[1])[0].key, "ghost")


def test_decisions_about_other_pixels_are_used_where_that_is_asked_for(qtbot, opened, ghost):
    widget = opened()
    part = widget.review.part
    switch_on(qtbot, widget)
    assert states(widget) == {}
    assert "another image" in part.status.text()
    assert "80 x 200" in part.status.text()
    assert not part.others.isHidden()
    press(qtbot, canvas(widget), "S")
    qtbot.keyClick(part.others, Qt.Key.Key_Space)
    qtbot.waitUntil(lambda: widget.review.state is not None and part.others.isHidden())
    assert "1 earlier decision restored" in part.status.text()
    # What was decided about these pixels counts more.
    assert states(widget) == {1: ("skipped", "")}


def test_decisions_that_were_taken_over_stay(qtbot, opened, photo, scene, ghost):
    widget = opened()
    part = widget.review.part
    switch_on(qtbot, widget)
    qtbot.mouseClick(part.others, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: widget.review.state is not None and bool(states(widget)))
    assert states(widget) == {1: ("accepted", "ghost")}
    assert widget._viewer.layers["marks"].features["accepted_label"].tolist()[0] == "ghost"
    press(qtbot, canvas(widget), "2")
    widget.shut_down()
    image = identify_image("cells.png", scene[0])
    with Review(image, _identities(scene[1]), made_info(), file=photo) as review:
        labels = {key.id: decision.label for key, decision in review.decisions.items()}
        assert labels == {1: "ghost", 2: "dog"}
        assert not review.restored.unused  # nobody is asked again


def _identities(labels):
    from napari_maskinversion.base.identity import identify_all
    from napari_maskinversion.base.regions import Regions

    return identify_all(Regions.from_labels(labels))


def test_a_folder_that_cannot_be_written_to_is_told(
    qtbot, opened, photo, monkeypatch, own_cache_folder
):
    real = os.open

    def guarded(path, *args, **kwargs):
        if str(path).startswith(str(photo.parent)) and args and args[0] & os.O_RDWR:
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(path, *args, **kwargs)

    widget = opened()
    monkeypatch.setattr(os, "open", guarded)
    switch_on(qtbot, widget)
    assert "cannot be written to" in widget.review.part.status.text()
    press(qtbot, canvas(widget), "A")
    assert [path.name for path in (own_cache_folder / "review").glob("cells*")]
    assert states(widget) == {1: ("accepted", "dog")}


def test_a_new_run_is_followed(qtbot, reviewing, run_to_end, scene, photo):
    press(qtbot, canvas(reviewing), "AR")
    first = reviewing.review.state.review
    # The same regions with other words: the same review.
    reviewing.vocabulary.text.setPlainText("cat\ndog\ncow")
    run_to_end(reviewing)
    qtbot.waitUntil(lambda: reviewing.review.state is not None)
    assert reviewing.review.state.review is first
    assert states(reviewing) == {1: ("accepted", "dog"), 2: ("rejected", "")}
    press(qtbot, canvas(reviewing), "3")
    assert sidecar(photo)[-2]["vocabulary"]["labels"] == ["cat", "dog", "cow"]
    # One was drawn anew: opened again, and it has to be looked at again.
    cells = reviewing._viewer.layers["marks"]
    cells.data[scene[1] == 2] = 0
    cells.refresh()
    run_to_end(reviewing)
    qtbot.waitUntil(lambda: reviewing.review.state is not None)
    assert reviewing.review.state.review is not first
    assert 1 in states(reviewing)
    assert "set aside: region 2 (rejected)" in reviewing.review.part.status.text()


def test_there_is_nothing_to_review_before_a_run(dock):
    part = dock().review.part
    assert not part.switch.isEnabled()
    assert part.body.isHidden()
    assert "there are no suggestions" in part.hint.text()


# -- learning -----------------------------------------------------------------------------------


@pytest.mark.usefixtures("model")
def test_what_is_accepted_changes_the_suggestions_of_what_looks_like_it(qtbot, opened):
    widget = opened()
    part, model = widget.review.part, widget.results.model
    by_words = results_of_words(widget)
    show(qtbot, widget, by_words)
    part.form.set_values({"order": "given"})  # as given
    press(qtbot, canvas(widget), "1")  # region 1 is a dog, 2 a cat; odd ones look like 1
    part.form["learn"].click()
    settled(qtbot, widget)
    assert part.learning.text().startswith("Learns once two words are accepted, or one and a ")
    assert {model.index(row, 1).data() for row in range(2, 50)} == {"dog"}
    press(qtbot, canvas(widget), "2")
    settled(qtbot, widget)
    assert part.learning.isHidden()
    shown = [model.index(row, 1).data() for row in range(2, 50)]
    assert shown == ["dog", "cat"] * 24
    assert "dog by text alone" in model.index(3, 1).data(Qt.ItemDataRole.ToolTipRole)
    fonts = [model.index(row, 1).data(Qt.ItemDataRole.FontRole) for row in range(2, 50)]
    assert [font is not None and font.bold() for font in fonts] == [False, True] * 24
    assert widget.review.state.queue.label(3) == "cat"
    # An accepted region speaks at once.
    qtbot.keyClicks(part.label, "wolf")
    qtbot.keyClick(part.label, Qt.Key.Key_Return)
    settled(qtbot, widget)
    assert "wolf" in [button.label.text() for button in part.suggestions]
    part.form["learn"].click()
    settled(qtbot, widget)
    assert {model.index(row, 1).data() for row in range(3, 50)} == {"dog"}
    assert_same_bits(widget.session.run.results, by_words)


def test_a_model_that_is_not_there_is_said_in_the_part_and_never_fetched(
    qtbot, opened, monkeypatch, messages
):
    asked, widget = [], opened()

    def get(_, name, device):
        asked.append(name)
        raise ModelError("mine.pt does not say its architecture.")

    monkeypatch.setattr(ModelStore, "get", get)
    review = widget.review
    show(qtbot, widget, results_of(widget), "ViT-B-32/laion400m_e32")
    review.part.form["learn"].click()
    press(qtbot, canvas(widget), "12")
    settled(qtbot, widget)
    said = "ViT-B-32/laion400m_e32 is not on this machine yet; press Fetch in Settings > Model"
    assert said in review.part.learning.text()
    assert messages == []
    assert review.state.suggestion(5) == "dog"
    review.part.learn.click()
    assert len(messages) == 1
    assert set(asked) <= {"demo"}  # which looks at the image, for the panel
    show(qtbot, widget, results_of(widget))
    settled(qtbot, widget)
    press(qtbot, canvas(widget), "1")
    settled(qtbot, widget)
    assert review.part.learning.text() == (
        "Learn from decisions: mine.pt does not say its architecture."
    )
    assert (set(asked), len(messages)) == ({"demo"}, 1)
    review.part.form["learn"].click()
    assert review.part.learning.isHidden()


@pytest.fixture
def restarted(opened, qtbot, tmp_path, scene):
    """Return the panel as after a restart, on another image of the same folder."""

    def start(first):
        settled(qtbot, first)
        first.shut_down()  # what is not written yet is written now
        kept(qtbot, first)
        # Another program: nothing in memory.
        other = tmp_path / "other.png"
        imsave(other, scene[0][::-1])
        widget = opened()
        regions = widget.session.run.regions
        (layer,) = widget._viewer.open(str(other), plugin="napari")
        widget.session.choose(image=layer, regions=regions)
        widget.review.part.form.set_values({"order": "given"})
        widget.review.part.form["learn"].setChecked(True)
        return widget

    return start


def test_decisions_count_although_their_model_s_regions_were_never_read(qtbot, opened):
    panel = opened()
    results = results_of(panel, fingerprint="model c")
    known = KnownRegions(panel.session.jobs)
    known.change(results, "image", {0: "dog", 1: None})
    assert [label for _, label in known.accepted(results).values()] == ["dog"]
    qtbot.waitUntil(lambda: not known.busy)


@pytest.mark.usefixtures("model")
def test_regions_of_earlier_images_teach_after_a_restart(qtbot, opened, restarted):
    first = opened()
    first.review.part.form.set_values({"order": "given"})
    show(qtbot, first, results_of(first))
    press(qtbot, canvas(first), "122U")  # of three decisions one is taken back
    second = restarted(first)
    show(qtbot, second, results_of(second, seed=1))
    kept(qtbot, second)
    model = second.results.model
    assert states(second) == {}
    assert [model.index(row, 1).data() for row in range(4)] == ["dog", "cat", "dog", "cat"]
    known = second.review.learning.known.accepted(second.results.results)
    assert [label for _, label in known.values()] == ["dog", "cat"]
    show(qtbot, second, results_of(second, fingerprint="model b"))
    kept(qtbot, second)
    assert model.index(1, 1).data() == "dog"


def test_a_damaged_file_of_earlier_images_is_told_and_left_alone(
    qtbot, opened, restarted, own_cache_folder, messages
):
    first = opened()
    show(qtbot, first, results_of(first))
    press(qtbot, canvas(first), "1")
    kept(qtbot, first)
    file = own_cache_folder / "accepted" / "rows.db"
    second = restarted(first)
    file.write_bytes(b"no database " * 500)
    show(qtbot, second, results_of(second, seed=1))
    kept(qtbot, second)
    assert any("delete" in message and str(file.parent) in message for message in messages)
    press(qtbot, canvas(second), "1")  # the review goes on
    kept(qtbot, second)
    assert states(second)[1] == ("accepted", "dog")
    assert file.read_bytes().startswith(b"no database")


def test_a_key_pressed_just_after_a_change_counts_for_what_was_read(qtbot, opened, model):
    widget = opened()
    show(qtbot, widget, results_of(widget))
    state, results = widget.review.state, widget.results.results
    state.row = 3  # region 4 looks like 2
    state.replace_results(learn(lambda: model, results, {0: "dog", 1: "cat"}, "here", {}), 100.0)
    assert [one.label for one in state.aimed(100.1)] == ["dog", "cat"]
    assert [one.label for one in state.aimed(101.0)] == ["cat", "dog"]
    (change,) = state.accept(1, 100.1)
    assert (change.region.id, change.after.label) == (4, "dog")


# -- a classifier -----------------------------------------------------------------------------


def test_decisions_make_a_classifier_whose_accuracy_is_shown_and_that_ranks_when_it_is_loaded(
    qtbot, reviewing, tmp_path, model, monkeypatch
):
    gate = threading.Event()
    monkeypatch.setattr(ModelStore, "get", lambda *_: gate.wait(60) and model)
    review, words = reviewing.review, reviewing.vocabulary
    words.text.setPlainText("dog\ncat")
    results = results_of(reviewing)
    info = replace(results.info, vocabulary=reviewing.session.run.vocabulary)
    show(qtbot, reviewing, Results(info, results.regions))
    press(qtbot, canvas(reviewing), "12" * 9 + "22")  # region 19 is wrong
    learned = []
    review.learning.trained.connect(learned.append)
    review.part.learn.click()
    before = review.state
    show(qtbot, reviewing, Results(info, results.regions))  # as if ranked anew meanwhile
    qtbot.waitUntil(lambda: review.state not in (None, before))
    gate.set()
    qtbot.waitUntil(lambda: review.learned is not None)
    table = review.learned.table
    shown = [[table.item(row, at).text() for at in range(2)] for row in range(table.rowCount())]
    assert shown == [["dog", "9"], ["cat", "11"]]
    assert "20 decisions. Right on regions that were held out: 95 % of 20" in (
        review.learned.summary.text()
    )
    assert review.learned.look.text() == "Look at 1 doubtful decision"
    review.learned.look.click()
    assert selected(reviewing) == 19
    assert len(review.state.queue) == 1
    gallery = reviewing.gallery
    review.learned.wall.click()
    qtbot.waitUntil(lambda: not gallery.loader.busy)
    assert gallery.model.rows(0, 99).tolist() == [18]
    gallery.hide()
    assert "May be wrong: region 19 (cat, looks like dog)" in review.learned.notes.text()
    another = replace(learned[0], image="another", doubtful=[RegionKey(3)])
    review.learned.doubted.emit(another, False)  # of an image that was open before
    assert selected(reviewing) == 19
    show(qtbot, reviewing, Results(info, results.regions[4:]))  # regions were deleted meanwhile
    qtbot.waitUntil(lambda: review.state is not None and len(review.state.queue.keys) == 46)
    review.learned.look.click()
    assert selected(reviewing) == 19
    review.learned.wall.click()
    qtbot.waitUntil(lambda: not gallery.loader.busy)
    assert gallery.model.rows(0, 99).tolist() == [14]
    gallery.hide()

    review.learned.save_to(tmp_path / "pets")
    file = tmp_path / "pets.safetensors"
    qtbot.waitUntil(file.exists)
    words.files.read(file)
    qtbot.waitUntil(lambda: "pets.safetensors: 20 decisions" in words.count.text())
    session = reviewing.session
    qtbot.waitUntil(lambda: bool(session.run.results.info.vocabulary.learned))
    best = {row.id: row.suggestion for row in session.run.results.regions}
    assert [best[number] for number in range(30, 36)] == ["cat", "dog"] * 3
    review.part.form["learn"].click()
    settled(qtbot, reviewing)
    assert review.part.learning.text() == ""  # begins from the classifier
    assert [review.state.suggestion(row) for row in range(29, 35)] == ["cat", "dog"] * 3


def test_a_decision_whose_review_cannot_be_opened_is_refused_and_forgotten(
    qtbot, opened, photo, messages, monkeypatch
):
    widget = opened()
    key = widget.results.results.regions[0].key
    place = place_of(widget.review.keeper.target)

    def decide(status):
        request = DecisionRequest(regions={SHOWN: [key]}, status=status, images={SHOWN: place})
        widget.session.review.decide.emit(request)

    def unreadable(_):
        raise InputError("The image cannot be read.")

    with monkeypatch.context() as patch:
        patch.setattr(review_keeper, "levels_of", unreadable)
        for _ in range(2):
            decide("rejected")
            assert messages.pop() == "The image cannot be read."
    switch_on(qtbot, widget)
    assert not widget.review.state.review.decisions
    decide("accepted")
    assert saved(photo)[1][0] == "accepted"
