"""Absurd values for every option of every command, also of those that come later."""

import random
from collections import Counter, defaultdict

import pytest

from . import ROUNDS
from .attack import attack
from .commands import COMMANDS

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


def values_of(parameter):
    """Return absurd values for the type of a parameter, which typer's versions keep elsewhere."""
    old = getattr(parameter, "type", None)
    kind = old.name if old is not None else str(parameter.type_descriptor.annotation)
    return next((VALUES[name] for name in VALUES if name in kind.lower()), VALUES["text"])


# In the short form an option that many commands share is attacked in three of them.
SHARED = 3 if ROUNDS == 1 else len(COMMANDS)
ATTACKED = [command for command in COMMANDS if command.name != "demo"]


def cases():
    """Yield commands, options or arguments, and values; each command is attacked."""
    sharing = defaultdict(list)
    for command in ATTACKED:
        for name, parameter in (*command.options, *command.arguments):
            sharing[name].append((command, parameter))
    attacks = Counter()
    for name, places in sorted(sharing.items(), key=lambda item: len(item[1])):
        fewest = sorted(places, key=lambda place: attacks[place[0].name])
        # And those that have nothing else to attack.
        others = [place for place in fewest[SHARED:] if not attacks[place[0].name]]
        for command, parameter in (*fewest[:SHARED], *others):
            attacks[command.name] += 1
            values = values_of(parameter)
            chance = random.Random(f"{command.name} {name}")
            for value in chance.sample(values, min(len(values), ROUNDS)):
                yield command, name, value


CASES = list(cases())


def test_every_command_with_a_value_to_attack_is_attacked():
    able = {command.name for command in ATTACKED if command.options or command.arguments}
    assert {command.name for command, _, _ in CASES} == able


@pytest.mark.parametrize("value", VALUES["path"], ids=lambda value: ascii(value[:9]))
def test_the_demo_uses_a_folder_or_names_it(call, place, monkeypatch, value):
    """It ends where a virtual display would start."""
    monkeypatch.setattr("napari_maskinversion._napari.plugin.demo._has_display", lambda: False)
    monkeypatch.setenv("NAPARI_MASKINVERSION_VIRTUAL_DISPLAY", "1")
    attack(call, place, "demo", "--out", value, anywhere=True)


# Deprecated options are attacked too.
@pytest.mark.filterwarnings("ignore:.* is deprecated and goes in the next release")
@pytest.mark.parametrize(
    ("command", "name", "value"), CASES, ids=[f"{c.name} {n} {v[:9]!a}" for c, n, v in CASES]
)
def test_an_absurd_value_is_used_or_named(call, place, command, name, value):
    attack(call, place, *command.call_with(name, value), anywhere=True)


# `doctor` tries everything on the machine; it is called in `tests.doctor`.
@pytest.mark.parametrize(
    "command",
    [command for command in COMMANDS if command.name != "doctor"],
    ids=lambda command: command.name,
)
def test_a_call_of_every_command_is_known(call, place, monkeypatch, command):
    """Whatever it ends with, its words fit: a call that typer refuses would attack nothing."""
    monkeypatch.setattr("napari_maskinversion._napari.plugin.demo._has_display", lambda: False)
    monkeypatch.setenv("NAPARI_MASKINVERSION_VIRTUAL_DISPLAY", "1")
    ending = attack(call, place, *command.call, anywhere=True)
    assert not ending.err.lstrip().startswith("Usage: "), ending.err
