"""Measure how close a whole call comes to the machine's limit:  ``python benchmarks/limit.py``

``--one-thread`` measures processor time of one thread, for a machine that has other work to do.

ViT-B/16 with random weights, K = 10, float32. A call is `set_image_tensor` and `invert`. Its limit
is the multiply-adds of image and closed form, by the cheaper route, at the rate of the engine's own
matrix product. The rate and all calls are measured in turns in one run, so that other work on the
machine hits all of them; medians are compared. "noise" is an image whose patches have
nothing in common, so that ``fast`` cannot compress; "all fail" sets the tolerances of its checks to
zero, so that every mask goes through the exact loop after the estimates were made (with random
weights no image makes them fail); "more" is one more mask on an image that is set; the rows of
bfloat16 need a processor that has it (the aim is of one with AMX). Prints a Markdown table and
writes benchmarks/results/limit.json.
"""

from __future__ import annotations

import argparse
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import measuring
import scaling
import torch

from napari_maskinversion import InversionConfig, MaskInverter, wrap_open_clip
from napari_maskinversion.engine.compute.matmul import has_precision
from napari_maskinversion.engine.invert import fast
from napari_maskinversion.results.run_info import Machine

EXACT, FAST = InversionConfig(), InversionConfig(fast=True)
BFLOAT16 = InversionConfig(precision="bfloat16")
# Row, what its seconds are compared with, largest ratio that is aimed at.
AIMS = (
    ("exact 5 x 448", "limit 5 x 448", 1.25),
    ("exact 50 x 224", "limit 50 x 224", 1.25),
    ("fast 5 x 448", "exact 5 x 448", round(1 / 1.9, 2)),
    ("fast 50 x 224", "exact 50 x 224", round(1 / 1.9, 2)),
    ("fast 5 x 448, noise", "exact 5 x 448, noise", 1.15),
    ("fast 5 x 448, all fail", "exact 5 x 448", 1.15),
    ("fast 1 more, 448", "fast 1 first, 448", 0.25),
    ("bfloat16 5 x 448", "exact 5 x 448", round(1 / 2.2, 2)),
    ("bfloat16 50 x 224", "exact 50 x 224", round(1 / 2.2, 2)),
)


def calls() -> dict[str, Callable[[], object]]:
    """Return what is measured, by the name of its row."""
    model = wrap_open_clip(measuring.random_clip())
    noise = torch.randn(1, 3, 448, 448, generator=torch.Generator().manual_seed(0))

    def whole(masks: int, side: int, config: InversionConfig, image: Any = None) -> Any:
        stack = measuring.boxes(masks, side)
        pixels = measuring.picture(side) if image is None else image

        def call() -> str:
            inverter = MaskInverter(model)
            inverter.set_image_tensor(pixels, config)
            return inverter.invert(stack, config).route

        return call

    def all_fail() -> None:
        with mock.patch.object(fast, "_GRADIENT_TOLERANCES", (0.0, 0.0)):
            route = fast_call()
        assert route.endswith("5 of 5 exact"), route

    fast_call = whole(5, 448, FAST)

    kept, one = MaskInverter(model), measuring.boxes(1, 448)
    kept.set_image_tensor(measuring.picture(448))
    kept.invert(one, FAST)
    work = {
        "exact 5 x 448": whole(5, 448, EXACT),
        "fast 5 x 448": whole(5, 448, FAST),
        "exact 50 x 224": whole(50, 224, EXACT),
        "fast 50 x 224": whole(50, 224, FAST),
        "exact 5 x 448, noise": whole(5, 448, EXACT, noise),
        "fast 5 x 448, noise": whole(5, 448, FAST, noise),
        "fast 5 x 448, all fail": all_fail,
        "fast 1 first, 448": whole(1, 448, FAST),
        "fast 1 more, 448": lambda: kept.invert(one, FAST),
    }
    if has_precision("bfloat16", torch.device("cpu")):
        work["bfloat16 5 x 448"] = whole(5, 448, BFLOAT16)
        work["bfloat16 50 x 224"] = whole(50, 224, BFLOAT16)
    return work


def measure(rounds: int) -> Iterator[dict[str, list[float]]]:
    """Yield the seconds of all calls, and of their limits, of the rounds so far."""
    seconds: dict[str, list[float]] = defaultdict(list)
    work = calls()
    for call in work.values():
        call()
    for _ in range(rounds):
        rate = measuring.engine_gflops() * 1e9
        for name, call in work.items():
            seconds[name].append(measuring.timed(call))
        rate = max(rate, measuring.engine_gflops() * 1e9)
        for masks, side in ((5, 448), (50, 224)):
            limit = 2 * scaling.multiply_adds(masks, side, 10) / rate
            seconds[f"limit {masks} x {side}"].append(limit)
        yield seconds


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=measuring.RESULTS / "limit.json")
    parser.add_argument("--one-thread", action="store_true")
    chosen = parser.parse_args()
    if chosen.one_thread:
        measuring.use_one_thread()
    for seconds in measure(chosen.rounds):
        report(seconds, chosen.out)


def report(seconds: dict[str, list[float]], out: Path) -> None:
    """Print a table and keep its rows."""
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    machine = Machine.of(torch.device("cpu"), 0)
    print(f"{machine.processor}, {machine.threads} threads, {machine.library}\n")
    print("| call | seconds | compared with | seconds | ratio | aim, at most |")
    print("|---|---|---|---|---|---|")
    for name, other, aim in AIMS:
        if name not in medians:
            print(f"| {name} | not measured: this processor has no bfloat16 | | | | {aim} |")
            continue
        ratio = medians[name] / medians[other]
        row = {
            "seconds": round(medians[name], 3),
            "runs": [round(value, 3) for value in seconds[name]],
            "compared_with": other,
            "other_seconds": round(medians[other], 3),
            "ratio": round(ratio, 2),
            "aim": aim,
            "processor": machine.processor,
            "library": machine.library,
            "threads": machine.threads,
        }
        measuring.keep(out, name, row)
        print(
            f"| {name} | {medians[name]:.2f} | {other} | {medians[other]:.2f} | {ratio:.2f} "
            f"| {aim} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
