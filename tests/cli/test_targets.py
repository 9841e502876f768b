"""No command replaces an input, or a file that is not its own unless asked."""

import json
import shutil

import pytest

from napari_maskinversion.cli import run as cli_run
from tests.scenes import demo_model, write_scene

RUN = ("run", "image.png", "masks.png", "--labels", "car,dog", "--steps", "1")
FOLDER = ("bench", "folder", "--images", "im", "--masks", "ma", "--names", "names.txt")
FIGURES = {"kind": "steps", "format": 1, "settings": {"steps": 1}, "parts": {"drawn": {}}}


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with images, regions, names, labels and figures, in which commands are called."""
    monkeypatch.chdir(write_scene(tmp_path))
    for folder, name in (("im", "image.png"), ("ma", "masks.png")):
        (tmp_path / folder).mkdir()
        shutil.copy(tmp_path / name, tmp_path / folder / "a.png")
    (tmp_path / "names.txt").write_text("car\ndog\n")
    (tmp_path / "boxes.csv").write_text("x,y,width,height\n5,5,20,20\n")
    (tmp_path / "figures.json").write_text(json.dumps(FIGURES))
    (tmp_path / "out").mkdir()
    for name in ("diary.txt", "diary.png", "diary.tif", "out/regions.csv", "out/steps-dark.svg"):
        (tmp_path / name).write_text("my diary")
    return tmp_path


def contents(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


INPUTS = (
    (*RUN, "--out", ".", "--format", "masks"),
    ("run", "image.png", "several", *RUN[3:], "--out", "several", "--format", "masks"),
    ("run", "image.png", "masks.png", "--labels", "im/regions.csv", "--out", "im"),
    (*FOLDER, "--json", "im/a.png"),
    (*FOLDER, "--markdown", "names.txt"),
    (*FOLDER, "--markdown", "ma/a.png"),
    ("bench", "show", "figures.json", "--markdown", "figures.json"),
    ("rollout", "image.png", "--out", "image.png"),
    ("segment", "image.png", "--boxes", "boxes.csv", "--out", "plane.tif"),
    ("labels", "convert", "names.txt", "names.txt"),
    ("bench", "paper", "--table", "1", "--out", "im", "--method-weights", "im/table-1.csv"),
    ("bench", "tune", "--out", "im", "--data", "im"),
)


@pytest.mark.parametrize("command", INPUTS, ids=" ".join)
def test_an_input_is_not_replaced_even_where_replacing_is_allowed(refused, place, command):
    (place / "several").mkdir()
    for folder in (place, place / "several"):
        (folder / "labels.tif").hardlink_to(place / "masks.png")
    (place / "im" / "regions.csv").write_text("name\ncar\nkey\n")
    (place / "plane.tif").symlink_to(place / "image.png")
    for name in ("table-1.csv", "tune.csv"):
        (place / "im" / name).write_text("mine")
    before = contents(place)
    assert "is an input" in refused(*command, "--overwrite")
    assert contents(place) == before


def test_captions_and_embeddings_of_the_user_are_no_bank(refused, place):
    (place / "caps").mkdir()
    (place / "caps/captions.txt").write_text("a car\n\na car\n")
    (place / "caps/vectors.npy").write_text("mine")
    (place / "mine.txt").write_text("a dog\n")
    before = contents(place)
    for file in ("caps/captions.txt", "mine.txt"):
        err = refused("captions", "build", file, "--out", "caps", "--model", "demo")
        assert "contains other files (captions.txt, vectors.npy)" in err
        assert contents(place) == before


def test_a_document_that_mentions_the_program_is_not_its_own(call, refused, place):
    (place / "notes.md").write_text("What I tried with napari-maskinversion")
    (place / "diary.jsonl").write_text('{"day": 1}\n')
    before = contents(place)
    show, steps = ("bench", "show", "figures.json"), ("bench", "steps")
    for command in ((*show, "--markdown", "notes.md"), (*steps, "--json", "diary.jsonl")):
        refused(*command)
        assert contents(place) == before
    (place / "own.md").write_text("<!-- napari-maskinversion bench -->\n\nof the last time")
    assert "already has" not in call(*show, "--markdown", "own.md")[2]


def test_a_folder_of_other_files_is_no_model_in_training(refused, place):
    (place / "out/history.jsonl").write_text("mine")
    before = contents(place)
    for more in ((), ("--warm", "out")):
        assert "choose" in refused("rebuild-demo", "out", "--budget", "1", *more)
        assert contents(place) == before


FOREIGN = (
    (*RUN, "--out", "out"),
    (*FOLDER, "--json", "diary.txt"),
    (*FOLDER, "--markdown", "diary.txt"),
    ("bench", "show", "figures.json", "--markdown", "diary.txt"),
    ("bench", "show", "figures.json", "--plots", "out"),
    ("bench", "steps", "--json", "diary.txt"),
    ("bench", "scenes", "--short", "--markdown", "diary.txt"),
    ("rollout", "image.png", "--out", "diary.png"),
    ("segment", "image.png", "--boxes", "boxes.csv", "--out", "diary.tif"),
    ("labels", "convert", "names.txt", "diary.txt"),
)


@pytest.mark.parametrize("command", FOREIGN, ids=" ".join)
def test_a_foreign_file_is_not_replaced_unless_asked(refused, place, command):
    before = contents(place)
    assert "already has" in refused(*command)
    assert contents(place) == before


def test_two_outputs_of_one_name_are_refused(call, place):
    words = (*FOLDER, "--json", "new/figures", "--markdown", "new/../new/figures")
    code, _, err = call(*words)
    assert (code, "Two outputs are to be written to" in err, "figures; give" in err) == (
        2,
        True,
        True,
    )
    assert not (place / "new").exists()


def test_a_folder_in_the_place_of_a_file_is_refused_before_the_work(call, place, monkeypatch):
    monkeypatch.setattr(cli_run, "load", lambda *_: pytest.fail("the work has begun"))
    (place / "new").mkdir()
    (place / "new" / "regions.csv").mkdir()
    code, _, err = call(*RUN, "--out", "new", "--overwrite")
    assert (code, "regions.csv is a folder" in err) == (2, True)


def test_a_file_that_appears_during_a_run_stays_and_the_results_too(refused, place, monkeypatch):
    """As when two runs write into one new folder."""

    def loading(*_):
        (place / "new").mkdir()
        (place / "new" / "regions.csv").write_text("of another run")
        return demo_model()

    monkeypatch.setattr(cli_run, "load", loading)
    err = refused(*RUN, "--out", "new", "--format", "csv,json")
    assert "regions.csv has appeared" in err
    assert (place / "new" / "regions.csv").read_text() == "of another run"
    (kept,) = (place / "new").glob("unmoved-*")
    assert kept.name in err
    assert {path.name for path in kept.iterdir()} == {"regions.csv", "result.json"}


def test_all_files_of_a_run_have_its_number_and_the_hash_of_its_embeddings(fine, place):
    from hashlib import sha256

    fine(*RUN, "--out", "new", "--format", "npy,json,npz")
    record = json.loads((place / "new" / "result.json").read_text("utf-8"))
    about = json.loads((place / "new" / "embeddings.json").read_text("utf-8"))
    embeddings = (place / "new" / "embeddings.npy").read_bytes()
    assert record["embeddings"]["sha256"] == sha256(embeddings).hexdigest()
    assert len(record["run"]) == 32
    assert about["run"] == record["run"]
    fine("export", "new/results.npz", "--out", "more", "--format", "json")
    again = json.loads((place / "more" / "result.json").read_text("utf-8"))
    assert again["run"] == record["run"]
