"""Inversions beside busy programs, by how long OpenMP threads spin: ``python benchmarks/busy.py``.

PyTorch's OpenMP threads on Linux (libgomp) wait for one another after every parallel loop. They
spin for up to 300,000 turns before they sleep, and so take the time of the thread that they wait
for, if other programs use the processor. GOMP_SPINCOUNT shortens this; it is read when PyTorch is
loaded, so each row is a process of its own. A call encodes an image of 256 px with the demo model
and inverts 16 masks. Shown is the best of three processes. Results do not depend on it.
Writes benchmarks/results/busy.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import measuring

SPINS = ("300000", "20000", "1000")
SECONDS = 3.0


def calls_per_second() -> float:
    """Return how many calls this process makes in a second."""
    from napari_maskinversion import MaskInverter, load_model

    inverter = MaskInverter(load_model("demo"))
    image = measuring.np.random.default_rng(0).integers(0, 255, (256, 256, 3)).astype("uint8")
    masks = measuring.np.zeros((16, 256, 256), bool)
    for index, mask in enumerate(masks):
        y, x = index // 4 * 60, index % 4 * 60
        mask[y : y + 50, x : x + 50] = True

    def call() -> None:
        inverter.set_image(image)
        inverter.invert(masks)

    call()
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < SECONDS:
        call()
        count += 1
    return count / (time.perf_counter() - start)


def in_a_process(environment: dict[str, str]) -> float:
    """Return `calls_per_second` of a new process."""
    command = [sys.executable, __file__, "--once"]
    shown = subprocess.run(
        command, env=os.environ | environment, check=True, capture_output=True, text=True
    )
    return float(json.loads(shown.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--busy", type=int, default=2, help="number of busy programs")
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=measuring.RESULTS / "busy.json")
    chosen = parser.parse_args()
    if chosen.once:
        print(json.dumps(calls_per_second()))
        return
    rows = [{"GOMP_SPINCOUNT": spin} for spin in SPINS] + [{"OMP_NUM_THREADS": "1"}]
    report: dict[str, Any] = {"about": measuring.about() | {"command": "python benchmarks/busy.py"}}
    for busy in (0, chosen.busy):
        others = [subprocess.Popen([sys.executable, "-c", "while 1: pass"]) for _ in range(busy)]
        try:
            for row in rows:
                title = " ".join(f"{name}={value}" for name, value in row.items())
                best = round(max(in_a_process(row) for _ in range(3)), 2)
                report.setdefault(f"{busy} busy programs", {})[title] = best
                print(f"{busy} busy programs, {title}: {best} calls a second", flush=True)
        finally:
            for other in others:
                other.kill()
    measuring.write(chosen.out, report)


if __name__ == "__main__":
    main()
