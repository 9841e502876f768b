"""The command ``batch``."""

import errno
import json
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from glob import glob
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pyarrow.dataset
import pytest

from napari_maskinversion.base import identity, reading
from napari_maskinversion.base.errors import InputError, NotEnoughMemoryError
from napari_maskinversion.batch import image_run
from napari_maskinversion.batch.batch_running import Underway, plan, write_failed
from napari_maskinversion.batch.finished import (
    FileFingerprint,
    Finished,
    differences,
    write_finished,
)
from napari_maskinversion.batch.image_task import file_name
from napari_maskinversion.batch.opened import OpenProject
from napari_maskinversion.batch.project import read_project
from napari_maskinversion.cli import console
from napari_maskinversion.cli.console import ProgressBar
from napari_maskinversion.cli.many_images import BatchProgress
from napari_maskinversion.engine.models.specs import bundled_folder
from napari_maskinversion.language.labels.presets import with_classifier
from napari_maskinversion.language.labels.vocabulary import Vocabulary
from napari_maskinversion.pipeline import run as pipeline
from napari_maskinversion.regions.annotations.annotation_reading import read_annotations
from napari_maskinversion.regions.annotations.label_maps import write_label_maps
from napari_maskinversion.results.export.archive import open_archive, save_archive
from tests.scenes import label_image, picture

from .conftest import FAST, save

CLASSIFIER = Path(__file__).parents[1] / "learning/version_1.safetensors"

# A batch of two folders instead of a project.
FOLDERS = ("batch", "--images", "images", "--regions", "masks", *FAST, "--out", "out")


def archives(folder):
    """Embeddings by name of the image."""
    return {
        file.parent.name: np.load(file)["embeddings"] for file in folder.glob("archives/*/*.npz")
    }


def times(folder):
    """When each file was changed; those of the index may change at any time."""
    files = [file for file in folder.rglob("*") if file.is_file() and "index" not in file.parts]
    return {file: file.stat().st_mtime_ns for file in files}


def test_a_batch_computes_the_same_bits_as_run_and_makes_one_table(project, fine):
    fine("batch", ".", "--out", "out", "--format", "csv")
    for name in ("cell-1", "cell-2"):
        files = (f"images/{name}.png", f"masks/{name}_mask.png")
        fine("run", *files, *FAST, "--out", name, "--format", "npz,csv")
        own = np.load(f"{name}/results.npz")["embeddings"]
        np.testing.assert_array_equal(archives(project / "out")[f"{name}.png"], own)
    table = pd.read_parquet("out/regions.parquet")
    assert table["image"].tolist() == ["cell-1.png", "cell-2.png", "cell-2.png"]
    one = pd.concat([pd.read_csv(f"cell-{n}/regions.csv") for n in (1, 2)], ignore_index=True)
    assert table["suggestion"].tolist() == one["suggestion"].tolist()
    data_set = pyarrow.dataset.dataset("out/regions.parquet", partitioning="hive")
    assert data_set.count_rows() == 3
    assert (project / "out/archives/cell-1.png/regions.csv").is_file()


def test_a_second_call_keeps_what_is_done_and_says_what_is_stale(project, call, fine, refused):
    fine("batch", ".", "--out", "out")
    before = times(project / "out")
    assert "2 images of out are kept." in fine("batch", ".", "--out", "out", "--device", "cpu")
    assert times(project / "out") == before
    err = refused("batch", ".", "--out", "out", "--steps", 2, "--labels", "cat")
    assert "2 images in it were computed from other steps, labels: cell-1.png, cell-2.png" in err
    assert times(project / "out") == before
    save(project / "images" / "cell-2.png", picture(64, 64, 9))
    out = call("project", "status", ".", "--out", "out")[1]
    assert out.splitlines()[1:] == [
        "out: 1 image computed, 1 to compute",
        "1 image in it was computed from other image: cell-2.png",
    ]
    fine("batch", ".", "--out", "out", "--overwrite")
    changed = {
        file.parent.name for file, at in times(project / "out").items() if at != before[file]
    }
    assert changed == {"cell-2.png", "regions.parquet"}


@pytest.fixture
def finished(project, batch_once):
    """A project whose two images are computed in the folder ``out``."""
    batch_once("two images", project / "out")
    return project


def test_results_of_images_that_the_batch_does_not_have_never_mix_with_its_own(
    finished, fine, refused
):
    own = finished / "out/archives/cell-1.png/notes.txt"
    own.write_text("mine")
    (finished / "images" / "cell-1.png").unlink()
    words = ("batch", "--images", "images", "--regions", "masks", *FAST[2:], "--out", "out")
    before = times(finished / "out")
    err = refused(*words, *FAST[:2])
    assert "out has results of 1 image that this batch does not have: cell-1.png. " in err
    assert times(finished / "out") == before
    err = fine(*words, "--labels", "apple", "--overwrite")
    assert "Removed the results of images that are not in this batch: cell-1.png." in err
    table = pd.read_parquet("out/regions.parquet")
    assert set(table["image"]) == {"cell-2.png"}
    assert set(table["suggestion"]) == {"apple"}
    assert list(own.parent.iterdir()) == [own]


def test_an_image_that_is_computed_again_keeps_no_earlier_export(finished, call, fine):
    own = finished / "out/archives/cell-1.png/coco.json"
    fine("batch", ".", "--out", "out", "--format", "csv,coco,ome-zarr")
    own.write_text("mine")
    fine("batch", ".", "--out", "out", "--labels", "apple", "--overwrite")
    files = {file.relative_to("out/archives") for file in Path("out/archives").glob("*/*")}
    results = {
        Path(f"cell-{n}.png", name) for n in (1, 2) for name in ("results.npz", "batch.json")
    }
    assert files == {*results, Path("cell-1.png/coco.json")}
    assert own.read_text() == "mine"
    assert "2 images of out are kept." in call("batch", ".", "--out", "out", "--labels", "apple")[2]


@pytest.mark.parametrize("kind", ["changed", "without a mark"])
def test_results_that_may_not_be_a_batchs_are_not_removed(finished, refused, kind):
    """Such as an archive in which the panel saved decisions."""
    archive = finished / "out/archives/cell-1.png"
    if kind == "changed":
        (archive / "results.npz").write_bytes((archive / "results.npz").read_bytes() + b"more")
    else:
        (archive / "batch.json").unlink()
    (finished / "images" / "cell-1.png").unlink()
    before = times(finished / "out")
    says = {"changed": "results.npz was changed since", "without a mark": "no readable mark"}
    assert says[kind] in refused(*FOLDERS, "--overwrite")
    assert times(finished / "out") == before


def test_a_zarr_store_among_the_results_is_removed(project, fine):
    fine("batch", ".", "--out", "out", "--format", "ome-zarr")
    (project / "images" / "cell-1.png").unlink()
    fine(*FOLDERS, "--overwrite")
    assert not (project / "out/archives/cell-1.png").exists()


@pytest.mark.parametrize(
    "file", ["archives/cell-1.png/results.npz", "regions.parquet/cell-1.png.parquet"]
)
@pytest.mark.parametrize("harm", ["deleted", "cut", "filled with zeros"])
def test_results_that_are_not_what_was_written_are_computed_again(finished, fine, file, harm):
    place = finished / "out" / file
    whole = place.read_bytes()
    place.unlink()
    if harm != "deleted":
        place.write_bytes(whole[:-9] if harm == "cut" else bytes(len(whole)))
    err = fine("batch", ".", "--out", "out")
    assert "changed or are gone: cell-1.png." in err
    assert "1 image of out is kept." in err
    assert archives(finished / "out").keys() == {"cell-1.png", "cell-2.png"}
    assert len(pd.read_parquet("out/regions.parquet")) == 3


def test_an_archive_that_was_saved_again_with_decisions_is_kept(finished, fine):
    file = finished / "out/archives/cell-1.png/results.npz"
    save_archive(replace(open_archive(file), decisions=b"decided"), file)
    assert "2 images of out are kept." in fine("batch", ".", "--out", "out")
    assert open_archive(file).decisions == b"decided"


def test_files_with_other_times_and_the_same_bytes_are_unchanged(finished, fine):
    for file in (*finished.glob("images/*"), *finished.glob("masks/*"), *finished.rglob("*.npz")):
        os.utime(file, ns=(1, 1))
    assert "2 images of out are kept." in fine("batch", ".", "--out", "out")


def test_more_formats_are_written_from_the_archives(finished, fine, monkeypatch):
    fine("batch", ".", "--out", "whole", "--format", "csv,coco")
    monkeypatch.delattr(pipeline, "run_planes")
    before = times(finished / "out")
    for _ in range(2):
        err = fine("batch", ".", "--out", "out", "--format", "csv,coco")
        after = times(finished / "out")
        assert {file.name for file in after if after[file] != before.get(file)} == {
            *("batch.json", "regions.csv", "coco.json")
        }
    assert "2 images of out are kept." in err
    ours, whole = (finished / one / "archives" / "cell-2.png" for one in ("out", "whole"))
    assert (ours / "regions.csv").read_bytes() == (whole / "regions.csv").read_bytes()
    ours, whole = (json.loads((one / "coco.json").read_text("utf-8")) for one in (ours, whole))
    assert ours["annotations"] == whole["annotations"]


def test_one_stale_image_is_computed_again_and_the_rest_is_kept(finished, call, refused):
    save(finished / "images" / "cell-1.png", picture(64, 64, 8))
    save(finished / "images" / "cell-3.png", picture(64, 64, 3))
    save(finished / "masks" / "cell-3_mask.png", label_image(3, 64, 64))
    err = refused(*FOLDERS)
    assert "cell-1.png. --overwrite computes only this one again, and what is new" in err
    (finished / "images" / "cell-1.png").write_bytes(b"no picture")
    code, _, err = call(*FOLDERS, "--overwrite", "--skip-bad")
    assert code == 1
    assert "1 image of out is kept." in err
    assert "Their older results stay: cell-1.png." in err
    assert "Wrote 1 image in out" in err


def test_images_without_the_option_for_regions_are_refused_by_its_name(images, refused):
    err = refused("batch", "--images", "images", *FAST)
    assert "Name the regions of the images by --regions" in err


@pytest.mark.parametrize("kind", ["YOLO", "label image"])
def test_other_names_beside_the_regions_are_other_labels(images, fine, kind):
    boxes, names = images / "boxes/cell-1.txt", images / "boxes/classes.txt"
    boxes.parent.mkdir()
    boxes.write_text("0 0.3 0.3 0.2 0.2\n")
    names.write_text("car\n")
    regions = boxes
    if kind == "label image":
        regions = images / "boxes/cell-1.tif"
        write_label_maps(read_annotations(boxes, (64, 64)), regions)
        boxes.unlink()
        names = regions.with_suffix(".json")
    words = ("--images", "images/cell-1.png", "--regions", regions, *FAST[2:])
    fine("project", "new", ".", *words)
    task = OpenProject.read(images).task("cell-1.png")
    task.archive.mkdir(parents=True)
    write_finished(Finished.of(task), task.archive)
    assert differences(task) == []
    names.write_text(names.read_text().replace("car", "dog"))
    assert differences(task) == ["labels"]
    assert differences(replace(task, vocabulary=Vocabulary(("cat",)))) == ["labels"]
    names.write_text(names.read_text().replace("dog", "car"))
    assert differences(task) == []


def test_words_added_to_a_classifier_are_kept_with_it(images, fine):
    shutil.copy(CLASSIFIER, images / "cells.safetensors")
    many = ("--images", "images/cell-1.png", "--regions", "masks", *FAST[2:])
    words = ("--classifier", "cells.safetensors", "--labels", "parasite")
    fine("project", "new", ".", *many, *words)
    vocabulary = OpenProject.read(images).task("cell-1.png").vocabulary
    whole = with_classifier(Path("cells.safetensors"), "parasite")
    for name in ("labels", "synonyms", "templates", "learned"):
        assert getattr(vocabulary, name) == getattr(whole, name), name
    assert vocabulary.learned.file == images / "cells.safetensors"


def test_regions_without_a_file_of_names_are_described_as_in_earlier_batches(images, fine):
    boxes = images / "boxes/cell-1.txt"
    boxes.parent.mkdir()
    boxes.write_text("0 0.3 0.3 0.2 0.2\n")
    words = ("--images", "images/cell-1.png", "--regions", boxes, *FAST[2:])
    fine("project", "new", ".", *words)
    task = OpenProject.read(images).task("cell-1.png")
    assert set(Finished.of(task).words) == {"templates", "colors"}


def test_a_changed_chunk_of_a_zarr_is_another_image(tmp_path):
    chunk = tmp_path / "image.zarr" / "0" / "0.0"
    chunk.parent.mkdir(parents=True)
    chunk.write_bytes(b"one")
    mark = FileFingerprint.of(tmp_path / "image.zarr")
    assert mark.fits(tmp_path / "image.zarr")
    assert mark.fits(shutil.copytree(tmp_path / "image.zarr", tmp_path / "copy" / "image.zarr"))
    chunk.write_bytes(b"two")
    os.utime(chunk, ns=(1, 1))
    assert not mark.fits(tmp_path / "image.zarr")


def test_images_are_named_without_a_project(images, fine, refused):
    (images / "all.json").write_text(
        json.dumps(
            {
                "images": [
                    {"id": n, "file_name": f"cell-{n}.png", "width": 64, "height": 64}
                    for n in (1, 2)
                ],
                "categories": [{"id": 1, "name": "car"}, {"id": 2, "name": "dog"}],
                "annotations": [
                    {"id": n, "image_id": n, "category_id": n, "bbox": [8, 8, 20, 20 + n]}
                    for n in (1, 2)
                ],
            }
        )
    )
    words = ("batch", "--images", "images", "--regions", "all.json", *FAST[2:], "--out", "out")
    fine(*words)
    table = pd.read_parquet("out/regions.parquet")
    assert table["source_label"].tolist() == ["car", "dog"]
    assert set(table["suggestion"]) <= {"car", "dog"}
    assert "Name a project or images, not both" in refused("batch", ".", *words[1:])


@pytest.mark.parametrize("name", ["a b%2F=ä.png", "end."])
def test_names_of_any_characters_come_back(images, fine, name):
    rows = f"image,regions,name\nimages/cell-1.png,masks/cell-1_mask.png,{name}\n"
    (images / "table.csv").write_text(rows, encoding="utf-8")
    fine("batch", "--table", "table.csv", *FAST, "--out", "out")
    assert set(pd.read_parquet("out/regions.parquet")["image"]) == {name}
    # Windows drops a dot at the end.
    assert not [one for one in (images / "out").rglob("*") if one.name.endswith(".")]


@pytest.fixture
def spoilt(project):
    """A project of which one image is broken."""
    (project / "images" / "cell-1.png").write_bytes(b"no picture")
    return project


def test_bad_images_are_named_before_the_work(spoilt, refused):
    err = refused("batch", ".", "--out", "out")
    first, last = filter(None, err.splitlines())
    assert first.startswith("cell-1.png: ")
    assert "1 image cannot be run" in last
    assert not (spoilt / "out").exists()


def test_bad_images_are_left_out_and_listed_if_wanted(spoilt, call, fine):
    code, _, err = call("batch", ".", "--out", "out", "--skip-bad")
    assert code == 1, err  # for make and scripts
    assert "1 image failed; " in err
    assert list(archives(spoilt / "out")) == ["cell-2.png"]
    failed = pd.read_csv("out/failed.csv")
    assert failed["image"].tolist() == ["cell-1.png"]
    assert "images/cell-1.png" in failed["problem"][0]
    save(spoilt / "images" / "cell-1.png", picture(64, 64, 1))
    fine("batch", ".", "--out", "out")
    assert set(archives(spoilt / "out")) == {"cell-1.png", "cell-2.png"}
    assert not (spoilt / "out" / "failed.csv").exists()


@pytest.mark.parametrize("skip", [(), ("--skip-bad",)])
def test_a_list_of_the_users_own_is_neither_replaced_nor_deleted(project, call, skip):
    own = project / "out" / "failed.csv"
    own.parent.mkdir()
    own.write_text("experiment,reason\n7,too dark\n")
    if skip:
        (project / "images" / "cell-1.png").write_bytes(b"no picture")
    code, _, err = call("batch", ".", "--out", "out", *skip)
    assert (code, "already has failed.csv" in err) == (2, True), err
    assert own.read_text() == "experiment,reason\n7,too dark\n"
    assert list(own.parent.iterdir()) == [own]
    assert call("batch", ".", "--out", "out", *skip, "--overwrite")[0] == (1 if skip else 0)
    assert ("image,problem" in own.read_text()) == bool(skip)


@pytest.mark.parametrize("option", ["--table", "--labels", "--captions"])
def test_the_list_of_what_failed_replaces_no_input(images, call, option):
    (images / "out").mkdir()
    own = images / "out" / "failed.csv"
    rows = "image,regions,label,caption\nimages/cell-1.png,masks/cell-1_mask.png,car,a car\n"
    own.write_text(rows)
    words = ["--labels", "car,dog"] * (option != "--labels") + [option, "out/failed.csv"]
    if option == "--table":
        (images / "images" / "cell-1.png").write_bytes(b"no picture")
        own.write_text(rows.replace("images/", "../images/").replace("masks/", "../masks/"))
    else:
        words += ["--images", "images", "--regions", "masks"]
    before = own.read_text()
    words += ["--skip-bad", "--overwrite", *map(str, FAST[2:])]
    code, _, err = call("batch", *words, "--out", "out")
    assert (code, "failed.csv, which is an input" in err) == (2, True), err
    assert own.read_text() == before


REFUSALS = [OSError(5, "Input/output error"), MemoryError(), NotEnoughMemoryError("No memory.")]


@pytest.mark.parametrize("error", REFUSALS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("fails", [2, 3])
def test_what_disk_or_memory_refused_is_tried_twice_more(project, call, monkeypatch, fails, error):
    attempts = []
    monkeypatch.setattr(image_run, "PAUSES", (0, 0))
    write = image_run.write_parquet

    def failing(bundle, path, **more):
        attempts.append(path.name)
        if path.name.startswith("cell-1") and attempts.count(path.name) <= fails:
            raise error
        write(bundle, path, **more)

    monkeypatch.setattr(image_run, "write_parquet", failing)
    code, _, err = call("batch", ".", "--out", "out", "--skip-bad")
    assert code == fails - 2, err
    assert len(attempts) == 4
    assert ("cell-1.png" in archives(project / "out")) == (fails == 2)
    assert ("cell-1.png: " in err) == (fails == 3)


def test_what_stays_wrong_is_not_tried_again(project, call, monkeypatch):
    attempts = []

    def refused(bundle, path, **_):
        attempts.append(path)
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(image_run, "write_parquet", refused)
    code, _, err = call("batch", ".", "--out", "out", "--skip-bad")
    assert code == 1
    assert len(attempts) == 2  # one an image
    assert "cell-1.png: " in err
    assert "Permission denied" in err


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_ends_the_batch_in_one_line(project, call, refused, monkeypatch, number):
    for count in (3, 4):
        save(project / f"images/cell-{count}.png", picture(64, 64, count))
        save(project / f"masks/cell-{count}_mask.png", label_image(1, 64, 64))
    monkeypatch.setattr(image_run, "PAUSES", (0, 0))
    writes = []
    write = image_run.write_parquet

    def until_full(bundle, path, **more):
        writes.append(path)
        if len(writes) > 2:
            raise InputError(f"{path} could not be written.") from OSError(number, "No room")
        write(bundle, path, **more)

    monkeypatch.setattr(image_run, "write_parquet", until_full)
    err = refused(*FOLDERS, "--skip-bad")
    assert len(writes) == 3  # not again, and no other image
    last = " ".join(err.split())
    assert "2 of 4 images are finished and kept in out; with more space, run the same" in last
    assert not (project / "out/failed.csv").exists()
    monkeypatch.undo()
    monkeypatch.chdir(project)
    assert "2 images of out are kept." in call(*FOLDERS)[2]


def test_what_a_busy_disk_refused_is_not_computed_again(project, fine, monkeypatch):
    monkeypatch.setattr(image_run, "PAUSES", (0, 0))
    write, run_planes, writes, runs = image_run.write_parquet, pipeline.run_planes, [], []

    def failing(bundle, path, **more):
        writes.append(path)
        if len(writes) == 1:
            raise OSError(5, "Input/output error")
        write(bundle, path, **more)

    monkeypatch.setattr(image_run, "write_parquet", failing)
    monkeypatch.setattr(
        pipeline, "run_planes", lambda *a, **k: runs.append(a) or run_planes(*a, **k)
    )
    fine("batch", ".", "--out", "out")
    assert (len(writes), len(runs)) == (3, 2)


def test_what_failed_is_listed_at_once(project, call, monkeypatch):
    """Also a batch that is killed has its list."""
    run_planes, lists = pipeline.run_planes, []
    (project / "images" / "cell-0.png").write_bytes(b"no picture")
    shutil.copy(project / "masks/cell-1_mask.png", project / "masks/cell-0_mask.png")

    def failing(*arguments, **more):
        lists.append((project / "out/failed.csv").read_text("utf-8"))
        if len(lists) == 1:
            raise InputError("it is odd")
        raise KeyboardInterrupt

    monkeypatch.setattr(pipeline, "run_planes", failing)
    code, _, _ = call(*FOLDERS, "--skip-bad")
    assert code == 130
    assert lists[0].splitlines()[1].startswith("cell-0.png,")
    assert pd.read_csv("out/failed.csv")["image"].tolist() == ["cell-0.png", "cell-1.png"]
    monkeypatch.setattr(pipeline, "run_planes", run_planes)
    assert call(*FOLDERS, "--skip-bad")[0] == 1
    assert pd.read_csv("out/failed.csv")["image"].tolist() == ["cell-0.png"]


def test_weights_in_a_file_count_by_what_they_hold(project, fine):
    """A file that was replaced is another model; a project that moved with its file is not."""
    here = project / "one"
    here.mkdir()
    shutil.copytree(bundled_folder(), here / "weights")
    for name in ("images", "masks"):
        shutil.move(project / name, here / name)
    words = ("--images", "one/images", "--regions", "one/masks", *FAST)
    weights = next((here / "weights").glob("*.safetensors"))
    fine("project", "new", "one", *words, "--model", str(weights))
    task = lambda folder: OpenProject.read(folder).task("cell-1.png")  # noqa: E731
    first = task(here)
    first.archive.mkdir(parents=True)
    write_finished(Finished.of(first), first.archive)
    assert differences(first) == []
    there = project / "two"
    here.rename(there)
    assert differences(task(there)) == []
    (there / "weights" / weights.name).write_bytes(b"fine-tuned")
    assert differences(task(there)) == ["model"]


def test_a_folder_of_a_model_moves_with_its_project(images, fine, monkeypatch):
    """A folder called like a listed model is not taken for it."""
    (images / "one").mkdir()
    shutil.copytree(bundled_folder(), images / "one/models/mine")
    (images / "one/demo").mkdir()
    words = ("--images", "images", "--regions", "masks", *FAST)
    fine("project", "new", "one", *words, "--model", "one/models/mine")
    project = read_project(images / "one")
    assert project.settings["model"] == "models/mine"
    for name in ("images", "masks", "one"):
        shutil.move(images / name, images / "there" / name)
    (images / "elsewhere").mkdir()
    monkeypatch.chdir(images / "elsewhere")
    fine("batch", "../there/one", "--out", "out")
    assert pd.read_parquet("out/regions.parquet")["image"].nunique() == 2
    # A worker elsewhere reaches a folder that was named from here.
    settings = project.run_settings(images).changed({"model": "models/mine"})
    task = OpenProject.read(images / "there/one").task("cell-1.png")
    there = replace(task, settings=settings, folder=Path("../there/one")).anywhere()
    assert Path(there.model).is_absolute()
    assert Path(there.model).is_dir()
    demo = project.model_copy(update={"settings": {"model": "demo"}})
    assert demo.run_settings(images / "there/one").model == "demo"


def test_an_error_of_ours_is_one_line_and_keeps_the_rest(project, call, fine, monkeypatch):
    check, begun = image_run.write_finished, []

    def failing(finished, folder):
        begun.append(folder.name)
        if len(begun) == 2:
            raise KeyError("oops")
        check(finished, folder)

    monkeypatch.setattr(image_run, "write_finished", failing)
    code, _, err = call("batch", ".", "--out", "out")
    assert code == 1
    assert f"{begun[1]}: internal error (KeyError: 'oops')" in err
    assert list(archives(project / "out")) == begun[:1]
    monkeypatch.undo()
    monkeypatch.chdir(project)
    fine("batch", ".", "--out", "out")
    assert set(archives(project / "out")) == {"cell-1.png", "cell-2.png"}


def test_ctrl_c_keeps_the_images_that_are_finished(project, call, monkeypatch):
    run_planes = pipeline.run_planes
    begun = []

    def stopped(*arguments, **more):
        begun.append(arguments)
        if len(begun) == 2:
            raise KeyboardInterrupt
        return run_planes(*arguments, **more)

    monkeypatch.setattr(pipeline, "run_planes", stopped)
    code, _, err = call("batch", ".", "--out", "out")
    assert code == 130
    assert "Stopped: 1 of 2 images are finished" in err
    assert list(archives(project / "out")) == ["cell-1.png"]


def test_results_never_replace_an_image(project, refused):
    for number in (1, 2):
        place = project / "regions.parquet" / f"cell-{number}.png"
        save(place, picture(64, 64, number))
    before = times(project)
    words = ("batch", "--images", "regions.parquet", "--regions", "masks", *FAST)
    err = refused(*words, "--out", ".", "--overwrite")
    assert "regions.parquet holds images of the project" in err
    assert times(project) == before


def test_two_workers_killed_at_any_moment_lose_nothing(images, fine):
    for number in (3, 4, 5):
        save(images / "images" / f"cell-{number}.png", picture(64, 64, number))
        save(images / "masks" / f"cell-{number}_mask.png", label_image(number, 64, 64))
    words = ("batch", "--images", "images", "--regions", "masks", *FAST, "--workers", "2")
    process = subprocess.Popen(
        [sys.executable, "-m", "napari_maskinversion", *map(str, words), "--out", "killed"],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stderr=subprocess.DEVNULL,
    )
    pattern = "killed/archives/*/batch.json"  # pathlib fails where a folder vanishes meanwhile
    while process.poll() is None and not glob(pattern, root_dir=images):  # noqa: PTH207
        time.sleep(0.01)
    workers = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.wait()
    assert psutil.wait_procs(workers, timeout=60)[1] == []
    kept = {file: at for file, at in times(images / "killed").items() if file.name == "batch.json"}
    assert kept
    for out in ("killed", "whole"):
        fine(*words[:-1], 1, "--out", out)
    assert kept.items() <= times(images / "killed").items()
    hidden = [file for file in (images / "killed").rglob(".*") if "index" not in file.parts]
    assert hidden == []
    whole, killed = archives(images / "whole"), archives(images / "killed")
    assert whole.keys() == killed.keys()
    assert len(whole) == 5
    for name, embeddings in whole.items():
        np.testing.assert_array_equal(killed[name], embeddings)


def test_names_of_images_are_no_formulas_in_the_list_of_what_failed(tmp_path):
    write_failed({"=1+1.png": "it has no regions"}, tmp_path)
    assert "'=1+1.png,it has no regions" in (tmp_path / "failed.csv").read_text("utf-8")


def test_captions_are_those_of_a_run(project, call, fine, refused):
    (project / "captions.txt").write_text("a red square\na photo of a dog\na grey car\n")
    words = ("--captions", "captions.txt", "--top-k", 2)
    fine("batch", ".", "--out", "out", *words, "--format", "csv")
    files = ("images/cell-2.png", "masks/cell-2_mask.png")
    fine("run", *files, *FAST, *words, "--out", "own", "--format", "csv")
    own = pd.read_csv("own/regions.csv")["caption"]
    table = pd.read_csv("out/archives/cell-2.png/regions.csv")
    pd.testing.assert_series_equal(table["caption"], own)
    err = call("batch", ".", "--out", "out", "--captions", "captions.txt")[2]
    assert "computed from other top_captions" in err
    assert "computed from other captions" in refused("batch", ".", "--out", "out")
    # Captions alone, of a project whose regions have no names.
    fine(
        *("project", "new", "p", "--images", "images", "--regions", "masks", *FAST[2:]),
        *("--captions", "captions.txt"),
    )
    assert "captions: ../captions.txt" in (project / "p" / "project.yaml").read_text("utf-8")
    fine("batch", "p", "--out", "alone")
    assert call("project", "status", "p", "--out", "alone")[1].endswith(
        "2 images computed, 0 to compute\n"
    )


def test_a_list_of_words_may_be_longer_than_a_files_name(project, refused):
    words = ", ".join(f"word {number}" for number in range(50))
    # The captions, read next, are refused.
    err = refused("batch", ".", "--labels", words, "--captions", "gone.txt")
    assert "There is no file of captions at gone.txt" in err


def test_the_column_of_a_projects_captions_is_not_that_of_other_captions(images, call, fine):
    (images / "own.csv").write_text("id,note\n1,a red square\n")
    (images / "other.csv").write_text("caption\na grey car\n")
    start = ("project", "new", ".", "--images", "images", "--regions", "masks", *FAST[2:])
    code, _, err = call(*start, "--captions", "own.csv", "--caption-column", "note")
    assert code == 0, err
    for more, caption in (((), "a red square"), (("--captions", "other.csv"), "a grey car")):
        fine("batch", ".", "--out", caption, *more)
        assert set(pd.read_parquet(f"{caption}/regions.parquet")["caption"]) == {caption}


def test_a_file_about_many_images_is_parsed_and_hashed_once(images, fine, monkeypatch):
    entry = {"width": 64, "height": 64}
    box = {"category_id": 1, "bbox": [8, 8, 20, 20], "attributes": {"occluded": True}}
    page = {
        "images": [{"id": n, "file_name": f"cell-{n}.png", **entry} for n in (1, 2)],
        "categories": [{"id": 1, "name": "car"}],
        "annotations": [{"id": n, "image_id": 1 + n % 2, **box} for n in range(5)],
    }
    file = images / "all.json"
    file.write_text(json.dumps(page))
    read = []
    parse, digest = reading.parse_json, identity.sha256_of
    monkeypatch.setattr(reading, "parse_json", lambda *a: read.append(a[1]) or parse(*a))
    monkeypatch.setattr(identity, "sha256_of", lambda path: read.append(path) or digest(path))
    words = ("batch", "--images", "images", "--regions", "all.json", *FAST[2:], "--out", "out")
    fine(*words)
    assert [str(one) for one in read].count("all.json") == 2
    table = pd.read_parquet("out/regions.parquet")
    assert table["source_id"].tolist() == list("02413")
    assert set(table["attributes"]) == {'{"occluded": true}'}
    # A changed one is read again.
    page["annotations"].pop()
    file.write_text(json.dumps(page))
    fine(*words, "--overwrite")
    assert len(pd.read_parquet("out/regions.parquet")) == 4


def test_a_worker_that_comes_late_keeps_what_another_one_wrote(finished, monkeypatch):
    before = times(finished / "out")
    (first, *_) = plan(OpenProject.read(finished).with_results(finished / "elsewhere")).tasks
    late = replace(first, out=finished / "out")
    monkeypatch.setattr(image_run, "write_parquet", None)
    assert image_run.run_task(late).kept
    # Also one that noticed it only after its work.
    answers = iter([False, True])
    marked = image_run.is_marked
    monkeypatch.setattr(image_run, "is_marked", lambda task: next(answers) and marked(task))
    assert image_run.run_task(late).kept
    assert times(finished / "out") == before


def test_without_a_terminal_a_line_says_how_far_it_is(project, fine, monkeypatch):
    monkeypatch.setattr(console, "_EVERY", 0)
    assert "Images: 2 of 2\n" in fine("batch", ".", "--out", "out")


def test_the_line_tells_the_time_that_is_left(capsys, monkeypatch):
    monkeypatch.setattr(console, "_EVERY", 0)
    with BatchProgress(2, "Images") as progress:
        progress.done = 1
        progress.show(Underway({"b.png": 0.5}))
    assert re.search(r"Images: 1 of 2, about \d+ s left\n", capsys.readouterr().err)


@pytest.mark.parametrize(
    ("done", "seconds", "text"),
    [
        (0, 9, ""),
        (1e-6, 60, ""),
        (10, 5, ", about 45 s left"),
        (10, 60, ", about 9 min left"),
        (1, 60, ", about 1.6 h left"),
    ],
)
def test_the_time_that_is_left_is_told_in_words(done, seconds, text):
    assert console.left(done, 100, seconds) == text


def test_each_image_has_a_bar_while_it_is_computed():
    with ProgressBar() as bar:
        bar.show("Images", 0, 2)
        bar.show_parts({"a.png": 0.5, "b.png": 0.25})
        bar.show_parts({"b.png": 0.75})
        tasks = [(task.description.strip(), task.completed) for task in bar.tasks]
    assert tasks == [("Images", 0), ("b.png", 0.75)]


@pytest.mark.parametrize(
    ("name", "stored"), [("con.png", "%63on.png"), ("a.", "a%2E"), ("ä b", "%C3%A4 b")]
)
def test_every_system_can_hold_the_folder_of_an_image(name, stored):
    """Windows takes CON.png for the console."""
    assert file_name(name) == stored


def test_images_without_objects_are_left_out_and_the_rest_goes_on(images, fine, refused):
    """obss/sahi #304, pylabel PR #44 and #56, label-studio-converter PR #171."""
    box = {"id": 1, "image_id": 1, "category_id": 1, "bbox": [9, 9, 20, 30]}
    for second in ("cell-2.png", "other.png"):  # with no annotation, and not in the file
        names = enumerate(("cell-1.png", second), 1)
        listed = [{"id": n, "file_name": name, "height": 64, "width": 64} for n, name in names]
        kinds = [{"id": 1, "name": "cell"}]
        coco = {"images": listed, "annotations": [box], "categories": kinds}
        (images / f"{second}.json").write_text(json.dumps(coco))
    for folder in ("empty", "bare", "none"):
        (images / folder).mkdir()
        (images / folder / "cell-1.txt").write_text("0 0.5 0.5 0.2 0.2" * (folder != "none"))
    (images / "empty/cell-2.txt").write_text("")
    (images / "empty_masks").mkdir()
    for number in (1, 2):
        mask = label_image(1, 64, 64) * (number == 1)
        save(images / f"empty_masks/cell-{number}.png", mask.astype(np.uint8))
    command = ("batch", "--images", "images", *FAST)
    for regions in ("cell-2.png.json", "other.png.json", "empty", "bare", "empty_masks"):
        err = fine(*command, "--regions", regions, "--out", f"out_{regions}")
        assert "cell-2.png is left out: " in err
        assert "Wrote 1 image in" in err
        assert not (images / f"out_{regions}" / "failed.csv").exists()
    assert "2 images cannot be run" in refused(*command, "--regions", "none", "--out", "out")
