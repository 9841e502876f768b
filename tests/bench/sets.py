"""Small data sets on disk, and how the commands are called on them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from napari_maskinversion.bench.datasets.dataset import Dataset
from napari_maskinversion.bench.datasets.registry import DATASETS

CLASSES = ("apple", "car", "fish")


def own_images(root: Path, count: int = 3) -> Path:
    """Images with class maps: three squares of the three classes, another one of the first."""
    rng = np.random.default_rng(0)
    for folder in ("images", "masks"):
        (root / folder).mkdir(parents=True)
    for number in range(count):
        image = rng.integers(0, 255, (12, 16, 3)).astype(np.uint8).repeat(5, 0).repeat(5, 1)
        classes = np.zeros((60, 80), np.uint8)
        classes[5:25, 5:25], classes[5:25, 45:70], classes[35:55, 5:30] = 1, 2, 3
        if number:
            classes[35:50, 50:70] = 1
        Image.fromarray(image).save(root / "images" / f"p{number}.jpg")
        Image.fromarray(classes).save(root / "masks" / f"p{number}.png")
    (root / "names.txt").write_text("\n".join(CLASSES) + "\n")
    return root


def tiles(root: Path, labels: np.ndarray, count: int = 1) -> Path:
    """Aerial tiles of the test split, 60 x 80 px, with this label image."""
    for folder in ("images", "labels"):
        (root / "dubai-aerial" / folder).mkdir(parents=True)
    for number in range(1, count + 1):
        name = f"tile3_part{number}"
        pixels = np.full((60, 80, 3), 90, np.uint8)
        Image.fromarray(pixels).save(root / "dubai-aerial" / "images" / f"{name}.jpg")
        Image.fromarray(labels).save(root / "dubai-aerial" / "labels" / f"{name}.png")
    return root


def smears(root: Path, text: str, count: int = 1) -> Path:
    """Smears of 64 x 80 px with these annotations; 0 and 5 are of the test split, 1 to choose."""
    rng = np.random.default_rng(0)
    for folder in ("images", "annotations"):
        (root / "bccd" / folder).mkdir(parents=True)
    for number in range(count):
        pixels = rng.integers(0, 255, (8, 10, 3)).astype(np.uint8).repeat(8, 0).repeat(8, 1)
        Image.fromarray(pixels).save(root / "bccd" / "images" / f"smear{number}.jpg")
        (root / "bccd" / "annotations" / f"smear{number}.xml").write_text(text)
    return root


def folder_call(own: Path, *more: Any) -> list[Any]:
    arguments = ["--images", own / "images", "--masks", own / "masks", "--names", own / "names.txt"]
    return ["folder", *arguments, "--steps", 1, *more]


def panoptic(root: Path) -> Path:
    """Two images of COCO's form; the second has a crowd."""
    for folder in ("images", "panoptic"):
        (root / folder).mkdir(parents=True)
    images, annotations = [], []
    for number in (1, 2):
        ids = np.full((40, 50), 7, np.int64)
        ids[5:20, 5:20], ids[25:39, 30:49] = 300, 70_000
        colours = np.stack([ids % 256, ids // 256 % 256, ids // 65536], -1).astype(np.uint8)
        Image.fromarray(colours).save(root / "panoptic" / f"i{number}.png")
        Image.fromarray(np.full((40, 50, 3), 60 * number, np.uint8)).save(
            root / "images" / f"i{number}.jpg"
        )
        segments = [
            {"id": 7, "category_id": 199, "iscrowd": 0},
            {"id": 300, "category_id": 3, "iscrowd": 0},
            {"id": 70_000, "category_id": 44, "iscrowd": int(number == 2)},
        ]
        images.append({"id": number, "file_name": f"i{number}.jpg"})
        annotations.append(
            {"image_id": number, "file_name": f"i{number}.png", "segments_info": segments}
        )
    categories = [
        {"id": 199, "name": "wall-other-merged"},
        {"id": 3, "name": "car"},
        {"id": 44, "name": "bottle"},
    ]
    page = {"images": images, "annotations": annotations, "categories": categories}
    (root / "panoptic.json").write_text(json.dumps(page))
    return root


def panoptic_set(data: Path) -> Dataset:
    return DATASETS["coco-panoptic"].open(data)


def changed_panoptic(root: Path, change: Callable[[dict[str, Any]], Any]) -> Path:
    """Images of COCO's form whose JSON file is changed."""
    file = panoptic(root) / "panoptic.json"
    page = json.loads(file.read_text())
    change(page)
    file.write_text(json.dumps(page))
    return root


def ok(outcome: tuple[int, str, str]) -> str:
    """What a command that ended well has printed."""
    code, out, err = outcome
    assert code == 0, err
    return out


def one_line(outcome: tuple[int, str, str], *says: str) -> None:
    code, _, err = outcome
    assert code == 2, err
    said = [line for line in err.strip().splitlines() if line]
    assert len(said) == 1
    for words in says:
        assert words in said[0]
