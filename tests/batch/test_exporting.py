"""A project is exported in every format that a single image is, and read back."""

import errno
import json
import shutil
from pathlib import Path

import anndata
import geopandas
import numpy as np
import pandas as pd
import pytest
import spatialdata
import tifffile
from pycocotools.coco import COCO

from napari_maskinversion import read_regions
from napari_maskinversion.base.errors import ConfigError, InputError
from napari_maskinversion.batch.batch_model_sharing import RunTasks
from napari_maskinversion.batch.batch_running import plan
from napari_maskinversion.batch.exporting import export_steps
from napari_maskinversion.batch.opened import OpenProject
from napari_maskinversion.batch.project import Project, ProjectImage, write_project
from napari_maskinversion.results.export import annotations
from napari_maskinversion.results.export.archive import open_archive
from napari_maskinversion.results.export.catalogue import FORMATS, JOINED, MANY
from napari_maskinversion.results.export.file_for_each import LIST
from tests.scenes import demo_model, label_image, picture

from .conftest import save

SHAPE = (64, 64)
# Numbers of the regions of each image. Two files have the same name in two folders.
IDS = {"one/a.png": [1], "two/a.png": [1, 2], "b.png": [1, 2, 3]}


def make_project(folder, ids=IDS, files=None, **settings):
    """Make a project of images with so many regions, and compute them.

    ``files`` are their files by name, if these are called otherwise.
    """
    images = []
    for seed, (name, numbers) in enumerate(ids.items()):
        file = name if files is None else files[name]
        save(folder / "images" / file, picture(*SHAPE, seed))
        save(folder / "masks" / file, label_image(len(numbers), *SHAPE))
        image = ProjectImage(name=name, image=f"images/{file}", regions=f"masks/{file}")
        images.append(image)
    fast = {"inversion.steps": 1, "resolution": 64, **settings}
    content = Project(labels=("car", "dog"), settings=fast, images=tuple(images))
    write_project(content, folder / "project.yaml")
    project = OpenProject.read(folder)
    reports = list(RunTasks(demo_model()).all(plan(project).tasks))
    assert not any(report.problem for report in reports)
    return folder


@pytest.fixture(scope="module")
def computed_once(tmp_path_factory):
    return make_project(tmp_path_factory.mktemp("computed"))


@pytest.fixture
def project(computed_once, tmp_path):
    return OpenProject.read(shutil.copytree(computed_once, tmp_path / "project"))


def export(project, out, *formats, **options):
    *_, (_, exported) = export_steps(project, out, formats, **options)
    return exported


def files_of(folder):
    """Return the first file of each image, as the list of the folder has them."""
    rows = pd.read_csv(folder / LIST)
    assert set(rows["file"]) | {LIST} == {file.name for file in folder.iterdir()}
    return {name: folder / files.iloc[0] for name, files in rows.groupby("image")["file"]}


def from_each(read):
    """Return a reader of a folder, from one that reads the file of an image."""
    return lambda folder: {name: list(read(file)) for name, file in files_of(folder).items()}


def from_table(table):
    return {name: rows["region"].tolist() for name, rows in table.groupby("image")}


def from_coco(file):
    page = COCO(file)
    ids = {name: [] for name in IDS}
    for one in page.anns.values():
        ids[page.imgs[one["image_id"]]["name"]].append(one["region"])
    return ids


def from_embeddings(folder):
    ids = {}
    for name, file in files_of(folder).items():
        ids[name] = json.loads(file.with_suffix(".json").read_text("utf-8"))["embeddings"]["ids"]
        assert np.load(file).shape[0] == len(ids[name])
    return ids


def regions_in(file):
    return read_regions(file, SHAPE).ids


def region_labels(file):
    return np.unique(tifffile.imread(file))[1:].tolist()


def outlines_and_table(file):
    """Return the regions of a SpatialData store, whose table and outlines are about the same."""
    data = spatialdata.read_zarr(file)
    assert len(data["outlines"]) == len(data["table"])
    return data["table"].obs["instance_id"]


# What each format holds: by image, the numbers of its regions.
READ = {
    "npy": from_embeddings,
    "csv": lambda file: from_table(pd.read_csv(file)),
    "parquet": lambda folder: from_table(pd.read_parquet(folder)),
    "tif": from_each(lambda file: range(1, len(tifffile.imread(file).reshape(-1, *SHAPE)) + 1)),
    "coco": from_coco,
    "geojson": from_each(regions_in),
    "qupath": from_each(regions_in),
    "masks": from_each(region_labels),
    "geopackage": from_each(lambda file: geopandas.read_file(file)["region"]),
    "ome-zarr": from_each(regions_in),
    "ome-zarr-0.4": from_each(regions_in),
    "anndata": from_each(lambda file: anndata.read_h5ad(file).obs["id"]),
    "spatialdata": from_each(outlines_and_table),
    "npz": from_each(lambda file: open_archive(file).results.ids),
    "json": from_each(lambda file: [one["id"] for one in json.loads(file.read_text())["regions"]]),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FORMATS)
def test_every_format_of_one_image_holds_all_images_of_a_project(project, tmp_path, name):
    exported = export(project, tmp_path / "out", name)
    path = tmp_path / "out" / MANY[name].file
    assert READ[name](path) == IDS
    assert (exported.images, exported.regions, exported.files) == (3, 6, [path])
    assert list((tmp_path / "out").iterdir()) == [path]
    assert (name in JOINED) == (FORMATS[name].many is not None)


@pytest.mark.filterwarnings("ignore")
def test_all_formats_are_written_together_by_one_command(project, fine, tmp_path, monkeypatch):
    monkeypatch.chdir(project.folder)
    err = fine("project", "export", ".", "--out", "out", "--format", ",".join(FORMATS))
    assert "Wrote 6 regions of 3 images: " in err
    assert {file.name for file in Path("out").iterdir()} == {many.file for many in MANY.values()}


def test_files_have_the_names_of_their_images_and_no_two_have_the_same(tmp_path):
    """Folders are told apart, a name is no formula, and a format may write more than one file."""
    ids = {"a.png": [1], "one/a.png": [1, 2], "=1+2.png": [1], "A.PNG_classes": [1, 2]}
    files = {name: f"{number}.png" for number, name in enumerate(ids)}
    project = OpenProject.read(make_project(tmp_path / "project", ids, files))
    export(project, tmp_path / "out", "masks")
    assert files_of(tmp_path / "out/masks") == {
        "a.png": tmp_path / "out/masks/a.png.tif",  # with a.png_classes.tif and a.png.json
        "one/a.png": tmp_path / "out/masks/one%2Fa.png.tif",
        "'=1+2.png": tmp_path / "out/masks/%3D1%2B2.png.tif",
        "A.PNG_classes": tmp_path / "out/masks/A.PNG_classes_2.tif",
    }
    read = [region_labels(file) for file in files_of(tmp_path / "out/masks").values()]
    assert sorted(read) == sorted(ids.values())


def test_a_folder_is_replaced_only_if_wanted_and_as_a_whole(project, tmp_path):
    out = tmp_path / "out"
    export(project, out, "masks", "csv")
    with pytest.raises(InputError, match="out already has masks, regions.csv"):
        export(project, out, "masks", "csv")
    fewer = project.with_project(project.project.changed(images=project.project.images[:2]))
    export(fewer, out, "masks", overwrite=True)
    assert set(files_of(out / "masks")) == {"one/a.png", "two/a.png"}


@pytest.mark.parametrize("listed", [True, False])
def test_a_folder_with_files_of_the_users_is_never_replaced(project, tmp_path, listed):
    own = tmp_path / "out/masks/notes.txt"
    if listed:
        export(project, tmp_path / "out", "masks")
    else:
        own.parent.mkdir(parents=True)
        (own.parent / LIST).write_text("image,file\na.png,notes.txt\n")  # of another program
    own.write_text("mine")
    before = {file: file.read_bytes() for file in own.parent.iterdir()}
    strange = "notes.txt" if listed else LIST
    refusal = rf"masks is not a data set of this program \(it has {strange}\); choose another"
    with pytest.raises(InputError, match=refusal):
        export(project, tmp_path / "out", "masks", overwrite=True)
    assert {file: file.read_bytes() for file in own.parent.iterdir()} == before


def test_a_full_disk_leaves_all_as_it_was_and_is_told_by_the_name_of_the_folder(
    project, tmp_path, monkeypatch
):
    out = tmp_path / "out"
    export(project, out, "geojson", "csv")
    before = {file: file.stat().st_mtime_ns for file in out.rglob("*")}
    write, written = annotations.write_geojson, []

    def until_full(items, path, **more):
        written.append(path)
        if len(written) == 2:
            raise InputError(f"{path} is too large") from OSError(errno.ENOSPC, "No space left")
        write(items, path, **more)

    monkeypatch.setattr(annotations, "write_geojson", until_full)
    with pytest.raises(InputError) as refused:
        export(project, out, "geojson", "csv", overwrite=True)
    message = f"{out / 'geojson'} could not be written (No space left); choose another folder."
    assert str(refused.value) == message
    assert {file: file.stat().st_mtime_ns for file in out.rglob("*")} == before


def test_what_a_format_cannot_hold_is_told_by_the_name_of_the_image(project, tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise InputError("a region has no outline")

    monkeypatch.setattr(annotations, "write_geojson", refuse)
    with pytest.raises(InputError, match="^one/a.png: a region has no outline"):
        export(project, tmp_path / "out", "geojson")
    assert not list((tmp_path / "out").iterdir())


def test_what_results_lack_is_left_out_and_said(tmp_path):
    """Only maskinversion has heatmaps."""
    folder = make_project(tmp_path / "project", {"a.png": [1]}, **{"method.name": "cls"})
    project = OpenProject.read(folder)
    exported = export(project, tmp_path / "out", "tif", "csv")
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["regions.csv"]
    assert exported.files == [tmp_path / "out/regions.csv"]
    assert exported.lacking
    assert exported.lacking in exported.text
    with pytest.raises(InputError, match="There is nothing to export: ") as refused:
        export(project, tmp_path / "two", "tif")
    assert exported.lacking in str(refused.value)
    assert not (tmp_path / "two").exists()


def test_an_unknown_format_or_none_is_refused(project, tmp_path):
    with pytest.raises(ConfigError, match="Unknown format 'docx'; choose from npy, csv"):
        export(project, tmp_path / "out", "docx")
    with pytest.raises(ConfigError, match="Name at least one format"):
        export(project, tmp_path / "out")


def test_an_export_that_is_stopped_leaves_nothing(project, tmp_path):
    steps = export_steps(project, tmp_path / "out", list(FORMATS)[:3])
    next(steps)
    steps.close()
    assert not list((tmp_path / "out").iterdir())
