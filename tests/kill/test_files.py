"""Runs, exports and caption banks that are killed."""

import hashlib
import json
import re
import shutil

import pytest
import skimage.io

from napari_maskinversion.language.captions.bank import CaptionBank
from napari_maskinversion.results.export.catalogue import FORMATS
from tests.scenes import label_image, write_scene

ALL = ",".join(FORMATS)
HIDDEN = re.compile(r"\.(part|commit|commit-new|tmp)$")
FAST = ("--steps", "1", "--resolution", "64")


def run(labels, masks, *more):
    words = ("run", "image.png", masks, "--labels", labels, *FAST, "--format", ALL)
    return (*words, "--out", "out", *more)


def hashes(folder):
    """Return a hash of each file; a zarr store, whose chunks may stay away, counts as one."""
    parts = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            inner = path.relative_to(folder)
            store = next((one for one in inner.parents if one.suffix == ".zarr"), inner)
            digest = parts.setdefault(store.as_posix(), hashlib.sha256())
            digest.update(inner.as_posix().encode() + path.read_bytes())
    return {name: digest.hexdigest() for name, digest in parts.items()}


def is_new(before, after):
    """Whether all files are new; none or all of them must be."""
    assert after.keys() == before.keys()
    new = {name for name in after if after[name] != before[name]}
    assert new in (set(), after.keys()), sorted(new)
    return bool(new)


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    """A folder with an image, two kinds of regions, and captions."""
    folder = write_scene(tmp_path_factory.mktemp("scene"), 2)
    skimage.io.imsave(folder / "more.png", label_image(5), check_contrast=False)
    (folder / "captions.txt").write_text("".join(f"a photo of {n} cats\n" for n in range(40)))
    return folder


@pytest.fixture
def place(scene, tmp_path):
    """A copy of it."""
    return shutil.copytree(scene, tmp_path / "place")


MEASURED = {}


@pytest.fixture
def whole(forks, scene, place):
    """Results of a run in the folder, and how much a whole run that replaces them does."""
    if "run" not in MEASURED:
        for words in (run("car,dog", "masks.png"), run("cat,fish", "more.png", "--overwrite")):
            done = forks.run("command", *words, folder=place)
            assert done["code"] == 0, done["said"]
            if not (scene / "out").exists():
                shutil.copytree(place / "out", scene / "out")
            MEASURED["run"] = done
    shutil.rmtree(place / "out", ignore_errors=True)
    shutil.copytree(scene / "out", place / "out")
    return MEASURED["run"]


def test_results_are_the_old_or_the_new_ones(forks, killed, place, whole, number):
    old = hashes(place / "out")
    again = run("cat,fish", "more.png")
    work = ("command", *again, "--overwrite")
    killed(*work, folder=place, number=number, whole=whole)
    # The next start looks after what is left, and refuses to replace the results.
    refused = forks.run("command", *again, folder=place)
    assert (refused["code"], "already has" in refused["said"]) == (2, True), refused["said"]
    new = is_new(old, hashes(place / "out"))
    record = json.loads((place / "out" / "result.json").read_text("utf-8"))
    embeddings = hashlib.sha256((place / "out" / "embeddings.npy").read_bytes()).hexdigest()
    assert record["embeddings"]["sha256"] == embeddings
    assert len(record["regions"]) == (5 if new else 2)
    done = forks.run("command", *again, "--overwrite", folder=place)
    assert done["code"] == 0, done["said"]
    assert is_new(old, hashes(place / "out"))


def test_a_batch_of_exports_is_finished_by_the_next_one(forks, killed, place, whole, number):
    old = hashes(place / "out")
    formats = ("--format", ALL, "--overwrite")
    source = ("export", "out/results.npz")
    calls = json.dumps([[*source, "--out", f"e{n}", *formats] for n in range(3)])
    share = {"operations": 2 * whole["operations"], "seconds": whole["seconds"]}
    killed("batch", calls, folder=place, number=number, whole=share)
    done = forks.run("batch", calls, folder=place)
    assert done["code"] == 0, done["said"]
    for n in range(3):
        written = hashes(place / f"e{n}")
        assert written.keys() == old.keys()
        assert not any(HIDDEN.search(name) for name in written)
    assert hashes(place / "out") == old


def test_a_bank_is_finished_by_the_next_start(forks, killed, place, number):
    build = ("command", "captions", "build", "captions.txt", "--out", "bank")
    whole = forks.run(*build[:-1], "whole", folder=place)
    assert whole["code"] == 0, whole["said"]
    killed(*build, folder=place, number=number, whole=whole)
    done = forks.run(*build, folder=place)
    assert done["code"] == 0, done["said"]
    assert hashes(place / "bank").keys() == hashes(place / "whole").keys()
    whole, finished = (CaptionBank.open(place / name) for name in ("whole", "bank"))
    assert finished.read_texts() == whole.read_texts()
    for (first, rows), (other, expected) in zip(
        finished.read_vectors(), whole.read_vectors(), strict=True
    ):
        assert (first, rows.tolist()) == (other, expected.tolist())


@pytest.fixture
def projects(forks, scene):
    """Two projects of the same images, with other regions and words each, and their exports."""
    for name, words, masks in (("one", "car,dog", "masks.png"), ("two", "cat,fish", "more.png")):
        if (scene / name / "whole").exists():
            continue
        (scene / name).mkdir()
        rows = "".join(f"../image.png,../{masks},{image}\n" for image in "ab")
        (scene / name / "table.csv").write_text(f"image,regions,name\n{rows}")
        new = ("project", "new", name, "--table", f"{name}/table.csv", "--labels", words, *FAST)
        batch = ("batch", name, "--out", f"{name}/maskinversion_batch")
        for call in (new, batch, ("project", "export", name, "--out", f"{name}/whole")):
            done = forks.run("command", *call, folder=scene)
            assert done["code"] == 0, done["said"]
        MEASURED["project"] = done
    return scene


def test_an_export_of_a_project_is_the_old_or_the_new_one(
    forks, killed, tmp_path, projects, number
):
    place = shutil.copytree(projects, tmp_path / "place")
    old = hashes(place / "one/whole")
    again = ("project", "export", "two", "--out", "one/whole")
    work = ("command", *again, "--overwrite")
    killed(*work, folder=place, number=number, whole=MEASURED["project"])
    refused = forks.run("command", *again, folder=place)
    assert (refused["code"], "already has" in refused["said"]) == (2, True), refused["said"]
    is_new(old, hashes(place / "one/whole"))
    done = forks.run(*work, folder=place)
    assert done["code"] == 0, done["said"]
    assert is_new(old, hashes(place / "one/whole"))
