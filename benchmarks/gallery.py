"""The gallery with 10,000 and 100,000 regions: opening it, and scrolling by a page.

    xvfb-run -a python benchmarks/gallery.py

Writes results/gallery.json. Pictures are made up (96 x 96 px, as in a library), so the figures
are those of the window: the wall in order, its layout, and drawing a page with its pictures.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from statistics import median

import numpy as np
import pandas as pd
from napari.components import ViewerModel
from qtpy.QtWidgets import QApplication

from napari_maskinversion._napari.explore.gallery import Gallery
from napari_maskinversion._napari.explore.work_section import Shared
from napari_maskinversion._napari.layers.results_on_canvas import ResultsOnCanvas
from napari_maskinversion.app.explore.region_sources import RegionTable
from napari_maskinversion.app.session import Session
from napari_maskinversion.app.work.model_store import ModelStore

PAGES = 20
WORDS = ("red cell", "white cell", "platelet", "debris")


def table(count: int) -> RegionTable:
    """Return made-up regions."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "image": [f"image-{row // 100}.png" for row in range(count)],
            "region": np.arange(count) % 100,
            "position": [()] * count,
            "suggestion": np.array(WORDS, object)[rng.integers(0, len(WORDS), count)],
            "confidence": rng.random(count),
            "doubtful": False,
            "decision": "undecided",
            "label": "",
            "id": -1,
        }
    )
    pictures = rng.integers(0, 255, (16, 96, 96, 4), np.uint8)
    return RegionTable(
        frame=frame,
        words=WORDS,
        cut=lambda rows: ((row, pictures[row % 16]) for row in rows),
        embed=lambda rows: np.zeros((len(rows), 1), np.float32),
    )


def drawn(gallery: Gallery) -> float:
    """Wait until all pictures in view are drawn; return the seconds that this took."""
    began = time.perf_counter()
    while True:
        QApplication.processEvents()
        if not gallery.model.without_picture(*gallery.wall.items_in_view):
            gallery.wall.viewport().repaint()
            return time.perf_counter() - began
        time.sleep(0.001)


def measure(count: int) -> dict[str, float]:
    """Return seconds by what was done."""
    viewer = ViewerModel()
    gallery = Gallery(Shared(viewer, Session(), ResultsOnCanvas(viewer), ModelStore()))
    gallery.resize(1500, 500)
    gallery.show()
    QApplication.processEvents()
    made = table(count)
    began = time.perf_counter()
    gallery._show(made)
    gallery.wall.viewport().repaint()
    opened = time.perf_counter() - began
    complete = opened + drawn(gallery)
    bar = gallery.wall.verticalScrollBar()
    blocked, pages = [], []
    for page in range(1, PAGES + 1):
        began = time.perf_counter()
        bar.setValue(bar.maximum() * page // PAGES)
        gallery.wall.viewport().repaint()
        blocked.append(time.perf_counter() - began)
        pages.append(blocked[-1] + drawn(gallery))
    began = time.perf_counter()
    gallery.wall.selectAll()
    marked = len(gallery.wall.marked)
    all_marked = time.perf_counter() - began
    assert marked == count
    gallery.stop()
    gallery.close()
    return {
        "open": opened,
        "open, with pictures": complete,
        "a page, until it is drawn": median(blocked),
        "a page, with pictures": median(pages),
        "mark all": all_marked,
    }


def main() -> None:
    """Measure and write."""
    app = QApplication.instance() or QApplication([])
    results = {
        f"{count:,} regions": {
            name: round(median(one[name] for one in runs), 3) for name in runs[0]
        }
        for count in (10_000, 100_000)
        for runs in [[measure(count) for _ in range(3)]]
    }
    about = "Seconds, medians of three; two cores that others used, too"
    file = Path(__file__).parent / "results" / "gallery.json"
    file.write_text(json.dumps({"about": about, **results}, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(results, indent=2))
    del app


if __name__ == "__main__":
    main()
