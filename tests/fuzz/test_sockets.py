"""No import and no command opens a connection, even where the network may be used.

The panel and the demo: `tests._napari.plugin.test_end_to_end`.
"""

import pytest

from tests.forks import CONNECTED
from tests.kill.work import CONNECTIONS

from .commands import COMMANDS
from .kinds import run

# What fetches what its user names, opens a window, or looks at the machine in other processes.
ELSEWHERE = ("models fetch", "rebuild-demo", "rebuild-demo-captions", "demo", "doctor")
CALLS = {
    command.name: command.call
    for command in COMMANDS
    if command.name not in ELSEWHERE and "nowhere" not in command.call
}
CALLS["run with captions"] = run("image.png", "masks.png", "--captions", "captions.txt")
CALLS["models fetch"] = ("models", "fetch", "demo")


def test_commands_that_the_user_waits_for_are_all_looked_at():
    named = {"run", "find", "caption", "captions build", "captions search", "imagine", "segment"}
    named |= {"export", "rollout", "batch", "project export", "bench folder", "models check"}
    assert named <= set(CALLS)


@pytest.mark.parametrize("command", CALLS)
def test_no_command_opens_a_connection(forks, place, command):
    done = forks.run("command", *CALLS[command], folder=place)
    assert "a connection was opened" not in done["said"]
    assert done["code"] == 0, done["said"]


def test_no_import_opens_a_connection_or_brings_a_gui(forks, place):
    done = forks.run("import_all", folder=place)
    assert done["code"] == 0, done["said"]
    # Torch, as a check that this way of looking does see what is loaded.
    assert done["said"].splitlines()[-1] == "loaded: torch"


@pytest.mark.parametrize("how", CONNECTIONS)
def test_any_way_to_open_a_connection_is_seen(forks, place, how):
    done = forks.run("connect", how, folder=place)
    assert (done["code"], "a connection was opened" in done["said"]) == (CONNECTED, True)


def test_a_command_that_opens_a_connection_is_seen(forks, place):
    done = forks.run("command", "models", "fetch", "ViT-B-32/openai", folder=place)
    assert (done["code"], "a connection was opened" in done["said"]) == (CONNECTED, True)
