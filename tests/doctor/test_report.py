"""The report: isolated checks, plain text, no name of the user."""

import json
from pathlib import Path

from napari_maskinversion.doctor import checks, probe
from napari_maskinversion.doctor.report import Finding, Report

HOME = str(Path.home())


def test_a_check_that_breaks_off_is_one_line_and_the_others_go_on(monkeypatch):
    table = (("absent", "no_such_module", "check"), ("network", "machine", "check_network"))
    monkeypatch.setattr(checks, "CHECKS", table)
    first, second = checks.examine().findings
    assert (first.name, first.status) == ("absent", "problem")
    assert "ModuleNotFoundError" in first.summary
    assert second.name == "network"


def test_the_text_is_aligned_and_ends_with_the_verdict():
    findings = (
        Finding("torch", "ok", "2.9.0"),
        Finding("Qt", "problem", "none", "install one:\npip install qt"),
    )
    assert Report("0.2", findings).text() == (
        "napari-maskinversion 0.2\n"
        "ok      torch       2.9.0\n"
        "problem Qt          none\n"
        "                    -> install one:\n"
        "                       pip install qt\n"
        "1 problem, no notes."
    )


def test_a_report_does_not_name_the_user(tmp_path):
    finding = Finding("cache", "note", f"{HOME}/cache", f"free {HOME}", {"folders": [f"{HOME}/a"]})
    report = Report("0.2", (finding,))
    assert HOME not in report.text()
    assert HOME not in json.dumps(report.as_dict())
    assert "~/a" in json.dumps(report.as_dict())


def test_a_folder_of_the_user_s_that_is_named_like_a_package_does_no_harm(tmp_path, monkeypatch):
    broken_package(tmp_path, "qtpy", "raise ImportError('not the package')")
    monkeypatch.chdir(tmp_path)
    assert "not the package" not in probe.probe("qt").failure


def broken_package(folder, name, code):
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text(code)


def test_a_library_that_raises_ends_its_process_or_hangs_is_a_failure_in_words(
    tmp_path, monkeypatch
):
    source = str(Path(probe.__file__).parents[2])
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{probe.os.pathsep}{source}")
    broken_package(tmp_path, "torch", "raise ImportError('libcudnn.so.9: cannot open')")
    assert probe.probe("torch").failure == "ImportError: libcudnn.so.9: cannot open"
    broken_package(tmp_path, "qtpy", "import os; print('noise'); os._exit(3)")
    assert probe.probe("qt").failure == "the process ended with status 3"
    broken_package(tmp_path, "napari", "import time; time.sleep(60)")
    monkeypatch.setattr(probe, "_PATIENCE", 1.0)
    assert "no answer within 1 s" in probe.probe("napari").failure
