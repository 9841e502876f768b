"""The command line, as a user meets it."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import skimage.io
import tifffile
import torch
import zarr

from napari_maskinversion.cli import run as run_module
from napari_maskinversion.engine.models.registry import get_spec
from napari_maskinversion.engine.models.specs import bundled_folder
from napari_maskinversion.images.stack import stack_of
from napari_maskinversion.language.labels.presets import preset
from napari_maskinversion.pipeline import inputs as pipeline_inputs
from napari_maskinversion.pipeline import model_check
from napari_maskinversion.pipeline import run as pipeline
from napari_maskinversion.pipeline.timings import forget
from napari_maskinversion.results.export import heatmaps
from napari_maskinversion.results.settings import RunSettings
from tests.scenes import demo_model, label_image, picture

from .conftest import ok, refusal


@pytest.fixture
def run(call, files):
    """Call `run` with two steps; later options win."""

    def command(*options, image="image.png", masks="masks.png", labels="car,apple,key"):
        start = ["run", files / image, files / masks, "--labels", labels, "--steps", 2]
        return call(*start, "--out", files / "out", *options)

    return command


def test_limits_of_what_is_unsure_can_be_said(run, files, all_known):
    off = ("--least-tokens", 0, "--least-overlap", 0, "--least-margin", 0)
    assert run(*off)[0] == 0
    table = pd.read_csv(files / "out" / "regions.csv")
    assert not table["status"].str.contains("doubtful|fit").any()
    assert run(*off, "--least-overlap", 1, "--overwrite")[0] == 0
    status = pd.read_csv(files / "out" / "regions.csv")["status"]
    assert status.str.contains("low overlap").all()
    assert "overlap must be less than or equal to 1; got 2" in refusal(run("--least-overlap", 2))


@pytest.mark.parametrize("route", ["direct", "decomposed"])
def test_two_runs_write_the_same_bytes_and_say_what_computed_them(run, files, route):
    written = []
    for name in ("first", "second"):
        assert run("--route", route, "--out", files / name)[0] == 0
        record = json.loads((files / name / "result.json").read_text())
        assert {region["window"]["route"] for region in record["regions"]} == {route}
        assert {region["window"]["memory_note"] for region in record["regions"]} == {""}
        assert record["machine"]["threads"] == torch.get_num_threads()
        written.append((files / name / "embeddings.npy").read_bytes())
    assert written[0] == written[1]


def test_another_map_is_chosen_and_recorded(run, files):
    embeddings = []
    for name in ("legrad", "chefer"):
        ok(run("--explainer", name, "--format", "npy,json", "--overwrite"))
        embeddings.append(np.load(files / "out" / "embeddings.npy"))
        config = json.loads((files / "out" / "result.json").read_text())["config"]
        assert config["explainer"] == name
    assert np.abs(embeddings[0] - embeddings[1]).max() > 1e-3
    assert "does not depend on the embedding" in refusal(run("--explainer", "rollout"))


def test_run_writes_everything_and_prints_a_ranked_table(run, files):
    code, out, err = run()
    assert code == 0, err
    names = {path.name for path in (files / "out").iterdir()}
    assert names == {
        "embeddings.npy",
        "embeddings.json",
        "regions.csv",
        "result.json",
        "heatmaps.tif",
    }
    frame = pd.read_csv(files / "out" / "regions.csv")
    assert list(frame["region"]) == [1, 2, 3, 4, 5]
    for label in frame["suggestion"]:
        assert label in out
    array = np.load(files / "out" / "embeddings.npy")
    np.testing.assert_allclose(np.linalg.norm(array, axis=1), 1, atol=1e-6)
    assert tifffile.imread(files / "out" / "heatmaps.tif").shape == (5, 60, 80)
    record = json.loads((files / "out" / "result.json").read_text())
    assert record["config"]["steps"] == 2
    assert record["source"]["image"]["file"] == "image.png"
    assert len(record["source"]["masks"]["sha256"]) == 64


def test_masks_may_be_a_folder_and_labels_a_file(run, files):
    (files / "folder").mkdir()
    for value in (1, 2):
        mask = (label_image(5) == value).astype(np.uint8) * 255
        skimage.io.imsave(files / "folder" / f"{value}.png", mask, check_contrast=False)
    (files / "labels.txt").write_text("car\napple\n")
    options = ("--format", "csv,json", "--template", "a drawing of a {}")
    ok(run(*options, masks="folder", labels=str(files / "labels.txt")))
    assert {path.name for path in (files / "out").iterdir()} == {"regions.csv", "result.json"}
    masks = json.loads((files / "out" / "result.json").read_text())["source"]["masks"]
    assert masks["folder"] == "folder"
    assert masks["regions"]["2"]["file"] == "2.png"


def test_a_disk_that_fills_is_one_line(run, files, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    err = refusal(run())
    assert "No space left on device" in err
    assert "Traceback" not in err
    assert list((files / "out").iterdir()) == []


def test_the_size_of_a_run_is_said_before_it_and_its_time_from_the_second_on(run):
    forget()
    first = run("--format", "csv")[2]
    assert "5 regions\n" in first
    second = run("--format", "csv", "--overwrite")[2]
    assert "5 regions, about " in second


def test_windows_merged_regions_and_units_reach_the_files(run, files):
    ok(run("--window", "20", "--only", "1,3,5", "--merge", "1,5", "--pixel-size", "0.5"))
    frame = pd.read_csv(files / "out" / "regions.csv")
    assert list(frame["region"]) == [1, 3]
    assert frame["merged"][0] == "1 5"
    np.testing.assert_allclose(frame["area"], frame["area_px"] / 4, rtol=1e-12)
    assert set(frame["unit"]) == {"µm"}
    record = json.loads((files / "out" / "result.json").read_text())
    assert record["regions"][0]["members"] == [1, 5]
    assert record["units"]["unit"] == "µm"
    box = record["regions"][1]["window"]["box_yxyx"]
    assert 0 < box[2] - box[0] < 60
    (y0, x0, y1, x1), inside = map(round, box), np.zeros((60, 80), bool)
    inside[y0:y1, x0:x1] = True
    with tifffile.TiffFile(files / "out" / "heatmaps.tif") as file:
        page, about = file.asarray()[1], file.shaped_metadata[0]
    assert page.shape == (60, 80)  # it lies on the image
    assert page[inside].max() > 0.9
    assert not page[~inside].any()
    assert (about["plane"], about["boxes_yxyx"]) == ([60, 80], [[0, 0, 60, 80]] * 2)


def test_heatmaps_that_would_be_too_large_say_where_they_lie(run, files, monkeypatch):
    monkeypatch.setattr(heatmaps, "_MOST_BYTES", 4 * 60 * 80)
    ok(run("--window", "20", "--only", "1,3"))
    record = json.loads((files / "out" / "result.json").read_text())
    with tifffile.TiffFile(files / "out" / "heatmaps.tif") as file:
        pages, about = file.asarray(), file.shaped_metadata[0]
    windows = [region["window"] for region in record["regions"]]
    assert [list(page.shape) for page in pages] == [one["model_input"] for one in windows]
    assert about["boxes_yxyx"] == [one["box_yxyx"] for one in windows]
    assert about["plane"] == [60, 80]


def positions(path):
    """An OME-TIFF with three positions of a stage, each with two named channels."""
    with tifffile.TiffWriter(path, ome=True) as writer:
        for number in range(3):
            pixels = picture(seed=number)[..., :2].transpose(2, 0, 1)
            names = {"axes": "CYX", "Name": f"Pos{number}", "Channel": {"Name": ["DAPI", "GFP"]}}
            writer.write(pixels, photometric="minisblack", metadata=names)


def test_of_several_positions_the_first_is_used_and_said_or_the_one_chosen(run, fine, files):
    positions(files / "stage.ome.tif")
    options = ("--format", "json,npz", "--overwrite")
    err = ok(run(*options, image="stage.ome.tif"))
    assert "holds 3 images (Pos0, Pos1, Pos2); the first one is used. Choose another with" in err
    assert "has 2 channels (0 DAPI, 1 GFP); the model sees all of them" in err
    source = json.loads((files / "out" / "result.json").read_text())["source"]
    assert (source["image"]["series"], source["image"]["image_in_file"]) == (0, "Pos0")
    assert source["channels_used"] == ["0 DAPI", "1 GFP"]
    err = ok(run(*options, "--series", "2", "--channels", "GFP", image="stage.ome.tif"))
    assert "holds 3 images" not in err
    assert "channels" not in err
    record = json.loads((files / "out" / "result.json").read_text())
    assert record["source"]["image"]["image_in_file"] == "Pos2"
    assert record["source"]["channels_used"] == ["1 GFP"]
    assert record["settings"]["series"] == 2
    export = ("export", files / "out" / "results.npz", "--format", "csv", "--image")
    fine(*export, files / "stage.ome.tif", "--out", files / "b")
    err = refusal(run(*options, "--series", "3", image="stage.ome.tif"))
    assert "has no image 3; it holds 3 (0 Pos0, 1 Pos1, 2 Pos2)" in err


def test_planes_and_channels_of_a_stack_reach_the_files(run, files):
    """As a user types it: every plane, or one; some channels; units from the file."""
    stack = np.stack([picture(seed=i) for i in range(3)])[..., :2].transpose(0, 3, 1, 2)
    labels = np.zeros((3, 60, 80), np.int32)
    labels[0, 5:30, 5:30] = 4
    labels[2, 5:40, 5:40] = 4
    labels[2, 10:50, 45:75] = 9
    about = {"axes": "ZCYX", "PhysicalSizeX": 0.5, "PhysicalSizeY": 0.5, "PhysicalSizeXUnit": "µm"}
    tifffile.imwrite(files / "image.ome.tif", stack, photometric="minisblack", metadata=about)
    tifffile.imwrite(files / "labels.tif", labels, photometric="minisblack", compression="zlib")
    names = {"image": "image.ome.tif", "masks": "labels.tif"}
    options = ("--format", "csv,json", "--overwrite")

    def rows(*more):
        ok(run(*options, *more, **names))
        frame = pd.read_csv(files / "out" / "regions.csv")
        np.testing.assert_allclose(frame["area"], frame["area_px"] / 4, rtol=1e-12)
        return list(zip(frame["region"], frame["z"], frame["area_px"], strict=True))

    assert rows("--planes", "largest") == [(4, 2, 35 * 35), (9, 2, 1200)]
    everywhere = [(4, 0, 625), (4, 2, 35 * 35), (9, 2, 1200)]
    assert rows("--planes", "each", "--channels", "1") == everywhere
    assert rows("--plane", "z=0", "--channels", "0,1") == [(4, 0, 625)]
    record = json.loads((files / "out" / "result.json").read_text())
    assert record["regions"][0]["plane"] == {"z": 0}
    for more, says in [
        ((), "choose one (z=0 to z=2"),
        (("--plane", "z=1,z=2"), "names z twice"),
        (("--plane", "z=1"), "no region on plane z=1"),
        (("--planes", "each", "--merge", "4,9"), "one plane"),
        (("--planes", "each", "--only", "5"), "None of the chosen"),
        (("--planes", "each", "--only", "4,5"), "no region 5"),
    ]:
        err = refusal(run(*options, *more, **names))
        assert says in " ".join(err.split())


def test_a_georeference_reaches_every_file(run, files):
    tags = [
        (33550, "d", 3, (0.5, 0.5, 0.0), True),
        (33922, "d", 6, (0.0, 0.0, 0.0, 330000.0, 2790000.0, 0.0), True),
        (34735, "H", 16, (1, 1, 0, 3, 1024, 0, 1, 1, 1025, 0, 1, 1, 3072, 0, 1, 32640), True),
    ]
    tifffile.imwrite(files / "geo.tif", picture(), photometric="rgb", extratags=tags)
    ok(run("--format", "csv,json", "--only", "2", image="geo.tif"))
    frame = pd.read_csv(files / "out" / "regions.csv")
    rows, columns = np.nonzero(label_image(5) == 2)
    # The outer corner of the first pixel lies at (330000, 2790000); y falls from row to row.
    assert frame["world_x"][0] == pytest.approx(330000 + 0.5 * (columns.mean() + 0.5))
    assert frame["world_y"][0] == pytest.approx(2790000 - 0.5 * (rows.mean() + 0.5))
    assert (frame["area"][0], frame["unit"][0]) == (len(rows) / 4, "m")
    record = json.loads((files / "out" / "result.json").read_text())
    assert record["units"]["geo"]["epsg"] == 32640
    assert record["regions"][0]["world_xy"] == [frame["world_x"][0], frame["world_y"][0]]


def test_zarr_folders_are_images_and_labels(run, files):
    zarr.save_array(str(files / "image.zarr"), picture())
    zarr.save_array(str(files / "labels.zarr"), label_image(3))
    ok(run("--format", "csv,json", image="image.zarr", masks="labels.zarr"))
    record = json.loads((files / "out" / "result.json").read_text())
    assert record["source"]["image"]["folder"] == "image.zarr"
    assert [region["id"] for region in record["regions"]] == [1, 2, 3]


def test_a_huge_file_is_known_by_its_size_and_not_hashed(files, monkeypatch):
    monkeypatch.setattr(pipeline_inputs, "_HASHED", 100)
    size = (files / "image.png").stat().st_size
    stack = stack_of(np.zeros((60, 80)))
    source = pipeline_inputs.origin(files / "image.png", files / "masks.png", RunSettings(), stack)
    assert source["image"]["bytes"] == size
    assert "sha256" not in source["image"]


def bad_mask(files):
    skimage.io.imsave(files / "bad.png", label_image(3, 30, 40), check_contrast=False)


def constant_image(files):
    skimage.io.imsave(files / "bad.png", np.full((60, 80), 9, np.uint8), check_contrast=False)


def nan_image(files):
    array = np.full((60, 80), np.nan)
    tifffile.imwrite(files / "bad.tif", array.astype(np.float32))


def text_file(files):
    (files / "bad.png").write_text("no picture")


def corrupt_checkpoint(files):
    (files / "bad.safetensors").write_bytes(b"\x10\0\0\0\0\0\0\0not json at all")


def foreign_checkpoint(files):
    from safetensors.numpy import save_file

    save_file({"conv.weight": np.ones((3, 3), np.float32)}, files / "bad.safetensors")


def blocked_folder(files):
    (files / "blocker").write_text("a file, no folder")


@pytest.mark.parametrize(
    ("prepare", "changes", "options", "says"),
    [
        (None, {"image": "gone.png"}, (), "no image at"),
        (text_file, {"image": "bad.png"}, (), "could not be read as image"),
        (nan_image, {"image": "bad.tif"}, (), "no finite value"),
        (None, {}, ("--window", "big"), "such as 512"),
        (None, {}, ("--context", "0.5"), "context must be greater than or equal to 1; got 0.5"),
        (None, {}, ("--only", "77"), "no region 77"),
        (None, {}, ("--only", "x"), "--only takes labels"),
        (None, {}, ("--merge", "3"), "two ids"),
        (None, {}, ("--plane", "z=1"), "no axis"),
        (None, {}, ("--planes", "most"), "planes must be 'largest' or 'each'; got 'most'"),
        (None, {}, ("--channels", "0"), "colour image"),
        (None, {}, ("--pixel-size", "0"), "pixel_size must be greater than 0; got 0"),
        (constant_image, {"image": "bad.png"}, (), "same value"),
        (None, {"masks": "gone.png"}, (), "no masks at"),
        (bad_mask, {"masks": "bad.png"}, (), "30 x 40 px but the image is 60 x 80"),
        (None, {"labels": " , "}, (), "no labels"),
        (None, {"labels": "gone.txt"}, (), "no label file"),
        (None, {}, ("--model", "ViT-B-61/openai"), "ViT-B-61"),
        (None, {}, ("--model", "ViT-B-16/openai"), "demo"),
        (corrupt_checkpoint, {}, ("--model", "BAD", "--architecture", "ViT-B-16"), "bad.safetens"),
        (foreign_checkpoint, {}, ("--model", "BAD", "--architecture", "ViT-B-16"), "ViT-B-16"),
        (None, {}, ("--template", "photograph"), "Unknown template"),
        (None, {}, ("--format", "xml"), "Unknown format"),
        (None, {}, ("--format", " "), "at least one format"),
        (None, {}, ("--steps", "0"), "steps must be greater than or equal to 1; got 0"),
        (None, {}, ("--chunk-size", "0"), "chunk_size must be greater than or equal to 1; got 0"),
        (None, {}, ("--resolution", "-5"), "-5"),
        (None, {}, ("--layers", "99"), "99"),
        (None, {}, ("--device", "tpu"), "tpu"),
        (blocked_folder, {}, ("--out", "BLOCKED"), "cannot be written to"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_two(run, files, prepare, changes, options, says):
    if prepare is not None:
        prepare(files)
    places = {"BAD": files / "bad.safetensors", "BLOCKED": files / "blocker" / "out"}
    code, out, err = run(*(places.get(option, option) for option in options), **changes)
    assert code == 2
    assert says in err
    assert out == ""
    assert "Traceback" not in err
    assert len(err.strip().splitlines()) == 1
    assert not (files / "out").exists()


def test_a_list_of_eighty_labels_is_no_file_name(run, files):
    labels = [f"label number {number}" for number in range(80)]
    ok(run("--format", "json", labels=",".join(labels)))
    record = json.loads((files / "out" / "result.json").read_text())
    assert record["vocabulary"]["labels"] == labels


def test_heatmaps_that_the_disk_cannot_hold_are_refused_before_the_work(run, monkeypatch, files):
    usage = SimpleNamespace(total=10**6, used=10**6 - 50, free=50)
    monkeypatch.setattr("shutil.disk_usage", lambda place: usage)
    assert "--format npy,csv,json" in refusal(run())
    assert not (files / "out").exists()
    assert run("--format", "csv")[0] == 0


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("CUDA out of memory. Tried ..."),
        RuntimeError("DefaultCPUAllocator: can't allocate memory"),
    ],
)
def test_too_little_memory_is_one_line(run, monkeypatch, error):
    def full(*_, **__):
        raise error

    monkeypatch.setattr(run_module, "load", full)
    err = refusal(run())
    assert "--chunk-size" in err
    assert "Traceback" not in err


def test_inputs_are_hashed_before_the_work(run, monkeypatch, files):
    real = pipeline.run_planes

    def moved(*arguments, **keywords):
        (files / "image.png").unlink()
        return real(*arguments, **keywords)

    monkeypatch.setattr(pipeline, "run_planes", moved)
    assert run()[0] == 0
    assert json.loads((files / "out" / "result.json").read_text())["source"]["image"]["sha256"]


def test_control_c_keeps_the_chunks_that_are_finished(run, files, stopped_run):
    code, _, err = run("--chunk-size", 2)
    assert code == 130
    assert "2 of 5 regions were finished" in err
    assert list(pd.read_csv(files / "out" / "regions.csv")["region"]) == [1, 2]


def test_models_are_listed_and_placed(call, own_cache_folder):
    code, out, _ = call("models", "list")
    assert code == 0
    for name in ("demo", "ViT-B-32/openai", "ViT-L-14-336/openai", "ViT-H-14/laion2b_s32b_b79k"):
        assert name in out
    assert "bundled" in out
    assert "to fetch" in out
    assert call("models", "where")[1].strip() == str(own_cache_folder)


def test_a_fetch_without_network_is_one_line_that_names_the_bundled_model(refused):
    err = refused("models", "fetch", "ViT-B-16/openai")
    line = err.strip().splitlines()[-1]
    assert line.startswith("Error:")
    assert "demo" in line


def test_a_model_of_a_field_says_its_source_and_prompts(call, fine, files, tmp_path, monkeypatch):
    out = call("models", "list", "--domain", "aerial")[1]
    assert (
        "RemoteCLIP-B-32: from chendelong/RemoteCLIP/RemoteCLIP-ViT-B-32.pt, activation GELU" in out
    )
    spec = replace(demo_model().spec, prompts="aerial")
    monkeypatch.setattr(demo_model(), "spec", spec)
    run = ["run", files / "image.png", files / "masks.png", "--labels", "car,key", "--steps", 1]
    hint = "demo has prompts of its field: --template aerial."
    assert hint in fine(*run, "--out", tmp_path / "a")
    assert hint not in fine(*run, "--template", "aerial", "--out", tmp_path / "b")


def test_a_sam_cannot_be_checked_as_a_model(refused):
    assert "sam2.1-hiera-tiny is a SAM" in refused("models", "check", "sam2.1-hiera-tiny")


def test_a_folder_is_judged_as_a_general_model(call, monkeypatch):
    monkeypatch.setattr(model_check, "rank_regions", lambda model: [])
    assert "judged as a general model" in call("models", "check", bundled_folder())[2]


def test_a_check_of_the_bundled_model_reports_each_picture(call):
    code, out, _ = call("models", "check", "demo")
    assert code == 0, out
    assert "everyday-1, region 1" in out
    assert out.rstrip().endswith("the model works.")


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["--version"], ["models", "list"], ["captions", "--help"], ["find", "--help"]],
)
def test_what_needs_no_model_does_not_load_torch(arguments):
    code = (
        "import sys; from napari_maskinversion import cli\n"
        f"sys.argv = ['x', *{arguments!r}]\n"
        "try: cli.main()\n"
        "except SystemExit: pass\n"
        "print('torch' in sys.modules, 'napari' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=dict(os.environ)
    )
    assert done.stdout.splitlines()[-1] == "False False", done.stderr


def test_a_fetch_says_what_it_fetches_and_where_it_is(call, hub):
    name = "ViT-B-16/openai"
    content = np.random.default_rng(0).bytes(300_000)
    hub.files[(get_spec(name).source, "open_clip_model.safetensors")] = content
    code, out, err = call("models", "fetch", name)
    assert code == 0, err
    for part in (name, "599 MB", "licence MIT", "trained at 224 px", "used at 448 px"):
        assert part in err
    assert out.startswith(f"{name} is at ")
    # What is here already is not announced again.
    assert "Fetching" not in call("models", "fetch", name)[2]


def test_a_preset_brings_its_labels_and_prompts(run, files):
    ok(run("--format", "json", "--chunk-size", 5, labels="preset:dota"))
    record = json.loads((files / "out" / "result.json").read_text())
    assert len(record["vocabulary"]["labels"]) == 15
    assert "airplane" in record["vocabulary"]["synonyms"][0]
    assert record["vocabulary"]["templates"][0] == "an aerial photo of a {}."
    assert len(record["regions"][0]["ranking"]) == 15


def test_own_prompts_may_be_several_and_come_before_those_of_a_file(run, files):
    (files / "words.yaml").write_text("labels: [car, apple]\ntemplates: aerial\n")
    names = {"labels": str(files / "words.yaml")}
    ok(run("--format", "json", **names))

    def prompts():
        return json.loads((files / "out" / "result.json").read_text())["vocabulary"]["templates"]

    assert prompts()[0] == "an aerial photo of a {}."
    own = ("--template", "photo", "--template", "one {} here")
    ok(run("--format", "json", "--overwrite", *own, **names))
    assert prompts() == ["a photo of a {}.", "one {} here"]


def test_none_of_these_and_the_nearest_label_reach_every_output(run, files):
    code, out, err = run("--threshold", "0.99")
    assert code == 0, err
    frame = pd.read_csv(files / "out" / "regions.csv")
    assert set(frame["suggestion"]) == {"none of these"}
    assert set(frame["label_1"]) <= {"car", "apple", "key"}
    assert frame["status"].str.contains("below threshold").any()
    assert "none of these" in out
    assert frame["label_1"][0] in out
    region = json.loads((files / "out" / "result.json").read_text())["regions"][0]
    assert region["suggestion"] == "none of these"
    assert region["ranking"][0]["label"] == frame["label_1"][0]
    assert region["entropy"] == pytest.approx(frame["entropy"][0])


@pytest.mark.parametrize(
    ("labels", "options", "says"),
    [
        ("preset:cocoa", (), "no preset 'cocoa'"),
        ("gone.yaml", (), "no label file"),
        ("car | bus, bus", (), "also a synonym"),
        ("car", ("--threshold", "2"), "threshold must be less than or equal to 1; got 2.0"),
        ("car", ("--template", "photo", "--template", "x"), "Unknown template 'x'"),
    ],
)
def test_labels_that_cannot_work_are_told_before_the_work(run, files, labels, options, says):
    code, out, err = run(*options, labels=labels)
    assert (code, out) == (2, "")
    assert says in err
    assert not (files / "out").exists()


def test_presets_are_listed_and_shown(call, refused):
    code, out, _ = call("labels", "list")
    assert code == 0
    assert "pascal-context" in out
    code, out, _ = call("labels", "show", "voc")
    assert code == 0
    assert "motorbike" in out
    assert "20 labels, 32 words" in out
    assert "neither a label file nor a preset (voc, coco" in refused("labels", "show", "vox")


def test_labels_are_converted_and_what_is_left_out_is_said(call, tmp_path):
    convert = partial(call, "labels", "convert")
    code, out, err = convert("coco", tmp_path / "coco.yaml", "--colours")
    assert (code, err) == (0, "")
    assert "80 labels" in out
    again = convert(tmp_path / "coco.yaml", tmp_path / "again.yaml")
    assert again[0] == 0
    written = (tmp_path / "again.yaml").read_text("utf-8")
    assert written == (tmp_path / "coco.yaml").read_text("utf-8")
    coco = preset("coco")
    assert written.startswith(f"description: {coco.description}\nsource: ")
    err = ok(convert(tmp_path / "coco.yaml", tmp_path / "coco.txt"))
    assert "groups, colours, description, source" in " ".join(err.split())
    assert "person | man | woman | child" in (tmp_path / "coco.txt").read_text("utf-8")
    assert "already has" in refusal(convert("voc", tmp_path / "coco.txt"))
    assert "person" in (tmp_path / "coco.txt").read_text("utf-8").splitlines()[0]
    assert convert("voc", tmp_path / "coco.txt", "--overwrite")[0] == 0
    assert (tmp_path / "coco.txt").read_text("utf-8").startswith("aeroplane | airplane")


def test_words_that_the_demo_model_does_not_know_are_named(run, files):
    _, _, err = run(labels="person,car,helmet")
    assert "2 words that the demo model does not know: person, helmet." in err
    _, _, err = run("--overwrite")
    assert "does not know" not in err


def test_an_image_that_the_demo_model_cannot_know_gets_a_warning_before_the_run(run, files):
    _, _, err = run()
    said = " ".join(err.split())
    assert said.index("no photographs") < said.index("Wrote")
