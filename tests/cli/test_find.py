"""``find`` on an image that has no regions."""

import json
from functools import partial

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from napari_maskinversion.base.errors import InputError
from napari_maskinversion.cli import find
from napari_maskinversion.images.sample_scenes import load_scene
from napari_maskinversion.pipeline import finding
from napari_maskinversion.regions.sam import prompts, sam3
from napari_maskinversion.results.export.archive import open_archive
from tests.regions.sam.tiny import SIDE, save_sam3, save_tiny


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The frog of a sample scene, and a label image of it."""
    scene, folder = load_scene("everyday-1"), tmp_path_factory.mktemp("find")
    mask = scene.regions == next(n for n, word in scene.truth.items() if word == "frog")
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    cut = (
        slice(max(0, rows[0] - 20), rows[-1] + 20),
        slice(max(0, columns[0] - 20), columns[-1] + 20),
    )
    Image.fromarray(scene.image[cut][::2, ::2]).save(folder / "frog.png")
    Image.fromarray(7 * mask[cut][::2, ::2].astype(np.uint8)).save(folder / "mask.png")
    return folder


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(finding, "_MOST", 24)


def test_words_alone_write_the_regions_that_fit(call, files, tmp_path):
    out = tmp_path / "found"
    code, said, told = call("find", files / "frog.png", "frog", "--steps", 2, "--out", out)
    assert code == 0
    assert "No SAM checkpoint" in told
    assert "frog (" in said
    labels = np.asarray(Image.open(out / "labels.tif"))
    mask = np.asarray(Image.open(files / "mask.png")) > 0
    assert (labels[mask] == 1).mean() > 0.6  # the best is number 1
    features = json.loads((out / "regions.geojson").read_text())["features"]
    table = (out / "regions.csv").read_text().splitlines()
    assert len(features) == len(table) - 1 == labels.max()
    # Each has the words as its name, and its similarity; the query stands in the record.
    frame = pd.read_csv(out / "regions.csv")
    assert set(frame["suggestion"]) == {"frog"}
    assert frame["similarity"].is_monotonic_decreasing
    assert frame["similarity"].min() >= 0.36
    assert {one["properties"]["classification"]["name"] for one in features} == {"frog"}
    record = json.loads((out / "result.json").read_text())
    assert (record["vocabulary"]["labels"], record["vocabulary"]["threshold"]) == (["frog"], 0.36)
    assert np.asarray(Image.open(out / "labels_classes.tif")).max() == 1
    # The same again is refused.
    code, _, told = call("find", files / "frog.png", "frog", "--out", out)
    assert code == 2
    assert "already has regions.csv" in told


def test_a_threshold_that_nothing_reaches_writes_nothing(call, files, tmp_path):
    """And an example may come from a file of regions or from earlier results."""
    image, mask, out = files / "frog.png", files / "mask.png", tmp_path / "found"
    few = ("--steps", 2, "--format", "npz")
    code, said, _ = call("find", image, "--like", mask, *few, "--out", out)
    assert code == 0
    assert "like" in said
    bundle = open_archive(out / "results.npz")
    assert min(bundle.columns["similarity"]) >= bundle.source["threshold"] == 0.6
    assert bundle.source["like"].endswith("mask.png")
    again = ("find", image, "--like", out / "results.npz", "--only", 1, *few)
    assert call(*again, "--threshold", 0.99, "--out", tmp_path / "itself")[0] == 0
    high = ("find", image, "frog", "--threshold", 0.99, *few)
    code, _, told = call(*high, "--out", tmp_path / "again")
    assert code == 2
    assert "No region has a similarity of 0.99 or more; the most similar has 0." in told
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "Say what to find: words"),
        (("frog", "--like", "mask.png"), "Say what to find: words"),
        (("mask.png",), "mask.png is a file; add words"),
        ((" ",), "expression is blank"),
        (("",), "expression is blank"),
        (("frog", "--threshold", "nan"), "threshold must be a finite number; got nan"),
        (("--like", "mask.png", "--threshold", "nan"), "must be a finite number; got nan"),
        (("frog", "--threshold", "7"), "threshold must be less than or equal to 1; got 7.0"),
        (
            ("--like", "mask.png", "--threshold", "7"),
            "threshold must be less than or equal to 1; got 7.0",
        ),
        (("none of these", "--threshold", "0.3"), "leave out the label or the threshold"),
        (("frog", "--only", "1"), "--only and --merge go with MASKS"),
        (("frog", "--merge", "1,2"), "--only and --merge go with MASKS"),
        (("mask.png", "frog", "--threshold", "0.3"), "only ranked: leave out --threshold"),
        (("mask.png", "frog", "--checkpoint", "vit_b"), "only ranked: leave out --threshold"),
        (("mask.png", "frog", "--overwrite"), "only ranked: leave out --threshold"),
        (("mask.png", "frog", "--like", "mask.png"), "leave them out"),
        (("frog", "--results", "results.npz"), "go with MASKS"),
        (("frog", "--checkpoint", "vit_x"), "no SAM checkpoint called 'vit_x'"),
    ],
)
def test_what_cannot_be_found_is_refused(call, files, tmp_path, monkeypatch, arguments, told):
    monkeypatch.chdir(files)
    monkeypatch.setattr(find, "load", None)  # were a model loaded: another error
    code, _, said = call("find", "frog.png", *arguments, "--out", tmp_path / "found")
    assert code == 2
    assert told in said


def test_a_typed_alpha_counts_also_without_regions(call, files, tmp_path, monkeypatch):
    seen = []

    def propose(model, source, settings, *_):
        seen.append(settings.inversion.alpha)
        raise InputError("enough")

    monkeypatch.setattr(finding, "propose", propose)
    for typed in ((), ("--alpha", 5), ("--alpha", 2)):
        call("find", files / "frog.png", "frog", "--out", tmp_path / "found", *typed)
    assert seen == [0, 5, 2]


@pytest.fixture
def sam(tmp_path, monkeypatch):
    """A checkpoint of a tiny SAM with random weights, whose masks all count."""
    sure = partial(prompts.AutomaticConfig, points_per_side=3, score=0, stability=0, overlap=0.9)
    monkeypatch.setattr(prompts, "AutomaticConfig", sure)
    return save_tiny(tmp_path / "tiny.pth")


def test_sam_proposes_where_a_checkpoint_is_there(call, files, tmp_path, sam, monkeypatch):
    out, few = tmp_path / "found", ("--steps", 1, "--threshold", -1)
    named = ("find", files / "frog.png", "frog, not a cow", "--checkpoint", sam, *few)
    code, _, told = call(*named, "--out", out)
    assert code == 0, told
    record = json.loads((out / "result.json").read_text())
    assert record["source"]["query"] == "frog, not a cow"
    assert "tiny.pth proposed " in told
    assert f"regions (whole image, reduced to {SIDE} px)." in told
    frame, labels = pd.read_csv(out / "regions.csv"), np.asarray(Image.open(out / "labels.tif"))
    assert len(frame) == labels.max() > 0
    assert labels.shape == Image.open(files / "frog.png").size[::-1]
    assert set(frame["suggestion"]) == {"frog"}
    # The one on this machine is taken without being named, and "none" leaves it out.
    monkeypatch.setattr(find, "on_disk", lambda words: sam)
    plain = ("find", files / "frog.png", "--like", files / "mask.png", "--only", 7, *few)
    assert "tiny.pth proposed " in call(*plain, "--out", tmp_path / "plain")[2]
    assert "No SAM" in call(*plain, "--checkpoint", "none", "--out", tmp_path / "none")[2]


def test_a_search_with_sam_stops_and_writes_nothing(call, files, tmp_path, sam, monkeypatch):
    def stop(bar, news):
        if "point" in getattr(news, "text", "").lower():
            raise KeyboardInterrupt

    monkeypatch.setattr(find, "_show", stop)
    call("find", files / "frog.png", "frog", "--checkpoint", sam, "--out", tmp_path / "found")
    assert not list(tmp_path.glob("found/*"))
    # SAM 3 is asked for the words that are wanted.
    monkeypatch.setattr(find, "_show", lambda bar, news: None)
    monkeypatch.setattr(sam3, "_SCORE", 2.0)
    save_sam3(tmp_path / "sam3")
    three = ("find", files / "frog.png", "frog, not a cow", "--checkpoint", tmp_path / "sam3")
    assert "sam3 finds no 'frog' in the image." in call(*three)[2]
    sam.write_bytes(sam.read_bytes()[:999])
    code, _, told = call("find", files / "frog.png", "frog", "--checkpoint", sam)
    assert code == 2
    assert "tiny.pth" in told
