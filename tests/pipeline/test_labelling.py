"""One call does what the command ``run`` does."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

from napari_maskinversion import label_regions, read_image, read_regions
from napari_maskinversion.base.errors import ConfigError, InputError, MaskShapeError
from napari_maskinversion.base.regions import Regions
from napari_maskinversion.cli.app import app
from napari_maskinversion.images.sample_scenes import load_scene, sample_folder
from napari_maskinversion.language.labels.vocabulary import Vocabulary
from napari_maskinversion.pipeline.run import RegionChunk
from napari_maskinversion.results.agreement import agreement_of
from napari_maskinversion.results.export.archive import open_archive
from napari_maskinversion.results.settings import RunSettings
from tests.device import DEVICE
from tests.scenes import demo_model, label_image, picture

LABELS = ["car", "apple", "key"]
BLOOD = Path(os.environ.get("NAPARI_MASKINVERSION_DATA", "")) / "bccd"


def label(regions=None, image=None, labels=LABELS, **changes):
    image = picture() if image is None else image
    regions = label_image(3) if regions is None else regions
    return label_regions(image, regions, labels, **{"model": demo_model(), "steps": 1, **changes})


def by_command(folder, image, regions, *options):
    """Results of the command."""
    call = ["run", image, regions, *options, "--format", "npz", "--out", folder / "out"]
    call += ["--device", DEVICE]
    outcome = CliRunner().invoke(app, [str(part) for part in call])
    assert outcome.exit_code == 0, outcome.output
    return open_archive(folder / "out" / "results.npz").results


def assert_same(one, other):
    pd.testing.assert_frame_equal(one.to_frame(), other.to_frame())
    assert [region.window for region in one.regions] == [region.window for region in other.regions]
    np.testing.assert_allclose(one.embeddings, other.embeddings, atol=1e-6)


def test_it_answers_as_the_command_does(tmp_path):
    scene = load_scene("blood-smear")
    files = [sample_folder() / name for name in ("blood-smear.png", "blood-smear_regions.png")]
    options = ("--labels", ",".join(scene.vocabulary), "--template", "microscopy", "--steps", 2)
    expected = by_command(tmp_path, *files, *options)
    results = label(
        scene.regions,
        scene.image,
        scene.vocabulary,
        model="demo",
        device=DEVICE,
        steps=2,
        templates=["microscopy"],
    )
    assert len(results.windows) > 1
    assert_same(results, expected)


@pytest.mark.skipif(not BLOOD.is_dir(), reason="NAPARI_MASKINVERSION_DATA has no bccd")
def test_it_names_real_blood_cells(tmp_path):
    name = sorted(path.stem for path in (BLOOD / "images").iterdir())[0]
    image, boxes = BLOOD / "images" / f"{name}.jpg", BLOOD / "annotations" / f"{name}.xml"
    options = ("--labels", "preset:blood-cells", "--steps", 2)
    expected = by_command(tmp_path, image, boxes, *options)
    rgb = read_image(image)
    results = label(read_regions(boxes, rgb.shape), rgb, "preset:blood-cells", steps=2)
    assert_same(results, expected)


def test_settings_of_the_command_are_keywords(tmp_path):
    import skimage.io

    skimage.io.imsave(tmp_path / "image.png", picture(), check_contrast=False)
    skimage.io.imsave(tmp_path / "masks.png", label_image(5), check_contrast=False)
    expected = by_command(
        tmp_path,
        tmp_path / "image.png",
        tmp_path / "masks.png",
        *("--labels", "car,apple,key", "--template", "a {} here", "--template", "none"),
        *("--steps", 2, "--alpha", 5, "--window", 30, "--only", "1,3,5", "--merge", "1,5"),
        *("--pixel-size", 0.5, "--unit", "mm", "--threshold", 0.2, "--resolution", 64),
    )
    results = label(
        label_image(5),
        templates=["a {} here", "none"],
        settings=RunSettings(window="30", only="1,3,5", merge=("1,5",), threshold=0.2),
        **{"steps": 2, "alpha": 5, "pixel_size": 0.5, "unit": "mm", "resolution": 64},
    )
    assert_same(results, expected)


MASKS = np.stack([label_image(3) == number for number in (1, 2, 3)])


@pytest.mark.parametrize(
    "regions",
    [
        Regions.from_labels(label_image(3)),
        torch.from_numpy(label_image(3).astype(np.int64)),
        MASKS,
        list(MASKS),
        MASKS.astype(np.uint8) * 255,
        torch.from_numpy(MASKS).float(),
    ],
)
def test_regions_in_any_form_get_the_same_answers(regions):
    expected = label()
    results = label(regions)
    assert results.ids == expected.ids == [1, 2, 3]
    np.testing.assert_allclose(results.embeddings, expected.embeddings, atol=1e-6)


def test_labels_are_names_a_text_or_a_vocabulary():
    names = [region.ranking.labels for region in label().regions]
    for labels in ("car, apple, key", Vocabulary(tuple(LABELS))):
        assert [region.ranking.labels for region in label(labels=labels).regions] == names
    vocabulary = label(labels="preset:voc", templates=["none"]).info.vocabulary
    assert ("aeroplane" in vocabulary.labels, vocabulary.templates) == (True, ("{}",))
    assert label(labels=None).regions[0].ranking is None


def test_without_labels_the_names_of_the_regions_are_the_labels():
    named = Regions.from_labels(label_image(3))
    named = Regions(named.shape, [replace(one, name=f"name {one.id % 2}") for one in named])
    results = label(named, labels=None)
    assert results.info.vocabulary.labels == ("name 1", "name 0")
    assert agreement_of(results).compared == 3


def test_progress_is_told_and_can_stop_the_run():
    news = []
    results = label(on_progress=news.append, chunk_size=1)
    chunks = [item for item in news if isinstance(item, RegionChunk)]
    assert len(chunks) == len(results) == 3

    def stop(item):
        if isinstance(item, RegionChunk):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        label(on_progress=stop)


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        ({"regions": np.zeros((60, 80), int)}, InputError, "no regions"),
        ({"regions": label_image(3)[:50]}, MaskShapeError, "50 x 80 px but the image is 60 x 80"),
        ({"regions": label_image(3) * 0.5}, InputError, "Mask 1 .* label image"),
        ({"image": np.zeros((60, 80, 7))}, InputError, r"\(60, 80, 7\)"),
        ({"labels": []}, InputError, "no labels"),
        ({"labels": "missing.csv"}, InputError, "no label file"),
        ({"stepz": 3}, ConfigError, "stepz"),
        ({"steps": 0}, ConfigError, "steps"),
        ({"plane": "z=3"}, ConfigError, "one plane"),
        ({"only": "9"}, InputError, "no region 9"),
        ({"only": "x"}, InputError, "labels such as 3,5,9"),
        ({"method": "alphaclip"}, ConfigError, "weights"),
    ],
)
def test_what_cannot_work_is_refused_before_a_model_is_loaded(call, error, says):
    with pytest.raises(error, match=says):
        label(**{"model": "no-such-model", **call})


def test_a_device_is_for_a_model_that_is_not_loaded():
    with pytest.raises(ConfigError, match="device='cpu' is for a model's name"):
        label(device="cpu")
    assert label(model="demo", device="cpu").info.device == "cpu"
