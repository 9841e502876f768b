"""Tiny copies of the paper's data sets, laid out as their official archives unpack.

Each has two photographs of 40 x 50 px. Nobody has run the readers on the real archives.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.io
from PIL import Image

H, W = 40, 50


def photograph(file: Path, shape: tuple[int, int] = (H, W)) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(len(file.name)).integers(0, 255, (*shape, 3)).astype(np.uint8)
    Image.fromarray(pixels).save(file)


def text(file: Path, content: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)


def squares(first: int, second: int, void: int = 0) -> np.ndarray:
    """A square of one value, one of another with a border of void."""
    values = np.zeros((H, W), np.uint8)
    values[5:20, 5:20] = first
    values[24:38, 24:48] = void
    values[26:36, 26:46] = second
    return values


def class_map(file: Path, values: np.ndarray) -> None:
    """A PNG with a palette, as VOC has."""
    file.parent.mkdir(parents=True, exist_ok=True)
    picture = Image.fromarray(values)
    picture.putpalette(np.random.default_rng(1).integers(0, 255, 768).astype(np.uint8).tobytes())
    picture.save(file)


def voc(data: Path) -> None:
    """The first image has an aeroplane and a person, the second one a tv monitor only."""
    root = data / "VOCdevkit" / "VOC2012"
    for key, values in {
        "2007_000033": squares(1, 15, 255),
        "2007_000042": squares(20, 255, 255),
    }.items():
        photograph(root / "JPEGImages" / f"{key}.jpg")
        class_map(root / "SegmentationClass" / f"{key}.png", values)
    text(root / "ImageSets/Segmentation/val.txt", "2007_000033\n2007_000042\n")


def label_map(file: Path, values: np.ndarray) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    scipy.io.savemat(file, {"LabelMap": values.astype(np.uint16)})


def context(data: Path) -> None:
    """Of six labels four are classes; two of them are spelled otherwise in their list."""
    root, labels = data / "VOCdevkit" / "VOC2010", data / "pascal-context"
    for key, values in {"2008_000002": squares(2, 3), "2008_000003": squares(5, 1)}.items():
        photograph(root / "JPEGImages" / f"{key}.jpg")
        label_map(labels / "trainval" / f"{key}.mat", values)
    text(root / "ImageSets/Main/val.txt", "2008_000002\n2008_000003\n")
    text(
        labels / "labels.txt",
        "1: accordion\n2: table\n3: sky\n4: unknown\n5: pottedplant\n6: bedclothes\n",
    )
    text(labels / "59_labels.txt", "1: diningtable\n2: pottedplant\n3: sky\n4: bedcloth\n")


def instances() -> dict[str, Any]:
    """Two cats, an apple under one of them, a crowd; a cat, and an apple without a pixel."""
    runs = [30 * H + 10, *[20, H - 20] * 9, 20, H - 30 + (W - 40) * H]
    square = [5, 5, 35, 5, 35, 35, 5, 35]
    rows = [
        {"id": 11, "image_id": 1, "category_id": 18, "segmentation": [square], "iscrowd": 0},
        {
            "id": 12,
            "image_id": 1,
            "category_id": 53,
            "segmentation": {"size": [H, W], "counts": runs},
            "iscrowd": 0,
        },
        {
            "id": 13,
            "image_id": 1,
            "category_id": 53,
            "segmentation": {"size": [H, W], "counts": [0, H * W]},
            "iscrowd": 1,
        },
        {
            "id": 16,
            "image_id": 1,
            "category_id": 18,
            "segmentation": [[40, 2, 46, 2, 46, 8, 40, 8]],
        },
        {"id": 14, "image_id": 2, "category_id": 53, "segmentation": [[5, 5, 9, 9]]},
        {"id": 15, "image_id": 2, "category_id": 18, "segmentation": [square, [1, 1, 3, 1, 3, 3]]},
    ]
    names = ["COCO_train2014_000000000001.jpg", "COCO_train2014_000000000002.jpg"]
    images = [
        {"id": n, "file_name": name, "height": H, "width": W} for n, name in enumerate(names, 1)
    ]
    empty = {"id": 3, "file_name": "COCO_train2014_000000000003.jpg", "height": H, "width": W}
    categories = [{"id": 53, "name": "apple"}, {"id": 18, "name": "cat"}]
    return {"images": [*images, empty], "annotations": rows, "categories": categories}


def coco(data: Path) -> None:
    page = instances()
    for image in page["images"]:
        image["file_name"] = image["file_name"].removeprefix("COCO_train2014_")
    for image in page["images"][:2]:
        photograph(data / "coco" / "val2017" / image["file_name"])
    text(data / "coco/annotations/instances_val2017.json", json.dumps(page))


def references(split: str) -> list[dict[str, Any]]:
    """Sentences about the cat and the apple of the first image, and the cat of the second one."""
    said = {12: ["the apple", "red thing on the right"], 11: ["cat"], 15: ["left cat"]}
    return [
        {
            "ref_id": number,
            "ann_id": number,
            "image_id": 1 + (number > 13),
            "category_id": 18,
            "split": split if number < 14 else "testA",
            "file_name": "COCO_train2014_000000000001_11.jpg",
            "sent_ids": [],
            "sentences": [{"tokens": s.split(), "raw": s, "sent_id": 1, "sent": s} for s in texts],
        }
        for number, texts in said.items()
    ]


def save_references(file: Path, rows: Any) -> None:
    """As Python 2 wrote them: protocol 0."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(pickle.dumps(rows, protocol=0))


def refcoco(data: Path, name: str = "refcoco") -> None:
    page = instances()
    for image in page["images"][:2]:
        photograph(data / "images/mscoco/images/train2014" / image["file_name"])
    text(data / name / "instances.json", json.dumps(page))
    save_references(data / name / "refs(unc).p", references("val"))


def refcoco_plus(data: Path) -> None:
    refcoco(data, "refcoco+")


def openimages(data: Path) -> None:
    """Three masks: of the image's size, of twice its size, and one that covers both."""
    root = data / "openimages"
    rows = []
    for number, (image, code, values) in enumerate(
        [
            ("000a", "/m/01yrx", squares(255, 0)),
            ("000a", "/m/014j1m", squares(0, 255).repeat(2, 0).repeat(2, 1)),
            ("000b", "/m/01yrx", squares(255, 255)),
        ]
    ):
        file = root / "validation-masks" / f"{image}_{code[1:].replace('/', '')}_{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(values > 0).save(file)
        photograph(root / "validation" / f"{image}.jpg")
        rows.append(
            {"MaskPath": file.name, "ImageID": image, "LabelName": code, "BoxID": f"b{number}"}
        )
    pd.DataFrame(rows).to_csv(root / "validation-annotations-object-segmentation.csv", index=False)
    text(root / "classes-segmentation.txt", "/m/014j1m\n/m/01yrx\n")
    text(
        root / "oidv7-class-descriptions-boxable.csv",
        "LabelName,DisplayName\n/m/011k07,Tortoise\n/m/014j1m,Apple\n/m/01yrx,Cat\n",
    )


def phrasecut(data: Path) -> None:
    """Two phrases that overlap, one of two things; one without a structure on another image."""
    root = data / "VGPhraseCut_v0"
    left = [[[5, 5], [15, 5], [15, 25], [5, 25]]]
    right = [[[30, 10], [45, 10], [45, 30], [30, 30]]]
    rows = [
        {"image_id": 9, "phrase": "two cars", "Polygons": [left, right], "name": "car"},
        {"image_id": 9, "phrase": "red car", "Polygons": [right], "name": "car"},
        {"image_id": 10, "phrase": "old wall", "Polygons": [left], "name": ""},
    ]
    for number, row in enumerate(rows):
        name = row.pop("name")
        row["task_id"] = f"{row['image_id']}__{number}"
        row["phrase_structure"] = {"name": name, "attributes": []} if name else None
    text(root / "refer_test.json", json.dumps(rows))
    sizes = [{"image_id": n, "width": W, "height": H, "split": "test"} for n in (9, 10)]
    text(root / "image_data_split3000.json", json.dumps(sizes))
    for number in (9, 10):
        photograph(root / "images" / f"{number}.jpg")


SETS: dict[str, Callable[[Path], None]] = {
    "voc": voc,
    "voc-19": voc,
    "context": context,
    "coco": coco,
    "openimages": openimages,
    "phrasecut": phrasecut,
    "refcoco": refcoco,
    "refcoco+": refcoco_plus,
}
