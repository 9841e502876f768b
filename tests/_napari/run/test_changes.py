"""Results that are out of date say so."""

import numpy as np
import pytest
from qtpy.QtCore import Qt

from napari_maskinversion.app.session import Action, NextStep, next_step, outdated, staleness
from napari_maskinversion.base.errors import InputError
from napari_maskinversion.engine.invert.inverter import MaskInverter


def stale(qtbot, widget, text):
    qtbot.waitUntil(lambda: staleness(widget.session).text == text)


def test_painted_and_removed_regions_are_counted_and_undone_ones_are_not(qtbot, ran):
    assert not staleness(ran.session)
    cells = ran._viewer.layers["cells"]
    cells.paint((100, 100), 77)
    stale(qtbot, ran, "1 region changed: update")
    cells.fill((5, 5), 0)  # a region goes
    stale(qtbot, ran, "2 regions changed: update")
    assert next_step(ran.session) is NextStep.UPDATE
    cells.undo()
    cells.undo()
    stale(qtbot, ran, "")
    assert next_step(ran.session) is NextStep.REVIEW


def test_an_undo_of_a_stroke_counts_at_once(qtbot, widget, slow, run_to_end):
    slow.free = True
    cells = widget._viewer.layers["cells"]
    cells.paint((100, 100), 77)
    run_to_end(widget)
    qtbot.waitUntil(lambda: not widget.session.run.comparing)
    for change, text in ((cells.undo, "1 region changed: update"), (cells.redo, "")):
        change()
        assert outdated(widget.session)
        stale(qtbot, widget, text)
        qtbot.waitUntil(lambda: not widget.session.run.comparing)
    cells.refresh()  # is no edit
    assert not outdated(widget.session)


def test_other_pixels_and_only_these_put_the_image_out_of_date(qtbot, ran):
    photo = ran._viewer.layers["photo"]
    photo.refresh()  # napari says so often without cause
    qtbot.waitUntil(lambda: not ran.changes._touched)
    assert not staleness(ran.session)
    photo.data = photo.data[::-1].copy()
    stale(qtbot, ran, "image changed: update")
    assert ran.foot.button.text() == "Update the suggestions"
    photo.data[:] = photo.data[::-1].copy()  # in place, as scripts do it
    photo.refresh()
    stale(qtbot, ran, "")


def test_regions_that_are_moved_scaled_or_turned_have_changed(qtbot, ran):
    cells = ran._viewer.layers["cells"]
    cells.visible = False  # napari says nothing but that it was moved
    for name, place in (("translate", (0.0, 2.0)), ("scale", (1.1, 1.1)), ("rotate", 3.0)):
        before = getattr(cells, name)
        setattr(cells, name, place)
        qtbot.waitUntil(lambda: staleness(ran.session).regions >= 50)
        assert next_step(ran.session) is NextStep.UPDATE
        assert not staleness(ran.session).image
        setattr(cells, name, before)
        stale(qtbot, ran, "")


@pytest.mark.parametrize("merge", [False, True])
def test_edits_of_chosen_regions_count_and_those_of_others_do_not(
    qtbot, widget, slow, run_to_end, merge
):
    slow.free = True
    cells, scope = widget._viewer.layers["cells"], widget.input.scope
    scope.use.setCurrentIndex(1)
    scope.ids.setText("3, 7")
    scope.merge.setChecked(merge)
    run_to_end(widget)
    cells.paint((150, 190), 9)
    cells.paint((150, 10), 77)
    cells.paint((4, 40), 3)
    stale(qtbot, widget, "1 region changed: update")
    cells.fill((4, 112), 0)  # region 7 goes
    stale(qtbot, widget, f"{1 if merge else 2} region{'s' * (not merge)} changed: update")
    for _ in range(2):
        cells.undo()
    stale(qtbot, widget, "")
    assert next_step(widget.session) is NextStep.REVIEW


def test_regions_selected_after_a_run_of_the_selected_ones_are_another_choice(
    widget, slow, run_to_end
):
    slow.free = True
    cells = widget._viewer.layers["cells"]
    cells.selected_label = 17
    widget.input.scope.use.setCurrentIndex(1)
    run_to_end(widget)
    cells.selected_label = 18
    assert staleness(widget.session).text == "choice of regions changed: update"
    cells.selected_label = 0  # none: nothing to update to
    cells.selected_label = 17
    assert not staleness(widget.session)
    cells.selected_label = 18
    run_to_end(widget)
    assert widget.session.run.results.ids == [18]
    assert not staleness(widget.session)


def test_pixels_that_change_while_another_image_is_chosen_are_noticed(qtbot, ran):
    viewer, photo = ran._viewer, ran._viewer.layers["photo"]
    other = viewer.add_image(np.zeros((160, 200)), name="other")
    ran.session.choose(image=other)
    assert ran.session.run.record is None
    photo.data = photo.data[::-1].copy()
    ran.session.choose(image=photo)
    stale(qtbot, ran, "image changed: update")


def test_pixels_and_regions_of_the_run_are_compared_from_another_plane_and_choice(
    qtbot, viewer, dock, scene, slow, run_to_end
):
    slow.free = True
    pixels, labels = (np.stack([one, one[::-1]]) for one in (scene[0][..., 0], scene[1]))
    photo, cells = viewer.add_image(pixels, name="photo"), viewer.add_labels(labels, name="cells")
    viewer.dims.set_current_step(0, 0)
    panel = dock()
    run_to_end(panel)
    viewer.dims.set_current_step(0, 1)
    panel.input.scope.use.setCurrentIndex(1)
    panel.input.scope.ids.setText("3, 7")
    session = panel.session
    qtbot.waitUntil(lambda: not panel.changes._touched)
    assert outdated(session) == ""
    cells.paint((1, 100, 100), 77)  # on this plane
    cells.paint((0, 4, 40), 3)
    qtbot.waitUntil(lambda: len(session.run.changed_regions) == 1)
    photo.data = np.stack([photo.data[0], photo.data[0]])
    qtbot.waitUntil(lambda: not session.run.comparing)
    assert not session.run.pixels_changed  # those of the run
    photo.data = photo.data[:, ::-1].copy()
    qtbot.waitUntil(lambda: session.run.pixels_changed)
    assert outdated(session).startswith("The image has changed")


def test_a_run_that_broke_off_is_continued_with_what_is_missing(
    qtbot, panel, inverted, run_to_end, monkeypatch
):
    panel.model.form.set_values({"chunk_size": 1})
    invert = MaskInverter.invert

    def broken(self, masks, *args, **options):
        if 2 in masks.ids:
            raise InputError("There is no room.")
        return invert(self, masks, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(MaskInverter, "invert", broken)
        run_to_end(panel)
    assert inverted == [1]
    before = panel.session.run.results
    assert panel.foot.button.text() == "Continue with 1 region"
    assert not panel.foot.beside[Action.REVIEW].isHidden()
    qtbot.mouseClick(panel.foot.button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: panel.session.run.progress.phase == "done")
    assert inverted == [1, 2]
    after = panel.session.run.results
    assert after.ids == [1, 2]
    assert after.regions[0].raw_embedding is before.regions[0].raw_embedding
    assert panel.foot.button.text() == "Review 2 suggestions"


def test_update_inverts_the_changed_region_and_leaves_the_others_as_they_are(
    qtbot, panel, inverted, run_to_end
):
    run_to_end(panel)
    before = panel.results.results
    inverted.clear()
    panel._viewer.layers["cells"].paint((40, 30), 1)
    stale(qtbot, panel, "1 region changed: update")
    assert panel.foot.button.text() == "Update 1 region"
    qtbot.mouseClick(panel.foot.button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: panel.session.run.results is not before)
    qtbot.waitUntil(lambda: not panel.runner.busy)
    assert inverted == [1]
    after = panel.session.run.results
    assert after.regions[1].raw_embedding is before.regions[1].raw_embedding
    assert after.regions[0].area > before.regions[0].area
    assert not staleness(panel.session)
    inverted.clear()
    qtbot.mouseClick(panel.foot.beside[Action.RUN], Qt.MouseButton.LeftButton)  # Again
    qtbot.waitUntil(lambda: not panel.runner.busy)
    assert inverted == [1, 2]
