"""No import and no command opens a connection, even where the network may be used.

The panel and the demo: `tests._napari.plugin.test_end_to_end`.
"""

import pytest

from tests.forks import CONNECTED
from tests.scenes import write_scene

from .kinds import FAST, run

COMMANDS = {
    "run": run("image.png", "masks.png", "--captions", "captions.txt"),
    "find": ("find", "image.png", "masks.png", "a car", *FAST),
    "rollout": ("rollout", "image.png", "--resolution", "64"),
    "captions build": ("captions", "build", "captions.txt", "--out", "bank"),
    "captions search": ("captions", "search", "captions.txt", "a dog"),
    "models list": ("models", "list"),
    "labels list": ("labels", "list"),
}


@pytest.fixture
def place(tmp_path):
    folder = tmp_path / "place"
    folder.mkdir()
    (folder / "captions.txt").write_text("a dog on grass\na red car\n")
    return write_scene(folder, 2)


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_opens_a_connection(forks, place, command):
    done = forks.run("command", *COMMANDS[command], folder=place)
    assert done["code"] == 0, done["said"]


def test_a_connection_would_be_seen(forks, place):
    done = forks.run("command", "models", "fetch", "ViT-B-32/openai", folder=place)
    assert (done["code"], "a connection was opened" in done["said"]) == (CONNECTED, True)
