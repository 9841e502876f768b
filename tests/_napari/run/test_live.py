"""Live mode as its user meets it, on the bundled model."""

import threading

import numpy as np
import pytest
from qtpy.QtCore import Qt

from napari_maskinversion._napari.run import live_controller
from napari_maskinversion.app.session import staleness
from napari_maskinversion.engine.invert.inverter import MaskInverter
from tests.scenes import picture


def settled(qtbot, panel):
    def quiet():
        live = panel.live
        return not live.job.busy and live.job.idle and not live._timer.isActive()

    qtbot.waitUntil(quiet)


def watch_answers(panel, monkeypatch, answers):
    """Add each answer of live mode to a list, too."""
    show = panel.live.results.show

    def watched(answer):
        answers.append(answer)
        show(answer)

    monkeypatch.setattr(panel.live.results, "show", watched)


@pytest.fixture
def live(qtbot, panel, inverted):
    """The same with live mode switched on and the first answer there."""
    qtbot.keyClick(panel.live.switch, Qt.Key.Key_Space)
    assert panel.session.run.live
    settled(qtbot, panel)
    assert panel.results.results.ids == [1, 2]
    inverted.clear()
    return panel


def shown(panel):
    frame = panel.results.model.frame
    return [] if frame is None else frame["region"].tolist()


def test_a_stroke_updates_its_row_and_no_other(qtbot, live, inverted):
    before = live.results.results
    heatmap = live.canvas.heatmap.layer.data.copy()
    camera = live._viewer.scene.camera
    camera.zoom = 400  # region 1, the row selected, is out of sight
    centre = camera.center
    cells = live._viewer.layers["cells"]
    cells.brush_size = 9
    cells.paint((40, 30), 1)
    settled(qtbot, live)
    after = live.results.results
    assert inverted == [1]
    assert after.regions[0].area > before.regions[0].area
    assert after.regions[1] is before.regions[1]
    assert live.results.model.frame["area_px"][0] == after.regions[0].area
    assert live.results.row == 0
    assert not np.array_equal(live.canvas.heatmap.layer.data, heatmap)
    assert camera.center == centre  # the view is where the user draws
    assert live.live.line.text() == "Live: 2 regions up to date."


def test_the_row_that_is_computed_says_so(qtbot, live):
    seen, model = [], live.results.model
    column = [column.name for column in model.columns].index("status")

    def look(computing):
        status = [model.data(model.index(row, column)) for row in (0, 1)]
        seen.append((live.live.line.text(), status))

    live.session.run.events.computing.connect(look)
    live._viewer.layers["cells"].paint((40, 30), 1)
    settled(qtbot, live)
    assert seen[0][0].startswith("Live: computing region 1")
    assert [status == "computing" for status in seen[0][1]] == [True, False]
    assert "computing" not in seen[-1][1]


def test_new_regions_come_and_removed_ones_leave(qtbot, live, inverted):
    cells = live._viewer.layers["cells"]
    live.results.select(1)
    cells.brush_size = 12
    cells.paint((20, 90), 7)
    settled(qtbot, live)
    assert shown(live) == [1, 2, 7]
    cells.fill((20, 20), 0)
    settled(qtbot, live)
    assert shown(live) == [2, 7]
    assert live.results.model.frame["region"][live.results.row] == 7  # the one drawn last
    assert inverted == [7]
    cells.undo()
    settled(qtbot, live)
    assert shown(live) == [1, 2, 7]
    cells.data = np.zeros_like(cells.data)
    settled(qtbot, live)
    assert shown(live) == []


def test_shapes_that_are_added_moved_and_removed_are_followed(qtbot, live, inverted):
    shapes = live._viewer.add_shapes([[(10, 10), (10, 40), (40, 40), (40, 10)]], name="drawn")
    settled(qtbot, live)
    assert shown(live) == [0]
    shapes.add([[(50, 60), (50, 90), (80, 90), (80, 60)]])
    settled(qtbot, live)
    assert shown(live) == [0, 1]
    inverted.clear()
    shapes.data = [shapes.data[0] + 7, shapes.data[1]]
    settled(qtbot, live)
    assert inverted == [0]
    shapes.selected_data = {1}
    shapes.remove_selected()
    settled(qtbot, live)
    assert shown(live) == [0]


def test_a_shape_that_is_drawn_is_an_outline_and_its_row_is_selected(window, qtbot, live):
    square = np.array([(10, 10), (10, 40), (40, 40), (40, 10)])
    shapes = live._viewer.add_shapes([square], name="drawn")  # napari's look: filled with white
    settled(qtbot, live)
    shapes.add([square + 45])
    settled(qtbot, live)
    assert shapes.face_color[:, 3].tolist() == [0, 0]
    assert shapes.edge_color[:, 3].tolist() == [1, 1]
    assert live.results.row == 1
    np.testing.assert_allclose(live.canvas.border.corners, [[54.5, 54.5], [85.5, 85.5]], atol=1)
    shapes.data = [shapes.data[0] + 3, shapes.data[1]]
    settled(qtbot, live)
    assert live.results.row == 1  # nothing was drawn


def test_the_newest_edit_wins(qtbot, live, inverted, monkeypatch):
    held, go = threading.Event(), threading.Event()
    count, closed, ended = MaskInverter.invert, [], []

    def slow(self, masks, *given, **options):
        try:
            held.set()
            go.wait(60)
            outcome = count(self, masks, *given, **options)
            ended.append(masks.ids)
            return outcome
        finally:
            closed.append(masks.ids)

    monkeypatch.setattr(MaskInverter, "invert", slow)
    cells = live._viewer.layers["cells"]
    cells.brush_size = 10
    cells.paint((40, 30), 1)
    qtbot.waitUntil(held.is_set)
    said = []
    watch_answers(live, monkeypatch, said)
    cells.paint((20, 90), 7)
    qtbot.waitUntil(lambda: not live.live._timer.isActive())
    monkeypatch.setattr(MaskInverter, "invert", count)
    go.set()
    settled(qtbot, live)
    assert shown(live) == [1, 2, 7]
    assert [answer.record.results.ids for answer in said] == [[1, 2, 7]]
    assert closed == [[1]]
    assert ended == []  # stopped on its way


def test_a_run_pauses_live_mode_and_it_goes_on_after(qtbot, live, monkeypatch, run_to_end):
    asked = []
    monkeypatch.setattr(live.live.job, "start", lambda work, *_, **options: asked.append(work))
    cells = live._viewer.layers["cells"]
    cells.paint((40, 30), 1)
    live.start()
    assert live.runner.busy
    assert live.live.line.text() == "Live mode continues after the run."
    cells.paint((41, 30), 1)
    assert not live.live._timer.isActive()
    qtbot.waitUntil(lambda: not live.runner.busy)
    assert asked == []
    qtbot.waitUntil(lambda: len(asked) == 1)


def test_other_words_and_limits_are_judged_without_inverting(qtbot, live, inverted):
    live.vocabulary.uncertainty.set_values({"unsure.overlap": 1.0})
    settled(qtbot, live)
    assert live.results.results.info.settings.unsure.overlap == 1.0
    assert all("low overlap" in status for status in live.results.model.frame["status"])
    live.vocabulary.text.setPlainText("key\nbus")
    settled(qtbot, live)
    assert inverted == []
    assert set(live.results.model.frame["suggestion"]) <= {"key", "bus"}


def test_another_image_or_other_settings_are_taken_up(qtbot, live, inverted):
    live.results.select(1)
    live.model.form.set_values({"inversion.steps": 3})
    settled(qtbot, live)
    assert inverted == [1, 2]
    assert len(live.results.results.regions[0].losses) == 4
    inverted.clear()
    photo = live._viewer.layers["photo"]
    photo.refresh()
    settled(qtbot, live)
    assert inverted == []  # the same pixels
    photo.data = picture(90, 120, seed=3)
    settled(qtbot, live)
    assert inverted == [1, 2]
    assert live.results.row == 1  # still the one selected
    live.input.scope.ids.setText("2")
    live.input.scope.use.setCurrentIndex(1)
    settled(qtbot, live)
    assert shown(live) == [2]
    live.live.off()
    assert not staleness(live.session)  # all of it counts already


def test_an_answer_about_an_image_that_was_left_is_dropped(qtbot, live, monkeypatch):
    viewer, session = live._viewer, live.session
    with session.choice.kept():
        large = viewer.add_image(np.zeros((40, 40, 3), np.uint8), name="large")
    held, go, done = threading.Event(), threading.Event(), []
    count = MaskInverter.invert

    def slow(self, *given, **options):
        held.set()
        go.wait(60)
        return count(self, *given, **options)

    monkeypatch.setattr(MaskInverter, "invert", slow)
    watch_answers(live, monkeypatch, done)
    viewer.layers["cells"].paint((40, 30), 1)
    qtbot.waitUntil(held.is_set)
    for name in ("QUIET", "LATEST"):
        monkeypatch.setattr(live_controller, name, 60_000)  # nothing is asked about the next one
    session.choose(image=large)
    go.set()
    qtbot.waitUntil(lambda: live.live.job.idle)
    qtbot.wait(50)
    assert done == []
    assert session.run.record is None


def test_too_large_a_plane_is_told_and_live_mode_switched_off(
    qtbot, panel, inverted, messages, monkeypatch
):
    monkeypatch.setattr(live_controller, "MOST_PIXELS", 10_000)
    qtbot.keyClick(panel.live.switch, Qt.Key.Key_Space)
    assert not panel.session.run.live
    (message,) = messages
    assert "Live mode is off now" in message
    assert panel.foot.status.text() == message
    assert inverted == []


def test_errors_are_said_and_live_mode_goes_on(qtbot, live, messages):
    live.vocabulary.text.setPlainText("")
    settled(qtbot, live)
    assert live.foot.status.text().startswith("Live: There are no words")
    assert live.live.line.isHidden()
    assert live.session.run.live
    assert shown(live) == [1, 2]
    assert messages == []
    live.vocabulary.text.setPlainText("apple\ncar")
    settled(qtbot, live)
    assert live.live.line.text() == "Live: 2 regions up to date."
    assert live.session.status.notice is None


def test_a_review_keeps_its_decisions_while_regions_change(qtbot, live, messages):
    def followed():
        settled(qtbot, live)
        qtbot.waitUntil(lambda: not live.live.results._rest._hasPendingEmission)
        qtbot.waitUntil(lambda: live.review.state is not None)

    qtbot.waitUntil(lambda: not live.live.results._rest._hasPendingEmission)
    live.review.part.switch.click()
    qtbot.waitUntil(lambda: live.review.state is not None)
    region = live.results.row
    live.review.act("pick 1")
    label = live.session.reviewed.columns()
    cells = live._viewer.layers["cells"]
    cells.paint((45, 110), 9)
    followed()
    now = live.session.reviewed.columns()
    assert shown(live) == [1, 2, 9]
    for name, values in label.items():
        assert now[name][region] == values[region]
    # Somebody draws at a region that is decided, and not the queue's first: all stays there.
    live.review.act("pick 1")
    live.results.select(region)
    camera = live._viewer.scene.camera
    camera.zoom, camera.center = 9, (20, 20)
    before, place = len(messages), camera.center
    cells.paint((40, 30), shown(live)[region])
    followed()
    assert live.results.row == live.review.state.row == region
    assert (camera.center, camera.zoom) == (place, 9)
    assert "please check: region 1" in live.review.part.status.text()
    assert len(messages) == before
    # A new region, which nobody has decided about: also then.
    cells.paint((80, 20), 5)
    followed()
    assert shown(live) == [1, 2, 5, 9]
    assert live.results.row == live.review.state.row == region
    assert (camera.center, camera.zoom) == (place, 9)


def test_words_are_looked_for_among_what_live_mode_has_found(qtbot, live, inverted):
    part = live.finder
    part.words.setText("an apple")
    part.find.click()
    qtbot.waitUntil(lambda: not live.finder.job.busy)
    order = live.session.explore.order
    assert len(order.hits) == len(live.session.run.results)
    assert inverted == []


def test_closing_the_panel_ends_live_mode(qtbot, live, inverted):
    live.shut_down()
    assert not live.session.run.live
    live._viewer.layers["cells"].paint((40, 30), 1)
    qtbot.wait(live_controller.LATEST + 50)
    assert inverted == []


def test_after_a_run_nothing_is_computed_again(qtbot, panel, inverted, run_to_end):
    def switch():
        qtbot.keyClick(panel.live.switch, Qt.Key.Key_Space)
        settled(qtbot, panel)

    run_to_end(panel)
    embeddings = panel.results.results.raw_embeddings
    inverted.clear()
    switch()
    assert panel.live.line.text() == "Live: 2 regions up to date."
    assert inverted == []
    np.testing.assert_array_equal(panel.results.results.raw_embeddings, embeddings)
    panel._viewer.layers["cells"].paint((40, 30), 1)
    settled(qtbot, panel)
    assert inverted == [1]
    # Other settings, or other pixels: all is computed.
    for change in (
        lambda: panel.model.form.set_values({"inversion.steps": 3}),
        lambda: panel._viewer.layers["photo"].data.__setitem__(slice(0, 9), 0),
    ):
        switch()
        panel.model.form.set_values({"inversion.steps": 2})
        run_to_end(panel)
        inverted.clear()
        change()
        switch()
        assert inverted == [1, 2]
