"""The checks of an installation: each known trap has its remedy, and none ends the report."""

import json
import os
import re
import shutil
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from napari_maskinversion.doctor import checks as doctor
from napari_maskinversion.doctor.checks import (
    EXTRAS,
    Finding,
    Probed,
    Report,
    install,
    install_torch,
)

ROOT = Path(__file__).parents[2]
SOURCE = Path(doctor.__file__).parents[1]
HOME = str(Path.home())
ONE = {"PyQt6": "6.11.0"}


@pytest.fixture(autouse=True)
def visible(monkeypatch):
    """The other tests hide GPUs."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


# -- the report -----------------------------------------------------------------------------------


def test_a_report_does_not_name_the_user():
    finding = Finding("cache", "note", f"{HOME}/cache", f"free {HOME}", {"folders": [f"{HOME}/a"]})
    report = Report("0.2", (finding,))
    assert HOME not in report.text() + report.json()
    assert json.loads(report.json())["findings"][0]["facts"] == {"folders": ["~/a"]}


def test_a_check_that_breaks_off_is_one_line_and_the_others_go_on(monkeypatch):
    def broken():
        raise ModuleNotFoundError("No module named 'torch'")

    monkeypatch.setattr(doctor, "probe", lambda names: {name: Probed({}, "gone") for name in names})
    monkeypatch.setattr(doctor, "check_models", broken)
    found = {one.name: one for one in doctor.examine().findings}
    assert found["models"].status == "problem"
    assert "ModuleNotFoundError" in found["models"].summary
    assert found["Python"].status == "ok"


# -- what is imported in a process of its own -----------------------------------------------------


def package(folder, name, code):
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text(code)


def test_a_library_that_raises_or_ends_its_process_is_a_failure_in_words(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{SOURCE.parent}")
    package(tmp_path, "torch", "raise ImportError('libcudnn.so.9: cannot open')")
    package(tmp_path, "napari", "import os; print('noise'); os._exit(3)")
    package(tmp_path, "qtpy", "import time; time.sleep(60)")
    monkeypatch.setattr(doctor, "_PATIENCE", 5.0)
    probed = doctor.probe(["torch", "napari", "Qt"])
    assert probed["torch"].failure == "ImportError: libcudnn.so.9: cannot open"
    assert probed["napari"].failure == "the process ended with status 3"
    assert "no answer within 5 s" in probed["Qt"].failure


def test_a_folder_of_the_user_s_that_is_named_like_a_package_does_no_harm(tmp_path, monkeypatch):
    package(tmp_path, "qtpy", "raise ImportError('not the package')")
    monkeypatch.chdir(tmp_path)
    assert "not the package" not in doctor.probe(["Qt"])["Qt"].failure


# -- torch and its device -------------------------------------------------------------------------

H200 = "NVIDIA H200 (150 GiB)"
TOO_OLD = "CUDA initialization: The NVIDIA driver on your system is too old (found version 11040)."
OTHER_AGE = "NVIDIA H200 with CUDA capability sm_90 is not compatible with the current PyTorch"


def device(monkeypatch, driver=True, **changed):
    facts = {"version": "2.9.0", "cuda": "13.0", "hip": None, "gpus": [], "mps": False}
    monkeypatch.setattr(shutil, "which", lambda name: name if driver else None)
    _, found = doctor.torch_findings(Probed({**facts, "threads": 8, "warnings": [], **changed}))
    return found


def test_a_gpu_is_named_and_a_machine_without_one_needs_no_remedy(monkeypatch):
    found = device(monkeypatch, gpus=[H200], kernels="maps fused by Triton")
    assert (found.status, found.summary) == ("ok", f"cuda: {H200}; maps fused by Triton")
    assert device(monkeypatch, driver=False, mps=True).summary == "Apple's GPU (mps)"
    assert device(monkeypatch, driver=False).status == "ok"


@pytest.mark.parametrize(
    ("changed", "status", "summary", "remedy"),
    [
        ({"cuda": None}, "note", "for the CPU only", "--torch-backend auto"),
        ({"warnings": [TOO_OLD]}, "note", "too old for CUDA 13.0", "update the driver"),
        ({"warnings": ["CUDA unknown error"]}, "note", "unknown error", "nvidia-smi"),
        ({"gpus": [H200], "warnings": [OTHER_AGE]}, "problem", "sm_90", "device cpu"),
    ],
    ids=["CPU wheel", "old driver", "broken CUDA", "other generation"],
)
def test_a_gpu_that_is_not_used_is_explained(monkeypatch, changed, status, summary, remedy):
    found = device(monkeypatch, **changed)
    assert found.status == status
    assert summary in found.summary
    assert remedy in found.remedy


def test_a_hidden_gpu_is_explained(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert device(monkeypatch).remedy == "unset CUDA_VISIBLE_DEVICES"


@pytest.mark.parametrize(
    ("failure", "remedy"),
    [
        ("ModuleNotFoundError: No module named 'torch'", "--torch-backend auto"),
        ("OSError: [WinError 126] c10.dll not found", "Visual C++"),
        ("ImportError: libcudnn.so.9: cannot open", "unset LD_LIBRARY_PATH"),
        ("the process was ended by SIGILL", "--reinstall"),
    ],
)
def test_a_torch_that_does_not_start_is_one_problem_with_its_remedy(failure, remedy):
    (found,) = doctor.torch_findings(Probed(failure=failure))
    assert found.status == "problem"
    assert remedy in found.remedy


# -- Qt, OpenGL and napari ------------------------------------------------------------------------


def drawn(renderer):
    about = {"binding": "PyQt6", "version": "6.11.0", "qt": "6.11.0", "opengl": "4.6.0"}
    return Probed({**about, "renderer": renderer})


@pytest.mark.parametrize(
    ("bindings", "probed", "status", "said"),
    [
        (ONE, drawn("NVIDIA RTX A5000"), "ok", "PyQt6 6.11.0 (Qt 6.11.0); OpenGL 4.6.0, NVIDIA"),
        (ONE, drawn("llvmpipe (LLVM 15)"), "note", "in software"),
        (ONE, drawn(""), "note", "xvfb-run"),
        ({}, Probed(), "note", "napari-maskinversion[all]"),
        ({**ONE, "PySide6": "6.11.3"}, drawn("NVIDIA"), "note", "QT_API=pyqt6"),
        (ONE, Probed(failure="ImportError: libEGL.so.1: cannot"), "problem", "apt-get install"),
        (ONE, Probed(failure="SIGABRT", output='plugin "xcb"'), "problem", "libxcb-cursor0"),
        (ONE, Probed(failure="SIGABRT", output="cv2/qt/plugins"), "problem", "python-headless"),
        (ONE, Probed(failure="ImportError: qt_version_tag_6_10"), "problem", "PyQt6 PyQt6-Qt6"),
        (ONE, Probed(failure="Qt cannot make an OpenGL context"), "problem", "graphics driver"),
    ],
)
def test_what_draws_is_named_and_each_trap_of_qt_has_its_remedy(bindings, probed, status, said):
    found = doctor.qt_finding(probed, bindings)
    assert found.status == status
    assert said in f"{found.summary} {found.remedy}"


def test_a_wish_for_a_qt_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setenv("QT_API", "pyside6")
    found = doctor.qt_finding(Probed(failure="PythonQtError: No Qt bindings"), ONE)
    assert "unset QT_API" in found.remedy


def test_napari_says_whether_it_knows_the_plugin():
    facts = {"version": "0.9.2", "npe2": "0.10.0", "disabled": False}
    assert doctor.napari_finding(Probed(facts)).status == "ok"
    off = doctor.napari_finding(Probed({**facts, "disabled": True}))
    assert (off.status, "Plugins >" in off.remedy) == ("problem", True)
    broken = doctor.napari_finding(Probed(failure="ImportError: cannot import name 'x'"))
    assert (broken.status, "pydantic" in broken.remedy) == ("problem", True)


# -- models, cache and packages -------------------------------------------------------------------


def test_without_a_model_for_photographs_there_is_a_way_to_get_one(monkeypatch):
    monkeypatch.delenv("HF_HUB_OFFLINE")
    (found,) = doctor.check_models()
    assert found.status == "note"
    assert found.remedy == "napari-maskinversion models fetch ViT-B-16/openai"
    monkeypatch.setenv("NAPARI_MASKINVERSION_OFFLINE", "1")
    assert "on a machine with a network" in doctor.check_models()[0].remedy


def test_the_cache_folder_is_measured_and_one_that_cannot_be_written_is_a_problem(
    own_cache_folder, monkeypatch
):
    own_cache_folder.mkdir(parents=True, exist_ok=True)
    (own_cache_folder / "big").write_bytes(bytes(10**6))
    (found,) = doctor.check_cache()
    assert found.facts["total"] >= 10**6
    assert "free" in found.summary
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert "NAPARI_MASKINVERSION_CACHE" in doctor.check_cache()[0].remedy


WANTED = [Requirement("torch<3,>=2.4"), Requirement("open_clip_torch<4,>=3")]


@pytest.mark.parametrize(
    ("present", "problem"),
    [
        ({"torch": "2.10.0.dev20260101+cu130", "open_clip_torch": "3.2.0"}, ""),
        ({"torch": "2.9.0"}, "missing: open_clip_torch"),
        ({"torch": "3.0.1", "open_clip_torch": "3.2.0"}, "torch 3.0.1 (needs <3,>=2.4)"),
    ],
)
def test_what_is_missing_or_outside_of_its_bounds_is_a_problem(present, problem):
    found = doctor.packages_finding(WANTED, present)
    assert found.status == ("problem" if problem else "ok")
    assert problem in found.summary


def test_the_bounds_are_those_of_the_installed_package_and_its_extras_are_known():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    others = {"all", "pyside6", "test", "docs", "dev"}
    assert EXTRAS.keys() == project["optional-dependencies"].keys() - others
    packages, extras = doctor.check_packages()
    assert {"torch", "numpy", "napari"} <= packages.facts["versions"].keys()
    assert packages.status == extras.status == "ok"


def test_what_is_not_installed_is_told_with_what_it_brings_and_how():
    groups = {"batch": [Requirement("dask")], "spatial": [Requirement("spatialdata")]}
    (found,) = doctor.extras_findings(groups, {"dask": "2025.1"})
    assert found.summary == (
        "installed: batch; not installed: spatial (GeoPackage, AnnData and SpatialData)"
    )
    assert found.remedy.splitlines()[-1] == install("napari-maskinversion[spatial]")


# -- commands can be typed as they stand, in sh, cmd.exe and PowerShell ---------------------------


@pytest.fixture
def environment(monkeypatch):
    """What is installed, and what ``python`` and ``uv`` start."""

    def make(*modules, executable="/envs/mine/bin/python", **programs):
        monkeypatch.setattr(doctor, "find_spec", lambda name: name in modules or None)
        monkeypatch.setattr(sys, "executable", executable)
        monkeypatch.setattr(shutil, "which", programs.get)

    return make


def test_packages_go_into_the_python_that_runs(environment):
    environment("pip", python="/envs/mine/bin/python")
    assert install("napari") == "python -m pip install napari"
    environment("pip", python="/usr/bin/python")
    assert install("napari") == "/envs/mine/bin/python -m pip install napari"
    environment(python="/envs/mine/bin/python", uv="/bin/uv")  # uv makes environments without pip
    assert install("napari") == "uv pip install --python /envs/mine/bin/python napari"


def test_torch_for_this_machine_is_one_command_a_line(environment):
    environment("pip", python="/envs/mine/bin/python")
    first, second = install_torch("cu126").splitlines()
    assert first == "python -m pip install uv"
    assert second == (
        "python -m uv pip install --python /envs/mine/bin/python torch torchvision "
        "--torch-backend cu126"
    )
    environment("pip", uv="/bin/uv")
    assert install_torch("auto", "--reinstall").startswith("uv pip install --python")


@pytest.mark.parametrize(
    "sign",
    [r"pip (un)?install [^\"\n]*'[\w-]+[\[<>=!]", r"pip install [^\n]*(;|&&) ?(uv|pip) "],
    ids=["single quotes", "two commands on a line"],
)
def test_no_message_of_the_package_has_a_command_for_one_shell_only(sign):
    for path in SOURCE.rglob("*.py"):
        assert not re.search(sign, path.read_text("utf-8")), path
