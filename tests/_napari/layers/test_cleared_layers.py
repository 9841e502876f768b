"""Layers that are removed at once, and others in their place: nothing is left to be drawn."""

import gc

from ..review.reviewing import switch_on


def drawn(viewer):
    """What the canvas holds besides layers, and who follows the viewer, after a drawing."""
    viewer.screenshot(canvas_only=True, flash=False)
    canvas = viewer.window._qt_viewer.canvas
    nodes = [(type(node).__name__, node.visible) for node in canvas.view.scene.children]
    events = viewer.layers.events
    followers = [
        len(one.callbacks) for one in (events.inserted, events.removed, viewer.dims.events)
    ]
    return len(viewer.layers), len(canvas.layer_to_visual), nodes, followers


def test_after_each_clear_nothing_of_the_panel_is_left_to_draw(
    window, qtbot, widget, slow, run_to_end, scene
):
    # Panels of earlier tests in this process follow the viewer until they are collected: that is
    # to happen now, not between two turns.
    gc.collect()
    viewer, slow.free, seen = widget._viewer, True, []
    viewer.show()
    for _ in range(3):
        run_to_end(widget)
        switch_on(qtbot, widget)
        widget.results.table.selectRow(3)
        assert "heatmap" in str([layer.name for layer in viewer.layers])
        assert any(visible for name, visible in drawn(viewer)[2] if name == "Mesh")
        viewer.layers.clear()
        seen.append(drawn(viewer))
        viewer.add_image(scene[0], name="photo")
        viewer.add_labels(scene[1], name="cells")
    assert seen[0][:2] == (0, 0)
    assert not any(visible for name, visible in seen[0][2] if name == "Mesh")
    assert seen[1:] == seen[:-1]
