"""Seconds and memory of caption banks on the demo model: ``python benchmarks/captions.py``.

Builds a bank of synthetic captions and searches it, each in a process of its own, for 10,000
captions, with ``--million`` also for 1,000,000 and with ``--counts`` for others; keeps the figures
in benchmarks/results/captions.json. The million take a while: ``--folder`` keeps the bank, and the
next call goes on with what is there (its seconds are then those of the rest; ``embedded`` says how
many captions they are for).
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import measuring
import numpy as np

COLOURS = ["red", "green", "blue", "yellow", "black", "white", "brown", "grey", "pink", "orange"]
SIZES = ["small", "large", "old", "new", "tall", "broken", "shiny", "round", "wet", "tiny"]
THINGS = [
    "apple",
    "car",
    "house",
    "fish",
    "key",
    "bus",
    "bird",
    "tree",
    "boat",
    "chair",
    "dog",
    "cup",
    "hat",
    "shoe",
    "drum",
    "kite",
]
PLACES = [
    "on a table",
    "in the snow",
    "by the sea",
    "under a bridge",
    "at night",
    "in a field",
    "on a wall",
]


def caption(number: int) -> str:
    """Return a sentence of its own for each number."""
    rest, parts = number, []
    for words in (COLOURS, SIZES, THINGS, PLACES):
        rest, place = divmod(rest, len(words))
        parts.append(words[place])
    colour, size, thing, where = parts
    return f"a photo of a {size} {colour} {thing} {where}, number {rest}"


def build(count: int, folder: Path) -> dict[str, Any]:
    from napari_maskinversion import load_model
    from napari_maskinversion.base.progress import listening
    from napari_maskinversion.language.captions.bank_building import build_bank
    from napari_maskinversion.language.captions.caption_files import read_captions

    file = folder / "captions.txt"
    if not file.exists():
        file.write_text("\n".join(map(caption, range(count))) + "\n", "utf-8")
    model = load_model("demo", device="cpu")
    model.encode_text(["a warm start"])
    model_mb = measuring.peak_mb()
    start = time.perf_counter()
    captions = read_captions(file)
    read = time.perf_counter()
    first: list[int] = []

    def note_first(news: Any) -> None:
        if not first:
            first.append(news.done)

    with listening(note_first):
        bank = build_bank(model, captions, folder / "bank")
    end = time.perf_counter()
    size = sum(part.stat().st_size for part in bank.folder.iterdir())
    return {
        "read_s": round(read - start, 2),
        "build_s": round(end - read, 2),
        "embedded": count - first[0] if first else 0,
        "disk_mb": round(size / 1e6, 1),
        "model_mb": model_mb,
        "build_peak_mb": measuring.peak_mb(),
    }


def search(folder: Path, repeat: int) -> dict[str, Any]:
    import torch  # noqa: F401 - its import is no part of the first search

    from napari_maskinversion.language.captions.bank import open_bank

    before = measuring.peak_mb()
    start = time.perf_counter()
    bank = open_bank(folder / "bank")
    figures: dict[str, Any] = {"open_s": round(time.perf_counter() - start, 3)}
    rng = np.random.default_rng(0)
    for regions in (1, 16, 200):
        seconds = []
        for _ in range(repeat + 1):
            unit = rng.standard_normal((regions, bank.record.embed_dim)).astype(np.float32)
            unit /= np.linalg.norm(unit, axis=1, keepdims=True)
            start = time.perf_counter()
            bank.search(unit, 5)
            seconds.append(time.perf_counter() - start)
        if regions == 1:
            figures["first_search_s"] = round(seconds[0], 4)  # looks for damage as well
        figures[f"search_{regions}_s"] = round(statistics.median(seconds[1:]), 4)
    return figures | {"torch_mb": before, "search_peak_mb": measuring.peak_mb()}


def apart(*arguments: str) -> dict[str, Any]:
    """Run a part of the benchmark in a fresh process, whose peak memory is its own."""
    command = [sys.executable, __file__, *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def measure(count: int, folder: Path, repeat: int) -> dict[str, Any]:
    place = folder / str(count)
    place.mkdir(parents=True, exist_ok=True)
    common = ("--counts", str(count), "--folder", str(place), "--repeat", str(repeat))
    return (
        {"captions": count} | apart("--part", "build", *common) | apart("--part", "search", *common)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--counts", nargs="+", type=int, default=[10_000])
    parser.add_argument("--million", action="store_true")
    parser.add_argument("--repeat", type=int, default=5, help="searches of each size, the median")
    parser.add_argument("--folder", type=Path, help="where banks stay; else they are removed")
    parser.add_argument("--out", type=Path, default=measuring.RESULTS / "captions.json")
    parser.add_argument("--part", choices=["build", "search"], help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.part == "build":
        print(json.dumps(build(chosen.counts[0], chosen.folder)))
        return
    if chosen.part == "search":
        print(json.dumps(search(chosen.folder, chosen.repeat)))
        return
    counts = [*chosen.counts, *([1_000_000] if chosen.million else [])]
    with tempfile.TemporaryDirectory() as scratch:
        for count in counts:
            row = measure(count, chosen.folder or Path(scratch), chosen.repeat)
            about = measuring.versions("torch", "numpy")
            measuring.keep(chosen.out, f"{count} captions", row | {"versions": about})
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
