"""Absurd values for every option of every command, also of those that come later."""

import random

import pytest
import typer

from napari_maskinversion.cli import app

from . import ROUNDS
from .attack import OUT, attack
from .kinds import BOXES, FAST, FOLDER, PROJECT, SEARCH, SHOW, run

VALUES = {
    "int": ("-1", "0", "99999999999999999999", "1e9", "nan", "x", "", "1.5"),
    "float": ("nan", "inf", "-inf", "-1", "1e308", "1e-308", "x", ""),
    "path": (
        "",
        "nowhere/below",
        "image.png/below",
        "n" * 300,
        "~nobody/x",
        "-",
        "\udcff",
        "/dev/null",
    ),
    "text": (
        *("", " ", ",", "\x1b[31m", "x" * 300, "../..", "nan", "-1", "1,2", "=1+1", "\udcff"),
        *("[/bold]", "{", "{0.__class__}", "%s", "z=1", "z=-1", "1-2", "99999999999999999999"),
    ),
}
# A call of every command that would work, or that ends once its options are checked.
CALLS = {
    "run": run(),
    "find": ("find", "image.png", "masks.png", "a car", *FAST),
    "imagine": ("imagine", "image.png", "masks.png", "--region", "1", "--out", f"{OUT}/drawn"),
    "segment": (*BOXES, "--out", f"{OUT}/b.tif"),
    "export": ("export", "results.npz", "--out", OUT),
    "rollout": ("rollout", "image.png", "--resolution", "64", "--out", f"{OUT}/r.png"),
    "methods": ("methods",),
    "demo": ("demo", "--out", OUT),
    "rebuild-demo": ("rebuild-demo", OUT, "--budget", "0"),
    "models list": ("models", "list"),
    "models where": ("models", "where"),
    "models clear": ("models", "clear"),
    "models fetch": ("models", "fetch", "demo"),
    "models check": ("models", "check", "demo"),
    "models calibrate": ("models", "calibrate", "demo", "results.npz"),
    "labels list": ("labels", "list"),
    "labels show": ("labels", "show", "labels.txt"),
    "labels convert": ("labels", "convert", "labels.txt", f"{OUT}/labels.csv"),
    "captions build": ("captions", "build", "captions.txt", "--out", f"{OUT}/bank"),
    "captions search": SEARCH,
    "project new": (*PROJECT[:2], f"{OUT}/project", *PROJECT[3:]),
    "project add": ("project", "add", "project", *PROJECT[3:7]),
    "project status": ("project", "status", "project"),
    "project check": ("project", "check", "project"),
    "batch": ("batch", "project", *FAST, "--format", "csv", "--out", OUT),
    "bench folder": FOLDER,
    "bench show": SHOW,
}


def commands(group, *above):
    """Yield the names and parameters of all commands."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, *above, name)
        else:
            yield " ".join((*above, name)), command.params


def call_of(name):
    """Return a call of a command; a bench command of other data ends at its model."""
    if name in CALLS:
        return CALLS[name]
    assert name.startswith("bench "), f"{name} is a new command: add a call of it to CALLS"
    model = "--model" if name in ("bench scenes", "bench steps", "bench alpha") else "--models"
    return (*name.split(), model, "nowhere")


def values_of(parameter):
    """Return absurd values for the type of a parameter, which typer's versions keep elsewhere."""
    old = getattr(parameter, "type", None)
    kind = old.name if old is not None else str(parameter.type_descriptor.annotation)
    return next((VALUES[name] for name in VALUES if name in kind.lower()), VALUES["text"])


ALL = list(commands(typer.main.get_command(app.app)))
CASES = []
for command, parameters in ALL:
    for parameter in parameters:
        values = values_of(parameter)
        option = next((o for o in parameter.opts if o.startswith("--")), None)
        if option is None or getattr(parameter, "is_flag", False) or command == "demo":
            continue
        chance = random.Random(f"{command} {option}")
        CASES += [(command, option, v) for v in chance.sample(values, min(len(values), ROUNDS))]


@pytest.mark.parametrize("value", VALUES["path"], ids=lambda value: ascii(value[:9]))
def test_the_demo_uses_a_folder_or_names_it(call, place, monkeypatch, value):
    """It ends where a virtual display would start."""
    monkeypatch.setattr("napari_maskinversion._napari.plugin.demo._has_display", lambda: False)
    monkeypatch.setenv("NAPARI_MASKINVERSION_VIRTUAL_DISPLAY", "1")
    attack(call, place, "demo", "--out", value, anywhere=True)


# Deprecated options are attacked too.
@pytest.mark.filterwarnings("ignore:.* is deprecated and goes in the next release")
@pytest.mark.parametrize(
    ("command", "option", "value"), CASES, ids=[f"{c} {o} {v[:9]!a}" for c, o, v in CASES]
)
def test_an_absurd_value_is_used_or_named(call, place, command, option, value):
    attack(call, place, *call_of(command), option, value, anywhere=True)
