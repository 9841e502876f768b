from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from benchmarks.drawn.sprites import SETS, UNSEEN_STYLE
from napari_maskinversion.demo_model.domains import files_of
from napari_maskinversion.demo_model.scene_words import NAMES
from research.demo_model.painted import PAINTED, PaintedSample
from research.demo_model.pictograms import EVERY_SET
from research.demo_model.samples import (
    REAL_SAMPLE,
    SAMPLES,
    SHOWN,
    Sample,
    attribution,
    draw_sample,
    read_sample,
)
from tests.emoji_sets import write_sets

FOLDER = Path(__file__).parents[3] / "sample_data"
PAGE = json.loads((FOLDER / "scenes.json").read_text("utf-8"))


def test_every_sample_is_listed() -> None:
    samples = (*SAMPLES, *PAINTED)
    assert [s["name"] for s in PAGE["scenes"]] == [*(s.name for s in samples), REAL_SAMPLE.name]
    assert [s["seed"] for s in PAGE["scenes"] if "seed" in s] == [s.seed for s in samples]
    assert [s.seed for s in samples] == [1, 2, 3, 4, 5]  # fixed before training


@pytest.mark.parametrize("entry", PAGE["scenes"], ids=lambda e: e["name"])
def test_files_agree_with_the_list(entry: dict[str, object]) -> None:
    image = np.asarray(Image.open(FOLDER / str(entry["image"])))
    regions = np.asarray(Image.open(FOLDER / str(entry["regions"])))
    truth = entry["truth"]
    assert isinstance(truth, dict)
    assert image.dtype == np.uint8
    assert image.shape == (*regions.shape, 3)
    assert regions.dtype in (np.uint8, np.uint16)
    assert sorted(np.unique(regions)) == [0, *map(int, truth)]
    assert 3 <= len(truth) <= 22
    vocabulary = entry["vocabulary"]
    assert isinstance(vocabulary, list)
    assert set(truth.values()) <= set(vocabulary) <= set(NAMES)
    assert min(np.bincount(regions.ravel())[1:]) > 0.001 * regions.size


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sets(tmp_path_factory.mktemp("sets") / "node_modules", SHOWN)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: s.name)
def test_the_seed_gives_the_same_picture(sets: Path, sample: Sample) -> None:
    """Plain drawings instead of the published ones; what is chosen and laid out is the same."""
    entry = next(e for e in PAGE["scenes"] if e["name"] == sample.name)
    image, regions, names = draw_sample(sample, sets)
    assert dict(zip(entry["truth"], names, strict=True)) == entry["truth"]
    kept = np.asarray(Image.open(FOLDER / entry["regions"]))
    assert image.shape == (*kept.shape, 3)
    assert np.mean((regions > 0) != (kept > 0)) < 0.25
    again = draw_sample(sample, sets)
    assert np.array_equal(image, again[0])
    assert np.array_equal(regions, again[1])


@pytest.mark.parametrize("sample", PAINTED, ids=lambda s: s.name)
def test_the_seed_paints_the_same_picture(sample: PaintedSample) -> None:
    entry = next(e for e in PAGE["scenes"] if e["name"] == sample.name)
    image, regions = sample.paint(sample.seed)
    assert tuple(entry["truth"].values()) == sample.names
    kept = np.asarray(Image.open(FOLDER / entry["image"])).astype(int)
    assert np.abs(np.round(255 * image) - kept).max() <= 2
    assert np.array_equal(regions, np.asarray(Image.open(FOLDER / entry["regions"])))


def test_every_drawing_used_is_attributed() -> None:
    page = (FOLDER / "ATTRIBUTION.md").read_text("utf-8")
    for s in SETS:
        used = any(s.style in sample.styles for sample in SAMPLES)
        assert (f"{s.package} {s.version}" in page) == used
        if used:
            row = next(line for line in page.splitlines() if f"{s.package} {s.version}" in line)
            assert s.author in row
            assert s.licence in row
    assert not any(UNSEEN_STYLE in sample.styles for sample in SAMPLES)


def test_no_share_alike_set_is_used() -> None:
    assert {s.licence for s in EVERY_SET} <= {"Apache-2.0", "MIT", "CC-BY-3.0", "CC-BY-4.0"}
    assert not {s.style for s in EVERY_SET} & {"openmoji", "emojione-v1"}


def test_the_real_sample_is_a_test_image_as_published(real_images: Path) -> None:
    """Its licence travels with it."""
    file, regions, names = read_sample(REAL_SAMPLE, real_images)
    entry = PAGE["scenes"][-1]
    assert file in files_of(real_images, "test", "blood")
    assert (FOLDER / entry["image"]).read_bytes() == file.read_bytes()
    assert np.array_equal(np.asarray(Image.open(FOLDER / entry["regions"])), regions)
    assert list(entry["truth"].values()) == names
    assert set(names) == set(entry["vocabulary"])
    licence = (real_images / "bccd" / "LICENSE").read_text("utf-8")
    page = (FOLDER / "ATTRIBUTION.md").read_text("utf-8")
    assert page == attribution(licence)
