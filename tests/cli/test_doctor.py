"""The command ``doctor``, also where what other commands need is broken."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import napari_maskinversion
from napari_maskinversion.cli import app
from napari_maskinversion.doctor.checks import Finding, Report

SOURCE = str(Path(napari_maskinversion.__file__).parents[1])
NOTE = Finding("Qt", "note", "none", 'pip install "napari-maskinversion[all]"', {"a": 1})
PROBLEM = Finding("torch", "problem", "not installed", "install it")


@pytest.mark.parametrize(("findings", "code"), [((NOTE,), 0), ((NOTE, PROBLEM), 1)])
def test_only_a_problem_makes_the_exit_status_1(call, monkeypatch, findings, code):
    monkeypatch.setattr(app, "examine", lambda: Report("0.2", findings))
    status, out, _ = call("doctor")
    assert status == code
    assert "note    Qt          none" in out
    assert '-> pip install "napari-maskinversion[all]"' in out  # no markup of rich
    status, out, _ = call("doctor", "--json")
    assert status == code
    answer = json.loads(out)
    assert answer["problems"] == code
    assert answer["findings"][0]["facts"] == {"a": 1}


def broken(tmp_path, *words, **modules):
    """Run the command line where some packages cannot be imported."""
    for name in modules:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"raise {modules[name]}")
    path = os.pathsep.join([str(tmp_path), SOURCE])
    return subprocess.run(
        [sys.executable, "-m", "napari_maskinversion", *words],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONPATH": path},
        timeout=200,
    )


def test_it_works_where_torch_qt_napari_numpy_and_typer_are_broken(tmp_path):
    names = ("torch", "qtpy", "napari", "numpy", "typer")
    done = broken(tmp_path, "doctor", **dict.fromkeys(names, "ImportError('it is broken')"))
    assert done.returncode == 1
    assert "Traceback" not in done.stdout + done.stderr
    lines = {line[8:20].strip(): line for line in done.stdout.splitlines()}
    for name in ("torch", "Qt", "napari"):
        assert lines[name].startswith("problem")
        assert "it is broken" in lines[name]
    assert lines["Python"].startswith("ok")
    assert lines["packages"]


def test_other_commands_then_name_the_doctor(tmp_path):
    done = broken(tmp_path, "models", "list", numpy="ValueError('numpy.dtype size changed')")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "numpy.dtype size changed" in line
    assert "napari-maskinversion doctor" in line
