"""Ten images in a row in the panel:  ``xvfb-run -a python benchmarks/images_tab.py``

Drives the real window by keys: ten images of 20 regions (mirrored and dimmed copies of the real
blood smear that comes with the package), a folder dropped on the panel, words typed once, each
region accepted by a key. Counts the actions for each image other than decisions, and measures how
long the next image takes to be there: from the key until its review waits for a decision.
``--pause`` is how long the person looks at a region. Writes benchmarks/results/images_tab.json.
The processor time of the window's thread is recorded as well, since it depends less on what else
the machine does.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import measuring
import numpy as np
import skimage.io

WORDS = "red blood cell\nwhite blood cell\nplatelet"
REGIONS = 20
BEFORE = {"actions_an_image": 17, "seconds_an_image": 45}  # without the tab, as its issue says


def make(folder: Path, count: int) -> None:
    from napari_maskinversion.images.sample_scenes import load_scene

    scene = load_scene("bccd-smear")
    labels = np.where(scene.regions <= REGIONS, scene.regions, 0).astype(np.uint8)
    for kind in ("images", "masks"):
        (folder / kind).mkdir(parents=True)
    for number in range(count):
        flips = np.s_[:: -1 if number & 2 else 1, :: -1 if number & 1 else 1]
        dimmed = (scene.image * (1 - 0.02 * (number // 4))).astype(np.uint8)
        for kind, pixels in (("images", dimmed), ("masks", labels)):
            file = folder / kind / f"smear-{number + 1:02d}.png"
            skimage.io.imsave(file, np.ascontiguousarray(pixels[flips]), check_contrast=False)


class Hands:
    """Keys that reach the window in front, and what they wait for."""

    def __init__(self, viewer: Any, panel: Any) -> None:
        self.viewer, self.panel, self.keys = viewer, panel, 0

    def wait(self, done: Callable[[], bool], seconds: float = 300.0) -> float:
        from qtpy.QtWidgets import QApplication

        begun = time.monotonic()
        while not done():
            QApplication.processEvents()
            time.sleep(0.001)
            if time.monotonic() - begun > seconds:
                raise SystemExit(f"Waited in vain; it says: {self.panel.foot.status.text()}")
        return time.monotonic() - begun

    def rest(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        self.wait(lambda: time.monotonic() > end)

    def press(self, key: str, ctrl: bool = False) -> None:
        from qtpy.QtCore import Qt
        from qtpy.QtTest import QTest

        modifiers = Qt.KeyboardModifier
        modifier = modifiers.ControlModifier if ctrl else modifiers.NoModifier
        self.keys += 1
        window = self.viewer.window._qt_window.windowHandle()
        QTest.keyClick(window, getattr(Qt.Key, f"Key_{key}"), modifier)


def work_through(folder: Path, count: int, pause: float) -> dict[str, Any]:
    import napari
    from superqt.utils import WorkerBase

    from napari_maskinversion._napari.panel.widget import MaskInversionWidget

    viewer = napari.Viewer(show=True)
    viewer.window.resize(1366, 768)
    panel = MaskInversionWidget(viewer)
    viewer.window.add_dock_widget(panel, name="MaskInversion")
    hands, session = Hands(viewer, panel), panel.session
    hands.rest(2)
    viewer.window._qt_window.activateWindow()
    panel.session.project.open_images.emit([folder])  # dropped on the panel
    hands.wait(lambda: panel.images.shown is not None)
    panel.vocabulary.text.setPlainText(WORDS)
    hands.rest(1)
    viewer.window._qt_viewer.canvas.native.setFocus()
    hands.press("Return", ctrl=True)  # Suggest words
    hands.wait(lambda: bool(session.run.results) and not session.run.progress.running)
    hands.press("Return", ctrl=True)  # Review
    hands.wait(lambda: panel.review.state is not None)
    waits, processor, prepared, actions = [], [], [], []
    begun = time.monotonic()
    for number in range(count):
        total = len(session.run.results)
        for decided in range(1, total + 1):
            hands.rest(pause)
            hands.press("A")
            hands.wait(lambda n=decided: session.review.decided_count >= n)
        if number == count - 1:
            break
        state, name = panel.review.state, session.project.state.current
        prepared.append(bool(panel.images.ahead._kept))
        keys, clock, thread = hands.keys, time.monotonic(), time.thread_time()
        hands.press("Return", ctrl=True)  # Next image
        hands.wait(lambda before=name: session.project.state.current != before)
        hands.wait(lambda before=state: panel.review.state not in (None, before))
        waits.append(time.monotonic() - clock)
        processor.append(time.thread_time() - thread)
        actions.append(hands.keys - keys)
    seconds = time.monotonic() - begun
    panel.shut_down()
    viewer.close()
    WorkerBase.await_workers()  # a thread still at work would abort the process
    return {
        "images": count,
        "regions": REGIONS,
        "pause_s": pause,
        "actions_an_image": max(actions),
        "wait_s": [round(value, 3) for value in waits],
        "wait_median_s": round(float(np.median(waits)), 3),
        "wait_longest_s": round(max(waits), 3),
        "processor_median_s": round(float(np.median(processor)), 3),
        "next_was_prepared": prepared,
        "seconds_an_image_without_pauses": round(seconds / count - REGIONS * pause, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=10)
    parser.add_argument("--pause", type=float, default=0.5, help="seconds before each decision")
    parser.add_argument("--out", type=Path, default=measuring.RESULTS / "images_tab.json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as own:
        for name in ("CACHE", "CONFIG"):
            os.environ[f"NAPARI_MASKINVERSION_{name}"] = str(Path(own) / name.lower())
        make(Path(own) / "ten", options.images)
        record = work_through(Path(own) / "ten", options.images, options.pause)
    report = {**measuring.about(), "before": BEFORE, **record}
    print(report)
    measuring.write(options.out, report)


if __name__ == "__main__":
    main()
