"""Pieces of work that are killed; each runs in a process of its own."""

import importlib
import itertools
import json
import os
import pkgutil
import shutil
import socket
import sys
from pathlib import Path
from urllib.request import urlopen

import napari_maskinversion
from napari_maskinversion.base import config_parts, preferences
from napari_maskinversion.base.download import Download, RemoteFile, download
from napari_maskinversion.batch import project_decisions
from napari_maskinversion.batch import project_index as index_module
from napari_maskinversion.batch.opened import OpenProject
from napari_maskinversion.batch.project_index import FOLDER, ProjectIndex
from napari_maskinversion.cli import app
from napari_maskinversion.library.library import Library
from napari_maskinversion.review.reporting import identities_of, image_of
from napari_maskinversion.review.review import Review
from tests.batch.test_project_index import COUNT, compute, decide
from tests.decisions import decide as decide_many
from tests.library.made import bundle
from tests.review.decided import image, info, key, regions


def command(*words):
    """Call the command line."""
    sys.argv = ["napari-maskinversion", *words]
    app.main()


def batch(calls):
    """Call the command line several times."""
    for words in json.loads(calls):
        try:
            command(*words)
        except SystemExit as stop:
            if stop.code:
                raise


def review(file, told):
    """Decide without end; what was decided is told once it is saved."""
    with Path(told).open("ab", buffering=0) as teller:
        work = Review(image(), regions(), info(), file=Path(file))
        turn = last_turn(work)
        while True:
            turn += 1
            work.accept(key(turn % 12 + 1), f"label {turn}")
            teller.write(b"%d\n" % turn)


def last_turn(review):
    """Return the number of the last decision, which its label has."""
    return max((int(text.split()[1]) for text in review.decisions.accepted().values()), default=0)


def library(folder, told, *steps):
    """Change a library without end, image by image; each step is told once it is done."""
    with Path(told).open("ab", buffering=0) as teller:
        work = Library.open(folder)
        for number in itertools.count():
            for step in steps:
                if step == "add":
                    work.add(bundle(6, seed=number % 20))
                elif step == "remove":
                    work.remove(image=f"image-{number % 20}.png")
                else:
                    work.compact()
                teller.write(f"{step} {number % 20}\n".encode())


def project_index(folder, told):
    """Decide about images of a project, and refresh its index, without end.

    Each decision is told once it is saved.
    """
    project = OpenProject.read(Path(folder))
    with Path(told).open("ab", buffering=0) as teller:
        for number in itertools.count():
            decide(project, number % COUNT, number % 5 + 1, label=f"word {number}")
            teller.write(b"%d\n" % number)
            if number % 3 == 2:
                compute(project, f"image-{number % COUNT}.png", bundle(seed=number % COUNT))
            if number % 7 == 6:
                shutil.rmtree(project.out / FOLDER)
            ProjectIndex.fresh(project)


def build_index(folder):
    """Build the index of a project without end, each image in a step of its own."""
    index_module._MOST_IMAGES = 1
    project = OpenProject.read(Path(folder))
    while True:
        ProjectIndex.fresh(project)
        shutil.rmtree(project.out / FOLDER)


def many_decisions(folder, told):
    """Decide about all images of a project without end; a request is told once it is done."""
    project_decisions.ProjectImages._check_fresh = lambda *_: None  # no batch has marked them
    project = OpenProject.read(Path(folder))
    regions = {name: [key(1), key(3)] for name in project.by_name}
    first = last_turn_of_project(project) + 1
    with Path(told).open("ab", buffering=0) as teller:
        for turn in itertools.count(first):
            outcome = decide_many(project, regions, "accepted", f"label {turn}")
            assert not outcome.problems, outcome.problems
            teller.write(b"%d\n" % turn)


def last_turn_of_project(project):
    """Return the number of the last request, which the labels have."""
    turns = [0]
    for name in project.by_name:
        made = bundle(seed=int(name[6:-4]))
        about = image_of(made), identities_of(made), made.results.info
        with Review(*about, file=project.path(name)) as review:
            labels = review.decisions.accepted().values()
            turns += [int(label.split()[1]) for label in labels if label.startswith("label ")]
    return max(turns)


def prefer(*names):
    """Save preferences one after the other, without end."""
    while True:
        for name in names:
            config_parts.save(preferences.Preferences(model=name, cache_folder="/" + "x" * 5000))


def wanted(url, path, size, sha256):
    """Return a download of one file."""
    file = RemoteFile(url=url, path=Path(path), size=int(size), sha256=sha256)
    return Download(
        name="a file",
        size=file.size,
        lock=file.path.parent / ".lock",
        alternative="do without it",
        local=lambda: file if file.path.exists() else None,
        remote=lambda: file,
    )


def fetch(*arguments):
    """Download a file."""
    os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1"
    download(wanted(*arguments))


def _send():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"", ("127.0.0.1", 9))


CONNECTIONS = {
    "connect": lambda: socket.socket().connect(("127.0.0.1", 9)),
    "connect_ex": lambda: socket.socket().connect_ex(("127.0.0.1", 9)),
    "create_connection": lambda: socket.create_connection(("127.0.0.1", 9)),
    "send": _send,
    "name": lambda: socket.gethostbyname("localhost"),
    "address": lambda: socket.getaddrinfo("localhost", 9),
    "page": lambda: urlopen("http://127.0.0.1:9/"),
}


def connect(how):
    """Open a connection, which must end the process."""
    CONNECTIONS[how]()


def import_all():
    """Import every module of the library and of the command line; say what it brings."""
    prefix = f"{napari_maskinversion.__name__}."
    for module in pkgutil.walk_packages(napari_maskinversion.__path__, prefix):
        if "._napari" not in module.name and not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    gui = {"napari", "qtpy", "magicgui", "superqt", "PyQt6", "PySide6", "vispy"}
    print("loaded:", *sorted({"torch", *gui} & sys.modules.keys()))
