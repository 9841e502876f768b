"""Run the checks and all tests on all cores; `scripts/test.sh` sets up the environment.

Each unit (a folder of tests, or a check such as mypy) is a process of its own. Workers take the
next unit from one list, longest first by the times that were kept, so that no core waits for
another. There is one more than cores, since tests of the panel often wait for a timer. A unit's
output comes whole, when it has ended.

    python scripts/tests.py            the daily command
    python scripts/tests.py --quick    checks, and the tests of what a change touches
    python scripts/tests.py --all      also what is marked `full`, and five rounds of attacks
    python scripts/tests.py --keep     keep where the time went (benchmarks/results/)
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

import psutil

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests"
TIMES = ROOT / "benchmarks" / "results" / "test-times.json"
REPORTS = ROOT / ".cache" / "tests"  # a JUnit file a unit
BIN = Path(sys.executable).parent
SPLIT = ("engine", "_napari")  # their folders are units, so that none is much longer than others
# Units that are short share a process, since starting one takes 12 s of a processor. Most tests of
# the panel share one window; folders whose tests open many have a process of their own: what
# windows leave makes others slow.
TOGETHER = (
    (
        *("tests/_napari/panel", "tests/_napari/run"),
        *("tests/_napari/model", "tests/_napari/widgets"),
    ),
    (
        *("tests/_napari/review", "tests/_napari/results", "tests/_napari/workers"),
        *("tests/_napari/vocabulary", "tests/_napari/explore"),
        *("tests/_napari/library", "tests/app"),
    ),
    (
        *("tests/_napari/inputs", "tests/_napari/layers", "tests/_napari/plugin"),
        "tests/_napari/sam",
    ),
    (
        *("tests/base", "tests/images", "tests/results", "tests/review", "tests/doctor"),
        *("tests/regions", "tests/field", "tests/library"),
    ),
    (
        *("tests/language", "tests/diffusion", "tests/demo_model", "tests/bench"),
        *("tests/benchmarks", "tests"),
    ),
    ("tests/cli", "tests/pipeline", "tests/learning"),
    ("tests/batch", "tests/docs"),
    ("tests/kill", "tests/fuzz"),  # they share the process that imports everything once
    (
        *("tests/engine", "tests/engine/compute", "tests/engine/encode", "tests/engine/explain"),
        *("tests/engine/invert", "tests/engine/methods", "tests/engine/models"),
    ),
)
RARE = ("research",)  # only with --all: nothing of it is installed
UNKNOWN = 150.0  # seconds of a unit that nobody has timed: as most take
CORE = ("tests/test_house.py", "tests/engine/invert", "tests/pipeline/test_run.py")
SHOWN = 15  # of the slowest tests
LIMIT = 1800.0  # seconds of a unit: the longest take 250 on two idle cores


@dataclass
class Unit:
    """A process: a check, or some tests with pytest."""

    name: str
    command: list[str]
    pytest: bool = False  # under a virtual display: windows may open
    tests: int = 0
    failed: int = 0
    seconds: float = 0.0
    limit: float = LIMIT
    code: int = 1  # until its process has ended well
    stuck: bool = False  # its process did not end after its tests: see tests/conftest.py
    slowest: list[tuple[float, str]] = field(default_factory=list)

    @property
    def report(self) -> Path:
        return REPORTS / f"{self.name.split()[0].replace('/', '-')}.xml"


def checks() -> list[Unit]:
    def tool(name: str, *arguments: str) -> Unit:
        return Unit(" ".join((name, *arguments[:1])).rstrip(" ."), [str(BIN / name), *arguments])

    return [
        tool("mypy"),
        tool("lint-imports"),
        tool("ruff", "check", "."),
        tool("ruff", "format", "--check", "."),
    ]


def places(*, full: bool) -> list[Path]:
    """Return the folders of tests that are units, and the files that lie beside them."""
    left_out = () if full else RARE
    folders = [path for path in sorted(TESTS.iterdir()) if path.is_dir()]
    folders = [path for path in folders if path.name not in left_out]
    found: list[Path] = []
    for folder in folders:
        if folder.name in SPLIT:
            found += [path for path in sorted(folder.iterdir()) if holds_tests(path)]
        elif holds_tests(folder):
            found.append(folder)
    return [*found, *sorted(TESTS.glob("test_*.py"))]


def holds_tests(path: Path) -> bool:
    if path.is_dir():
        return any(path.rglob("test_*.py"))
    return path.match("test_*.py")


def units_of(paths: Iterable[Path], pytest: list[str]) -> list[Unit]:
    """Return units of tests: folders, those of `TOGETHER`, and the files of a folder."""
    groups: dict[str, list[str]] = {}
    for path in paths:
        relative = path.relative_to(ROOT)
        name = (relative.parent if path.is_file() else relative).as_posix()
        name = next((" ".join(names) for names in TOGETHER if name in names), name)
        groups.setdefault(name, []).append(relative.as_posix())
    return [
        Unit(
            name,
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *pytest, *files],
            pytest=True,
        )
        for name, files in groups.items()
    ]


def touched() -> list[Path]:
    """Return the tests of what a change touches, or the core where it touches nothing."""

    def git(*arguments: str) -> list[str]:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
        return done.stdout.split()

    base = git("merge-base", "HEAD", "main") or ["HEAD"]
    head = git("rev-parse", "HEAD")
    since = "HEAD~1" if base == head else base[0]
    chosen: set[Path] = set()
    for name in {*git("diff", "--name-only", since), *git("ls-files", "-o", "--exclude-standard")}:
        path = ROOT / name
        if name.startswith("tests/") and path.match("test_*.py") and path.exists():
            chosen.add(path)
        elif name.startswith("benchmarks/drawn/"):
            chosen.add(TESTS / "benchmarks")
        elif name.startswith("src/napari_maskinversion/"):
            mirror = TESTS / Path(name).relative_to("src/napari_maskinversion").parent
            files = [*mirror.glob("test_*.py")] if mirror != TESTS else []
            chosen |= {TESTS / "test_house.py", *files}
    return sorted(chosen) or [ROOT / name for name in CORE]


def run(unit: Unit, number: int, lock: threading.Lock) -> None:
    command = list(unit.command)
    if unit.pytest:
        command += [f"--junitxml={unit.report}"]
        if sys.platform == "linux":
            # Always a virtual display, so that no window flickers over the user's own.
            display = ["xvfb-run", "-a", "-n", str(100 + 20 * number)]
            command = [*display, "-s", "-screen 0 1920x1200x24", *command]
    began = time.monotonic()
    # Into a file: what a test has left running would keep a pipe open.
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)
        try:
            process.wait(unit.limit)
        except subprocess.TimeoutExpired:
            stop(process)
            output.write(f"\nStopped after {unit.limit:.0f} s.\n")
        output.seek(0)
        said = output.read()
    unit.seconds, unit.code = time.monotonic() - began, process.returncode
    unit.stuck = "The tests have ended, but not their process" in said
    if unit.pytest:
        read_report(unit)
        if unit.code == 5:  # no test is left after -m
            unit.code = 0
    with lock:
        print(f"\n=== {unit.name}: {unit.seconds:.0f} s, exit {unit.code}\n{said}", flush=True)


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a process and those that it started, where pytest says where it stood."""
    started = psutil.Process(process.pid).children(recursive=True)
    with suppress(subprocess.TimeoutExpired):
        for one in [*started, process]:
            # pytest answers it with the traceback of each thread; Windows knows no such signal.
            with suppress(psutil.NoSuchProcess, ProcessLookupError, ValueError):
                one.send_signal(signal.SIGABRT)
        process.wait(10)
    for one in [*started, process]:
        with suppress(psutil.NoSuchProcess, ProcessLookupError):
            one.kill()
    process.wait()


def read_report(unit: Unit) -> None:
    if not unit.report.exists():
        return
    for case in ElementTree.parse(unit.report).iter("testcase"):
        seconds = float(case.get("time", 0))
        unit.tests += 1
        unit.failed += any(case.find(kind) is not None for kind in ("failure", "error"))
        unit.slowest.append((seconds, f"{case.get('classname')}::{case.get('name')}"))
    unit.slowest = sorted(unit.slowest, reverse=True)[:SHOWN]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--workers", type=int, default=1 + (os.cpu_count() or 1))
    chosen = parser.parse_args()
    REPORTS.mkdir(parents=True, exist_ok=True)
    for old in REPORTS.glob("*.xml"):
        old.unlink()
    if chosen.all:
        os.environ.setdefault("NAPARI_MASKINVERSION_FUZZ", "5")
    marks = [] if chosen.all else ["-m", "not full"]
    kept = json.loads(TIMES.read_text("utf-8"))["units"] if TIMES.exists() else {}
    units = [*checks(), *units_of(touched() if chosen.quick else places(full=chosen.all), marks)]
    for unit in units:
        unit.limit *= 8 if chosen.all else 1  # each attack in five rounds
    # Checks come first: without a cache mypy takes a minute.
    units.sort(key=lambda u: (u.pytest, -kept.get(u.name, {}).get("seconds", UNKNOWN)))
    began, lock, waiting = time.monotonic(), threading.Lock(), list(enumerate(units))

    def work() -> None:
        while True:
            with lock:
                if not waiting:
                    return
                number, unit = waiting.pop(0)
            run(unit, number, lock)

    workers = [threading.Thread(target=work) for _ in range(chosen.workers)]
    for worker in workers:
        worker.start()
    try:
        while any(worker.is_alive() for worker in workers):
            time.sleep(0.1)  # a `join` that is interrupted takes its worker for ended
    except KeyboardInterrupt:  # the units at work have heard it, too
        with lock:
            waiting.clear()
        raise
    return tell(units, time.monotonic() - began, keep=chosen.keep)


def tell(units: list[Unit], seconds: float, *, keep: bool) -> int:
    print("\n=== Where the time went")
    for unit in sorted(units, key=lambda unit: -unit.seconds):
        print(f"{unit.seconds:7.1f} s {unit.tests:6d} tests  {unit.name}")
    print(f"\n=== The {SHOWN} slowest tests")
    for spent, name in sorted((one for unit in units for one in unit.slowest), reverse=True)[
        :SHOWN
    ]:
        print(f"{spent:7.1f} s  {name}")
    if keep:
        rows = {u.name: {"seconds": round(u.seconds, 1), "tests": u.tests} for u in units}
        text = json.dumps(
            {"seconds": round(seconds, 1), "units": dict(sorted(rows.items()))}, indent=1
        )
        TIMES.write_text(text + "\n", "utf-8")
    failed = [unit.name for unit in units if unit.code]
    stuck = [unit.name for unit in units if unit.stuck]
    spent = os.times().children_user + os.times().children_system
    print(f"\n{seconds / 60:.1f} minutes ({spent / 60:.1f} of processor time).")
    if stuck:
        print("All tests were run, but the process did not end by itself:", ", ".join(stuck))
    if failed:
        print("Failed:", ", ".join(failed))
    wrong = sum(unit.failed for unit in units)
    print(f"{sum(unit.tests for unit in units) - wrong} passed, {wrong} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
