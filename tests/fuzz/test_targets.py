"""What stands where a command writes: a pipe, a socket, a folder, a link.

The files of a command are those that it writes where nothing stands in the way.
"""

import os
import random
import shutil
import socket
import stat
from pathlib import Path

import pytest

from . import ROUNDS
from .attack import OUT, attack
from .commands import COMMANDS

# Options that let a command write more files.
MORE = {
    "run": ("--format", "csv,json,coco,masks,npz"),
    "bench folder": ("--json", f"{OUT}/figures.json", "--markdown", f"{OUT}/tables.md"),
}
MINE = "my diary"
ENDLESS = ("demo",)  # opens a window; its folder: `test_options`


def pipe(path):
    os.mkfifo(path)


def socket_file(path):
    here = Path.cwd()
    os.chdir(path.parent)  # the name of a socket must be short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path.name)
    os.chdir(here)


def device(path):
    path.symlink_to("/dev/null")


def folder(path):
    path.mkdir()
    (path / "diary.txt").write_text(MINE)


def link_to(name):
    return lambda path: path.symlink_to(Path.cwd() / name)


def foreign(path):
    path.write_text(MINE)


STANDING = {
    "a file": foreign,
    "a pipe": pipe,
    "a socket": socket_file,
    "a device": device,
    "a folder": folder,
    "a link to an input": link_to("image.png"),
    "a link to a file": link_to("diary.txt"),
    "a link to nothing": link_to("nowhere"),
}
# `--overwrite` lets files replace them, not what links point at.
REPLACED = ("a file", "a link to an input", "a link to a file", "a link to nothing")


# Commands that only print, or keep what they write in folders of their own.
SILENT = (
    *("find", "methods", "doctor", "rebuild-demo", "rebuild-demo-captions"),
    *("project add", "project status", "project check"),
    *("models list", "models where", "models clear", "models fetch", "models check"),
    *("models calibrate", "labels list", "labels show", "captions search", "bench datasets"),
    *("library new", "library add", "library info", "library search", "library similar"),
    *("library train", "library remove", "library compact", "library verify"),
)
WRITING = [
    command
    for command in COMMANDS
    # Those with a model that is nowhere end before they write.
    if command.name not in (*ENDLESS, *SILENT) and "nowhere" not in command.call
]
CASES = [
    (command, overwrite)
    for command in WRITING
    for overwrite in ((True, False) if command.has("--overwrite") else (False,))
]


def files_of(call, place, command):
    """Return the files that a command writes, and take them away again.

    Those of an index are left out: it is built again whatever stands there, and a link goes without
    the file that it leads to (`tests/batch/test_project_index.py`).
    """
    before = set(place.rglob("*"))
    call(*command.call, *MORE.get(command.name, ()))
    new = [path for path in sorted(place.rglob("*")) if path not in before]
    files = [path.relative_to(place) for path in new if path.is_file()]
    files = [path for path in files if path.parts[:2] != (OUT, "index")]
    shutil.rmtree(place / OUT, ignore_errors=True)
    return [path for path in files if path.parts[0] == OUT and not path.name.startswith(".")]


def what_is_at(path):
    status = path.lstat()
    return stat.S_IFMT(status.st_mode), status.st_ino


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="a system without pipes")
@pytest.mark.parametrize(
    ("command", "overwrite"), CASES, ids=[f"{c.name} {'overwrite' * o}".strip() for c, o in CASES]
)
def test_what_is_no_file_is_not_replaced(call, place, command, overwrite):
    (place / "diary.txt").write_text(MINE)
    words = (*command.call, *MORE.get(command.name, ()))
    words += ("--overwrite",) * (overwrite and command.has("--overwrite"))
    chance = random.Random(f"{command.name} {overwrite}")
    files = files_of(call, place, command)
    assert files, "it wrote no file; it belongs to SILENT, or its call has to be mended"
    # A pipe at a file of a bank would be waited for: nobody has met that.
    kinds = [kind for kind in STANDING if (command.name, kind) != ("captions build", "a pipe")]
    cases = [(file, kind) for file in files for kind in kinds]
    for file, kind in chance.sample(cases, min(len(cases), 2 * ROUNDS**2)):
        target = place / file
        target.parent.mkdir(parents=True, exist_ok=True)
        STANDING[kind](target)
        before = what_is_at(target)
        # A mark of a batch that is none of ours is told by the image, which its folder is named by.
        names = (target, target.name, target.parent.name)
        ending = attack(call, place, *words, names=names, anywhere=True)
        if kind not in REPLACED or not overwrite:
            assert ending.code == 2, (file, kind)
            assert what_is_at(target) == before, (file, kind)
        assert not (place / "nowhere").exists()
        shutil.rmtree(place / OUT)
