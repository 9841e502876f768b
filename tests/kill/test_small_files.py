"""Reviews, preferences and downloads that are killed."""

import hashlib
import json

import numpy as np

from napari_maskinversion.base import config_parts, preferences
from napari_maskinversion.base.download import download
from napari_maskinversion.review.review import Review
from tests.review.decided import image, info, regions

from .work import last_turn, wanted

# How long work without end goes on, and how much it does.
ENDLESS = {"operations": 60, "seconds": 0.3}


def test_no_decision_is_lost(killed, tmp_path, number):
    folder = tmp_path / "place"
    folder.mkdir()
    file, told = folder / "cells.png", tmp_path / "told"
    for part in range(2):  # killed, continued, killed
        killed("review", file, told, folder=folder, number=2 * number + part, whole=ENDLESS)
    lines = [int(line) for line in told.read_text().splitlines()] if told.exists() else []
    assert lines == sorted(set(lines))
    last = lines[-1] if lines else 0
    with Review(image(), regions(), info(), file=file) as review:
        count = last_turn(review)
        assert count in (last, last + 1, last + 2)  # those in the making may be there or not
        labels = {key.id: label for key, label in review.decisions.accepted().items()}
        assert labels == {turn % 12 + 1: f"label {turn}" for turn in range(1, count + 1)}
        assert not any("could not be read" in note for note in review.notes)
    assert not [path for path in folder.iterdir() if path.suffix in (".part", ".commit")]


def test_preferences_are_the_old_or_the_new_ones(killed, own_config_folder, number):
    names = ("demo", "ViT-B-16/openai")
    config_parts.save(preferences.Preferences(model="last used"))
    killed("prefer", *names, folder=own_config_folder, number=number, whole=ENDLESS)
    assert preferences.load().model in ("last used", *names)
    json.loads(preferences.FILE.path.read_text("utf-8"))
    config_parts.save(preferences.Preferences(model="demo"))
    assert [path.name for path in own_config_folder.iterdir()] == ["preferences.json"]


def test_a_download_resumes(hub, killed, tmp_path, number):
    content = np.random.default_rng(0).bytes(3_000_000)
    hub.files[("owner/project", "file.bin")] = content
    hub.pause = 0.005
    path = tmp_path / "cache" / "file.bin"
    digest = hashlib.sha256(content).hexdigest()
    arguments = (f"{hub.url}/owner/project/resolve/main/file.bin", path, len(content), digest)
    path.parent.mkdir()
    killed("fetch", *arguments, folder=path.parent, number=number, whole=ENDLESS, sockets=True)
    hub.pause = 0
    assert download(wanted(*arguments)).read_bytes() == content
    # Who held the lock stays if the process was killed between the renaming and the release.
    assert {p.name for p in path.parent.iterdir()} <= {"file.bin", ".lock", ".lock.by"}
