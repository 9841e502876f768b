"""Why a region is called what it is called, other settings beside it, and what a run will need."""

import threading
import time
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from qtpy.QtCore import Qt

from napari_maskinversion import InversionConfig, MaskInverter, wrap_open_clip
from napari_maskinversion._napari.explore.work_section import Shared
from napari_maskinversion._napari.layers.heatmap import LESS_COLOR, MORE_COLOR
from napari_maskinversion.app.session import Session
from napari_maskinversion.app.work.model_store import ModelStore
from napari_maskinversion.base.progress import tell
from napari_maskinversion.engine.explain.interpolation import heatmap
from napari_maskinversion.engine.methods.registry import Method
from napari_maskinversion.pipeline import comparing, run_progress
from napari_maskinversion.pipeline.explaining import Explainer
from napari_maskinversion.pipeline.run_progress import Progress
from napari_maskinversion.results.settings import fields_of
from tests.engine.tiny import tiny_clip
from tests.scenes import demo_model, picture


def press(qtbot, button):
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)


def test_what_is_done_where_memory_runs_out_is_said_in_the_panel(
    qtbot, widget, slow, messages, monkeypatch
):
    said = "Not enough memory: 8 regions at once"
    monkeypatch.setattr(run_progress, "Progress", partial(run_progress.Progress, note=said))
    widget.start()
    slow.go.release(2)
    qtbot.waitUntil(lambda: said in widget.foot.status.text())
    slow.free = True
    slow.go.release(100)
    qtbot.waitUntil(lambda: not widget.runner.busy)
    assert messages == [said]


def opened(qtbot, widget, which):
    section = (widget.why, widget.compare)[which].section
    qtbot.keyClick(section.toggle, Qt.Key.Key_Space)
    return (widget.why, widget.compare)[which]


def choose(qtbot, combo, text):
    """Choose an entry as the arrow keys and Enter in an open list do."""
    place = combo.findText(text)
    assert place >= 0, [combo.itemText(i) for i in range(combo.count())]
    combo.setCurrentIndex(place)
    combo.activated.emit(place)


def heat(widget):
    return np.asarray(
        widget.canvas.heatmap.layer.data
    ).copy()  # the layer's own array is written to


def wait(qtbot, worker):
    qtbot.waitUntil(lambda: not worker.busy and worker.idle)


def test_both_sections_are_closed_at_first_and_ask_nothing(qtbot, ran):
    why, compare = ran.why.section, ran.compare.section
    assert not why.is_open
    assert not compare.is_open
    shown = heat(ran)
    ran.results.table.selectRow(3)
    assert not np.array_equal(heat(ran), shown)
    part = opened(qtbot, ran, 0)
    assert not part.isHidden()
    text = part.numbers.text()
    assert "overlap by 50 % (IoU)" in text
    assert "cat and dog are equally probable." in text
    assert "low margin 0.400." in text
    ran.results.table.selectRow(1)
    assert "The region covers " in part.numbers.text()
    assert not ran.why.job.busy


def test_labels_and_steps_are_shown_in_the_heatmap_layer(qtbot, answered, messages):
    why, viewer = answered.why, answered._viewer
    region = answered.results.results.regions[0]
    own = heat(answered)
    part = opened(qtbot, answered, 0)
    assert np.array_equal(heat(answered), own)
    # A label: the best one unless another is chosen.
    choose(qtbot, part.mode, "where a word is")
    assert "..." in part.line.text()
    wait(qtbot, why.job)
    assert part.label.currentText() == region.ranking.labels[0]
    inverter = MaskInverter(demo_model())
    inverter.set_image(picture(90, 120))
    word = region.ranking.labels[0]
    (expected,) = inverter.explain(demo_model().encode_text([f"a photo of a {word}."]))
    size = inverter.input_size
    np.testing.assert_allclose(heat(answered), heatmap(expected, size), atol=2e-3)
    assert part.line.text() == ""
    # One against another: two colours, and a legend that says which is which.
    choose(qtbot, part.mode, "one word against another")
    wait(qtbot, why.job)
    assert [part.label.currentText(), part.other.currentText()] == list(region.ranking.labels[:2])
    layer = answered.canvas.heatmap.layer
    assert layer.colormap.name == "difference"
    text = demo_model().encode_text([f"a photo of a {name}." for name in part.labels])
    better, worse = heatmap(inverter.explain(text), size)
    expected = better - worse
    expected = expected / np.abs(expected).max() / 2 + 0.5
    np.testing.assert_allclose(heat(answered), expected, atol=3e-3)
    legend = part.legend.text()
    assert legend.index(MORE_COLOR) < legend.index(f"more {part.labels[0]}")
    assert legend.index(LESS_COLOR) < legend.index(f"more {part.labels[1]}")
    assert layer.colormap.map(np.ones(1))[0, :3] == pytest.approx(rgb(MORE_COLOR), abs=0.01)
    assert layer.colormap.map(np.zeros(1))[0, :3] == pytest.approx(rgb(LESS_COLOR), abs=0.01)
    # The steps: slider and curve.
    choose(qtbot, part.mode, "the steps of the optimisation")
    wait(qtbot, why.job)
    assert layer.colormap.name == "heat"
    assert part.step.value() == part.step.maximum() == 4
    np.testing.assert_allclose(heat(answered), own, atol=2e-3)
    assert part.curve.text == f"step 4 of 4: loss {region.losses[4]:.3f}"
    part.step.setFocus()
    qtbot.keyClick(part.step, Qt.Key.Key_Home)
    assert part.curve.text == f"step 0 of 4: loss {region.losses[0]:.3f}"
    assert part.step_value.text() == "0"
    (start,) = inverter.explain(inverter.image_embedding[None])
    np.testing.assert_allclose(heat(answered), heatmap(start, size), atol=2e-3)
    place = part.curve.place_of(2).toPoint()
    qtbot.mouseMove(part.curve, place)
    qtbot.mouseClick(part.curve, Qt.MouseButton.LeftButton, pos=place)
    assert part.step.value() == 2
    # Another region is asked about at once, and one that was asked about is remembered.
    answered.results.table.selectRow(1)
    wait(qtbot, why.job)
    assert f"{answered.results.results.regions[1].losses[4]:.3f}" in part.curve.text
    answered.results.table.selectRow(0)
    assert not why.job.busy
    assert f"{region.losses[4]:.3f}" in part.curve.text
    # On other tabs, and closed, the heatmap is the region's own.
    answered.tabs.show_tab("explore")
    step = heat(answered)
    answered.tabs.show_tab("label")
    np.testing.assert_array_equal(heat(answered), own)
    answered.tabs.show_tab("explore")
    np.testing.assert_array_equal(heat(answered), step)
    assert not np.array_equal(step, own)
    qtbot.keyClick(part.step, Qt.Key.Key_Home)
    qtbot.keyClick(answered.why.section.toggle, Qt.Key.Key_Return)
    np.testing.assert_array_equal(heat(answered), own)
    assert not messages
    assert viewer.layers.selection.active is not layer


def test_a_label_is_shown_on_the_whole_image_where_the_run_saw_windows(qtbot, answered, run_to_end):
    why = answered.why
    part = opened(qtbot, answered, 0)
    choose(qtbot, part.mode, "where a word is")
    wait(qtbot, why.job)
    assert part.whole.isHidden()  # it is the whole image anyway
    answered.input.scope.windows.setCurrentIndex(2)
    answered.input.scope.side.setValue(48)
    run_to_end(answered)
    wait(qtbot, why.job)
    layer = answered.canvas.heatmap.layer
    assert not answered.results.results.regions[0].window.whole
    assert max(layer.scale * heat(answered).shape) < 80
    assert not part.whole.isHidden()
    part.whole.setFocus()
    qtbot.keyClick(part.whole, Qt.Key.Key_Space)
    wait(qtbot, why.job)
    inverter = MaskInverter(demo_model())
    inverter.set_image(picture(90, 120))
    text = demo_model().encode_text([f"a photo of a {part.label.currentText()}."])
    expected = heatmap(inverter.explain(text)[0], inverter.input_size)
    np.testing.assert_allclose(heat(answered), expected, atol=2e-3)
    np.testing.assert_allclose(layer.scale * heat(answered).shape, [90, 120], rtol=0, atol=1e-9)
    choose(qtbot, part.mode, "the region's heatmap")
    assert part.whole.isHidden()
    assert max(layer.scale * heat(answered).shape) < 80


def test_limits_that_change_are_in_the_words_and_what_is_shown_stays(qtbot, answered):
    why, part = answered.why, opened(qtbot, answered, 0)
    choose(qtbot, part.mode, "the steps of the optimisation")
    wait(qtbot, why.job)
    qtbot.keyClick(part.step, Qt.Key.Key_Home)
    shown, curve = heat(answered), part.curve.text
    assert "below threshold" not in part.numbers.text()
    answered.vocabulary.threshold.setValue(0.9)
    answered.vocabulary.none.click()
    qtbot.waitUntil(lambda: "below threshold" in part.numbers.text())
    assert (part.step.value(), part.curve.text) == (0, curve)
    np.testing.assert_array_equal(heat(answered), shown)
    answered.results.table.selectRow(1)
    wait(qtbot, why.job)
    answered.results.table.selectRow(0)
    assert not why.job.busy  # remembered, for it is the same region


def test_what_has_changed_since_the_run_is_said_and_nothing_breaks(qtbot, answered, messages):
    why, viewer = answered.why, answered._viewer
    part = opened(qtbot, answered, 0)
    photo, cells = viewer.layers["photo"], viewer.layers["cells"]
    photo.data = photo.data[::-1].copy()
    choose(qtbot, part.mode, "where a word is")
    wait(qtbot, why.job)
    assert "The image has changed since this run" in part.line.text()
    photo.data = photo.data[::-1].copy()
    cells.data[8:12] = 0  # cuts regions 1 and 2
    choose(qtbot, part.mode, "the steps of the optimisation")
    wait(qtbot, why.job)
    assert "Region 1 is not as it was" in answered.foot.status.text()
    answered.results.table.selectRow(2)
    wait(qtbot, why.job)
    assert answered.session.status.notice is None  # the refusal is settled
    assert not part.curve.isHidden()
    cells.data[:] = 0
    cells.refresh()
    qtbot.waitUntil(lambda: answered.session.run.region_count == 0)  # which takes back refusals
    answered.results.table.selectRow(3)
    wait(qtbot, why.job)
    assert answered.session.status.notice.severity == "error"
    viewer.layers.remove("cells")
    answered.results.table.selectRow(1)
    assert "'cells' with the regions of this run was removed" in answered.foot.status.text()
    photo.data = picture(50, 50)
    answered.results.table.selectRow(0)
    choose(qtbot, part.mode, "where a word is")
    assert "another size" in answered.foot.status.text()
    viewer.layers.remove("photo")
    choose(qtbot, part.mode, "one word against another")
    assert "'photo' with the image of this run was removed" in answered.foot.status.text()
    wait(qtbot, why.job)
    assert all("another size" in text for text in messages)  # said once by the canvas


def test_both_wait_for_a_run_and_are_stopped_by_one(qtbot, answered, monkeypatch):
    why, compare = answered.why, answered.compare
    part, other = opened(qtbot, answered, 0), opened(qtbot, answered, 1)

    def endless(*_, **how):
        while True:
            tell("thinking")
            time.sleep(0.01)

    with monkeypatch.context() as patch:
        patch.setattr(Explainer, "labels", endless)
        patch.setattr(comparing, "run_planes", thinking)
        choose(qtbot, part.mode, "where a word is")
        press(qtbot, other.compare)
        qtbot.waitUntil(lambda: part.line.text() == "thinking ...")
        qtbot.waitUntil(lambda: "step 1 of 4" in other.line.text())
        answered.start()
        assert answered.runner.busy
        assert not why.job.busy
        assert not compare.job.busy
        mode = partial(choose, qtbot, part.mode, "where a word is")
        for ask in (mode, partial(press, qtbot, other.compare)):
            answered.session.say("")
            ask()
            assert answered.foot.status.text().endswith("\nWait until the run is over.")
        answered.stop()
        qtbot.waitUntil(lambda: not answered.runner.busy)


def thinking(*_, **how):
    while True:
        tell(Progress(stage="inverting", done=0, total=1, first=1, last=1, step=1, steps=4))
        time.sleep(0.01)


def test_answers_about_results_that_are_gone_are_let_go_of(qtbot, answered, run_to_end):
    why, compare = answered.why, answered.compare
    part, other = opened(qtbot, answered, 0), opened(qtbot, answered, 1)
    choose(qtbot, part.mode, "where a word is")
    wait(qtbot, why.job)
    assert len(why._answers)
    run_to_end(answered)
    wait(qtbot, why.job)
    shown = {id(region.raw_embedding) for region in answered.results.results.regions}
    kept = {id(explanation.region.raw_embedding) for explanation in why._answers.values()}
    assert kept <= shown
    press(qtbot, other.compare)
    wait(qtbot, compare.job)
    assert not other.verdict.isHidden()
    answered.shut_down()
    assert other.verdict.isHidden()
    assert not len(why._answers)


def test_the_newest_question_wins_and_errors_are_told(qtbot, answered, messages, monkeypatch):
    why = answered.why
    part = opened(qtbot, answered, 0)
    going, go = [], threading.Event()
    original = Explainer.labels

    def labels(self, seen, names, **how):
        going.append(names)
        while not go.is_set():
            tell("thinking")
            time.sleep(0.01)
        return original(self, seen, names, **how)

    monkeypatch.setattr(Explainer, "labels", labels)
    choose(qtbot, part.mode, "where a word is")
    qtbot.waitUntil(lambda: part.line.text() == "thinking ...")
    for name in ("fish", "car", "house"):
        choose(qtbot, part.label, name)
    qtbot.waitUntil(lambda: going[-1] == ("house",))
    go.set()
    wait(qtbot, why.job)
    assert len(going) <= 3  # those in between were never begun, or at most one
    assert part.label.currentText() == "house"
    shown = heat(answered)
    (explanation,) = why._answers.values()
    np.testing.assert_array_equal(shown, explanation.answer.heatmap(0))

    def broken(self, seen, names, **how):
        tell("thinking")
        raise errors.pop()

    monkeypatch.setattr(Explainer, "labels", broken)
    errors = [RuntimeError("a kernel failed"), MemoryError()]
    choose(qtbot, part.label, "car")
    wait(qtbot, why.job)
    assert "not enough memory" in answered.foot.status.text()
    assert not messages
    choose(qtbot, part.label, "fish")
    wait(qtbot, why.job)
    assert "a kernel failed" in messages[0]
    monkeypatch.setattr(Explainer, "labels", original)
    choose(qtbot, part.label, "apple")
    wait(qtbot, why.job)
    assert part.line.text() == ""


def test_two_settings_are_compared_side_by_side(qtbot, answered, messages):
    compare = answered.compare
    part = opened(qtbot, answered, 1)
    assert part.form["inversion.alpha"].value() == 5  # a value that differs is filled in
    press(qtbot, part.compare)
    assert part.cancel.isEnabled()
    wait(qtbot, compare.job)
    region = answered.results.results.regions[0]
    one, other = part.sides
    assert [side.title.text() for side in part.sides] == [
        "Surroundings 0",
        "Surroundings 5",
    ]
    best = f"{region.ranking.similarities[0]:.2f} {region.ranking.labels[0]}"
    assert one.labels.text().splitlines()[0] == best
    assert len(other.labels.text().splitlines()) == 4
    assert f"IoU {region.iou:.2f}" in one.numbers.text()
    assert " s" in one.numbers.text()
    assert one.picture.pixmap().width() > 50
    assert one.picture.pixmap().toImage() != other.picture.pixmap().toImage()
    with_alpha = InversionConfig(steps=4, alpha=5)
    inverter = MaskInverter(demo_model())
    inverter.set_image(picture(90, 120))
    mask = answered._viewer.layers["cells"].data == 1
    unit = inverter.invert(mask[None], with_alpha).embeddings[0]
    cosine = float((unit * region.embedding).sum())
    assert part.verdict.text() == f"Cosine of the two embeddings: {cosine:.3f}"
    assert cosine < 0.9995
    # Another region: the answers of the last one are gone.
    answered.results.table.selectRow(1)
    assert part.verdict.isHidden()
    choose(qtbot, part.what, "Windows")
    press(qtbot, part.compare)
    wait(qtbot, compare.job)
    assert part.sides[1].title.text() in ("the whole image", "automatic windows")
    assert not messages
    # Not the layers any more: said, and nothing breaks.
    answered._viewer.layers.remove("cells")
    press(qtbot, part.compare)
    assert "was removed" in answered.foot.status.text()
    assert part.compare.isEnabled()


def test_a_comparison_can_be_cancelled_and_other_models_and_methods_be_compared(
    qtbot, answered, monkeypatch
):
    compare, original = answered.compare, comparing.run_planes
    asked = []

    def slow_at_first(model, tasks, vocabulary, settings):
        if settings.method.inverts:
            return original(model, tasks, vocabulary, settings)
        asked.append(settings.method.name)
        while len(asked) == 1:
            tell(Progress(stage="inverting", done=0, total=1, first=1, last=1, step=1, steps=4))
            time.sleep(0.01)
        return original(model, tasks, vocabulary, settings)

    monkeypatch.setattr(comparing, "run_planes", slow_at_first)
    from napari_maskinversion._napari.explore import compare as module

    monkeypatch.setattr(module, "model_state", lambda spec: "on disk")
    part = opened(qtbot, answered, 1)
    assert part.what.findText("Model") >= 0
    choose(qtbot, part.what, "Method")
    assert part.value.title == "CLIP [CLS]"
    choose(qtbot, part.method, "Crop")
    press(qtbot, part.compare)
    qtbot.waitUntil(lambda: part.line.text() == "2 of 2: Region 1 of 1, step 1 of 4 ...")
    press(qtbot, part.cancel)
    wait(qtbot, compare.job)
    assert part.line.text() == "Stopped."
    assert part.compare.isEnabled()
    assert not part.cancel.isEnabled()
    press(qtbot, part.compare)
    wait(qtbot, compare.job)
    assert [side.title.text() for side in part.sides] == ["MaskInversion", "Crop"]
    assert asked == ["crop"] * 2
    # Another model: loaded first, so that the present one is what stays.
    loaded = []
    monkeypatch.setattr(ModelStore, "has", lambda self, name, device: False)
    monkeypatch.setattr(
        ModelStore, "get", lambda self, name, device: loaded.append(name) or other_model(name)
    )
    choose(qtbot, part.what, "Model")
    assert part.value == "ViT-B-32/openai"
    press(qtbot, part.compare)
    wait(qtbot, compare.job)
    assert loaded == ["ViT-B-32/openai", "demo"]
    assert part.verdict.text() == "Embeddings of different models cannot be compared."


def test_averaged_methods_and_those_with_weights_are_compared(
    qtbot, answered, messages, monkeypatch, tmp_path
):
    compare, method = answered.compare, answered.model.method
    method.choose("maskinversion+crop")
    part = opened(qtbot, answered, 1)
    choose(qtbot, part.what, "Method")
    choose(qtbot, part.method, "Crop")
    press(qtbot, part.compare)
    wait(qtbot, compare.job)
    assert [side.title.text() for side in part.sides] == ["MaskInversion + Crop", "Crop"]
    assert "no heatmap" in part.sides[0].numbers.text()
    # Its steps count in an average: still offered. They are not once nothing is inverted.
    assert part.what.findText("Steps") >= 0
    method.choose("crop")
    assert [part.what.itemText(i) for i in range(part.what.count())] == ["Windows", "Method"]
    assert part.changed == "method"
    # AlphaCLIP, once its weights are chosen; the file goes with it.
    assert part.method.findText("AlphaCLIP") < 0
    weights = tmp_path / "alpha.pt"
    weights.write_bytes(b"weights")
    method.use_weights(weights)
    used = []

    def run_planes(model, tasks, vocabulary, settings):
        used.append(settings.method)
        return original(model, tasks, vocabulary, settings.changed({"method": "crop"}))

    original = comparing.run_planes
    monkeypatch.setattr(comparing, "run_planes", run_planes)
    choose(qtbot, part.method, "AlphaCLIP")
    press(qtbot, part.compare)
    wait(qtbot, compare.job)
    assert used == [Method("crop", weights), Method("alphaclip", weights)]
    assert not messages


def test_find_and_compare_take_the_same_alphas(answered):
    assert answered.compare.form["inversion.alpha"].maximum() == 20
    assert answered.finder.alpha.maximum() == 20


def test_a_new_setting_of_the_inversion_can_be_compared(qtbot, monkeypatch):
    from napari_maskinversion._napari.explore import compare as module

    def more_fields(*groups):
        fields = fields_of(*groups)
        (steps,) = (field for field in fields if field.key == "inversion.steps")
        return [*fields, replace(steps, key="inversion.patience", title="Patience", default=3)]

    monkeypatch.setattr(module, "fields_of", more_fields)
    part = module.CompareSection(Shared(None, Session(), None, ModelStore()))
    qtbot.addWidget(part)
    part.offer(["demo"], {})
    titles = [part.what.itemText(i) for i in range(part.what.count())]
    assert titles[-3:] == ["Patience", "Windows", "Model"]
    assert "Keep heatmaps of the last step" not in titles
    part.what.setCurrentIndex(part.what.findText("Patience"))
    part.form["inversion.patience"].setValue(4)
    assert part.changed == "patience"
    assert part.value == 4
    assert part.stack.currentWidget() is part.form["inversion.patience"]


def other_model(name):
    return demo_model() if name == "demo" else wrap_open_clip(tiny_clip(image_size=64))


def rgb(color):
    return [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
