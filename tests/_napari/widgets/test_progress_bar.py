"""Bars of progress."""

from napari_maskinversion._napari.widgets.progress import ProgressBar


class Counted(ProgressBar):
    painted = 0

    def paintEvent(self, event):
        type(self).painted += 1
        super().paintEvent(event)


def test_a_value_is_painted_with_the_rest_of_the_window_and_once(qtbot):
    bar = Counted()
    qtbot.addWidget(bar)
    bar.show()
    qtbot.waitExposed(bar)
    qtbot.waitUntil(lambda: Counted.painted > 0)
    qtbot.wait(50)
    before = Counted.painted
    for value in (10, 20, 30):
        bar.setValue(value)
    assert (bar.value(), Counted.painted) == (30, before)
    qtbot.waitUntil(lambda: Counted.painted > before)
