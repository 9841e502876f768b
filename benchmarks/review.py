"""Measure a decision: from a key press to the next region on the screen, and to new suggestions.

Run: ``xvfb-run -a python benchmarks/review.py`` (without xvfb-run where there is a display).

Results are made up (random embeddings of 5,000 regions, 40 labels), the rest is the panel itself
in a viewer. *Key*: a key is pressed on the canvas (1, A, R, S in turns); ``handled_ms`` ends when
Qt has handled it: the decision is on the disk, the next region selected in the table, its heatmap
set. ``shown_ms`` ends when window and canvas have been drawn as well. ``bare_frame_ms`` is the
drawing of a window in which nothing has changed: what napari and the renderer take (much, where
there is no GPU). *Re-ranking*: suggestions of all regions by a classifier of 200 decisions.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import measuring
import numpy as np
from gui import settle, squares
from measuring import timed

KEY_LIMIT_MS, RANK_LIMIT_MS = 50.0, 100.0
LABELS, WIDTH = 40, 128


def results_of(labels: np.ndarray, fingerprint: str = "random") -> tuple[Any, list[Any]]:
    """Results with random embeddings for the regions of a label image, and their identities."""
    from napari_maskinversion.base.identity import identify_all
    from napari_maskinversion.base.regions import Regions
    from napari_maskinversion.language.labels.vocabulary import Vocabulary
    from napari_maskinversion.language.ranking.ranking import rank
    from napari_maskinversion.results.region_result import RegionResult, WindowRecord
    from napari_maskinversion.results.results import Results
    from napari_maskinversion.results.run_info import RunInfo
    from napari_maskinversion.results.settings import RunSettings

    regions = Regions.from_labels(labels)
    rng = np.random.default_rng(0)
    text = rng.standard_normal((LABELS, WIDTH)).astype(np.float32)
    kinds = rng.integers(0, LABELS, len(regions))
    vectors = text[kinds] + 1.5 * rng.standard_normal((len(regions), WIDTH)).astype(np.float32)
    units = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (vectors, text)]
    names = tuple(f"thing {k}" for k in range(LABELS))
    height, width = labels.shape
    window = WindowRecord(
        box=(0.0, 0.0, float(height), float(width)),
        level=0,
        pixels=(height, width),
        input_size=(448, 448),
        grid=(28, 28),
        whole=True,
    )
    made = [
        RegionResult(
            id=region.id,
            bbox=region.bbox,
            area=region.area,
            raw_embedding=embedding,
            grid_map=rng.random((28, 28), dtype=np.float32),
            losses=np.linspace(1, 0.5, 11, dtype=np.float32),
            ranking=ranking,
            iou=0.5,
            low_resolution=False,
            window=window,
            index=index,
            centroid=region.centroid,
        )
        for index, (region, embedding, ranking) in enumerate(
            zip(regions, vectors, rank(units[0], units[1], names, 14.0), strict=True)
        )
    ]
    info = RunInfo(
        fingerprint=fingerprint,
        settings=RunSettings(model="random"),
        vocabulary=Vocabulary(names),
        image_shape=(height, width),
        input_size=(448, 448),
        grid=(28, 28),
        embed_dim=WIDTH,
        device="cpu",
    )
    return Results(info, tuple(made)), identify_all(regions)


def open_panel(folder: Path, size: int, labels: np.ndarray, window: tuple[int, int]) -> Any:
    """A viewer with an image from a file, and the panel with made-up results in it."""
    import imageio.v3 as imageio
    import napari

    from napari_maskinversion._napari.plugin.commands import open_widget
    from napari_maskinversion.app.requests.preparing import prepare
    from napari_maskinversion.app.session import ResultRecord

    viewer = napari.Viewer()
    viewer.window.resize(*window)
    pixels = np.random.default_rng(0).integers(0, 255, (size, size, 3), dtype=np.uint8)
    imageio.imwrite(folder / "image.png", pixels)
    viewer.open(str(folder / "image.png"), plugin="napari")
    viewer.add_labels(labels, name="regions")
    widget = open_widget(viewer).panel()
    prepared = prepare(viewer, widget.session)
    results, identities = results_of(labels)
    widget.session.show(
        ResultRecord(
            results=results,
            snapshot=widget.session.run.snapshot(),
            finder=prepared.finder,
            identities=tuple(identities),
            settled=True,
        )
    )
    widget.review.part.switch.setChecked(True)
    settle(lambda: widget.review.state is not None, 1.0)
    return viewer, widget


def canvas_of(viewer: Any) -> Any:
    """The widget that vispy draws on."""
    return viewer.window._qt_viewer.canvas.native


class Frames:
    """Waits until the canvas has been drawn, and with it the window."""

    def __init__(self, viewer: Any) -> None:
        self._drawn = False
        viewer.window._qt_viewer.canvas._scene_canvas.events.draw.connect(self._note)

    def _note(self, event: object) -> None:
        self._drawn = True

    def begin(self) -> None:
        self._drawn = False

    def end(self) -> None:
        from qtpy.QtWidgets import QApplication

        # Qt composes the window after the canvas has been drawn, in the same round of events.
        while not self._drawn:
            QApplication.processEvents()


def bare_frames(viewer: Any, frames: Frames, count: int) -> dict[str, float]:
    """Milliseconds of drawing a window in which nothing has changed."""
    canvas, spent = canvas_of(viewer), []
    for _ in range(count):
        frames.begin()
        start = time.perf_counter()
        canvas.update()
        frames.end()
        spent.append(1000 * (time.perf_counter() - start))
        settle(seconds=0.02)
    return summary(spent)


def presses(viewer: Any, widget: Any, frames: Frames, count: int) -> dict[str, Any]:
    """Press keys; milliseconds until handled, and until drawn."""
    from qtpy.QtCore import Qt
    from qtpy.QtTest import QTest

    canvas, keys = canvas_of(viewer), "1ARS"
    handled, shown = [], []
    for turn in range(count + 5):
        state = widget.review.state
        before = state.row
        key = getattr(Qt.Key, f"Key_{keys[turn % len(keys)]}")
        frames.begin()
        start = time.perf_counter()
        QTest.keyClick(canvas, key)
        done = time.perf_counter()
        frames.end()
        end = time.perf_counter()
        assert state.row != before
        assert widget.results.row == state.row
        if turn >= 5:
            handled.append(1000 * (done - start))
            shown.append(1000 * (end - start))
        settle(seconds=0.02)
    return {"handled_ms": summary(handled), "shown_ms": summary(shown), "presses": count}


def re_ranking(widget: Any, decided: int, repeat: int = 20) -> dict[str, Any]:
    """Learn from decisions of another image and rank all regions."""
    from napari_maskinversion import load_model
    from napari_maskinversion.app.review.learning import learn
    from napari_maskinversion.base.identity import RegionKey

    results, model = widget.review.state.results, load_model("demo")
    rows = np.random.default_rng(1).choice(len(results), decided, replace=False)
    known = {
        ("other", RegionKey(row)): (results.embeddings[row], results.regions[row].suggestion)
        for row in rows.tolist()
    }
    learn(lambda: model, results, {}, "this", known)
    whole = [
        1000 * timed(lambda: learn(lambda: model, results, {}, "this", known))
        for _ in range(repeat)
    ]
    return {"with_suggestions_ms": summary(whole)}


def summary(values: list[float]) -> dict[str, float]:
    return {"median": round(statistics.median(values), 1), "max": round(max(values), 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description="Time of a decision.")
    parser.add_argument("--regions", type=int, default=5000)
    parser.add_argument("--size", type=int, default=2048, help="side of the image in pixels")
    parser.add_argument("--window", type=int, nargs=2, default=(1400, 900))
    parser.add_argument("--presses", type=int, default=100)
    parser.add_argument("--decided", type=int, default=200)
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent / "results" / "review.json"
    )
    chosen = parser.parse_args()
    labels = squares(chosen.size, chosen.regions, edge=1)
    with tempfile.TemporaryDirectory() as folder:
        viewer, widget = open_panel(Path(folder), chosen.size, labels, tuple(chosen.window))
        frames = Frames(viewer)
        bare = bare_frames(viewer, frames, 30)
        plain = presses(viewer, widget, frames, chosen.presses)
        ranked = re_ranking(widget, chosen.decided)
        widget.review.part.form["learn"].setChecked(True)
        settle(lambda: not widget.review.learning.busy, 1.0)
        learning = presses(viewer, widget, frames, chosen.presses)
        settle(lambda: not widget.review.learning.busy, 1.0)
        viewer.close()
    report: dict[str, Any] = {
        **measuring.about(),
        "regions": chosen.regions,
        "decided": chosen.decided,
        "labels": LABELS,
        "image_px": chosen.size,
        "window_px": list(chosen.window),
        "bare_frame_ms": bare,
        "key": plain,
        "key_while_learning": learning,
        "re_ranking": ranked,
    }
    measuring.write(chosen.out, report)
    print(json.dumps(report, indent=2))
    if plain["shown_ms"]["median"] - bare["median"] > KEY_LIMIT_MS:
        sys.exit(f"A key press takes more than {KEY_LIMIT_MS:.0f} ms beyond a bare frame.")
    if ranked["with_suggestions_ms"]["median"] > RANK_LIMIT_MS:
        sys.exit(f"Re-ranking takes more than {RANK_LIMIT_MS:.0f} ms.")


if __name__ == "__main__":
    main()
