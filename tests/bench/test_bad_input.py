"""Files that do not fit one another: each is named, with its record, and can be left out."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from napari_maskinversion.bench.datasets.dataset import BadRecordError, Dataset
from napari_maskinversion.bench.datasets.label_image_dataset import LEAST, ImageFolder
from napari_maskinversion.bench.datasets.registry import DATASETS
from napari_maskinversion.cli.bench import data_sets
from tests.scenes import demo_model

from .conftest import Bench
from .sets import folder_call, one_line, smears, tiles

SMEAR = """<annotation><size><width>{}</width><height>{}</height></size>
<object><name>{}</name><bndbox><xmin>{}</xmin><ymin>5</ymin><xmax>{}</xmax><ymax>45</ymax></bndbox>
</object></annotation>"""


@pytest.fixture
def bench(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Call ``bench`` with a model that is loaded once."""
    monkeypatch.setattr(data_sets, "load", lambda *_: demo_model())
    return bench


def aerial(root: Path, labels: np.ndarray) -> Dataset:
    return DATASETS["aerial"].open(tiles(root, labels))


def blood(root: Path, text: str) -> Dataset:
    return DATASETS["blood"].open(smears(root, text))


def land(value: int = 2, shape: tuple[int, int] = (60, 80)) -> np.ndarray:
    labels = np.zeros(shape, np.uint8)
    labels[5:45, 5:45] = value
    return labels


def test_an_aerial_label_image_has_the_size_and_the_classes_of_its_set(tmp_path: Path) -> None:
    assert aerial(tmp_path / "good", land()).read("tile3_part1").labels.tolist() == [1]
    with pytest.raises(BadRecordError, match=r"^tile3_part1: .*part1\.png is 60 x 90 px, its"):
        aerial(tmp_path / "wide", land(shape=(60, 90))).read("tile3_part1")
    with pytest.raises(BadRecordError, match=r"part1\.png holds class 6; there are 5"):
        aerial(tmp_path / "six", land(6)).read("tile3_part1")
    colours = np.stack([land()] * 3, -1)
    with pytest.raises(BadRecordError, match="one number for each"):
        aerial(tmp_path / "colours", colours).read("tile3_part1")


@pytest.mark.parametrize(
    ("filled", "says"),
    [
        ((640, 480, "RBC", 5, 45), "of an image of 640 x 480 px; its image has 80 x 64"),
        ((80, 64, "Ghost", 5, 45), "is broken or no image .*Ghost"),
    ],
)
def test_boxes_of_a_smear_are_of_its_image_and_of_known_cells(
    tmp_path: Path, filled: tuple[Any, ...], says: str
) -> None:
    good = SMEAR.format(80, 64, "WBC", 5, 45)
    assert blood(tmp_path / "good", good).read("smear0").labels.tolist() == [1]
    with pytest.raises(BadRecordError, match=rf"^smear0: .*smear0\.xml.*{says}"):
        blood(tmp_path / "bad", SMEAR.format(*filled)).read("smear0")


@pytest.mark.parametrize("which", ["images", "masks"])
def test_two_files_of_one_name_are_refused(bench: Bench, own: Path, which: str) -> None:
    first = next(file for file in (own / which).iterdir() if file.stem == "p1")
    shutil.copy(first, first.with_suffix(".tif"))
    one_line(bench(*folder_call(own)), f"holds both {first.name} and p1.tif", which)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("names.txt", "apple\ncar\n", "p0.png holds class 3, but"),
        ("names.txt", "apple\ncar\napple\n", "names 'apple' twice"),
        ("names.txt", "apple\n", "has 1 classes"),
        ("names.txt", "apple\n\ncar\nfish\n", "line 2 is empty"),
        ("names.csv", "image,region\np0,1\n", "no column 'name'"),
        ("names.csv", "image,region,name\n\np0,one,car\np0,2,bus\n", "line 3: region 'one'"),
        ("names.csv", "region,name,image\n1,apple,p0\n2,car\n", "line 3: the region has no image"),
        ("names.csv", "image,region,name\np0,1,car\np9,2,bus\n", "there is no image 'p9'"),
        ("names.csv", "image,region,name\np0,1,car\np0.jpg,1,bus\n", "1 of p0 has two names"),
        ("names.csv", "image,region,name\np0,8,car\np0,2,bus\n", "names region 8"),
        ("names.csv", "image,region,name\np1,1,car\np1,2,bus\n", "has no row for this image"),
        ("gone.txt", None, "There is no list of names"),
    ],
)
def test_names_that_do_not_match_are_refused(
    bench: Bench, own: Path, name: str, text: str | None, says: str
) -> None:
    if text is not None:
        (own / name).write_text(text)
    call = folder_call(own, "--methods", "cls")
    call[call.index("--names") + 1] = own / name
    one_line(bench(*call), says, name)


def test_regions_that_are_too_small_are_counted(bench: Bench, own: Path, tmp_path: Path) -> None:
    labels = np.asarray(Image.open(own / "masks" / "p0.png")).copy()
    labels[30:33, 60:69] = 2  # 27 px
    labels[50:56, 60:65] = 3  # 30 px
    Image.fromarray(labels).save(own / "masks" / "p0.png")
    sample = folder_of(own).read("p0")
    assert sample.small == 1
    assert min(region.area for region in sample.regions) == LEAST == 30
    file = tmp_path / "mine.json"
    call = folder_call(own, "--methods", "cls,crop", "--json", file)
    for _ in range(2):  # also where everything is kept
        _, out, _ = bench(*call)
        assert "12 regions (1 that are too small left out)" in out
    assert json.loads(file.read_text("utf-8"))["small"] == 1


def folder_of(own: Path) -> ImageFolder:
    return ImageFolder(own / "images", own / "masks", own / "names.txt")
