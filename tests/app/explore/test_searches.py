"""Searches on an image without regions: the panel finds what the command line finds."""

import csv

import numpy as np
import pytest
from PIL import Image

from napari_maskinversion.app.explore.searches import Example, find_anywhere, search_of
from napari_maskinversion.app.session import Session
from napari_maskinversion.app.work.model_store import Kept, ModelStore
from napari_maskinversion.images.sample_scenes import load_scene
from napari_maskinversion.pipeline import finding
from napari_maskinversion.results.export.archive import open_archive
from napari_maskinversion.results.settings import RunSettings
from tests._napari.tasks import do

FAST = ("--steps", 2, "--alpha", 0, "--resolution", 64)
EVERYTHING = ("--threshold", -1, "--format", "npz,csv,json")


@pytest.fixture
def pond(monkeypatch, tmp_path):
    """A part of a sample scene, in a file."""
    monkeypatch.setattr(finding, "_MOST", 24)
    image = load_scene("everyday-1").image[:200:2, :200:2]
    Image.fromarray(image).save(tmp_path / "pond.png")
    return tmp_path / "pond.png"


@pytest.fixture
def session(viewer, pond):
    """A session in which the image of this file is chosen."""
    session = Session()
    session.choose(image=viewer.add_image(np.asarray(Image.open(pond))))
    session.run.settings = RunSettings.of(steps=2, alpha=0.0, resolution=64)
    return session


def found_in_the_panel(viewer, session, words="", like=None):
    """Search as a worker of the panel does."""
    search = search_of(viewer, session, words, like)
    answer, _ = do(lambda: find_anywhere(search, ModelStore(), Kept(), Kept()))
    return answer


def assert_the_same(panel, folder):
    """Compare regions, embeddings and similarities of a search with files of the command line."""
    written = open_archive(folder / "results.npz")
    assert len(panel.regions) == len(written.results.regions) > 1
    with (folder / "regions.csv").open(encoding="utf-8", newline="") as lines:
        similarities = [float(row["similarity"]) for row in csv.DictReader(lines)]
    shown = [match.similarity for match in panel.matches]
    np.testing.assert_allclose(similarities, shown, rtol=0, atol=1e-6)
    for region in panel.regions:
        mask = written.masks[(), region.id].unpack()
        assert mask.bbox == region.bbox
        np.testing.assert_array_equal(mask.mask > 0, region.mask > 0)
    pairs = zip(panel.results.regions, written.results.regions, strict=True)
    for mine, theirs in pairs:
        np.testing.assert_array_equal(mine.embedding, theirs.embedding)


def test_words_find_the_same_as_on_the_command_line(viewer, session, pond, fine):
    out = pond.parent / "found"
    words = "frog, not car"
    fine("find", pond, words, *FAST, *EVERYTHING, "--checkpoint", "none", "--out", out)
    answer = found_in_the_panel(viewer, session, words)
    assert_the_same(answer, out)
    assert answer.usual == 0.36


def test_an_example_finds_the_same_as_on_the_command_line(viewer, session, pond, fine):
    words, alike = pond.parent / "words", pond.parent / "alike"
    fine("find", pond, "frog", *FAST, *EVERYTHING, "--checkpoint", "none", "--out", words)
    archive = words / "results.npz"
    example = ("--like", archive, "--only", "1")
    fine("find", pond, *example, *FAST, *EVERYTHING, "--checkpoint", "none", "--out", alike)
    like = Example.of(open_archive(archive).results, [0])
    answer = found_in_the_panel(viewer, session, like=like)
    assert_the_same(answer, alike)
    assert answer.usual == 0.6
