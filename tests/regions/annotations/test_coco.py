"""COCO JSON, read back by itself and by pycocotools."""

import json
from dataclasses import replace
from unicodedata import normalize

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from pycocotools import mask as coco_mask
from pycocotools.coco import COCO

from napari_maskinversion.base.errors import InputError, MaskShapeError, NotListedError
from napari_maskinversion.base.regions import Region
from napari_maskinversion.regions.annotations import json_files, rle
from napari_maskinversion.regions.annotations.annotation import Annotation, Annotations
from napari_maskinversion.regions.annotations.annotation_reading import (
    open_annotations,
    read_annotations,
)
from napari_maskinversion.regions.annotations.coco import UNNAMED
from napari_maskinversion.regions.annotations.coco_writing import write_coco, write_coco_of_many
from napari_maskinversion.regions.annotations.listed_images import ImageReference

from .files import coco
from .shapes import PLANE, RING, full, regions, same

quick = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@quick
@given(regions())
def test_run_lengths_are_those_of_pycocotools(region):
    ours = rle.encode(region, PLANE)
    theirs = coco_mask.encode(np.asfortranarray(full(region).astype(np.uint8)))
    assert ours["counts"] == theirs["counts"].decode()
    same(replace(rle.decode(PLANE, ours["counts"]), id=region.id), region)


def test_runs_over_whole_columns_are_one():
    region = Region(1, (0, 1, 5, 4), np.ones((5, 3), bool))
    theirs = coco_mask.encode(np.asfortranarray(full(region, (5, 6)).astype(np.uint8)))
    assert rle.encode(region, (5, 6))["counts"] == theirs["counts"].decode()
    same(replace(rle.decode((5, 6), [5, 15, 10]), id=1), region)


def test_pycocotools_reads_masks_boxes_names_and_scores(tmp_path, capsys):
    path = tmp_path / "regions.json"
    other = Region(7, (0, 0, 2, 3), np.array([[1, 0, 1], [1, 1, 1]], bool))
    named = (
        Annotation(region=RING, label="Äpfel, rote", score=0.25),
        Annotation(region=other, label="", score=None),
    )
    write_coco(Annotations(shape=(7, 7), items=named, image="bild ä.png"), path)
    coco = COCO(path)
    assert coco.loadImgs(1)[0]["file_name"] == "bild ä.png"
    one, two = coco.loadAnns(coco.getAnnIds())
    np.testing.assert_array_equal(coco.annToMask(one), full(RING, (7, 7)))
    np.testing.assert_array_equal(coco.annToMask(two), full(other, (7, 7)))
    assert [c["name"] for c in coco.loadCats(coco.getCatIds())] == ["Äpfel, rote", UNNAMED]
    assert (one["score"], one["area"], one["bbox"]) == (0.25, 18, [1, 1, 6, 6])
    assert coco.getAnnIds(catIds=coco.getCatIds(catNms=["Äpfel, rote"])) == [1]


@quick
@given(regions())
def test_polygons_have_no_holes_and_cover_the_same_pixels(tmp_path, region):
    path = tmp_path / "regions.json"
    annotations = Annotations(shape=PLANE, items=(Annotation(region=region),), image="a.png")
    write_coco(annotations, path, polygons=True)
    (record,) = json.loads(path.read_text())["annotations"]
    runs = coco_mask.merge(coco_mask.frPyObjects(record["segmentation"], *PLANE))
    np.testing.assert_array_equal(coco_mask.decode(runs), full(region))
    (again,) = read_annotations(path, PLANE, image="a.png").items
    same(again.region, region)


def test_each_plane_is_an_image_of_its_own(tmp_path):
    path = tmp_path / "regions.json"
    items = tuple(Annotation(region=RING, position=(("z", at),)) for at in (3, 5))
    write_coco(Annotations(shape=(7, 7), items=items, image="a.tif"), path)
    result = read_annotations(path, (7, 7), image="a.tif")
    assert [item.position for item in result.items] == [(("z", 3),), (("z", 5),)]
    assert [item.region.id for item in result.items] == [1, 1]


def test_annotations_of_many_images_have_ids_of_their_own_however_large_their_labels_are(tmp_path):
    path, parts = tmp_path / "regions.json", []
    for number, ids in enumerate([[1_000_001, 7], [1], [1_000_000], [999_999]], 1):
        items = tuple(Annotation(region=replace(RING, id=one)) for one in ids)
        parts.append((number, Annotations(shape=(7, 7), items=items, image=f"{number}.png"), {}))
    write_coco_of_many(parts, path)
    records = json.loads(path.read_text())["annotations"]
    assert [record["region"] for record in records] == [1_000_001, 7, 1, 1_000_000, 999_999]
    ids = [record["id"] for record in records]
    assert ids == [1_000_001, 1_000_002, 2_000_001, 3_000_001, 4_999_999]


SHAPE = (7, 9)
BOX = {"id": 1, "bbox": [1, 1, 2, 2]}


def test_polygons_are_filled_as_pycocotools_does(read):
    outline = [[1.3, 0.8, 8.9, 2.2, 4.1, 6.9], [0, 5, 2, 5, 2, 7, 0, 7]]
    result = read(coco({"id": 4, "segmentation": outline}))
    runs = coco_mask.merge(coco_mask.frPyObjects(outline, 7, 9))
    np.testing.assert_array_equal(full(result.items[0].region, (7, 9)), coco_mask.decode(runs))
    assert (result.items[0].region.id, result.items[0].label) == (4, "dog")


def test_a_crowd_is_one_region_with_a_note(read):
    crowd = {"id": 9, "iscrowd": 1, "segmentation": {"size": [7, 9], "counts": [7, 3, 11, 2, 40]}}
    result = read(coco(crowd))
    assert result.items[0].region.area == 5
    assert "annotation 9 is a crowd" in result.notes_text


def test_boxes_stand_in_for_masks_and_are_cut_at_the_image(read):
    result = read(coco({"id": 1, "bbox": [-3, 2, 6, 3]}, {"id": 2, "bbox": [5, 5, 2, 1]}))
    assert [item.region.bbox for item in result.items] == [(2, 0, 5, 3), (5, 5, 6, 7)]
    assert "annotation 1 reaches beyond the image and was cut" in result.notes_text


@pytest.mark.parametrize(
    ("drawn", "bbox"),
    [
        ({"segmentation": [[5.1, 2.1, 5.4, 2.1, 5.4, 2.4]]}, (2, 5, 3, 6)),
        ({"segmentation": [[3, 3, 3, 3, 3, 3], [5.1, 2.1, 5.4, 2.1, 5.4, 2.4]]}, (2, 5, 3, 6)),
        ({"bbox": [4.6, 3.6, 0.8, 0.8]}, (4, 5, 5, 6)),
        ({"bbox": [1, 3.1, 6, 0.2]}, (3, 1, 4, 7)),
        ({"bbox": [8.8, 2, 0.6, 3]}, (2, 8, 5, 9)),
        ({"bbox": [-0.4, 2, 0.7, 3]}, (2, 0, 5, 1)),
        ({"bbox": [8.6, 2, 30, 3]}, (2, 8, 5, 9)),
    ],
    ids=[
        "polygon",
        "one of two polygons",
        "box",
        "thin box",
        "at the right border",
        "at the left border",
        "reaches far beyond the border",
    ],
)
def test_what_is_smaller_than_a_pixel_is_the_pixel_it_lies_in(read, drawn, bbox):
    result = read(coco(BOX, {"id": 2, **drawn}))
    assert [item.region.bbox for item in result.items] == [(1, 1, 3, 3), bbox]


def test_a_box_at_the_border_that_reaches_far_beyond_it_is_cut_with_a_note(read):
    result = read(coco({"id": 1, "bbox": [8.6, 2, 30, 3]}))
    assert "annotation 1 reaches beyond the image and was cut" in result.notes_text
    assert "was cut" not in read(coco({"id": 1, "bbox": [8.8, 2, 0.6, 3]})).notes_text


def test_polygons_beyond_the_image_are_cut_with_a_note(read):
    inside = [[0, 0, 9.4, 0, 9.4, 7, -0.4, 7]]  # 7 x 9 px; corners are rounded
    result = read(coco({"id": 1, "segmentation": inside}))
    assert result.items[0].region.bbox == (0, 0, 7, 9)
    assert not result.notes
    for beyond in (
        [[-3, 2, 6, 2, 6, 5, -3, 5]],
        [[2, 2, 6, 2, 6, 9, 2, 9]],
    ):
        result = read(coco({"id": 1, "segmentation": beyond}))
        assert "annotation 1 reaches beyond the image and was cut" in result.notes_text


def test_another_image_is_refused_or_noted(read):
    with pytest.raises(MaskShapeError, match=r"image of 7 x 9 px; this one is 8 x 9 px"):
        read(coco({"id": 1, "bbox": [1, 1, 2, 2]}), shape=(8, 9))
    result = read(coco({"id": 1, "bbox": [1, 1, 2, 2]}), image="b.png")
    assert "about a.png, and the image is b.png" in result.notes_text


def test_of_several_images_the_one_of_that_name_is_read(read):
    both = coco({"id": 1, "bbox": [1, 1, 2, 2]}, {"id": 2, "image_id": 2, "bbox": [0, 0, 1, 1]})
    both["images"].append({"id": 2, "file_name": "b/c.png", "height": 7, "width": 9})
    assert [item.region.id for item in read(both, image="c.png").items] == [2]
    with pytest.raises(InputError, match=r"about 2 images \(a.png, b/c.png\)"):
        read(both, image="d.png")


def test_of_many_images_those_of_a_file_about_one_are_found_by_name(tmp_path):
    boxes, own = tmp_path / "boxes.json", tmp_path / "b_boxes.json"
    for path in (boxes, own):
        path.write_text(json.dumps(coco(BOX)))
    file = open_annotations(boxes)
    for image in ("a.png", "x/a.tif", "A.JPG"):
        assert len(file.read((7, 9), image=image).items) == 1
    with pytest.raises(NotListedError, match="a.png, which may be another image than b.png"):
        file.read((7, 9), image="b.png")
    assert len(open_annotations(own).read((7, 9), image="b.png").items) == 1
    assert len(file.about(ImageReference(name="b.png", shape=(7, 9))).items) == 1


@pytest.mark.parametrize("forms", [("NFC", "NFD"), ("NFD", "NFC")])
@pytest.mark.parametrize(
    ("listed", "series", "image"),
    [
        ("Zélla.png", None, "Zélla.png"),
        ("ä/Zélla.png", None, "/data/ä/Zélla.png"),
        ("x/Zélla.png", None, "y/Zélla.png"),
        ("Zélla", None, "Zélla.tif"),
        ("Zélla.tif", 1, "Zélla.tif (series 1)"),
    ],
    ids=["name", "path", "another folder", "no suffix", "title"],
)
def test_an_image_is_found_however_its_accents_are_written(read, forms, listed, series, image):
    content = coco(BOX)
    content["images"][0] |= {"file_name": normalize(forms[0], listed), "series": series}
    content["images"].append({"id": 2, "file_name": "b.png", "height": 7, "width": 9})
    assert len(read(content, image=normalize(forms[1], image)).items) == 1
    content["images"].pop()
    if series is None:
        assert "says it is about" not in read(content, image=normalize(forms[1], image)).notes_text


@pytest.mark.parametrize("forms", [("NFC", "NFD"), ("NFD", "NFC")])
def test_of_two_images_of_one_name_with_accents_the_one_of_that_folder_is_read(read, forms):
    content = coco(BOX, BOX | {"id": 2, "image_id": 2})
    names = (normalize(forms[0], f"{folder}/Zélla.png") for folder in ("x", "y"))
    size = {"height": 7, "width": 9}
    content["images"] = [{"id": n, "file_name": name, **size} for n, name in enumerate(names, 1)]
    result = read(content, image=normalize(forms[1], "/data/y/Zélla.png"))
    assert [item.region.id for item in result.items] == [2]


def test_of_two_names_that_differ_in_how_accents_are_written_the_same_one_is_read(read):
    names = [normalize(form, "é.png") for form in ("NFC", "NFD")]
    content = coco(BOX, BOX | {"id": 2, "image_id": 2})
    size = {"height": 7, "width": 9}
    content["images"] = [{"id": n, "file_name": name, **size} for n, name in enumerate(names, 1)]
    for number, name in enumerate(names, 1):
        assert [item.region.id for item in read(content, image=name).items] == [number]


@pytest.mark.parametrize("odd", [4, 0, -5, 2**31, 900_100_581_904, 10**30, "a"])
def test_ids_that_are_repeated_or_no_labels_are_numbered_from_one_with_a_note(read, odd):
    result = read(coco({"id": odd, "bbox": [1, 1, 2, 2]}, {"id": 4, "bbox": [0, 0, 1, 1]}))
    assert [item.region.id for item in result.items] == [1, 2]
    reason = "not unique" if odd == 4 else "not all whole numbers from 1 to"
    assert f"numbered from 1, because their ids are {reason}" in result.notes_text
    result = read(coco({"id": 2**31 - 1, "bbox": [1, 1, 2, 2]}))
    assert [item.region.id for item in result.items] == [2**31 - 1]


def test_annotations_of_no_image_of_the_file_are_left_out_with_a_note(read):
    strays = [BOX | {"id": 8, "image_id": 7}, BOX | {"id": 9, "image_id": None}]
    result = read(coco(BOX, *strays))
    assert [item.region.id for item in result.items] == [1]
    assert "annotation 8 is on image 7, which is not listed, and was left out" in result.notes_text
    assert "annotation 9 names no image and was left out" in result.notes_text
    with pytest.raises(InputError, match="contains no region.*annotation 8 is on image 7"):
        read(coco(*strays))


def test_a_name_keeps_the_number_that_is_used_and_unused_headings_are_no_words(read):
    """Roboflow writes a heading over all categories, and labelme `_background_`."""
    names = ("trees", "dog", "dog", "_background_", "person")
    above = ("none", "none", "trees", "none", "person")
    categories = [
        {"id": n, "name": name, "supercategory": heading}
        for n, (name, heading) in enumerate(zip(names, above, strict=True))
    ]
    result = read(coco(BOX | {"category_id": 2}, categories=categories))
    assert result.labels == ("dog", "person")
    assert result.coco.category_ids == {"dog": 2, "person": 4}


def test_names_and_ids_that_look_like_numbers_stay_as_they_are(read):
    categories = [{"id": n, "name": name} for n, name in enumerate(("01", "1_2", 1), 1)]
    drawn = [BOX | {"id": f"00{n}", "category_id": n} for n in (1, 2, 3)]
    result = read(coco(*drawn, categories=categories))
    assert [item.label for item in result.items] == ["01", "1_2", "1"]
    assert [item.source_id for item in result.items] == ["001", "002", "003"]
    assert result.coco.category_ids == {"01": 1, "1_2": 2, "1": 3}


def test_a_box_that_cvat_turned_is_turned(read):
    turned = {"id": 1, "bbox": [2, 3, 6, 2], "attributes": {"rotation": 90.0, "occluded": False}}
    (item,) = read(coco(turned, size=(9, 9)), (9, 9)).items
    assert item.region.bbox == (1, 4, 7, 6)


@pytest.mark.parametrize("image", ["val/a.png", "/data/val/a.png", "x\\val\\a.png"])
def test_folders_decide_between_equal_names_also_those_of_windows(read, image):
    size = {"height": 7, "width": 9}
    names = ("D:\\set\\train\\a.png", "D:\\set\\val\\a.png")
    images = [{"id": n, "file_name": name, **size} for n, name in enumerate(names, 1)]
    content = coco(BOX, BOX | {"id": 2, "image_id": 2}, images=images)
    assert [item.region.id for item in read(content, image=image).items] == [2]
    with pytest.raises(InputError, match="has 2 images that may be a.png"):
        read(content, image="a.png")


def test_a_name_with_the_prefix_of_label_studio_is_found_and_said(read):
    content = coco(BOX)
    content["images"][0]["file_name"] = "90fbb0c7-a.png"
    content["images"].append({"id": 2, "file_name": "b.png", "height": 7, "width": 9})
    assert "says it is about 90fbb0c7-a.png" in read(content).notes_text


def test_two_images_or_categories_with_one_id_are_refused(read):
    """Regions of one would be taken for regions of the other."""
    content = coco(BOX)
    content["images"].append({**content["images"][0], "file_name": "b.png"})
    with pytest.raises(InputError, match="has two images with the id 1"):
        read(content)
    content = coco(BOX)
    content["categories"] = [{"id": 1, "name": name} for name in ("car", "car", "dog")]
    with pytest.raises(InputError, match="two categories with the id 1: 'car' and 'dog'"):
        read(content)


def test_a_category_without_a_name_is_called_by_its_id(read):
    content = coco(BOX)
    content["categories"] = [{"id": 3, "name": None}]
    assert [item.label for item in read(content).items] == ["3"]


@pytest.mark.parametrize("height", [None, 0, [7]])
def test_without_an_image_and_a_size_the_regions_say_how_large_it_is(read, height):
    content = coco(BOX, {"id": 2, "segmentation": [[1.3, 0.8, 8.9, 2.2, 4.1, 6.9]]})
    content["images"][0]["height"] = height
    result = read(content, shape=None)
    assert result.shape == (7, 9)
    assert "has no image size; 7 x 9 px contain all regions" in result.notes_text


def test_lone_surrogates_do_not_stop_the_writing(tmp_path):
    item = Annotation(region=RING, label="a\ud83d", values={"n\udcff": "\ud83d\ude00 ä"})
    write_coco(Annotations(shape=(7, 7), items=(item,), image="b\udcff.png"), tmp_path / "r.json")
    (result,) = read_annotations(tmp_path / "r.json", (7, 7)).items
    assert (result.label, result.values) == ("a\ufffd", {"n\ufffd": "😀 ä"})


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("[1, 2]", "neither COCO .* it contains a list"),
        ('{"shapes": []}', "object with shapes. Export or convert it to COCO JSON"),
        ('{"images": [', "is broken JSON: .* line 1"),
        ('{"images": [' + 5000 * "9" + "]}", "is broken JSON"),
        (coco(categories=5), "no list of categories"),
        (coco(), "contains no region"),
    ],
)
def test_a_file_that_is_not_coco_is_refused_by_name(read, content, reason):
    with pytest.raises(InputError, match=f"theirs.json.*{reason}"):
        read(content)


def test_a_plane_beyond_32_bits_is_refused():
    with pytest.raises(InputError, match="too large for COCO"):
        rle.encode(replace(RING), (70_000, 70_000))


def test_a_region_of_a_large_plane_stays_a_crop():
    region = Region(1, (19_000, 19_000, 19_020, 19_030), np.ones((20, 30), bool))
    written = rle.encode(region, (20_000, 20_000))
    same(replace(rle.decode((20_000, 20_000), written["counts"]), id=1), region)


def test_json_that_needs_more_memory_than_is_free_is_refused_before_it_is_parsed(
    tmp_path, monkeypatch
):
    path = tmp_path / "wide.json"
    path.write_text("[" + ",".join(["{}"] * 3_000_000) + "]")  # 9 MB; 0.2 GB as objects
    monkeypatch.setattr(json_files, "free_memory", lambda: 10**8)
    monkeypatch.setattr(json, "loads", lambda *_: pytest.fail("it is parsed"))
    with pytest.raises(InputError, match=r"wide\.json needs about 0\.3 GB .*fewer regions"):
        read_annotations(path, (60, 80))


def test_categories_of_one_name_come_out_again(read, tmp_path):
    kinds = [{"id": n, "name": "dog", "supercategory": f"kind {n}"} for n in (3, 5)]
    page = coco(BOX, {**BOX, "id": 2, "category_id": 5}, categories=kinds)
    once = read(page)
    write_coco(once, tmp_path / "a.json")
    written = json.loads((tmp_path / "a.json").read_text())
    assert written["categories"] == kinds
    assert [one["category_id"] for one in written["annotations"]] == [3, 5]
    assert [one.values for one in read(written).items] == [one.values for one in once.items]
    # A region that a review names otherwise has the number of its word.
    renamed = replace(once, items=tuple(replace(one, label="cat") for one in once.items))
    write_coco(renamed, tmp_path / "b.json")
    written = json.loads((tmp_path / "b.json").read_text())
    names = {one["id"]: one["name"] for one in written["categories"]}
    assert [names[one["category_id"]] for one in written["annotations"]] == ["cat", "cat"]


def test_supercategories_come_out_again(read, tmp_path):
    page = coco(BOX, categories=[{"id": 3, "name": "dog", "supercategory": "animal"}])
    write_coco(read(page), tmp_path / "again.json")
    (category,) = json.loads((tmp_path / "again.json").read_text())["categories"]
    assert category == {"id": 3, "name": "dog", "supercategory": "animal"}
