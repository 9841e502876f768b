"""`scripts/tests.py`: units of tests end, whatever their processes leave running."""

import importlib.util
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "tests.py"

LEAVES_ONE = """
import subprocess, sys
print(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]).pid)
"""

# What a shell begins in the background ignores Ctrl-C, and so does what that begins.
HEARS = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"

WAITS = """
import pathlib, sys, time
pathlib.Path(sys.argv[1]).touch()
try:
    time.sleep(600)
except KeyboardInterrupt:
    time.sleep(1)  # as pytest, which has much to say
"""

SIX_UNITS = """
import importlib.util, sys
_, script, waits, folder = sys.argv
spec = importlib.util.spec_from_file_location("running", script)
running = sys.modules["running"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(running)
running.checks = lambda: []
running.REPORTS = running.Path(folder) / "reports"
running.units_of = lambda *_: [
    running.Unit(str(n), [sys.executable, "-c", waits, f"{folder}/began-{n}"]) for n in range(6)
]
sys.argv = ["tests.py", "--workers", "2"]
running.main()
"""


@pytest.fixture
def running(monkeypatch):
    """The script; its name is that of this package."""
    spec = importlib.util.spec_from_file_location("running", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "running", module)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("option", "longer"), [("--quick", 1), ("--all", 8)])
def test_all_attacks_have_more_time(running, monkeypatch, tmp_path, option, longer):
    limits = []
    monkeypatch.setenv("NAPARI_MASKINVERSION_FUZZ", "1")
    monkeypatch.setattr(running, "REPORTS", tmp_path)
    monkeypatch.setattr(running, "checks", lambda: [running.Unit("one", [])])
    monkeypatch.setattr(running, "units_of", lambda *_: [])
    monkeypatch.setattr(running, "run", lambda unit, *_: limits.append(unit.limit))
    monkeypatch.setattr(sys, "argv", ["tests.py", option])
    running.main()
    assert limits == [longer * running.LIMIT]


def test_what_a_unit_leaves_running_keeps_it_from_nothing(running, capsys):
    unit = running.Unit("leaves one", [sys.executable, "-c", LEAVES_ONE], limit=30.0)
    assert unit.code  # nothing is right before it was run
    running.run(unit, 0, threading.Lock())
    told = capsys.readouterr().out
    assert "Stopped after" not in told
    os.kill(int(told.split()[-1]), signal.SIGTERM)
    assert unit.code == 0


@pytest.mark.skipif(sys.platform == "win32", reason="has no process groups that hear Ctrl-C")
def test_ctrl_c_begins_no_other_units(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", HEARS + SIX_UNITS, str(SCRIPT), HEARS + WAITS, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    while len(list(tmp_path.glob("began-*"))) < 2:
        assert process.poll() is None
        time.sleep(0.05)
    try:
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        told, _ = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert len(list(tmp_path.glob("began-*"))) == 2
    assert told.count("=== ") == 2
