"""Readers of the paper's data sets: what they make of an archive, and of a broken one."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from napari_maskinversion.base.errors import InputError
from napari_maskinversion.bench.datasets.dataset import BadRecordError, Sample
from napari_maskinversion.bench.datasets.label_image_dataset import VOC
from napari_maskinversion.bench.datasets.registry import DATASETS
from napari_maskinversion.cli.bench import data_sets
from tests.scenes import demo_model

from ..conftest import Bench
from ..sets import ok, one_line
from . import archives
from .archives import SETS, H, W, squares

DEVKIT = "VOCdevkit/VOC2012"


def masks_of(sample: Sample) -> list[np.ndarray]:
    return [sample.regions.full_mask(place) for place in range(len(sample.regions))]


def names_of(name: str, data: Path, key: str, **more: Any) -> list[str]:
    dataset = DATASETS[name].open(data, **more)
    return [dataset.classes[place] for place in dataset.read(key).labels]


def box(y0: int, x0: int, y1: int, x1: int) -> np.ndarray:
    mask = np.zeros((H, W), bool)
    mask[y0:y1, x0:x1] = True
    return mask


def test_voc_has_one_region_for_each_class_and_none_of_void(tmp_path: Path) -> None:
    archives.voc(tmp_path)
    dataset = DATASETS["voc"].open(tmp_path)
    assert list(dataset.keys()) == ["2007_000033", "2007_000042"]
    assert len(dataset.classes) == 20
    sample = dataset.read("2007_000033")
    values = squares(1, 15, 255)
    assert [dataset.classes[place] for place in sample.labels] == ["aeroplane", "person"]
    np.testing.assert_array_equal(masks_of(sample), [values == 1, values == 15])
    assert names_of("voc", tmp_path, "2007_000042") == ["tv monitor"]


def test_voc_of_nineteen_classes_leaves_the_last_one_out(tmp_path: Path) -> None:
    archives.voc(tmp_path)
    dataset = DATASETS["voc-19"].open(tmp_path)
    assert dataset.classes == VOC[:19]
    assert len(dataset.read("2007_000042").regions) == 0


def test_context_keeps_the_listed_classes_of_all_labels(tmp_path: Path) -> None:
    archives.context(tmp_path)
    dataset = DATASETS["context"].open(tmp_path)
    assert dataset.classes == ("dining table", "potted plant", "sky", "bed clothes")
    assert names_of("context", tmp_path, "2008_000002") == ["dining table", "sky"]
    assert names_of("context", tmp_path, "2008_000003") == ["potted plant"]
    np.testing.assert_array_equal(masks_of(dataset.read("2008_000003")), [squares(5, 1) == 5])


def test_instances_of_coco_overlap_and_crowds_are_left_out(tmp_path: Path) -> None:
    archives.coco(tmp_path)
    dataset = DATASETS["coco"].open(tmp_path)
    assert dataset.classes == ("cat", "apple")
    assert list(dataset.keys()) == ["000000000001", "000000000002"]  # the third has no region
    sample = dataset.read("000000000001")
    assert sample.labels.tolist() == [0, 1, 0]
    cat, apple, _ = masks_of(sample)
    np.testing.assert_array_equal(cat, box(5, 5, 35, 35))
    np.testing.assert_array_equal(apple, box(10, 30, 30, 40))
    assert (cat & apple).any()
    other = dataset.read("000000000002")
    assert (len(other.regions), other.small) == (1, 1)


@pytest.mark.parametrize("name", ["refcoco", "refcoco+"])
def test_an_image_of_refcoco_has_all_its_masks_and_sentences_about_some(
    tmp_path: Path, name: str
) -> None:
    SETS[name](tmp_path)
    dataset = DATASETS[name].open(tmp_path)
    (key,) = dataset.keys()
    sample = dataset.read(key)
    assert sample.regions.ids == [11, 12, 16]  # no sentence is about the last one
    assert set(sample.expressions) == {
        ("cat", 0),
        ("the apple", 1),
        ("red thing on the right", 1),
    }
    other = DATASETS[name].open(tmp_path, "testA")
    (key,) = other.keys()
    assert other.read(key).expressions == (("left cat", 0),)


def test_a_crowd_is_a_region_of_refcoco_where_a_sentence_is_about_it(tmp_path: Path) -> None:
    archives.refcoco(tmp_path)
    said = archives.references("val")
    said[0]["ann_id"] = 13
    archives.save_references(tmp_path / "refcoco/refs(unc).p", said)
    dataset = DATASETS["refcoco"].open(tmp_path)
    sample = dataset.read(dataset.keys()[0])
    assert sample.regions.ids == [11, 12, 13, 16]
    assert ("the apple", 2) in sample.expressions


def test_sentences_that_python_2_wrote_may_have_any_letter(tmp_path: Path) -> None:
    archives.refcoco(tmp_path)
    file = tmp_path / "refcoco/refs(unc).p"
    data = pickle.dumps(archives.references("val"), protocol=2)
    said, length = b"red thing on the right", b"X\x16\x00\x00\x00"
    assert length + said in data
    # A byte string of Python 2 with a letter beyond ASCII.
    file.write_bytes(data.replace(length + said, b"U\x16" + said.replace(b"e", b"\xe9")))
    dataset = DATASETS["refcoco"].open(tmp_path)
    said_of_all = [
        text for key in list(dataset.keys()) for text, _ in dataset.read(key).expressions
    ]
    assert "r\xe9d thing on th\xe9 right" in said_of_all


def test_googles_splits_of_refcoco_are_of_their_own_file(tmp_path: Path) -> None:
    archives.refcoco(tmp_path)
    with pytest.raises(InputError, match=r"there is no refcoco/refs\(google\)\.p"):
        DATASETS["refcoco"].open(tmp_path, "google-test")
    archives.save_references(tmp_path / "refcoco/refs(google).p", archives.references("test"))
    dataset = DATASETS["refcoco"].open(tmp_path, "google-test")
    assert len(dataset.read(*dataset.keys()).expressions) == 3


def test_masks_of_open_images_are_brought_to_their_image(tmp_path: Path) -> None:
    archives.openimages(tmp_path)
    dataset = DATASETS["openimages"].open(tmp_path)
    assert dataset.classes == ("Apple", "Cat")
    sample = dataset.read("000a")
    assert sample.labels.tolist() == [1, 0]
    values = squares(1, 2)
    np.testing.assert_array_equal(masks_of(sample), [values == 1, values == 2])


def test_a_phrase_has_the_region_of_all_that_it_means(tmp_path: Path) -> None:
    archives.phrasecut(tmp_path)
    dataset = DATASETS["phrasecut"].open(tmp_path)
    assert list(dataset.keys()) == ["9", "10"]
    sample = dataset.read("9")
    assert sample.expressions == (("two cars", 0), ("red car", 1))
    right = box(10, 30, 30, 45)
    np.testing.assert_array_equal(masks_of(sample), [right | box(5, 5, 25, 15), right])
    assert names_of("phrasecut", tmp_path, "9") == ["car", "car"]
    assert names_of("phrasecut", tmp_path, "10") == ["old wall"]


# Broken archives: one line, before a model is loaded.


@pytest.fixture
def bench(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Call ``bench`` where no model can be loaded."""

    def load(*_: Any) -> Any:
        raise AssertionError("a model was loaded")

    monkeypatch.setattr(data_sets, "load", load)
    return bench


@pytest.mark.parametrize("name", SETS)
def test_a_folder_without_the_set_and_an_unknown_split_are_refused(
    bench: Bench, tmp_path: Path, name: str
) -> None:
    title = DATASETS[name].title
    one_line(bench(name, "--data", tmp_path), f"{tmp_path} does not hold {title}: there is no ")
    one_line(bench(name, "--split", "moon"), f"{title} has no split 'moon'; it has ")


@pytest.mark.parametrize(
    ("name", "place"),
    [
        (name, place)
        for name, spec in DATASETS.items()
        if name in SETS and name != "voc-19"
        for place in range(len(spec.parts))
    ],
)
def test_a_part_that_was_not_unpacked_is_named_with_its_archive(
    tmp_path: Path, name: str, place: int
) -> None:
    SETS[name](tmp_path)
    layout = DATASETS[name]
    split = layout.splits[0]
    part = layout.parts_of(split)[place]
    for path in layout.locate(tmp_path, split)[part.name]:
        (shutil.rmtree if part.folder else os.unlink)(path)
    with pytest.raises(InputError) as refused:
        DATASETS[name].open(tmp_path)
    message = str(refused.value)
    assert f"{tmp_path} holds only a part of {layout.title}: there is no " in message
    assert f"({part.name}), which comes from {part.archive}" in message


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("voc", f"{DEVKIT}/JPEGImages/2007_000042.jpg"),
        ("voc", f"{DEVKIT}/SegmentationClass/2007_000042.png"),
        ("context", "VOCdevkit/VOC2010/JPEGImages/2008_000003.jpg"),
        ("context", "pascal-context/trainval/2008_000003.mat"),
        ("coco", "coco/val2017/000000000002.jpg"),
        ("openimages", "openimages/validation/000b.jpg"),
        ("openimages", "openimages/validation-masks/000b_m01yrx_2.png"),
        ("phrasecut", "VGPhraseCut_v0/images/10.jpg"),
        ("refcoco", "images/mscoco/images/train2014/COCO_train2014_000000000001.jpg"),
    ],
)
def test_missing_files_are_counted_before_anything_is_read(
    bench: Bench, tmp_path: Path, name: str, file: str
) -> None:
    SETS[name](tmp_path)
    (tmp_path / file).unlink()
    says = f"are missing, such as {tmp_path / file}; unpack its archive again"
    one_line(bench(name, "--data", tmp_path), f"{DATASETS[name].title} is not complete", says)


def replaced(file: Path, old: str, new: str) -> None:
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new, 1))


def expressions(**changes: Any) -> Callable[[Path], None]:
    """Change the first expression of RefCOCO."""
    first = archives.references("val")[0]
    return lambda file: archives.save_references(file, [first | changes])


LABELS, COCO = "pascal-context", "coco/annotations/instances_val2017.json"
OPEN, CUT = "openimages/validation-annotations-object-segmentation.csv", "VGPhraseCut_v0"
ANNOTATIONS: list[tuple[str, str, Any, str]] = [
    ("context", f"{LABELS}/59_labels.txt", ("sky", "moon"), "59_labels.txt names the class 'moon'"),
    (
        "context",
        f"{LABELS}/labels.txt",
        ("3: sky", "sky"),
        "the line 'sky'; its lines are like",
    ),
    ("coco", COCO, (': 53, "seg', ': 77, "seg'), "annotation 12 is of category 77"),
    ("coco", COCO, ("{", '{"images": [7'), "instances_val2017.json is broken JSON"),
    (
        "openimages",
        "openimages/classes-segmentation.txt",
        ("1yrx", "_x"),
        "no name of class /m/0",
    ),
    ("openimages", OPEN, ("b,/m/01yrx", "b,/m/0_x"), "line 4: class '/m/0_x' is not in classes-"),
    ("openimages", OPEN, ("MaskPath", "Mask"), "segmentation.csv cannot be read as a table"),
    (
        "phrasecut",
        f"{CUT}/image_data_split3000.json",
        ('"image_id": 10', '"image_id": 11'),
        "phrase 10__2 is about image 10, which image_data_split3000.json does not",
    ),
    ("refcoco", "refcoco/instances.json", (': 53, "seg', ': 77, "seg'), "is of category 77"),
    ("refcoco", "refcoco/refs(unc).p", expressions(ann_id=99), "about annotation 99 of image 1"),
    ("refcoco", "refcoco/refs(unc).p", expressions(split="x"), "has no expression of split 'val'"),
    (
        "refcoco",
        "refcoco/refs(unc).p",
        expressions(ann_id=None),
        "ann_id must be a valid integer",
    ),
]


@pytest.mark.parametrize(("name", "file", "change", "says"), ANNOTATIONS)
def test_annotations_that_do_not_fit_are_refused_before_anything_is_read(
    bench: Bench, tmp_path: Path, name: str, file: str, change: Any, says: str
) -> None:
    SETS[name](tmp_path)
    if isinstance(change, tuple):
        replaced(tmp_path / file, *change)
    else:
        change(tmp_path / file)
    one_line(bench(name, "--data", tmp_path), says)


def wider(file: Path) -> None:
    archives.photograph(file, (40, 60))


LARGER = "are 40 x 50 px .* it has 40 x 60 px"
VOC_MAP = f"{DEVKIT}/SegmentationClass/2007_000033.png"
MAT = f"{LABELS}/trainval/2008_000002.mat"
RECORDS: list[tuple[str, str, str, Callable[[Path], Any], str]] = [
    ("voc", "2007_000033", VOC_MAP, lambda f: archives.class_map(f, squares(1, 21)), "class 21"),
    ("voc", "2007_000033", f"{DEVKIT}/JPEGImages/2007_000033.jpg", wider, LARGER),
    (
        "context",
        "2008_000002",
        MAT,
        lambda f: archives.label_map(f, squares(2, 7)),
        "index 7 ",
    ),
    (
        "context",
        "2008_000002",
        MAT,
        lambda f: archives.label_map(f, squares(2, 3)[:30]),
        "are 30 x 50 px .* it has 40 x 50 px",
    ),
    ("context", "2008_000002", MAT, lambda f: f.write_bytes(b"MATLAB 5.0"), "mat is broken"),
    ("coco", "000000000001", "coco/val2017/000000000001.jpg", wider, LARGER),
    (
        "coco",
        "000000000001",
        COCO,
        lambda f: replaced(f, '"counts": [1210, ', '"counts": ['),
        "does not fit the set .its run lengths",
    ),
    (
        "openimages",
        "000a",
        "openimages/validation-masks/000a_m01yrx_0.png",
        lambda f: Image.new("1", (30, 50), 1).save(f),
        "are 50 x 30 px .* it has 40 x 50 px",
    ),
    ("phrasecut", "9", f"{CUT}/images/9.jpg", wider, LARGER),
]


@pytest.mark.parametrize(("name", "key", "file", "spoil", "says"), RECORDS)
def test_a_broken_record_is_named_and_the_others_are_read(
    tmp_path: Path, name: str, key: str, file: str, spoil: Callable[[Path], Any], says: str
) -> None:
    SETS[name](tmp_path)
    spoil(tmp_path / file)
    dataset = DATASETS[name].open(tmp_path)
    with pytest.raises(BadRecordError, match=says) as refused:
        dataset.read(key)
    assert str(refused.value).startswith(f"{key}: ")
    assert "\n" not in str(refused.value)
    others = set(dataset.keys()) - {key}
    assert all(dataset.read(other).image.size for other in others)


# The commands.


@pytest.mark.parametrize("name", ["voc-19", "refcoco"])
def test_a_set_is_measured_also_where_an_image_has_no_region(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    SETS[name](tmp_path)
    monkeypatch.setattr(data_sets, "load", lambda *_: demo_model())
    file = tmp_path / "figures.json"
    ok(bench(name, "--data", tmp_path, "--methods", "cls", "--json", file))
    page = json.loads(file.read_text("utf-8"))
    assert page["regions"] == {"voc-19": 2, "refcoco": 3}[name]
    (part,) = page["parts"].values()
    expressions = {"voc-19": 2, "refcoco": 3}  # of VOC: one for each class that has one region
    assert part["expressions"]["count"] == expressions[name]


def test_the_list_of_sets_says_what_is_there_and_what_is_missing(
    bench: Bench, tmp_path: Path
) -> None:
    archives.voc(tmp_path)
    archives.refcoco(tmp_path)
    (tmp_path / "refcoco/refs(unc).p").unlink()
    archives.coco(tmp_path)
    (tmp_path / "coco/val2017/000000000002.jpg").unlink()
    out = ok(bench("datasets", "--data", tmp_path))
    entries = {}
    for line in out.splitlines():
        if not line.startswith(" "):
            name = line.split(":")[0]
        entries.setdefault(name, []).append(line.strip())
    assert set(entries) == set(DATASETS)
    for lines in entries.values():
        assert [line.split(":")[0] for line in lines[1:3]] == ["size", "licence"]
    origin = DATASETS["refcoco"].parts[1].archive
    masks = tmp_path / "refcoco/instances.json"
    assert f"found: masks, {masks}, from {origin}" in entries["refcoco"]
    assert f"missing: expressions, refcoco/refs(unc).p, from {origin}" in entries["refcoco"]
    assert entries["voc"][-1] == "usable: 2 images of val"
    assert entries["coco"][-1].startswith("not usable: COCO instances is not complete: 1 of 2 ")
    # Nor do RefCOCO's images belong to COCO panoptic.
    for name in ("phrasecut", "coco-panoptic"):
        assert not any(line.startswith(("found", "usable")) for line in entries[name])
    assert "this server is broken" in origin


def test_without_a_folder_the_list_says_what_is_needed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NAPARI_MASKINVERSION_DATA", raising=False)
    code, out, err = bench("datasets")
    assert code == 0, err
    assert "needed: masks, VOCdevkit/VOC2012/SegmentationClass, from http" in out
    assert "--data" in err
