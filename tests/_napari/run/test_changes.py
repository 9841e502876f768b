"""Results that are out of date say so."""

from qtpy.QtCore import Qt

from napari_maskinversion._napari.session import NextStep


def stale(qtbot, widget, text):
    qtbot.waitUntil(lambda: widget.session.stale.text == text, timeout=20_000)


def test_painted_and_removed_regions_are_counted_and_undone_ones_are_not(
    qtbot, widget, slow, run_to_end
):
    slow.free = True
    run_to_end(widget)
    assert not widget.session.stale
    cells = widget._viewer.layers["cells"]
    cells.paint((100, 100), 77)
    stale(qtbot, widget, "1 region changed: update")
    cells.fill((5, 5), 0)  # a region goes
    stale(qtbot, widget, "2 regions changed: update")
    assert widget.session.next_step is NextStep.UPDATE
    cells.undo()
    cells.undo()
    stale(qtbot, widget, "")
    assert widget.session.next_step is NextStep.REVIEW


def test_other_pixels_and_only_these_put_the_image_out_of_date(qtbot, widget, slow, run_to_end):
    slow.free = True
    run_to_end(widget)
    photo = widget._viewer.layers["photo"]
    photo.refresh()  # napari says so often without cause
    qtbot.waitUntil(lambda: not widget.changes._touched, timeout=20_000)
    assert not widget.session.stale
    photo.data = photo.data[::-1].copy()
    stale(qtbot, widget, "image changed: update")
    assert widget.foot.button.text() == "Update the suggestions"
    photo.data[:] = photo.data[::-1].copy()  # in place, as scripts do it
    photo.refresh()
    stale(qtbot, widget, "")


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
    qtbot.waitUntil(lambda: panel.session.results is not before, timeout=20_000)
    qtbot.waitUntil(lambda: not panel.runner.busy, timeout=20_000)
    assert inverted == [1]
    after = panel.session.results
    assert after.regions[1].raw_embedding is before.regions[1].raw_embedding
    assert after.regions[0].area > before.regions[0].area
    assert not panel.session.stale
    inverted.clear()
    qtbot.mouseClick(panel.foot.beside["run"], Qt.MouseButton.LeftButton)  # Again
    qtbot.waitUntil(lambda: not panel.runner.busy, timeout=20_000)
    assert inverted == [1, 2]
