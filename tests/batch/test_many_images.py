"""A project as the panel keeps it: decisions across images, one export, drawn regions."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tifffile
from pycocotools.coco import COCO

from napari_maskinversion.base.errors import InputError
from napari_maskinversion.base.regions import Region
from napari_maskinversion.batch.exporting import export_steps
from napari_maskinversion.batch.opened import (
    OpenProject,
    Place,
    changed_image,
    edit,
    is_drawn,
    read_place,
    save_drawn,
    write_place,
)
from napari_maskinversion.batch.project import read_project
from napari_maskinversion.batch.project_decisions import summarize
from napari_maskinversion.batch.project_index import archive_file
from napari_maskinversion.regions.annotations.annotation import Annotation, Annotations
from napari_maskinversion.regions.region_reading import read_regions
from napari_maskinversion.results.export.archive import open_archive
from napari_maskinversion.review.decisions import Decision
from napari_maskinversion.review.reporting import identities_of, image_of
from napari_maskinversion.review.review import Review
from tests.decisions import accept, take_back
from tests.scenes import label_image, picture

from .conftest import FAST, save


@pytest.fixture
def computed(project, batch_once):
    """The project of two images with their results."""
    opened = OpenProject.read(project)
    batch_once("two images", opened.out)
    return opened


def suggested(project, word):
    rows = pd.read_parquet(project.out / "regions.parquet")
    return sum(rows["suggestion"] == word), len(rows)


def reviewing(project, name):
    """Open the decisions about an image."""
    bundle = open_archive(archive_file(project, name))
    own = image_of(bundle), identities_of(bundle), bundle.results.info
    return Review(*own, file=project.path(name))


def test_a_word_is_accepted_in_all_images_and_taken_back_in_one(computed):
    word = pd.read_parquet(computed.out / "regions.parquet")["suggestion"].iloc[0]
    count, total = suggested(computed, word)
    accepted = accept(computed, word)
    assert accepted.count == count > 0
    summaries = [summarize(computed, name) for name in computed.by_name]
    assert sum(one.regions for one in summaries) == total
    assert sum(one.decided for one in summaries) == count
    assert accept(computed, word).count == 0  # nothing is decided twice
    take_back(accepted)
    assert sum(summarize(computed, name).decided for name in computed.by_name) == 0
    assert accept(computed, word, confidence=1.01).count == 0


@pytest.mark.parametrize("regions", [1, None], ids=["one region", "all"])
def test_what_somebody_decided_since_stays_when_all_is_taken_back(computed, regions):
    word = pd.read_parquet(computed.out / "regions.parquet")["suggestion"].iloc[0]
    accepted = accept(computed, word)
    name, step = next(iter(accepted.steps.items()))
    keys = [change.region for change in step]
    with reviewing(computed, name) as review:
        review.decide(Decision(region=keys[0], status="accepted", label="own word"))
    taken = take_back(replace(accepted, steps={name: step[:regions]}))
    assert keys[0] not in [change.region for change in taken.steps.get(name, ())]
    with reviewing(computed, name) as review:
        assert review.decisions[keys[0]].label == "own word"
        assert len(review.decisions) == (len(keys) if regions else 1)


def test_an_image_that_is_open_elsewhere_is_named_and_the_others_go_on(computed):
    first, second = computed.by_name
    words = pd.read_parquet(computed.out / "regions.parquet")
    word = words[words["image"] == second]["suggestion"].iloc[0]
    with reviewing(computed, first):
        accepted = accept(computed, word)
    if any(words[words["image"] == first]["suggestion"] == word):
        assert "another window" in accepted.problems[first]
    assert len(accepted.steps[second]) > 0


def export(project, out, **options):
    *_, (_, exported) = export_steps(project, out, ["coco", "csv", "parquet"], **options)
    return exported


def test_one_export_holds_all_images_with_numbers_that_stay(computed, fine, tmp_path):
    word = pd.read_parquet(computed.out / "regions.parquet")["suggestion"].iloc[0]
    count = accept(computed, word).count
    export(computed, tmp_path / "one")
    whole = COCO(tmp_path / "one" / "coco.json")
    table = pd.read_csv(tmp_path / "one" / "regions.csv")
    parts = pd.read_parquet(tmp_path / "one" / "regions.parquet")
    assert len(whole.anns) == len(table) == len(parts) == suggested(computed, word)[1]
    assert {one["name"] for one in whole.imgs.values()} == set(computed.by_name)
    for one in whole.imgs.values():
        assert (tmp_path / one["file_name"]).is_file()
    for rows in (table, parts):
        assert sum(rows["accepted_label"] == word) == count
    # A third image is added, and the numbers of the others stay.
    shutil.copy(tmp_path / "images/cell-1.png", tmp_path / "images/cell-3.png")
    shutil.copy(tmp_path / "masks/cell-1_mask.png", tmp_path / "masks/cell-3_mask.png")
    fine("project", "add", ".", "--images", "images", "--regions", "masks")
    fine("batch", ".")
    fine("project", "export", ".", "--out", "two")
    later = COCO(tmp_path / "two" / "coco.json")
    assert len(later.imgs) == 3
    for number, one in whole.anns.items():
        assert later.anns[number]["segmentation"] == one["segmentation"]
        assert later.anns[number]["category_id"] == one["category_id"]


def test_an_export_has_the_last_decision_though_the_clock_was_set_back(
    computed, tmp_path, monkeypatch
):
    name = next(iter(computed.by_name))
    region = identities_of(open_archive(archive_file(computed, name)))[0].key
    for time, word in (("2024-05-01T12:10:00.000Z", "first"), ("2024-05-01T12:05:00.000Z", "last")):
        monkeypatch.setattr("napari_maskinversion.review.review.now", lambda time=time: time)
        with reviewing(computed, name) as review:
            review.accept(region, word)
    export(computed, tmp_path / "one", accepted_only=True)
    table = pd.read_csv(tmp_path / "one" / "regions.csv")
    assert table["accepted_label"].tolist() == ["last"]


def test_planes_stay_whole_numbers_beside_images_without_planes(tmp_path, fine, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save(tmp_path / "a.png", picture(64, 64))
    save(tmp_path / "a_mask.png", label_image(1, 64, 64))
    stack = np.stack([picture(64, 64, seed)[:, :, 0] for seed in range(2)])
    tifffile.imwrite("s.tif", stack, metadata={"axes": "ZYX"})
    tifffile.imwrite("s_mask.tif", np.stack([label_image(1, 64, 64)] * 2), metadata={"axes": "ZYX"})
    (tmp_path / "t.csv").write_text("image,regions\na.png,a_mask.png\ns.tif,s_mask.tif\n")
    fine("project", "new", ".", "--table", "t.csv", *FAST, "--planes", "each")
    fine("batch", ".")
    fine("project", "export", ".", "--out", "out", "--format", "csv")
    table = pd.read_csv("out/regions.csv", dtype=str, keep_default_na=False)
    assert table["z"].tolist() == ["", "0", "1"]
    assert table["region"].tolist() == ["1", "1", "1"]


def test_images_of_one_file_name_and_of_one_file_are_told_apart_in_coco(
    tmp_path, fine, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    for folder in "AB":
        save(tmp_path / folder / "img.png", picture(64, 64))
    save(tmp_path / "masks.png", label_image(1, 64, 64))
    with tifffile.TiffWriter("scan.ome.tif", ome=True) as writer:
        for seed in range(2):
            writer.write(picture(64, 64, seed)[:, :, 0], metadata={"axes": "YX"})
    (tmp_path / "t.csv").write_text(
        "image,regions,name,series\nA/img.png,masks.png,left,\nB/img.png,masks.png,right,\n"
        "scan.ome.tif,masks.png,first,0\nscan.ome.tif,masks.png,second,1\n"
    )
    fine("project", "new", ".", "--table", "t.csv", *FAST)
    fine("batch", ".")
    fine("project", "export", ".", "--out", "out", "--format", "coco")
    images = COCO(tmp_path / "out/coco.json").imgs.values()
    assert [(one["name"], one["file_name"], one.get("series")) for one in images] == [
        ("left", "A/img.png", None),
        ("right", "B/img.png", None),
        ("first", "scan.ome.tif", 0),
        ("second", "scan.ome.tif", 1),
    ]
    # As a file of regions it tells the folders apart, too.
    words = ("--images", "[AB]/*.png", "--regions", "out/coco.json", *FAST[2:])
    fine("batch", *words, "--out", "again")
    assert set(pd.read_parquet("again/regions.parquet")["image"]) == {"A/img.png", "B/img.png"}


def test_regions_of_positions_of_one_file_are_read_back_from_coco(tmp_path, fine, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with tifffile.TiffWriter("scan.ome.tif", ome=True) as writer:
        for seed in range(2):
            writer.write(picture(64, 64, seed)[:, :, 0], metadata={"axes": "YX"})
    for number in range(2):
        save(tmp_path / f"masks/scan_{number}.png", label_image(number + 2, 64, 64))
    where = ("--images", "scan.ome.tif", "--positions", "--regions")
    fine("project", "new", ".", *where, "masks/scan_{series}.png", *FAST)
    fine("batch", ".")
    fine("project", "export", ".", "--out", "out", "--format", "coco")
    page = json.loads(Path("out/coco.json").read_text())
    for one in (*page["images"], *page["annotations"]):  # as another program may number them
        key = "id" if "file_name" in one else "image_id"
        one[key] = {1: 581929, 2: 7}[one[key]]
    Path("out/coco.json").write_text(json.dumps(page))
    fine("project", "new", "coco.yaml", *where, "out/coco.json", *FAST)
    fine("batch", "coco.yaml", "--out", "again")
    results = ("--results", "again", "--format", "coco")
    fine("project", "export", "coco.yaml", *results, "--out", "two")
    exported = COCO("two/coco.json")
    assert {one["name"]: one["id"] for one in exported.imgs.values()} == {
        "scan_0": 581929,
        "scan_1": 7,
    }
    assert {one["image_id"] for one in exported.anns.values()} == {581929, 7}
    project = OpenProject.read(tmp_path)
    for name in ("scan_0", "scan_1"):
        before = open_archive(archive_file(project, name))
        after = open_archive(tmp_path / "again" / "archives" / name / "results.npz")
        assert identities_of(after) == identities_of(before)
    # Without a number nothing tells which of them is meant.
    with pytest.raises(InputError, match=r"scan.ome.tif \(series 0, 1\); choose one"):
        read_regions("out/coco.json", (64, 64), image="scan.ome.tif")
    assert len(read_regions("out/coco.json", (64, 64), image="scan.ome.tif", series=1)) == 3
    with pytest.raises(InputError, match=r"series 0, 1\), and not of 2"):
        read_regions("out/coco.json", (64, 64), image="scan.ome.tif", series=2)


def test_accepted_regions_alone_are_exported(computed, tmp_path):
    word = pd.read_parquet(computed.out / "regions.parquet")["suggestion"].iloc[0]
    with pytest.raises(InputError, match="nothing to export"):
        export(computed, tmp_path / "one", accepted_only=True)
    count = accept(computed, word).count
    exported = export(computed, tmp_path / "one", accepted_only=True)
    assert exported.regions == count
    assert len(pd.read_parquet(tmp_path / "one" / "regions.parquet")) == count


def test_an_export_replaces_nothing_unasked_and_never_the_results(computed, tmp_path):
    export(computed, tmp_path / "one")
    with pytest.raises(InputError, match="already has"):
        export(computed, tmp_path / "one")
    export(computed, tmp_path / "one", overwrite=True)
    with pytest.raises(InputError, match="results of the project"):
        export(computed, computed.out, overwrite=True)


def contents(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_an_export_replaces_its_own_by_any_path(computed, tmp_path, monkeypatch):
    export(computed, tmp_path / "one")
    (tmp_path / "link").symlink_to("one")
    monkeypatch.chdir(tmp_path)
    for path in ("one", "link"):
        export(computed, Path(path), overwrite=True)
    assert sorted(one.name for one in (tmp_path / "one").iterdir()) == [
        "coco.json",
        "regions.csv",
        "regions.parquet",
    ]


@pytest.mark.parametrize("overwrite", [True, False])
def test_an_export_whose_last_file_fails_changes_none(computed, tmp_path, monkeypatch, overwrite):
    if overwrite:
        export(computed, tmp_path / "one")
        accept(computed, pd.read_csv("one/regions.csv")["suggestion"].iloc[0])
    before = contents(tmp_path)

    def full(*_, **__):
        raise InputError("disk full")

    monkeypatch.setattr("napari_maskinversion.results.export.table_export.write_csv_table", full)
    with pytest.raises(InputError, match="disk full"):
        export(computed, tmp_path / "one", overwrite=overwrite)
    assert contents(tmp_path) == before


def test_a_file_that_appears_during_an_export_is_not_replaced(computed, tmp_path):
    steps = export_steps(computed, tmp_path / "one", ["coco", "csv", "parquet"])
    next(steps)
    (tmp_path / "one" / "coco.json").write_text("mine")
    with pytest.raises(InputError, match="coco.json has appeared since the start"):
        list(steps)
    assert {path.name: path.read_text() for path in (tmp_path / "one").iterdir()} == {
        "coco.json": "mine"
    }


def test_a_new_project_never_replaces_its_words(images, call):
    (images / "project.yaml").write_text("labels: [car, dog]\n")
    words = ("--images", "images", "--regions", "masks", "--labels", "project.yaml")
    code, _, err = call("project", "new", ".", *words, "--overwrite")
    assert (code, "is an input" in err) == (2, True), err


@pytest.mark.parametrize("input_", ["coco.json", "regions.csv"])
def test_an_export_never_replaces_what_the_project_reads(computed, call, tmp_path, input_):
    shutil.copy("masks/cell-1_mask.png", input_)  # its name does not matter here

    def with_inputs(content):
        images = [one.model_copy(update={"regions": input_}) for one in content.images]
        return type(content)(**{**dict(content), "images": images})

    def with_words(content):
        return type(content)(**{**dict(content), "labels": input_})

    before = (tmp_path / input_).read_bytes()
    for change in (with_inputs, with_words):
        whole = computed.file.read_bytes()
        edit(computed.file, change)
        code, _, err = call("project", "export", ".", "--out", ".", "--stale", "--overwrite")
        computed.file.write_bytes(whole)
        assert (code, "is an input" in err) == (2, True), err
        assert (tmp_path / input_).read_bytes() == before


def test_the_folder_is_checked_before_images_are_read(computed, tmp_path):
    (tmp_path / "one").write_text("mine")
    steps = export_steps(computed, tmp_path / "one", ["parquet"])
    with pytest.raises(InputError, match="one cannot be written to"):
        next(steps)
    with pytest.raises(InputError, match="holds the results of the project"):
        next(export_steps(computed, archive_file(computed, "cell-1.png").parent, ["coco"]))


def test_an_image_without_results_is_left_out_and_named(computed, tmp_path):
    first, _second = computed.by_name
    shutil.rmtree(archive_file(computed, first).parent)
    exported = export(computed, tmp_path / "one")
    assert list(exported.left_out) == [first]
    assert exported.images == 1


def test_what_was_computed_from_other_regions_is_neither_exported_nor_accepted(
    computed, fine, refused, tmp_path
):
    table = pd.read_parquet(computed.out / "regions.parquet")
    changed, other = computed.by_name
    word = table[table["image"] == changed]["suggestion"].iloc[0]
    save(tmp_path / "masks/cell-1_mask.png", label_image(3, 64, 64))
    opened = OpenProject.read(tmp_path)
    accepted = accept(opened, word)
    assert "computed from other regions" in accepted.problems[changed]
    assert set(accepted.steps) <= {other}
    exported = export(opened, tmp_path / "one")
    assert exported.images == 1
    assert "1 left out: cell-1.png: computed from other regions; compute again" in exported.text
    assert set(pd.read_csv(tmp_path / "one/regions.csv")["image"]) == {other}
    # As they are, if somebody wants it; and again once they are computed.
    edit(opened.file, lambda p: type(p)(**{**dict(p), "labels": "cat,dog"}))
    err = refused("project", "export", ".", "--out", "two")
    assert "nothing to export: 2 left out: cell-1.png: computed from other regions, labels" in err
    fine("project", "export", ".", "--out", "two", "--stale")
    assert set(pd.read_csv(tmp_path / "two/regions.csv")["image"]) == {changed, other}
    fine("batch", ".", "--overwrite")
    assert export(OpenProject.read(tmp_path), tmp_path / "three").left_out == {}


def annotations(value=1):
    mask = np.zeros((5, 6), bool)
    mask[1:4, 2:5] = True
    region = Region.from_mask(value, mask, (10, 20))
    return Annotations(shape=(64, 64), items=(Annotation(region=region, label="cat"),))


def test_drawn_regions_are_read_again_and_never_replace_a_file_of_the_users(project):
    opened = OpenProject.read(project)
    name = next(iter(opened.by_name))
    users = opened.folder / "drawn_regions" / f"{name}.json"
    users.parent.mkdir()
    users.write_text('{"mine": 1}')
    file = save_drawn(opened, name, annotations())
    assert json.loads(users.read_text()) == {"mine": 1}
    assert is_drawn(file)
    assert not is_drawn(users)
    again = read_regions(file, (64, 64), image=name)
    assert [(r.id, r.bbox, r.name) for r in again] == [(1, (11, 22, 14, 25), "cat")]
    # The next time the same file is used.
    edit(opened.file, lambda p: changed_image(p, name, regions=f"drawn_regions/{file.name}"))
    opened = OpenProject.read(project)
    assert save_drawn(opened, name, annotations(value=7)) == file
    assert [region.id for region in read_regions(file, (64, 64), image=name)] == [7]


def test_what_others_write_to_the_project_meanwhile_stays(project):
    opened = OpenProject.read(project)
    first, second = opened.by_name
    edit(opened.file, lambda p: changed_image(p, first, state="skip"))  # by another program
    edit(opened.file, lambda p: changed_image(opened.project and p, second, state="done"))
    states = {image.name: image.state for image in read_project(opened.file).images}
    assert states == {first: "skip", second: "done"}


def test_the_place_comes_back_and_a_damaged_one_is_the_beginning(project):
    file = OpenProject.read(project).file
    assert read_place(file) == Place()
    write_place(file, Place(image="a.png", region=3, position={"z": 2}))
    assert read_place(file) == Place(image="a.png", region=3, position={"z": 2})
    (kept,) = file.parent.glob(".*place.json")
    kept.write_text("{")
    assert read_place(file) == Place()


def test_decisions_about_other_pixels_do_not_count(computed):
    word = pd.read_parquet(computed.out / "regions.parquet")["suggestion"].iloc[0]
    accepted = accept(computed, word)
    name = next(iter(accepted.steps))
    bundle = open_archive(archive_file(computed, name))
    other = replace(bundle, image=replace(bundle.image, content="0" * 32))
    from napari_maskinversion.review.reporting import decisions_of

    assert len(decisions_of(bundle, computed.path(name))) == len(accepted.steps[name])
    assert len(decisions_of(other, computed.path(name))) == 0
