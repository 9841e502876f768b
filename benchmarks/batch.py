"""Many images: throughput against the engine alone, and what kills cost.

python benchmarks/batch.py --images 1000

makes small images of 50 regions, and runs them by the bundled model: in memory without files (the
engine alone), by one process, two, and a Dask cluster of two; then two processes and the cluster
with a worker killed every 20 s, and a cluster whose scheduler is also killed and started again.
Results of the runs with kills are compared bit for bit with those of two undisturbed processes,
which compute with as many threads each. The engine alone is
measured again before and after each undisturbed run, on some of the images, since the speed of a
machine changes. Rows of `--only` some runs replace those in the file, the others stay.

On a machine that does other work, compare `cpu_s_per_image`, not `images_per_s`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from measuring import RESULTS, keep, load, processor, versions

SIDE, REGIONS = 224, 50
WORDS = "car,dog,cat,tree,house"
SAMPLED = 0.25  # seconds between two looks at the processes
MARK = "batch.json"
ENGINE = "engine"
BESIDE = 40  # images of the engine alone, before and after a run


def make(folder: Path, count: int) -> None:
    """Write images of coloured boxes on noise, and label images of them; always the same."""
    from skimage.io import imsave

    for part in ("images", "masks"):
        (folder / part).mkdir(parents=True)
    for number in range(count):
        rng = np.random.default_rng(number)
        image = rng.integers(90, 130, (SIDE, SIDE, 3), dtype=np.uint8)
        labels = np.zeros((SIDE, SIDE), np.uint8)
        for region in range(REGIONS):  # 7 by 8 places of 28 px
            y, x = 4 + 28 * (region // 8) + int(rng.integers(4)), 2 + 28 * (region % 8)
            high, wide = rng.integers(14, 24, 2)
            labels[y : y + high, x : x + wide] = region + 1
            image[y : y + high, x : x + wide] = rng.integers(0, 255, 3)
        name = f"image-{number:05d}.png"
        imsave(folder / "images" / name, image, check_contrast=False)
        imsave(folder / "masks" / name, labels, check_contrast=False)


def engine(folder: Path, count: int | None = None) -> dict[str, Any]:
    """Invert and rank the regions of images in memory; the first one is done once more before."""
    from napari_maskinversion import load_model, read_image, read_regions
    from napari_maskinversion.images.channels import as_source
    from napari_maskinversion.language.labels.presets import vocabulary_of
    from napari_maskinversion.pipeline.run import PlaneTask, run_planes
    from napari_maskinversion.results.settings import RunSettings

    model = load_model("demo", device="cpu")
    vocabulary = vocabulary_of(WORDS, (), None)
    tasks = []
    for image in sorted((folder / "images").iterdir())[:count]:
        rgb = read_image(image)
        regions = read_regions(folder / "masks" / image.name, rgb.shape)
        tasks.append(PlaneTask(source=as_source(rgb), regions=regions))
    settings = RunSettings(window="whole")
    run_planes(model, tasks[:1], vocabulary, settings)
    begun, cpu = time.perf_counter(), time.process_time()
    for task in tasks:
        run_planes(model, [task], vocabulary, settings)
    seconds, cpu = time.perf_counter() - begun, time.process_time() - cpu
    return {"images_per_s": len(tasks) / seconds, "cpu_s_per_image": cpu / len(tasks)}


def command(folder: Path, out: Path, *more: str) -> list[str]:
    files = ("--images", str(folder / "images"), "--regions", str(folder / "masks"))
    words = ("--labels", WORDS, "--window", "whole", "--device", "cpu", "--out", str(out))
    return [sys.executable, "-m", "napari_maskinversion", "batch", *files, *words, *more]


class Watch:
    """Memory and processor time of a program and all processes that it starts."""

    def __init__(self, *programs: subprocess.Popen[Any]) -> None:
        self.programs = list(programs)
        self.cpu: dict[tuple[int, float], float] = {}
        self.peaks: list[tuple[float, int]] = []
        self._begun = time.perf_counter()

    def look(self) -> list[psutil.Process]:
        """Take a sample; return the processes that do the work."""
        workers, largest = [], 0
        for process in self._all():
            try:
                key = (process.pid, process.create_time())
                times = process.cpu_times()
                self.cpu[key] = max(self.cpu.get(key, 0), times.user + times.system)
                largest = max(largest, process.memory_info().rss)
                if "spawn_main" in " ".join(process.cmdline()):
                    workers.append(process)
            except psutil.Error:
                continue
        self.peaks.append((time.perf_counter() - self._begun, largest))
        return workers

    def _all(self) -> Iterator[psutil.Process]:
        for program in self.programs:
            try:
                process = psutil.Process(program.pid)
                yield from [process, *process.children(recursive=True)]
            except psutil.Error:
                continue

    def memory(self) -> dict[str, int]:
        """Return the largest process in MiB, in the second and the last quarter of the time."""
        if not self.peaks:
            return {}
        whole = self.peaks[-1][0]
        quarter: Callable[[float], int] = lambda n: (  # noqa: E731
            max(
                (rss for at, rss in self.peaks if n * whole / 4 <= at <= (n + 1) * whole / 4),
                default=0,
            )
            >> 20
        )
        return {"second_quarter_mb": quarter(1), "last_quarter_mb": quarter(3)}


class Killer:
    """Kills a worker every few seconds, always in the same order of chance."""

    def __init__(self, every: float | None) -> None:
        self._every, self._chance = every, random.Random(0)
        self._next = time.perf_counter() + (every or 0)
        self.kills = 0

    def look(self, workers: list[psutil.Process]) -> None:
        if self._every is None or time.perf_counter() < self._next or not workers:
            return
        worker = self._chance.choice(sorted(workers, key=lambda one: one.pid))
        with_work = worker.pid
        try:
            os.kill(with_work, signal.SIGKILL)
        except ProcessLookupError:
            return
        self.kills += 1
        self._next = time.perf_counter() + self._every


def follow(words: list[str], out: Path, images: int, every: float | None) -> dict[str, Any]:
    """Run a batch to its end; return its figures."""
    begun = time.perf_counter()
    with (out.parent / f"{out.name}.log").open("wb") as log:
        program = subprocess.Popen(words, stderr=log)
        watch, killer = Watch(program), Killer(every)
        while program.poll() is None:
            killer.look(watch.look())
            time.sleep(SAMPLED)
    seconds = time.perf_counter() - begun
    assert program.returncode == 0, (out.parent / f"{out.name}.log").read_text()[-2000:]
    return figures(out, images, seconds, watch, killer)


def figures(out: Path, images: int, seconds: float, watch: Watch, killer: Killer) -> dict[str, Any]:
    ends = sorted(file.stat().st_mtime for file in out.glob(f"archives/*/{MARK}"))
    # Without the start of the program: from the first image that is done to the last one.
    rate = (len(ends) - 1) / (ends[-1] - ends[0]) if len(ends) > 1 else None
    return {
        "images": images,
        "seconds": round(seconds, 1),
        "images_per_s": rate,
        "cpu_s_per_image": sum(watch.cpu.values()) / images,
        "memory": watch.memory(),
        "kilobytes_per_image": _bytes(out) / 1e3 / images,
        "kills": killer.kills,
    }


def _bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


class Cluster:
    """A scheduler and two workers as programs of their own, started again when they end."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.log = (folder / "cluster.log").open("wb")
        self.scheduler = self._scheduler()
        self.workers = [self._worker() for _ in range(2)]

    def _scheduler(self) -> subprocess.Popen[bytes]:
        words = ("scheduler", "--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard")
        return self._start(*words)

    def _worker(self) -> subprocess.Popen[bytes]:
        return self._start(
            "worker", self.address, "--nthreads", "1", "--no-nanny", "--no-dashboard"
        )

    def _start(self, *words: str) -> subprocess.Popen[bytes]:
        words = (sys.executable, "-m", "distributed.cli.dask_" + words[0], *words[1:])
        # Two workers share the cores, as docs/howto/scale.md says.
        threads = {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // 2))}
        return subprocess.Popen(words, stdout=self.log, stderr=self.log, env=os.environ | threads)

    def look(self) -> None:
        """Start what has ended."""
        if self.scheduler.poll() is not None:
            self.scheduler = self._scheduler()
        for place, worker in enumerate(self.workers):
            if worker.poll() is not None:
                self.workers[place] = self._worker()

    def close(self) -> None:
        for program in (*self.workers, self.scheduler):
            program.kill()
            program.wait()
        self.log.close()


def restarted(folder: Path, out: Path, images: int, every: float) -> dict[str, Any]:
    """Run a batch by a cluster whose workers are killed, and its scheduler once, halfway."""
    cluster = Cluster(folder)
    killer, restarts = Killer(every), 0
    begun = time.perf_counter()
    try:
        with (out.parent / f"{out.name}.log").open("wb") as log:
            words = command(folder, out, "--dask", cluster.address)
            program = subprocess.Popen(words, stderr=log)
            watch = Watch(program)
            while program.poll() is None or restarts == 1:
                if program.poll() is not None:  # it ended with its scheduler
                    program = subprocess.Popen(words, stderr=log)
                    restarts = 2
                watch.programs = [program, cluster.scheduler, *cluster.workers]
                watch.look()
                killer.look([psutil.Process(one.pid) for one in cluster.workers])
                if not restarts and len(list(out.glob(f"archives/*/{MARK}"))) >= images / 2:
                    cluster.scheduler.kill()
                    cluster.scheduler.wait()
                    restarts = 1
                    time.sleep(2)
                cluster.look()
                time.sleep(SAMPLED)
    finally:
        cluster.close()
    seconds = time.perf_counter() - begun
    said = (out.parent / f"{out.name}.log").read_text()
    assert program.returncode == 0, said[-2000:]
    row = figures(out, images, seconds, watch, killer)
    return {**row, "scheduler_restarts": int(restarts > 0), "said": said.count("went away")}


def compared(out: Path, whole: Path, images: int) -> dict[str, Any]:
    """Compare the results of two batches."""
    import pandas as pd

    ours, theirs = (
        {file.parent.name: file for file in one.glob("archives/*/results.npz")}
        for one in (out, whole)
    )
    different = 0
    for name in ours.keys() & theirs.keys():
        with np.load(ours[name]) as one, np.load(theirs[name]) as other:
            arrays = set(one.files) - {"record"}  # which has the number of the run
            different += any(one[key].tobytes() != other[key].tobytes() for key in arrays)
    tables = [pd.read_parquet(one / "regions.parquet") for one in (out, whole)]
    tables = [table.sort_values(["image", "region"]).reset_index(drop=True) for table in tables]
    return {
        "lost": images - len(ours),
        "different": different,
        "rows": len(tables[0]),
        "rows_twice": int(tables[0].duplicated(["image", "region"]).sum()),
        "table_equal": tables[0].equals(tables[1]),
        "leftovers": sum(file.name.startswith(".") for file in out.rglob("*")),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--kill-every", type=float, default=20.0, help="seconds")
    parser.add_argument("--folder", type=Path, help="keep images and results there")
    parser.add_argument("--only", help="names of the runs, separated by semicolons")
    parser.add_argument("--engine", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--first", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path, default=RESULTS / "batch.json")
    arguments = parser.parse_args()
    if arguments.engine:
        print(json.dumps(engine(arguments.engine, arguments.first)))
        return
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="batch-"))
    images, every = arguments.images, arguments.kill_every
    if not (folder / "images").exists():
        make(folder, images)
    outs = {
        "one process": ("one", (), None),
        "2 processes": ("two", ("--workers", "2"), None),
        "Dask, 2 workers": ("dask", ("--dask", "local", "--workers", "2"), None),
        "2 processes, killed": ("two-killed", ("--workers", "2"), every),
        "Dask, 2 workers, killed": ("dask-killed", ("--dask", "local", "--workers", "2"), every),
    }
    runs: dict[str, Callable[[], dict[str, Any]]] = {
        ENGINE: lambda: own_process("--engine", folder)
    }
    for name, (out, more, kills) in outs.items():
        words = command(folder, folder / out, *more)
        runs[name] = lambda words=words, out=out, kills=kills: follow(
            words, folder / out, images, kills
        )
    last = "Dask at an address, workers and scheduler killed"
    outs[last] = ("restarted", (), every)
    runs[last] = lambda: restarted(folder, folder / "restarted", images, every)
    wanted = arguments.only.split(";") if arguments.only else list(runs)
    if unknown := set(wanted) - set(runs):
        parser.error(f"there is no run {sorted(unknown)}; choose from {'; '.join(runs)}")
    for name, run in runs.items():
        if name not in wanted:
            continue
        before = load()
        if name in outs:
            shutil.rmtree(folder / outs[name][0], ignore_errors=True)
        beside = name in outs and outs[name][2] is None
        rates = [own_process("--engine", folder, BESIDE)["images_per_s"]] if beside else []
        row = {"images": images, "regions": REGIONS, **run(), "load_before": before}
        if beside:
            rates.append(own_process("--engine", folder, BESIDE)["images_per_s"])
            row["engine_images_per_s"] = rates
            row["of_the_engine"] = row["images_per_s"] / (sum(rates) / len(rates))
        row["command"] = f"python benchmarks/batch.py --images {images} --kill-every {every:.0f}"
        row |= {"processor": processor(), "cores": os.cpu_count(), "kill_every_s": every}
        row["versions"] = versions("torch", "distributed")
        if every and row.get("kills") and (folder / "two").exists():
            row["against_undisturbed"] = compared(folder / outs[name][0], folder / "two", images)
        keep(arguments.json, name, row)
        print(name, json.dumps(row), flush=True)
    if arguments.folder is None:
        shutil.rmtree(folder)


def own_process(what: str, folder: Path, count: int | None = None) -> dict[str, Any]:
    """Measure in a process that has done nothing else."""
    words = [sys.executable, __file__, what, str(folder)]
    words += [] if count is None else ["--first", str(count)]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


if __name__ == "__main__":
    main()
