"""Measure large images and many regions: memory, time, tiles read, accuracy.

    python benchmarks/large.py build            # the test files, from the shared aerial tiles
    python benchmarks/large.py run              # all of it in this process: memory, reads, time
    python benchmarks/large.py command          # the same as a user runs it: memory of the command
    python benchmarks/large.py accuracy         # shared windows against each region alone
    python benchmarks/large.py cells            # ten thousand cells on one plane

Each but the first writes its row to ``results/large.json``. ``build`` needs the photographs' folder
in ``NAPARI_MASKINVERSION_DATA`` and uses its test tiles only. Start each from a shell: a large
parent process would count towards the memory of its child.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from measuring import RESULTS, keep, peak_mb

CLASSES = ("building", "unpaved land", "road", "vegetation", "water")
CELL = 1128  # pixels: the largest photograph fits
TILE = 256
TEST_TILES = (3, 5, 6)
LEAST = 400  # pixels of a region
METRES = 0.3  # per pixel; made up, for the georeference
FILES = Path(tempfile.gettempdir()) / "maskinversion-large"


def photographs() -> list[tuple[np.ndarray, np.ndarray]]:
    """Image and class map of each test photograph."""
    from PIL import Image

    folder = os.environ.get("NAPARI_MASKINVERSION_DATA")
    if not folder:
        raise SystemExit("Set NAPARI_MASKINVERSION_DATA to the folder of the photographs.")
    root = Path(folder) / "dubai-aerial"
    files = [f for n in TEST_TILES for f in sorted((root / "images").glob(f"tile{n}_*.jpg"))]
    return [
        (
            np.asarray(Image.open(file).convert("RGB")),
            np.asarray(Image.open(root / "labels" / f"{file.stem}.png")),
        )
        for file in files
    ]


def build(folder: Path, side: int, count: int) -> None:
    """Write the mosaic (a tiled JPEG pyramid with a georeference), its labels and their names."""
    import tifffile
    from skimage.measure import label, regionprops

    rng = np.random.default_rng(0)
    pictures = photographs()
    across = max(1, side // CELL)
    cells = rng.permutation(across * across)
    mosaic = np.zeros((side, side, 3), np.uint8)
    labels = np.zeros((side, side), np.uint16)
    parts: dict[int, list[tuple[int, int, Any]]] = defaultdict(list)
    for number, cell in enumerate(cells):
        y, x = CELL * (cell // across), CELL * (cell % across)
        pixels, classes = pictures[number % len(pictures)]
        if number < len(pictures):  # the others are rotated and not measured
            for props in regionprops(label(classes, background=0, connectivity=1)):
                if props.area >= LEAST:
                    parts[int(classes[tuple(props.coords[0])])].append((y, x, props))
        else:
            pixels = np.rot90(pixels[:, ::-1] if number % 2 else pixels, number % 4)
        room = [(0, CELL - length) for length in pixels.shape[:2]]
        mosaic[y : y + CELL, x : x + CELL] = np.pad(pixels, (*room, (0, 0)), mode="reflect")
    # Round the classes, so that water comes as often as buildings, while there is some.
    queue = [[(name, item) for item in rng.permutation(np.array(waiting, object)).tolist()]
             for name, waiting in sorted(parts.items())]  # fmt: skip
    truth: dict[int, str] = {}
    while any(queue) and len(truth) < count:
        for waiting in queue:
            if waiting and len(truth) < count:
                name, (y, x, props) = waiting.pop()
                truth[len(truth) + 1] = CLASSES[name - 1]
                rows, columns = props.coords.T
                labels[rows + y, columns + x] = len(truth)
    folder.mkdir(parents=True, exist_ok=True)
    geo = [
        (33550, "d", 3, (METRES, METRES, 0.0), True),
        (33922, "d", 6, (0.0, 0.0, 0.0, 330000.0, 2790000.0, 0.0), True),
        (34735, "H", 16, (1, 1, 0, 3, 1024, 0, 1, 1, 1025, 0, 1, 1, 3072, 0, 1, 32640), True),
    ]
    options: dict[str, Any] = {"tile": (TILE, TILE), "photometric": "rgb", "compression": "jpeg"}
    levels = max(0, int(np.log2(side / 512)))
    with tifffile.TiffWriter(folder / "mosaic.tif", bigtiff=True) as file:
        file.write(mosaic, subifds=levels, extratags=geo, **options)
        for _ in range(levels):
            rows, columns = mosaic.shape[0] // 2 * 2, mosaic.shape[1] // 2 * 2
            halves = [mosaic[i:rows:2, j:columns:2] for i in (0, 1) for j in (0, 1)]
            mosaic = np.asarray(np.sum(halves, axis=0, dtype=np.uint16) // 4, np.uint8)
            file.write(mosaic, subfiletype=1, **options)
    tifffile.imwrite(folder / "labels.tif", labels, tile=(512, 512), compression="zlib")
    (folder / "truth.json").write_text(json.dumps(truth))
    print(f"{len(truth)} regions, {levels + 1} levels, {side} x {side} px in {folder}")


class Reads:
    """Count the tiles requested from TIFF files."""

    def __init__(self) -> None:
        import tifffile.zarr

        self.tiles: dict[tuple[str, int], list[str]] = defaultdict(list)
        store = tifffile.zarr.ZarrTiffStore
        start, get, tiles = store.__init__, store.get, self.tiles
        about: dict[int, tuple[str, int]] = {}

        def counted_start(this: Any, arg: Any, *rest: Any, level: Any = None, **more: Any) -> None:
            about[id(this)] = (Path(arg.parent.filehandle.path).name, level or 0)
            start(this, arg, *rest, level=level, **more)

        async def counted_get(this: Any, key: str, *rest: Any, **more: Any) -> Any:
            if key[-1].isdigit():  # not metadata
                tiles[about[id(this)]].append(key)
            return await get(this, key, *rest, **more)

        store.__init__, store.get = counted_start, counted_get

    def of(self, name: str) -> list[tuple[int, str]]:
        return [(level, key) for (file, level), keys in self.tiles.items() if file == name
                for key in keys]  # fmt: skip


def needed(windows: Any, levels: Any) -> set[tuple[int, str]]:
    """Count the tiles below the windows, and those of the coarsest level."""
    coarsest = len(levels) - 1
    boxes = [(coarsest, (0, 0, *levels[-1].shape))]
    boxes += [(window.level, window.level_box) for window in windows]
    return {
        (level, f"{y}.{x}.0")
        for level, (top, left, bottom, right) in boxes
        for y in range(top // TILE, -(-min(bottom, levels[level].shape[0]) // TILE))
        for x in range(left // TILE, -(-min(right, levels[level].shape[1]) // TILE))
    }


class Memory:
    """Measure the peak resident memory from now on, in MiB, minus the present use."""

    def __init__(self) -> None:
        try:  # Linux: reset the peak
            Path("/proc/self/clear_refs").write_text("5")
            self._before = self._status("VmRSS")
        except OSError:
            self._before = peak_mb()

    @staticmethod
    def _status(name: str) -> int:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1]) // 1024
        return peak_mb()

    def row(self) -> dict[str, int]:
        peak = self._status("VmHWM") if Path("/proc/self/status").exists() else peak_mb()
        return {
            "with_model_mb": self._before,
            "peak_mb": peak,
            "beyond_model_mb": peak - self._before,
        }


def open_inputs(folder: Path, image: str, labels: str) -> tuple[Any, Any, Any]:
    """Read the inputs like the command line."""
    from napari_maskinversion.images.opening import open_image
    from napari_maskinversion.regions.region_reading import read_regions

    stack = open_image(folder / image)
    source = stack.source()
    return source, read_regions(folder / labels, source.shape), stack.units


def follow(show: str, *run: Any, **options: Any) -> tuple[Any, float]:
    """Run the pipeline; return its results and the time of the first regions."""
    from napari_maskinversion.base.progress import listening
    from napari_maskinversion.pipeline.run import run_planes

    begun, first, said = time.perf_counter(), 0.0, 0.0

    def hear(news: Any) -> None:
        nonlocal first, said
        passed = time.perf_counter() - begun
        if hasattr(news, "so_far"):
            first = first or passed
        elif passed - said > 20:
            said = passed
            print(f"{show} {news.fraction:.0%} after {passed:.0f} s", flush=True)

    with listening(hear):
        results = run_planes(*run, **options)
    return results, first


def measure(
    arguments: Any, folder: Path, image: str, labels: str, vocabulary: Any
) -> tuple[Any, dict[str, Any], Any, Any]:
    """Load, estimate and run; return results and figures."""
    from napari_maskinversion import InversionConfig, load_model
    from napari_maskinversion.images.windows import WindowConfig, plan_windows
    from napari_maskinversion.pipeline.estimate import estimate
    from napari_maskinversion.pipeline.run import PlaneTask, check_tasks

    model = load_model(arguments.model, device="cpu")
    config = InversionConfig(steps=arguments.steps)
    memory = Memory()
    begun = time.perf_counter()
    source, regions, units = open_inputs(folder, image, labels)
    tasks = [PlaneTask(source=source, regions=regions)]
    check_tasks(tasks)
    opened = time.perf_counter()
    sides: dict[str, Any] = {"resolution": model.working_resolution, "patch": model.patch_size}
    windows = plan_windows(regions, source.levels, config=WindowConfig(), **sides)
    planned = time.perf_counter()
    device = str(model.device)
    size = estimate(
        tasks, model=model.name, device=device, config=config, window=WindowConfig(), **sides
    )
    print(size.text, flush=True)
    start = time.perf_counter()
    run = (model, tasks, vocabulary, config)
    results, first = follow(labels, *run, window=WindowConfig(), units=units)
    row = {
        "model": model.name,
        "image": list(source.shape),
        "regions": len(regions),
        "windows": len(windows),
        "steps": config.steps,
        **memory.row(),
        "seconds": {
            "open_and_read_labels": round(opened - begun, 2),
            "plan": round(planned - opened, 2),
            "first_regions": round(first, 2),
            "run": round(time.perf_counter() - start, 1),
            "estimated": None if size.seconds is None else round(size.seconds, 1),
        },
    }
    return results, row, windows, source


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    folder = arguments.folder / str(arguments.side)
    reads = Reads()
    truth = json.loads((folder / "truth.json").read_text())
    results, row, windows, source = measure(
        arguments, folder, "mosaic.tif", "labels.tif", names(arguments)
    )
    read, wanted = reads.of("mosaic.tif"), needed(windows, source.levels)
    tiles = sum(-(-lv.shape[0] // TILE) * -(-lv.shape[1] // TILE) for lv in source.levels)
    return row | {
        "tiles": {
            "in_the_file": tiles,
            "needed": len(wanted),
            "read": len(set(read)),
            "read_but_not_needed": len(set(read) - wanted),
            "reads_in_all": len(read),
        },
        "accuracy": accuracy_of(results, truth),
    }


def command(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run the command `run` with its files of results; return its memory from start to end."""
    folder = arguments.folder / str(arguments.side)
    with tempfile.TemporaryDirectory() as out:
        line = [sys.executable, "-m", "napari_maskinversion", "run", "mosaic.tif", "labels.tif"]
        line += ["--labels", ",".join(CLASSES), "--model", arguments.model, "--device", "cpu"]
        line += ["--steps", str(arguments.steps), "--out", out]
        begun = time.perf_counter()
        subprocess.run(line, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        seconds = time.perf_counter() - begun
        written = sum(file.stat().st_size for file in Path(out).iterdir())
    return {
        "model": arguments.model,
        "image": [arguments.side] * 2,
        "steps": arguments.steps,
        "peak_mb": peak_mb(children=True),
        "seconds": round(seconds, 1),
        "written_mb": round(written / 2**20, 1),
    }


def accuracy(arguments: argparse.Namespace) -> dict[str, Any]:
    """Compare macro top-1 of shared windows and of one window per region."""
    from napari_maskinversion import InversionConfig, load_model
    from napari_maskinversion.images.windows import WindowConfig
    from napari_maskinversion.pipeline.run import PlaneTask

    folder = arguments.folder / str(arguments.side)
    truth = json.loads((folder / "truth.json").read_text())
    model = load_model(arguments.model, device="cpu")
    source, regions, _ = open_inputs(folder, "mosaic.tif", "labels.tif")
    together = [PlaneTask(source=source, regions=regions)]
    alone = [PlaneTask(source=source, regions=regions[i : i + 1]) for i in range(len(regions))]
    shares = {}
    for windows, tasks in (("shared", together), ("alone", alone)):
        config = InversionConfig(steps=arguments.steps)
        results, _ = follow(windows, model, tasks, names(arguments), config, window=WindowConfig())
        shares[windows] = accuracy_of(results, truth) | {"windows": len(results.windows)}
    difference = shares["shared"]["macro"] - shares["alone"]["macro"]
    return {"model": model.name, "regions": len(regions), **shares, "points": round(difference, 1)}


def accuracy_of(results: Any, truth: dict[str, str]) -> dict[str, Any]:
    """Return the per cent of right names, by class and averaged over classes."""
    right = defaultdict(list)
    for region in results.regions:
        right[truth[str(region.id)]].append(region.ranking.labels[0] == truth[str(region.id)])
    shares = {name: round(100 * float(np.mean(hits)), 1) for name, hits in sorted(right.items())}
    counts = {name: len(hits) for name, hits in sorted(right.items())}
    macro = round(float(np.mean(list(shares.values()))), 1)
    return {"macro": macro, "by_class": shares, "regions_by_class": counts}


def names(arguments: argparse.Namespace) -> Any:
    from napari_maskinversion.language.labels.vocabulary import TEMPLATES, Vocabulary

    return Vocabulary(CLASSES, TEMPLATES[arguments.template])


def build_cells(folder: Path, count: int) -> None:
    """A plane of ellipses of 8 to 30 px, 60 px apart, 16 bits; labels of 32."""
    import tifffile

    rng = np.random.default_rng(0)
    across = int(np.ceil(np.sqrt(count)))
    image = rng.normal(900, 60, (60 * across, 60 * across)).astype(np.float32)
    labels = np.zeros(image.shape, np.int32)
    for number in range(count):
        y, x = 60 * (number // across), 60 * (number % across)
        high, wide = rng.uniform(4, 15, 2)
        cy, cx = rng.uniform(18, 42, 2)
        rows, columns = np.ogrid[:60, :60]
        cell = ((rows - cy) / high) ** 2 + ((columns - cx) / wide) ** 2 <= 1
        labels[y : y + 60, x : x + 60][cell] = number + 1
        image[y : y + 60, x : x + 60][cell] += rng.uniform(1500, 9000)
    folder.mkdir(parents=True, exist_ok=True)
    tifffile.imwrite(folder / "cells.tif", image.clip(0, 65535).astype(np.uint16),
                     tile=(TILE, TILE), compression="zlib")  # fmt: skip
    tifffile.imwrite(folder / "cell-labels.tif", labels, tile=(512, 512), compression="zlib")


def cells(arguments: argparse.Namespace) -> dict[str, Any]:
    from napari_maskinversion.language.labels.vocabulary import Vocabulary

    folder = arguments.folder / f"cells-{arguments.count}"
    if not (folder / "cell-labels.tif").exists():
        # In a separate process: its memory is not measured.
        command = [sys.executable, __file__, "build-cells", "--folder", str(arguments.folder)]
        subprocess.run([*command, "--count", str(arguments.count)], check=True)
    vocabulary = Vocabulary(("fluorescent nucleus", "red blood cell", "road"))
    _, row, _, _ = measure(arguments, folder, "cells.tif", "cell-labels.tif", vocabulary)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "what", choices=["build", "run", "command", "accuracy", "build-cells", "cells"]
    )
    parser.add_argument("--folder", type=Path, default=FILES)
    parser.add_argument("--side", type=int, default=20_000, help="pixels of the mosaic")
    parser.add_argument("--regions", type=int, default=400)
    parser.add_argument("--count", type=int, default=10_000, help="cells")
    parser.add_argument("--model", default="demo", help="name, or a folder with a checkpoint")
    parser.add_argument("--template", default="aerial")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--json", type=Path, default=RESULTS / "large.json")
    arguments = parser.parse_args()
    if arguments.what == "build":
        build(arguments.folder / str(arguments.side), arguments.side, arguments.regions)
    elif arguments.what == "build-cells":
        build_cells(arguments.folder / f"cells-{arguments.count}", arguments.count)
    else:
        work = {"run": run, "accuracy": accuracy, "cells": cells, "command": command}[
            arguments.what
        ]
        row = work(arguments)
        size = arguments.count if arguments.what == "cells" else arguments.side
        keep(arguments.json, f"{arguments.what}-{size}", row)
        print(json.dumps(row, indent=2))


if __name__ == "__main__":
    main()
