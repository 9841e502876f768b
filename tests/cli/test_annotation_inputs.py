"""Annotation files in place of masks on the command line."""

import json
import re

import numpy as np
import pandas as pd
import pytest
import skimage.io
import tifffile
from pycocotools.coco import COCO
from roifile import ImagejRoi

from napari_maskinversion.base.errors import InputError
from napari_maskinversion.base.regions import Regions
from napari_maskinversion.pipeline.inputs import open_inputs
from napari_maskinversion.regions.annotations.annotation import Annotation, Annotations
from napari_maskinversion.regions.annotations.coco_writing import write_coco
from napari_maskinversion.regions.annotations.geojson import write_geojson
from napari_maskinversion.regions.region_reading import read_regions
from napari_maskinversion.results.export.archive import open_archive
from napari_maskinversion.results.export.catalogue import FORMATS
from napari_maskinversion.results.settings import RunSettings
from tests.scenes import label_image, picture


@pytest.fixture
def opened():
    stacks = []

    def open_(image, masks, **options):
        inputs = open_inputs(image, masks, RunSettings(**options))
        stacks.append(inputs.stack)
        return inputs

    yield open_
    for stack in stacks:
        stack.close()


@pytest.fixture
def image(tmp_path):
    skimage.io.imsave(tmp_path / "image.png", picture(), check_contrast=False)
    return tmp_path / "image.png"


def items(labels=None, position=()):
    regions = Regions.from_labels(label_image(5) if labels is None else labels)
    return tuple(Annotation(region=region, position=position) for region in regions)


@pytest.mark.parametrize(("write", "name"), [(write_coco, "a.json"), (write_geojson, "a.geojson")])
def test_annotations_are_the_regions_of_their_label_image(opened, image, write, name):
    write(Annotations(shape=(60, 80), items=items(), image="image.png"), image.with_name(name))
    (task,) = opened(image, image.with_name(name), only="2,4").tasks
    expected = Regions.from_labels(label_image(5)).only([2, 4])
    assert task.regions.ids == [2, 4]
    for one, other in zip(task.regions, expected, strict=True):
        assert one.bbox == other.bbox
        np.testing.assert_array_equal(one.mask, other.mask)
    with pytest.raises(InputError, match="no region 77 in .*" + name):
        opened(image, image.with_name(name), only="77")


def test_a_run_takes_annotations_and_says_what_it_changed(image, fine, refused, tmp_path):
    boxes = [{"id": 3, "image_id": 1, "category_id": 1, "bbox": [60, 40, 50, 10]}]
    page = {
        "images": [{"id": 1, "file_name": "image.png", "height": 60, "width": 80}],
        "annotations": boxes,
        "categories": [{"id": 1, "name": "car"}],
    }
    (tmp_path / "coco.json").write_text(json.dumps(page))
    command = ["run", image, tmp_path / "coco.json", "--labels", "car,key", "--steps", 1]
    err = fine(*command, "--out", tmp_path / "out")
    assert "annotation 3 reaches beyond the image and was cut." in err
    record = json.loads((tmp_path / "out" / "result.json").read_text())
    assert record["regions"][0]["bbox_yxyx"] == [40, 60, 50, 80]
    assert record["source"]["masks"]["file"] == "coco.json"
    boxes[0]["segmentation"] = {"size": [60, 80], "counts": [1, 2]}
    (tmp_path / "coco.json").write_text(json.dumps(page))
    assert "coco.json, annotation 3 is broken" in refused(*command, "--out", tmp_path / "out2")


def test_a_run_takes_ids_that_no_label_can_have_and_its_results_come_back(image, fine, tmp_path):
    page = {
        "images": [{"id": 1, "file_name": "image.png", "height": 60, "width": 80}],
        "annotations": [
            {"id": number, "image_id": 1, "category_id": 1, "bbox": [at, at, 20, 10]}
            for at, number in enumerate((1, 900_100_581_904, 10**30))
        ],
        "categories": [{"id": 1, "name": "car"}],
    }
    (tmp_path / "coco.json").write_text(json.dumps(page))
    command = ["run", image, tmp_path / "coco.json", "--labels", "car,key", "--steps", 1]
    more = ("--format", "npz", "--out", tmp_path / "out")
    assert "regions are numbered from 1" in fine(*command, *more)
    assert open_archive(tmp_path / "out" / "results.npz").results.ids == [1, 2, 3]


def named_page(**ids):
    """COCO with one 12 px box for each name, in a list of categories that nobody uses in full."""
    categories = [{"id": n, "name": name} for n, name in enumerate(("tree", "car", "dog", "key"))]
    numbers = {record["name"]: record["id"] for record in categories}
    return {
        "images": [{"id": 1, "file_name": "image.png", "height": 60, "width": 80}],
        "annotations": [
            {
                "id": number,
                "image_id": 1,
                "category_id": numbers[name],
                "bbox": [18 * place, 9 * place, 12, 12],
            }
            for place, (name, number) in enumerate(ids.items())
        ],
        "categories": categories,
    }


def test_names_and_ids_of_the_file_are_the_labels_and_stay_in_every_output(image, call, tmp_path):
    (tmp_path / "coco.json").write_text(json.dumps(named_page(dog=900_100_581_904, key=7)))
    out = tmp_path / "out"
    command = ["run", image, tmp_path / "coco.json", "--steps", 1, "--out", out]
    code, printed, err = call(*command, "--format", ",".join(FORMATS))
    assert code == 0, err
    assert "Labels: the names in " in err
    assert "coco.json (tree, car, dog, key)." in err
    assert re.search(r"[012] of 2 suggestions \(\d+ %\) are the names in the file", err)
    assert "name in the file" in printed
    record = json.loads((out / "result.json").read_text())
    assert record["vocabulary"]["labels"] == ["tree", "car", "dog", "key"]
    assert [one["source"] for one in record["regions"]] == [
        {"label": "dog", "id": "900100581904"},
        {"label": "key", "id": "7"},
    ]
    suggestions = [one["suggestion"] for one in record["regions"]]
    same = sum(one == name for one, name in zip(suggestions, ("dog", "key"), strict=True))
    assert record["agreement"] == {
        "compared": 2,
        "same": same,
        "other_names": [],
        "others": 0,
        "accuracy": same / 2,
    }
    coco, labels = (json.loads((out / name).read_text()) for name in ("coco.json", "labels.json"))
    world = json.loads((out / "regions.geojson").read_text())
    tables = [
        [one["attributes"] for one in coco["annotations"]],
        [one["properties"]["metadata"] for one in world["features"]],
        labels["regions"],
        pd.read_csv(out / "regions.csv", dtype=str).to_dict("records"),
        pd.read_parquet(out / "regions.parquet").to_dict("records"),
        open_archive(out / "results.npz").results.to_frame().to_dict("records"),
    ]
    for table in tables:
        assert [(row["source_label"], row["source_id"]) for row in table] == [
            ("dog", "900100581904"),
            ("key", "7"),
        ]
    assert json.loads((out / "embeddings.json").read_text())["embeddings"]["source_labels"] == [
        "dog",
        "key",
    ]


def test_with_labels_of_your_own_names_are_only_compared(image, fine, tmp_path):
    page = named_page(dog=1, tree=2)
    page["categories"][2]["name"] = "PUPPY"
    (tmp_path / "coco.json").write_text(json.dumps(page))
    command = ["run", image, tmp_path / "coco.json", "--steps", 1, "--labels", "dog | puppy"]
    err = fine(*command, "--out", tmp_path / "out")
    # The only label there is must be the suggestion.
    assert "1 of 1 suggestions (100 %) are the names in the file" in err
    assert "1 region has a name that is none of the words (tree); not compared" in err


def test_a_file_without_names_asks_for_labels(image, refused, tmp_path):
    write_coco(Annotations(shape=(60, 80), items=items(), image="image.png"), tmp_path / "a.json")
    err = refused("run", image, tmp_path / "a.json", "--out", tmp_path / "out")
    assert "a.json has no names of regions; add --labels dog,cat or --captions FILE" in err


def test_coco_as_polygons_holds_the_same_pixels(image, call, fine, refused, tmp_path, capsys):
    ring = np.zeros((60, 80), np.uint8)
    ring[10:40, 10:50] = 1
    ring[15:20, 15:20] = ring[15:20, 30] = ring[30:33, 12:48] = 0
    skimage.io.imsave(tmp_path / "labels.png", ring, check_contrast=False)
    command = ["run", image, tmp_path / "labels.png", "--labels", "car", "--steps", 1]
    out = tmp_path / "out"
    fine(*command, "--format", "coco,npz", "--polygons", "--out", out)
    call("export", out / "results.npz", "--format", "coco", "--polygons", "--out", tmp_path / "b")
    for path in (out / "coco.json", tmp_path / "b" / "coco.json"):
        coco = COCO(path)
        (record,) = coco.loadAnns(coco.getAnnIds())
        assert all(isinstance(number, float) for part in record["segmentation"] for number in part)
        np.testing.assert_array_equal(coco.annToMask(record), ring)
    assert "--polygons is about COCO" in refused(*command, "--polygons", "--out", tmp_path / "c")


def write_square(folder):
    """The same 20 x 10 px square, as each program writes it."""
    labels = np.zeros((60, 80), np.uint16)
    labels[30:40, 20:40] = 1
    corners = [[20, 30], [40, 30], [40, 40], [20, 40]]
    square = {"label": "dog", "points": corners, "shape_type": "polygon"}
    page = {"shapes": [square], "imagePath": "image.png", "imageHeight": 60, "imageWidth": 80}
    (folder / "labelme.json").write_text(json.dumps(page))
    box = '<box label="dog" xtl="20" ytl="30" xbr="40" ybr="40"/>'
    (folder / "cvat.xml").write_text(
        f'<annotations><image name="image.png" width="80" height="60">{box}</image></annotations>'
    )
    (folder / "classes.txt").write_text("dog")
    (folder / "yolo.txt").write_text("0 0.375 0.583333 0.25 0.166667")
    ImagejRoi.frompoints(np.array(corners, float), name="dog").tofile(folder / "dog.roi")
    ImagejRoi.frompoints(np.array(corners, float), name="dog").tofile(folder / "RoiSet.zip")
    np.save(folder / "image_seg.npy", {"masks": labels}, allow_pickle=True)


@pytest.mark.parametrize(
    "name", ["labelme.json", "cvat.xml", "yolo.txt", "dog.roi", "RoiSet.zip", "image_seg.npy"]
)
def test_files_of_every_program_are_the_same_region(opened, image, tmp_path, name):
    write_square(tmp_path)
    (task,) = opened(image, tmp_path / name).tasks
    (region,) = task.regions
    assert (region.bbox, region.area) == ((30, 20, 40, 40), 200)
    assert region.name == ("" if name == "image_seg.npy" else "dog")
    (again,) = read_regions(tmp_path / name, (60, 80))
    assert again.bbox == region.bbox


def test_what_is_not_read_names_the_way_out_on_the_command_line(image, refused, tmp_path):
    (tmp_path / "cells.qpdata").write_bytes(b"x")
    err = refused("run", image, tmp_path / "cells.qpdata", "--labels", "dog")
    assert "in QuPath, choose File > Export objects as GeoJSON." in err


def test_regions_lie_on_the_planes_that_their_file_names(opened, tmp_path):
    tifffile.imwrite(
        tmp_path / "stack.tif",
        np.stack([picture(seed=s)[..., 0] for s in range(3)]),
        metadata={"axes": "ZYX"},
    )
    write_coco(
        Annotations(
            shape=(60, 80),
            items=items(position=(("z", 0),)) + items(position=(("z", 2),)),
            image="stack.tif",
        ),
        tmp_path / "a.json",
    )
    both = opened(tmp_path / "stack.tif", tmp_path / "a.json")
    assert [task.position for task in both.tasks] == [(("z", 0),), (("z", 2),)]
    one = opened(tmp_path / "stack.tif", tmp_path / "a.json", plane="z=2")
    assert [task.position for task in one.tasks] == [(("z", 2),)]
    with pytest.raises(InputError, match="no region on the chosen plane"):
        opened(tmp_path / "stack.tif", tmp_path / "a.json", plane="z=1")
    with pytest.raises(InputError, match="leave --planes out"):
        opened(tmp_path / "stack.tif", tmp_path / "a.json", planes="each")
    write_coco(
        Annotations(shape=(60, 80), items=items(position=(("t", 1),)), image="stack.tif"),
        tmp_path / "b.json",
    )
    other = opened(tmp_path / "stack.tif", tmp_path / "b.json")
    assert [task.position for task in other.tasks] == [(("z", 1),)]
    assert "its planes along t are z of" in other.notes


def test_planes_of_qupath_are_planes(opened, tmp_path):
    tifffile.imwrite(
        tmp_path / "stack.tif",
        np.stack([picture(seed=s)[..., 0] for s in range(3)]),
        metadata={"axes": "ZYX"},
    )
    square = [[[1, 1], [9, 1], [9, 9], [1, 9], [1, 1]]]
    features = [
        {
            "type": "Feature",
            "geometry": {"type": "Polygon", "coordinates": square, "plane": plane},
            "properties": {"objectType": "annotation"},
        }
        for plane in ({"c": -1, "z": 0, "t": 0}, {"c": -1, "z": 2, "t": 0})
    ]
    (tmp_path / "q.geojson").write_text(json.dumps(features))
    inputs = opened(tmp_path / "stack.tif", tmp_path / "q.geojson")
    assert [task.position for task in inputs.tasks] == [(("z", 0),), (("z", 2),)]


def test_annotations_in_the_world_fall_on_their_geotiff(opened, tmp_path):
    scale = (33550, "d", 3, (0.5, 0.5, 0.0), True)
    tie = (33922, "d", 6, (0.0, 0.0, 0.0, 400_000.0, 5_700_000.0, 0.0), True)
    keys = (34735, "H", 12, (1, 1, 0, 2, 1024, 0, 1, 1, 3072, 0, 1, 32632), True)
    tifffile.imwrite(tmp_path / "geo.tif", picture()[..., 0], extratags=[scale, tie, keys])
    opened_image = opened(tmp_path / "geo.tif", _labels(tmp_path))
    geo = opened_image.units.geo
    annotations = Annotations(shape=(60, 80), items=items(), image="geo.tif", geo=geo)
    write_geojson(annotations, tmp_path / "world.geojson", world=True)
    (task,) = opened(tmp_path / "geo.tif", tmp_path / "world.geojson").tasks
    for one, other in zip(task.regions, items(), strict=True):
        assert (one.id, one.bbox) == (other.region.id, other.region.bbox)
        np.testing.assert_array_equal(one.mask, other.region.mask)


def _labels(folder):
    skimage.io.imsave(folder / "labels.png", label_image(5), check_contrast=False)
    return folder / "labels.png"


SOURCE = {
    "images": [{"id": 5, "file_name": "image.png", "height": 60, "width": 80}],
    "categories": [{"id": 18, "name": "dog"}, {"id": 0, "name": "car"}, {"id": 44, "name": "key"}],
    "annotations": [
        {"id": number, "image_id": 5, "category_id": category, "bbox": [x, 5, 20, 20]}
        for number, category, x in ((7, 18, 5), (900100449500, 0, 30), (11, 18, 55))
    ],
}


def numbers_in(file):
    page = json.loads(file.read_text())
    categories = {one["name"]: one["id"] for one in page["categories"]}
    return categories, [one["id"] for one in page["annotations"]]


def test_coco_keeps_the_numbers_of_its_source(image, fine, tmp_path):
    source = tmp_path / "source.json"
    source.write_text(json.dumps(SOURCE))
    words = ("--steps", 1, "--resolution", 64, "--format", "coco,npz")
    fine("run", image, source, *words, "--out", tmp_path / "out")
    own = {"dog": 18, "car": 0, "key": 44}, [7, 900100449500, 11]
    assert numbers_in(tmp_path / "out/coco.json") == own
    # From the archive, and from a project, too.
    archive = tmp_path / "out/results.npz"
    fine("export", archive, "--format", "coco", "--out", tmp_path / "again")
    assert numbers_in(tmp_path / "again/coco.json") == own
    place = tmp_path / "project"
    new = ("project", "new", place, "--images", image, "--regions", source, *words[:4])
    fine(*new)
    fine("batch", place, "--out", place / "maskinversion_batch")
    fine("project", "export", place, "--out", tmp_path / "whole")
    assert numbers_in(tmp_path / "whole/coco.json") == own


def test_words_that_the_source_does_not_have_get_numbers_of_their_own(image, fine, tmp_path):
    source = tmp_path / "source.json"
    source.write_text(json.dumps(SOURCE))
    words = ("--labels", "cat,dog,bird", "--steps", 1, "--resolution", 64, "--format", "coco")
    fine("run", image, source, *words, "--out", tmp_path / "out")
    categories, _ = numbers_in(tmp_path / "out/coco.json")
    assert categories == {"cat": 45, "dog": 18, "bird": 47}


def test_annotations_have_the_numbers_of_label_images(image, fine, tmp_path):
    labels = label_image(3)
    labels[labels > 0] = np.array([0, 7, 3, 11])[labels[labels > 0]]
    skimage.io.imsave(tmp_path / "masks.png", labels, check_contrast=False)
    words = ("--labels", "cat,dog", "--steps", 1, "--resolution", 64, "--format", "coco")
    fine("run", image, tmp_path / "masks.png", *words, "--out", tmp_path / "out")
    page = json.loads((tmp_path / "out/coco.json").read_text())
    assert {one["id"]: one["region"] for one in page["annotations"]} == {3: 3, 7: 7, 11: 11}
