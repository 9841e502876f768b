"""Results that are out of date say so."""

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
