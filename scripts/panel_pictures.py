"""Pictures of every tab and every page of the settings, in the dark and the light theme.

    xvfb-run -a python scripts/panel_pictures.py [FOLDER]

(without xvfb-run where there is a display). Opens a sample scene, runs it on the bundled model,
begins a review and accepts a word. Writes docs/images/panel-dark.png and panel-light.png (the tabs
side by side, 360 px wide). With FOLDER, also writes there each tab 320 and 420 px wide and each
page of the settings. The user's files are neither read nor written.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

WIDTH, HEIGHT = 360, 700
WIDTHS = (320, 420)
IMAGES = Path(__file__).parents[1] / "docs" / "images"


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


def beside(pictures: Iterable[Any]) -> Any:
    """Return pictures side by side."""
    from qtpy.QtGui import QPainter, QPixmap

    pictures = list(pictures)
    page = QPixmap(sum(one.width() for one in pictures), max(one.height() for one in pictures))
    page.fill()
    painter, left = QPainter(page), 0
    for one in pictures:
        painter.drawPixmap(left, 0, one)
        left += one.width()
    painter.end()
    return page


def save(picture: Any, path: Path) -> None:
    picture.save(str(path))
    print(f"{path.name}: {picture.width()} x {picture.height()} px")


def tabs(panel: Any, width: int) -> dict[str, Any]:
    """Return a picture of the panel for each tab, by its name."""
    from qtpy.QtCore import Qt

    window = panel.window()
    window.resizeDocks([panel.parentWidget()], [width], Qt.Orientation.Horizontal)
    pictures = {}
    for name in panel.tabs.areas:
        panel.reveal(name)
        rest(0.5)
        pictures[name] = panel.grab()
    return pictures


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as own:
        for name in ("CACHE", "CONFIG"):
            os.environ[f"NAPARI_MASKINVERSION_{name}"] = str(Path(own) / name.lower())
        import napari

        from napari_maskinversion._napari.panel.widget import MaskInversionWidget

        viewer = napari.Viewer(show=True)
        viewer.window.resize(1300, HEIGHT + 60)
        panel = MaskInversionWidget(viewer)
        viewer.window.add_dock_widget(panel, name="MaskInversion")
        themes = ("dark", "light")
        for theme in themes if folder else ():
            viewer.theme = theme
            save(tabs(panel, WIDTHS[0])["label"], folder / f"first-{theme}.png")
        viewer.open_sample("napari-maskinversion", "everyday-1")
        rest(1)
        panel.start()
        wait(lambda: not panel.runner.busy and panel.results.results is not None)
        panel.review.part.switch.click()
        wait(lambda: panel.review.state is not None)
        panel.review.act("pick 1")
        for theme in themes:
            viewer.theme = theme
            save(beside(tabs(panel, WIDTH).values()), IMAGES / f"panel-{theme}.png")
            if folder is None:
                continue
            for width in WIDTHS:
                save(beside(tabs(panel, width).values()), folder / f"tabs-{width}-{theme}.png")
            settings = panel.controller.settings
            settings.bring()
            for row in range(settings.list.count()):
                settings.list.setCurrentRow(row)
                rest(0.3)
                save(settings.grab(), folder / f"settings-{row}-{theme}.png")
            settings.hide()
            panel.segment.dialog.bring()
            rest(0.3)
            save(panel.segment.dialog.grab(), folder / f"segment-{theme}.png")
            panel.segment.dialog.hide()
        panel.shut_down()
        viewer.close()


if __name__ == "__main__":
    main()
