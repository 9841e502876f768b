"""Pauses of the window with an image of 12,000 px: ``xvfb-run python benchmarks/large_window.py``

Opens a folder with such an image on tab Images, brings regions from a file, reviews some of them,
and goes to the next image. A timer of the window's thread tells how long it was held up; how much
of that was processor time of the thread depends less on what else the machine does. The image
alone, added by napari without the panel, is measured for comparison. Writes
benchmarks/results/large_window.json.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import measuring
import numpy as np
import tifffile
from images_tab import Hands

from napari_maskinversion.app.session import Action

REGIONS = 32


def make(folder: Path, side: int) -> None:
    """Make two tiled images, and polygons of ``REGIONS`` squares."""
    rows, columns = np.ogrid[:side, :side]
    pixels = np.empty((side, side, 3), np.uint8)
    for channel in range(3):
        pixels[..., channel] = (rows // (40 + channel)) * (columns // 50) % 251
    for number in (1, 2):
        tifffile.imwrite(
            folder / f"field-{number}.tif", pixels[:: -1 if number == 2 else 1], tile=(512, 512),
            compression="zlib", photometric="rgb",
        )  # fmt: skip
    step = side // 8
    features = []
    for number in range(REGIONS):
        x, y, size = number % 8 * step + 10, number // 8 * step + 10, step // 2
        ring = [[x, y], [x + size, y], [x + size, y + size], [x, y + size], [x, y]]
        features.append(
            {
                "type": "Feature",
                "properties": {"label": "field"},
                "geometry": {"type": "Polygon", "coordinates": [ring]},
            }
        )
    (folder.parent / "fields.geojson").write_text(
        json.dumps({"type": "FeatureCollection", "features": features})
    )


class Pulse:
    """How long the thread of the window was held up."""

    def __init__(self) -> None:
        from qtpy.QtCore import QTimer

        self.timer = QTimer()
        self.timer.setInterval(5)
        self.timer.timeout.connect(self._beat)
        self.reset()
        self.timer.start()

    def reset(self) -> None:
        self.longest = self.processor = 0.0
        self._at, self._used = time.monotonic(), time.thread_time()

    def _beat(self) -> None:
        now, used = time.monotonic(), time.thread_time()
        self.longest = max(self.longest, now - self._at)
        self.processor = max(self.processor, used - self._used)
        self._at, self._used = now, used

    def measure(self, hands: Hands, act: Callable[[], object], done: Callable[[], bool]) -> Any:
        hands.rest(1)
        self.reset()
        act()
        waited = hands.wait(done)
        hands.rest(0.5)
        return {
            "wait_s": round(waited, 2),
            "longest_pause_s": round(self.longest, 2),
            "processor_s": round(self.processor, 2),
        }


def work_through(folder: Path) -> dict[str, Any]:
    import napari
    from superqt.utils import WorkerBase

    from napari_maskinversion._napari.panel.widget import MaskInversionWidget

    viewer = napari.Viewer(show=True)
    viewer.window.resize(1366, 768)
    panel = MaskInversionWidget(viewer)
    viewer.window.add_dock_widget(panel, name="MaskInversion")
    hands, session, pulse, report = Hands(viewer, panel), panel.session, Pulse(), {}
    hands.rest(2)
    small = viewer.add_image(np.zeros((64, 64, 3), np.uint8))  # napari's first layer
    hands.rest(1)
    viewer.layers.remove(small)
    pixels = tifffile.imread(folder / "field-1.tif")
    report["napari_alone"] = pulse.measure(
        hands, lambda: viewer.add_image(pixels, name="alone"), lambda: True
    )
    levels = [pixels[:: 2**step, :: 2**step] for step in range(3)]

    def change() -> None:
        """Replace an image and its labels, as the panel does."""
        viewer.add_image(levels)
        viewer.add_labels(np.zeros(pixels.shape[:2], np.uint16))
        while len(viewer.layers) > 2:
            viewer.layers.pop(0)

    change()
    report["napari_alone_next_image"] = pulse.measure(hands, change, lambda: True)
    viewer.layers.clear()
    hands.rest(1)
    panel.vocabulary.text.setPlainText("field\nhouse")
    report["open_folder"] = pulse.measure(
        hands,
        lambda: panel.session.project.open_images.emit([folder]),
        lambda: panel.images.shown is not None,
    )
    report["regions_from_file"] = pulse.measure(
        hands,
        lambda: panel.from_file.open_file(folder.parent / "fields.geojson"),
        lambda: any(layer.name == "fields" for layer in viewer.layers),
    )
    panel.model.form.set_values({"inversion.steps": 1})
    report["suggest"] = pulse.measure(
        hands, panel.start, lambda: bool(session.run.results) and not session.run.progress.running
    )
    report["open_review"] = pulse.measure(
        hands, lambda: panel.do(Action.REVIEW), lambda: panel.review.state is not None
    )
    keys = []
    for number in range(1, 9):
        act = lambda: panel.review.act("accept")  # noqa: E731
        keys.append(pulse.measure(hands, act, lambda n=number: session.review.decided_count >= n))
    report["review_key"] = max(keys, key=lambda one: one["processor_s"])
    before = session.project.state.current
    report["next_image"] = pulse.measure(
        hands, lambda: panel.images.move(1), lambda: session.project.state.current != before
    )
    report["and_back"] = pulse.measure(
        hands, lambda: panel.images.move(-1), lambda: session.project.state.current == before
    )
    panel.shut_down()
    viewer.close()
    WorkerBase.await_workers()  # a thread still at work would abort the process
    return report


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--side", type=int, default=12_000)
    parser.add_argument("--out", type=Path, default=measuring.RESULTS / "large_window.json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as own:
        for name in ("CACHE", "CONFIG"):
            os.environ[f"NAPARI_MASKINVERSION_{name}"] = str(Path(own) / name.lower())
        folder = Path(own) / "fields"
        folder.mkdir()
        make(folder, options.side)
        record = work_through(folder)
    report = {**measuring.about(), "side": options.side, **record}
    print(json.dumps(report, indent=1))
    measuring.write(options.out, report)


if __name__ == "__main__":
    main()
