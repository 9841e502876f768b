"""Whatever happens, a command ends in one line."""

import errno
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from napari_maskinversion.base.errors import InputError
from napari_maskinversion.cli import models
from napari_maskinversion.cli.app import OF_THE_REPOSITORY, SOURCE, add_from_repository
from napari_maskinversion.cli.bench import shared


@pytest.fixture
def broken(monkeypatch):
    def fail(*_, **__):
        raise ZeroDivisionError("division\nby zero")

    monkeypatch.setattr(models, "print_table", fail)


def test_an_error_of_ours_is_one_line(call, broken):
    code, _, err = call("methods")
    assert code == 1
    assert err.count("\n") == 1
    assert "Internal error (ZeroDivisionError: division by zero); please report it" in err
    assert "--debug" in err


def test_the_package_is_a_program_too(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["napari_maskinversion", "--version"])
    with pytest.raises(SystemExit) as stop:
        runpy.run_module("napari_maskinversion", run_name="__main__")
    assert not stop.value.code
    assert capsys.readouterr().out.startswith("napari-maskinversion ")


@pytest.mark.parametrize("arguments", [("--debug", "methods"), ("methods", "--debug")])
def test_debug_shows_where_it_happened(call, broken, arguments):
    with pytest.raises(ZeroDivisionError):
        call(*arguments)


def test_a_file_that_only_the_system_refuses_is_named(call, monkeypatch):
    def fail(*_, **__):
        raise OSError(errno.EIO, "Input/output error", "results.npz")

    monkeypatch.setattr(models, "print_table", fail)
    assert call("methods") == (2, "", "Error: results.npz: Input/output error.\n")
    with pytest.raises(OSError, match="Input/output"):
        call("methods", "--debug")


@pytest.mark.parametrize(
    "words",
    [
        ("run", "image.png", "masks.png", "--labels", "dog"),
        ("segment", "image.png", "--boxes", "boxes.csv"),
        ("rollout", "image.png"),
    ],
    ids=lambda words: words[0],
)
def test_a_second_command_at_one_place_says_who_writes_there(call, files, monkeypatch, words):
    monkeypatch.chdir(files)
    (files / "boxes.csv").write_text("y0,x0,y1,x1\n0,0,9,9\n")
    place = {"run": "out", "segment": "out.tif", "rollout": "out.png"}[words[0]]
    command = [sys.executable, "-c", "import sys\nfrom napari_maskinversion.base.locks import hold"]
    command[-1] += "\nlock = hold(__import__('pathlib').Path(sys.argv[1]))\nprint(1, flush=True)"
    command[-1] += "\nsys.stdin.read()"
    command.append(place)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as other:
        other.stdout.readline()
        code, _, err = call(*words, "--out", place)
        other.kill()
    assert code == 2
    assert f"{place} is being written by process {other.pid} " in err
    assert not (files / place).exists()


@pytest.mark.parametrize("module", OF_THE_REPOSITORY)
def test_what_is_not_installed_says_where_it_is(tmp_path, module):
    installed, names = typer.Typer(), OF_THE_REPOSITORY[module][1]
    installed.command("run")(lambda: None)
    add_from_repository(module, installed, names, tmp_path)
    command, folder = typer.main.get_command(installed), module.partition(".")[0]
    for name in names:
        assert command.commands[name].hidden
        with pytest.raises(InputError, match=f"{name} is not part of .* {folder}/ .*{SOURCE}"):
            command([name, "folder", "--budget", "3"])


def test_the_repository_has_the_commands_that_train_and_measure_the_bundled_model():
    of_repository = []
    for to, names in OF_THE_REPOSITORY.values():
        listed = typer.main.get_command(to).commands
        assert not any(listed[name].hidden for name in names)
        of_repository += names
    assert sorted(of_repository) == [
        *("alpha", "captions", "rebuild-demo", "rebuild-demo-captions", "scenes", "steps", "tune")
    ]


def test_figures_of_a_command_that_is_not_installed_are_refused_by_name(refused, monkeypatch):
    monkeypatch.setattr(shared, "REPORTS", {})
    file = Path(__file__).parents[2] / "benchmarks/results/scenes.json"
    assert "figures of 'bench scenes'" in refused("bench", "show", file)
