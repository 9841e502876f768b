"""The map of embeddings with many points: ``xvfb-run -s "-screen 0 1600x1000x24" python
benchmarks/map.py``

Embeddings of 512 numbers in twenty made-up groups: how long PCA and t-SNE take; and in the widget
that the panel docks, the median time of a frame of all points, of one while the map is moved and
enlarged, of a lasso around half of the points, and of other colours. Names what draws: "llvmpipe"
is the processor. Writes benchmarks/results/map.json.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import measuring
import numpy as np

WIDTH, GROUPS, ROUNDS = 512, 20, 15


def embeddings(count: int) -> tuple[Any, Any]:
    """Return embeddings and their groups."""
    random = np.random.default_rng(0)
    group = random.integers(0, GROUPS, count)
    centres = random.normal(size=(GROUPS, WIDTH)).astype(np.float32)
    return centres[group] + random.normal(size=(count, WIDTH)).astype(np.float32), group


def timed(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def on_canvas(points: Any, group: Any) -> dict[str, Any]:
    """Time what a user does with the map, in milliseconds."""
    from napari._qt.qt_event_loop import get_qapp
    from napari_maskinversion._napari.explore.map_colors import groups, numbers

    from napari_maskinversion._napari.explore.map_view import MapView
    from napari_maskinversion.language.labels.label import colors_of

    app, view, drawn = get_qapp(), MapView(), [0]
    canvas = view._canvas
    view.resize(1200, 400)
    view.show()
    words = [f"word {number}" for number in group]
    colors = colors_of(sorted(set(words)), [])

    def count(_: object) -> None:
        canvas.context.finish()
        drawn[0] += 1

    canvas.events.draw.connect(count, position="last")

    def frame(act: Callable[[], object]) -> float:
        before = drawn[0]
        start = time.perf_counter()
        act()
        canvas.update()
        while drawn[0] == before:
            app.processEvents()
        return 1000 * (time.perf_counter() - start)

    def median(act: Callable[[int], object]) -> float:
        return round(statistics.median(frame(lambda at=at: act(at)) for at in range(ROUNDS)), 1)

    shown = round(frame(lambda: view.show_points(points, groups(words, colors))), 1)
    camera, side = view._view.camera, float(np.ptp(points[:, 0]))
    still = median(lambda at: view.update())
    moved = median(lambda at: (view._draw_few(), camera.pan((side / 100 * (-1) ** at, 0))))
    enlarged = median(lambda at: (view._draw_few(), camera.zoom(0.9 if at % 2 else 1 / 0.9)))
    view._draw_all()
    view.fit()
    width, height, picked = view.canvas.width(), view.canvas.height(), []
    view.picked.connect(lambda rows, more: picked.append(rows))
    turn = np.linspace(0, 2 * np.pi, 200)
    ring = np.stack([width * (0.5 + 0.3 * np.cos(turn)), height * (0.5 + 0.3 * np.sin(turn))], 1)
    lassos = [1000 * timed(lambda: view._inside(view._in_data(ring))) for _ in range(ROUNDS)]
    inside = view._inside(view._in_data(ring))
    report = {
        "drawn_by": str(_renderer()),
        "show_ms": shown,
        "all_frame_ms": still,
        "move_frame_ms": moved,
        "zoom_frame_ms": enlarged,
        "lasso_ms": round(statistics.median(lassos), 1),
        "in_lasso": len(inside),
        "by_word_frame_ms": median(lambda at: view.recolor(groups(words, colors))),
        "by_number_frame_ms": median(lambda at: view.recolor(numbers(points[:, 0].astype(float)))),
        "mark_frame_ms": median(lambda at: view.mark(inside[at % 2 :])),
    }
    view.close_canvas()
    return report


def _renderer() -> Any:
    from vispy.gloo import gl

    return gl.glGetParameter(gl.GL_RENDERER)


def measure(counts: Sequence[int], tsne: Sequence[int]) -> dict[str, Any]:
    from napari_maskinversion.app.work.preload import preload_torch

    preload_torch()
    from napari_maskinversion.library.embedding_map import embedding_map

    rows: dict[str, Any] = {}
    for count in counts:
        vectors, group = embeddings(count)
        made: list[Any] = []
        seconds = timed(lambda vectors=vectors, made=made: made.append(embedding_map(vectors)))
        rows[str(count)] = {"pca_s": round(seconds, 2), **on_canvas(made[0].points, group)}
        print(json.dumps({count: rows[str(count)]}), flush=True)
    for count in tsne:
        vectors, group = embeddings(count)
        seconds = timed(lambda vectors=vectors: embedding_map(vectors, "tsne"))
        rows.setdefault(str(count), {})["tsne_s"] = round(seconds, 1)
        print(json.dumps({count: rows[str(count)]}), flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--points", type=int, nargs="*", default=[1_000, 10_000, 100_000])
    parser.add_argument("--tsne", type=int, nargs="*", default=[1_000, 10_000])
    parser.add_argument("--out", type=Path, default=measuring.RESULTS / "map.json")
    options = parser.parse_args()
    about = measuring.about()
    measuring.write(options.out, {**about, "points": measure(options.points, options.tsne)})


if __name__ == "__main__":
    main()
