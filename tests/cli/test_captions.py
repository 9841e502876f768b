"""Captions and finding by words, as a user of the command line meets them."""

import json
import re

import numpy as np
import pandas as pd
import pytest
import skimage.io

from napari_maskinversion import wrap_open_clip
from napari_maskinversion.base.progress import listening
from napari_maskinversion.cli import find, run_options
from napari_maskinversion.engine.models.specs import bundled_folder
from napari_maskinversion.language.captions import source
from napari_maskinversion.language.captions.bank import CaptionBank, open_bank
from napari_maskinversion.pipeline import job
from napari_maskinversion.pipeline import run as pipeline
from napari_maskinversion.pipeline.estimate import estimate
from napari_maskinversion.pipeline.inputs import origin
from tests.engine.tiny import tiny_clip
from tests.listeners import at
from tests.scenes import demo_model, picture

from .conftest import ok


@pytest.fixture
def files(files):
    (files / "few.txt").write_text("a red apple\n\na car\na car\n[bold]ein Fisch\n", "utf-8")
    (files / "many.txt").write_text("\n".join(f"thing {i}" for i in range(300)), "utf-8")
    (files / "table.csv").write_text("id;note;title\n1;one;a bus\n2;two;a key\n", "utf-8")
    return files


@pytest.fixture
def interrupted(monkeypatch):
    """Ctrl-C after some batches of captions."""

    def after(batches):
        real = source.build_bank

        def interrupt(_):
            raise KeyboardInterrupt

        def stopped(*arguments):
            with listening(at(batches, interrupt)):
                return real(*arguments)

        monkeypatch.setattr(source, "build_bank", stopped)

    return after


def test_a_file_is_built_once_and_searched(call, files, own_cache_folder):
    code, out, err = call("captions", "build", files / "few.txt")
    assert code == 0, err
    assert "3 captions (1 blank and 1 repeated left out), model demo" in err
    folder = out.strip()
    assert folder.startswith(str(own_cache_folder))
    for bank in (folder, files / "few.txt"):
        code, out, err = call("captions", "search", bank, "ein Fisch", "--top-k", 2)
        assert code == 0, err
        assert "3 captions, model demo" in out
        assert out.count(" │ ") == 2
        assert "[bold]ein Fisch" in out


def test_a_column_of_a_table_and_a_folder_may_be_chosen(call, files):
    table = files / "table.csv"
    code, out, err = call("captions", "build", table, "--column", "note", "--out", files / "bank")
    assert code == 0, err
    assert out.strip() == str(files / "bank")
    captions = pd.read_parquet(files / "bank" / "captions.parquet")["caption"]
    assert list(captions) == ["one", "two"]
    code, out, _ = call("captions", "search", table, "a bus", "--top-k", 1)  # the title
    assert code == 0
    assert "a bus" in out


def test_a_bank_of_an_own_model_asks_for_it_by_name(call, fine, refused, files):
    own, bank = files / "own_model", files / "bank"
    own.symlink_to(bundled_folder())
    code, _, err = call("captions", "build", files / "few.txt", "--model", own, "--out", bank)
    assert code == 0, err
    for command in (("search", bank, "dog"), ("build", bank)):
        err = refused("captions", *command)
        assert "with a model of your own, own_model; name it with --model." in err
    fine("captions", "search", bank, "dog", "--model", own)


def test_control_c_keeps_what_is_done_and_says_how_to_go_on(call, files, interrupted):
    bank = files / "bank"
    interrupted(3)
    code, out, err = call("captions", "build", files / "many.txt", "--out", bank)
    assert (code, out) == (130, "")
    said = re.search(r"Stopped: (\d+) of 300 captions are embedded", err)
    kept = int(said.group(1))
    assert 64 <= kept < 300
    assert f"captions build {bank}" in " ".join(err.split())
    assert CaptionBank.open(bank).done == kept


def test_a_half_built_bank_is_finished_from_its_folder(call, files, interrupted):
    bank = files / "bank"
    interrupted(3)
    assert call("captions", "build", files / "many.txt", "--out", bank)[0] == 130
    code, out, err = call("captions", "build", bank)
    assert code == 0, err
    assert out.strip() == str(bank)
    assert len(open_bank(bank)) == 300


def test_a_stop_before_the_first_caption_is_said(call, files, monkeypatch):
    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(source, "build_bank", stopped)
    code, _, err = call("captions", "build", files / "few.txt")
    assert code == 130
    assert "Stopped before the first captions" in err


@pytest.fixture
def run(call, files):
    def command(*options):
        start = ("run", files / "image.png", files / "masks.png", "--steps", 2)
        return call(*start, "--format", "csv,json", "--out", files / "out", "--overwrite", *options)

    return command


def test_a_run_has_labels_captions_or_both(run, files):
    code, out, err = run("--captions", files / "few.txt", "--top-k", 2)
    assert code == 0, err
    assert "caption" in out
    assert "suggestion" not in out
    assert "nan" not in out
    frame = pd.read_csv(files / "out" / "regions.csv")
    texts = {"a red apple", "a car", "[bold]ein Fisch"}
    assert set(frame["caption"]) | set(frame["caption_2"]) <= texts
    assert "caption_3" not in frame
    record = json.loads((files / "out" / "result.json").read_text("utf-8"))
    assert record["vocabulary"] is None
    assert record["captions"]["bank"]["count"] == 3
    code, out, err = run(
        "--captions", files / "table.csv", "--caption-column", "note", "--labels", "car,apple"
    )
    assert code == 0, err
    assert "suggestion" in out
    frame = pd.read_csv(files / "out" / "regions.csv")
    assert set(frame["caption"]) <= {"one", "two"}
    assert set(frame["suggestion"]) <= {"car", "apple"}


def test_a_run_finishes_a_half_built_bank_and_uses_it(run, call, files, interrupted):
    interrupted(3)
    assert call("captions", "build", files / "many.txt", "--out", files / "bank")[0] == 130
    ok(run("--captions", files / "bank"))
    assert len(open_bank(files / "bank")) == 300
    assert pd.read_csv(files / "out" / "regions.csv")["caption"].str.startswith("thing").all()


def test_a_run_that_is_stopped_has_captions_for_what_is_finished(
    run, files, monkeypatch, stopped_run
):
    monkeypatch.setattr("napari_maskinversion.pipeline.caption_ranking._A_REGION", 1)
    code, _, err = run("--captions", files / "few.txt", "--chunk-size", 2)
    assert code == 130
    assert "2 of 5 regions were finished" in err
    assert pd.read_csv(files / "out" / "regions.csv")["caption"].notna().all()


def test_regions_are_found_by_words_with_the_papers_alpha(call, files, monkeypatch, all_known):
    configs = []
    real = pipeline.run_planes

    def noted(model, tasks, vocabulary, config, **keywords):
        configs.append((config.inversion, config.window.mode))
        return real(model, tasks, vocabulary, config, **keywords)

    monkeypatch.setattr(pipeline, "run_planes", noted)
    start = ("find", files / "image.png", files / "masks.png")
    code, out, err = call(*start, "the [red] apple", "--steps", 2)
    assert code == 0, err
    assert "the [red] apple (5 regions, model demo)" in out
    rows = [line.split("│")[1:-1] for line in out.splitlines() if line.startswith("│")]
    table = [[cell.strip() for cell in row] for row in rows]
    assert [row[0] for row in table] == list("12345")
    assert {row[1] for row in table} == set("12345")
    similarities = [float(row[2]) for row in table]
    assert similarities == sorted(similarities, reverse=True)
    assert float(table[0][3]) == pytest.approx(similarities[0] - similarities[1], abs=2e-3)
    assert table[-1][3] == ""
    assert "ok" not in {row[-1] for row in table}  # no word was judged
    more = ("--alpha", 2, "--steps", 1, "--top", 2, "--window", 30, "--only", "1,2,4")
    code, out, _ = call(*start, "apple", *more, "--template", "photo")
    assert code == 0
    assert sum(line.startswith("│") for line in out.splitlines()) == 2
    assert [(config.alpha, mode) for config, mode in configs] == [(5, "auto"), (2, "fixed")]
    assert (files / "maskinversion_output").exists() is False


def test_regions_that_a_run_embedded_are_found_without_another_run(
    call, fine, refused, files, monkeypatch, tmp_path, all_known
):
    start = ("find", files / "image.png", files / "masks.png", "apple", "--steps", 1)
    _, expected, _ = call(*start)
    first = ("run", files / "image.png", files / "masks.png", "--labels", "car", "--steps", 1)
    how = ("--alpha", 5, "--format", "npz", "--out", tmp_path / "out")
    fine(*first, *how)
    monkeypatch.setattr(pipeline, "run_planes", None)  # were it run again: an error
    again = ("--results", tmp_path / "out" / "results.npz")
    code, out, err = call(*start, *again)
    assert code == 0, err
    assert " ok " not in out
    assert [line.split("│")[2:4] for line in out.splitlines() if "│" in line] == [
        line.split("│")[2:4] for line in expected.splitlines() if "│" in line
    ]
    for more, says in (
        (("--alpha", 0), "alpha 5.0 instead of 0.0"),
        (("--window", 30), "window auto instead of 30"),
        (("--square",), "keep_aspect True instead of False"),
        (("--resolution", 64), "resolution None instead of 64"),
        (("--only", "1,2"), "other regions"),
    ):
        err = refused(*start, *again, *more)
        assert says in err
        assert len(err.strip().splitlines()) == 1
    with monkeypatch.context() as patch:
        patch.setattr(job, "origin", lambda *files: origin(*files) | {"channels": "0,2"})
        assert "other channels" in call(*start, *again)[2]
        patch.setattr(find, "load", lambda *_: wrap_open_clip(tiny_clip()))
        assert "model demo instead of" in call(*start, *again)[2]
    skimage.io.imsave(files / "image.png", picture()[::-1], check_contrast=False)
    assert "another image" in refused(*start, *again)
    assert "image.png" in refused(*start, "--results", files / "image.png")


def test_regions_are_found_again_if_each_was_seen_as_a_run_would_see_it_now(
    fine, refused, tmp_path, monkeypatch, all_known
):
    """A region in a window is seen at the model's own resolution, one on the whole image is not."""
    image, masks, sides = tmp_path / "image.png", tmp_path / "masks.png", []
    skimage.io.imsave(image, picture(300, 400), check_contrast=False)
    labels = np.zeros((300, 400), np.uint8)
    labels[20:44, 20:44], labels[100:200, 150:250] = 1, 2
    skimage.io.imsave(masks, labels, check_contrast=False)

    def estimating(*tasks, **known):
        sides.append(known.get("native"))
        return estimate(*tasks, **known)

    monkeypatch.setattr(demo_model(), "working_resolution", 256)  # as CLIP does
    monkeypatch.setattr(run_options, "estimate", estimating)
    for out, more in (("auto", ()), ("native", ("--resolution", 128))):
        few = ("--labels", "car", "--steps", 1, "--alpha", 5, "--format", "npz")
        fine("run", image, masks, *few, "--out", tmp_path / out, *more)
    assert sides == [128, None]
    start = ("find", image, masks, "apple", "--steps", 1, "--results")
    fine(*start, tmp_path / "auto/results.npz")
    says = "resolution 128 instead of None"
    assert says in refused(*start, tmp_path / "native/results.npz")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("captions", "build", "gone.txt"), "There is no file of captions at gone.txt"),
        (("captions", "build", "latin.txt"), "--encoding latin-1"),
        (("captions", "build", "few.txt", "--column", "x"), "no column x"),
        (("captions", "build", "few.txt", "--out", "."), "contains other files"),
        (("captions", "build", "."), "no caption bank in"),
        (("captions", "build", "few.txt", "--model", "ViT-B-61/openai"), "ViT-B-61"),
        (("captions", "search", "few.txt", " "), "expression is blank"),
        (("find", "image.png", "masks.png", " "), "expression is blank"),
        (("find", "image.png", "masks.png", "dog", "--template", "dog"), "Unknown template 'dog'"),
        (("find", "image.png", "masks.png", "dog", "--alpha", "-1"), "alpha"),
        (("find", "image.png", "gone.png", "dog"), "no masks at"),
        (("run", "image.png", "masks.png"), "--labels dog,cat or --captions FILE, or both"),
        (
            ("run", "image.png", "masks.png", "--captions", "gone.txt"),
            "There is no file of captions at gone.txt",
        ),
        (("run", "image.png", "masks.png", "--captions", "few.txt", "--top-k", "0"), "got 0"),
    ],
)
def test_bad_input_is_one_line_before_any_work(call, files, monkeypatch, arguments, says):
    monkeypatch.chdir(files)
    (files / "latin.txt").write_bytes("Wölfe\n".encode("latin-1"))
    before = sorted(files.iterdir())
    code, out, err = call(*arguments)
    assert code == 2
    assert says in err
    assert out == ""
    assert len(err.strip().splitlines()) == 1
    assert sorted(files.iterdir()) == before
