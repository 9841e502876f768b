"""Measure how a call grows with masks, tokens and steps: ``python benchmarks/scaling.py``.

ViT-B/16 with random weights, float32, exact. One axis at a time (``--axes``), the others fixed at
10 masks, 224 px, K = 10; rows are merged into the JSON file as they come. A point is the median of
three calls, or of as many as began within ``--patience`` seconds. Each is set against the time
that the multiply-adds of the closed form take at the rate of the engine's own matrix product,
measured in the same run.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import measuring
import numpy as np

WIDTH, HIDDEN, JOINT, LAYERS, PATCH = 768, 3072, 512, 12, 16
AXES = {
    "masks": (1, 5, 10, 25, 50, 100, 500),
    "tokens": (224, 320, 448, 576, 768),
    "steps": (5, 10, 20, 50, 100),
}
# Largest exponent over the whole axis.
LIMITS = {"masks": 1.0, "tokens": 1.3}


def point(axis: str, value: int) -> tuple[int, int, int]:
    """Return masks, pixels and steps of a point of an axis."""
    return (
        value if axis == "masks" else 10,
        value if axis == "tokens" else 224,
        value if axis == "steps" else 10,
    )


def multiply_adds(masks: int, side: int, steps: int) -> float:
    """Count the multiply-adds of image and exact inversion by the cheaper route.

    The first map serves all masks; every other map, every gradient and the last map are one pass.
    """
    n = (side // PATCH) ** 2 + 1
    encoder = LAYERS * (n * (4 * WIDTH**2 + 2 * WIDTH * HIDDEN) + 2 * n * n * WIDTH)
    passes = masks * 2 * steps + 1
    direct = passes * n * HIDDEN * WIDTH
    decomposed = JOINT * n * HIDDEN * WIDTH + passes * n * WIDTH * JOINT
    return float(encoder + min(direct, decomposed) + passes * n * n * WIDTH)


def restart_peak() -> None:
    """Reset the peak memory if the system can; points grow anyway."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def measure(axis: str, patience: float, values: tuple[int, ...], out: Path) -> None:
    from napari_maskinversion import InversionConfig, MaskInverter, wrap_open_clip

    model = wrap_open_clip(measuring.random_clip())
    MaskInverter(model).set_image_tensor(measuring.picture(224))
    for value in values:
        masks, side, steps = point(axis, value)
        inverter, image = MaskInverter(model), measuring.picture(side)
        targets, config = measuring.boxes(masks, side), InversionConfig(steps=steps)
        restart_peak()
        seconds: list[float] = []
        before, begin = measuring.peak_mb(), time.perf_counter()
        rate = measuring.engine_gflops()
        while len(seconds) < 3 and (not seconds or time.perf_counter() - begin < patience):
            start = time.perf_counter()
            inverter.set_image_tensor(image)
            inverter.invert(targets, config)
            seconds.append(round(time.perf_counter() - start, 3))
        rate = max(rate, measuring.engine_gflops())
        limit = 2 * multiply_adds(masks, side, steps) / rate / 1e9
        row = {
            "masks": masks,
            "side_px": side,
            "tokens": (side // PATCH) ** 2,
            "steps": steps,
            "seconds": statistics.median(seconds),
            "runs": seconds,
            "limit_seconds": round(limit, 3),
            "product_gflops": round(rate),
            "peak_mb": measuring.peak_mb(),
            "beyond_model_mb": measuring.peak_mb() - before,
            "versions": measuring.versions("napari-maskinversion", "torch", "open-clip-torch"),
        }
        measuring.keep(out, f"{axis}:{value}", row)


def points(rows: dict[str, Any], axis: str) -> tuple[np.ndarray, np.ndarray, list[dict[str, Any]]]:
    chosen = sorted(
        (row for name, row in rows.items() if name.startswith(f"{axis}:")), key=lambda r: r[axis]
    )
    return np.array([r[axis] for r in chosen]), np.array([r["seconds"] for r in chosen]), chosen


def exponents(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Return the exponent fitted over all points, and the steepest between neighbours."""
    a, b = np.log(x.astype(float)), np.log(y)
    return float(np.polyfit(a, b, 1)[0]), float((np.diff(b) / np.diff(a)).max())


def report(rows: dict[str, Any]) -> tuple[str, bool]:
    """Return tables of all axes, and whether the exponents are within their limits."""
    lines, good = [], True
    for axis in AXES:
        x, y, points_shown = points(rows, axis)
        if len(x) < 2:
            continue
        fitted, steepest = exponents(x, y)
        limit = LIMITS.get(axis)
        good &= limit is None or fitted <= limit
        wanted = f", at most {limit}" if limit else ""
        lines += [
            f"{axis}: exponent {fitted:.2f}{wanted}; steepest between neighbours {steepest:.2f}",
            "",
            f"| {axis} | seconds | runs | arithmetic limit | of the limit | beyond the model, MB |",
            "|---|---|---|---|---|---|",
        ]
        lines += [
            f"| {r[axis]} | {r['seconds']:.2f} | {len(r['runs'])} | {r['limit_seconds']:.2f} s "
            f"| {r['limit_seconds'] / r['seconds']:.0%} | {r['beyond_model_mb']} |"
            for r in points_shown
        ]
        lines.append("")
    return "\n".join(lines), good


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--axes", nargs="+", default=list(AXES), choices=list(AXES))
    parser.add_argument("--points", nargs="+", type=int, help="of a single axis (tokens: pixels)")
    parser.add_argument("--patience", type=float, default=8.0)
    parser.add_argument("--out", type=Path, default=measuring.RESULTS / "scaling.json")
    chosen = parser.parse_args()
    if chosen.points and len(chosen.axes) != 1:
        parser.error("--points needs exactly one axis in --axes")
    for axis in chosen.axes:
        measure(axis, chosen.patience, tuple(chosen.points or AXES[axis]), chosen.out)
    text, good = report(measuring.read(chosen.out)["rows"])
    print(text)
    if not good:
        print("An exponent is above its limit.", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
