"""Pictures of the whole panel, 360 px wide, in the dark and the light theme.

    xvfb-run -a python scripts/panel_pictures.py

(without xvfb-run where there is a display). Opens a sample scene, runs it on the bundled model,
begins a review, accepts a label, unfolds every section, and writes docs/images/panel-dark.png and
panel-light.png: the panel from top to bottom, cut into columns. The user's files are neither read
nor written.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

WIDTH = 360
COLUMNS = 4
FOLDER = Path(__file__).parents[1] / "docs" / "images"


def wait(done: Callable[[], bool], seconds: float = 120.0) -> None:
    from qtpy.QtWidgets import QApplication

    end = time.monotonic() + seconds
    while not done():
        QApplication.processEvents()
        time.sleep(0.005)
        if time.monotonic() > end:
            raise SystemExit("The panel did not come so far in time.")


def rest(seconds: float) -> None:
    end = time.monotonic() + seconds
    wait(lambda: time.monotonic() > end)


def save(panel: object, path: Path) -> None:
    """Write the panel's content, its columns side by side."""
    from qtpy.QtGui import QPainter, QPixmap

    whole = panel.grab()  # type: ignore[attr-defined]
    ratio = whole.devicePixelRatio()
    width, height = int(whole.width() / ratio), int(whole.height() / ratio)
    tall = -(-height // COLUMNS)
    page = QPixmap(COLUMNS * width, tall)
    page.fill(panel.palette().window().color())  # type: ignore[attr-defined]
    painter = QPainter(page)
    for index in range(COLUMNS):
        painter.drawPixmap(index * width, 0, whole, 0, index * tall, width, tall)
    painter.end()
    page.save(str(path))
    print(f"{path.name}: {page.width()} x {page.height()} px")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name in ("CACHE", "CONFIG"):
            os.environ[f"NAPARI_MASKINVERSION_{name}"] = str(Path(folder) / name.lower())
        import napari
        from qtpy.QtCore import Qt

        from napari_maskinversion._napari.panel.widget import MaskInversionWidget
        from napari_maskinversion._napari.widgets.sections import Section

        viewer = napari.Viewer(show=True)
        viewer.window.resize(1300, 1000)
        viewer.open_sample("napari-maskinversion", "everyday-1")
        panel = MaskInversionWidget(viewer)
        dock = viewer.window.add_dock_widget(panel, name="MaskInversion")
        rest(1)
        panel.run.click()
        wait(lambda: not panel.runner.busy and panel.results.results is not None)
        panel.review.part.switch.click()
        wait(lambda: panel.review.state is not None)
        panel.review.act("pick 1")
        for section in panel.findChildren(Section):
            section.open()
        viewer.window._qt_window.resizeDocks([dock], [WIDTH], Qt.Horizontal)
        for theme in ("dark", "light"):
            viewer.theme = theme
            rest(1)
            save(panel.scroll.widget(), FOLDER / f"panel-{theme}.png")
        panel.shut_down()
        viewer.close()


if __name__ == "__main__":
    main()
