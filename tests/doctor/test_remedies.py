"""Commands that the doctor prints can be typed as they stand, in sh, cmd.exe and PowerShell."""

import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest

import napari_maskinversion
from napari_maskinversion.doctor import remedies

SOURCE = Path(napari_maskinversion.__file__).parent


@pytest.fixture
def environment(monkeypatch):
    """What is installed, and what ``python`` and ``uv`` start."""

    def make(*modules, executable="/envs/mine/bin/python", **programs):
        monkeypatch.setattr(remedies, "find_spec", lambda name: name in modules or None)
        monkeypatch.setattr(sys, "executable", executable)
        monkeypatch.setattr(shutil, "which", programs.get)

    return make


def test_packages_go_into_the_python_that_runs(environment):
    environment("pip", python="/envs/mine/bin/python")
    assert remedies.install("napari") == "python -m pip install napari"
    environment("pip", python="/usr/bin/python")
    assert remedies.install("napari") == "/envs/mine/bin/python -m pip install napari"
    environment(python="/envs/mine/bin/python", uv="/bin/uv")  # uv makes environments without pip
    assert remedies.install("napari") == "uv pip install --python /envs/mine/bin/python napari"


def test_torch_for_this_machine_is_one_command_a_line(environment):
    environment("pip", python="/envs/mine/bin/python")
    first, second = remedies.install_torch("cu126").splitlines()
    assert first == "python -m pip install uv"
    assert second == (
        "python -m uv pip install --python /envs/mine/bin/python torch torchvision "
        "--torch-backend cu126"
    )
    environment("pip", uv="/bin/uv")
    assert remedies.install_torch("auto", "--reinstall").startswith("uv pip install --python")


def test_only_double_quotes_are_used_and_only_where_they_are_needed(environment):
    environment("pip", executable=r"C:\Program Files\Python\python.exe")
    command = remedies.extra("all")
    assert command == (
        r'"C:\Program Files\Python\python.exe" -m pip install "napari-maskinversion[all]"'
    )
    assert shlex.split(remedies.install("PySide6!=6.12.0"))[-1] == "PySide6!=6.12.0"


@pytest.mark.parametrize(
    "sign",
    [r"pip (un)?install [^\"\n]*'[\w-]+[\[<>=!]", r"pip install [^\n]*(;|&&) ?(uv|pip) "],
    ids=["single quotes", "two commands on a line"],
)
def test_no_message_of_the_package_has_a_command_for_one_shell_only(sign):
    for path in SOURCE.rglob("*.py"):
        assert not re.search(sign, path.read_text("utf-8")), path
