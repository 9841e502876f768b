"""A photograph given to the demo model gets a warning with what to do."""

import json
from pathlib import Path

import numpy as np
import pytest
import skimage
from PIL import Image

from napari_maskinversion.engine.models.specs import bundled_folder
from napari_maskinversion.images import known_images
from napari_maskinversion.images.channels import as_source
from napari_maskinversion.images.known_images import is_near, unknown_image_note
from napari_maskinversion.images.plane_source import ArrayPlane
from napari_maskinversion.images.sample_scenes import load_scene, scene_names
from tests.scenes import demo_model


@pytest.fixture(scope="module")
def photograph():
    with Image.open(Path(skimage.__file__).parent / "data" / "astronaut.png") as opened:
        return np.asarray(opened.convert("RGB"))


def test_a_photograph_is_told_with_the_model_to_fetch_and_its_size(photograph, monkeypatch):
    monkeypatch.setattr(known_images, "is_offline", lambda: False)
    note = unknown_image_note(photograph, demo_model())
    assert note.startswith("The demo model does not recognise this image.")
    assert "If it is a drawing like the samples, suggestions may still be right" in note
    assert "no photographs" in note
    assert "fetch ViT-B-16/openai (599 MB): napari-maskinversion models fetch" in note


def test_offline_it_says_how_to_bring_the_model(photograph, monkeypatch, own_cache_folder):
    monkeypatch.setenv("NAPARI_MASKINVERSION_OFFLINE", "1")
    note = unknown_image_note(photograph, demo_model())
    assert "bring ViT-B-16/openai (599 MB): run 'napari-maskinversion models fetch" in note
    assert f"{own_cache_folder / 'models' / 'ViT-B-16--openai'} (https://" in note


def test_a_model_that_is_there_is_named(photograph, monkeypatch):
    monkeypatch.setattr(known_images, "model_state", lambda spec: "on disk")
    note = unknown_image_note(photograph, demo_model())
    assert note.endswith("use the model ViT-B-16/openai, which is on this machine.")


@pytest.mark.parametrize("name", scene_names())
def test_samples_get_no_warning(name):
    assert unknown_image_note(load_scene(name).image, demo_model()) == ""


@pytest.mark.parametrize(
    "change",
    [
        lambda drawing: np.where(np.indices(drawing.shape).sum(0) == 0, 255 - drawing, drawing),
        lambda drawing: drawing[101:333, 57:400],
        lambda drawing: drawing / 255,
        lambda drawing: drawing.astype(np.uint16) * 257,
        lambda drawing: drawing.mean(axis=-1) * 16,
    ],
    ids=["one value changed", "cropped", "floats", "uint16", "grey, 12 bits"],
)
def test_a_sample_that_was_changed_a_little_is_still_known(change):
    drawing = load_scene("everyday-1").image
    changed = change(drawing)
    assert known_images.is_sample(as_source(changed))


def test_of_a_plane_of_more_than_50_million_pixels_some_rows_are_read(photograph):
    repeats = 16
    large = photograph.repeat(repeats, 0).repeat(repeats, 1)
    assert large.shape[0] * large.shape[1] > 50_000_000
    read = []

    class Plane(ArrayPlane):
        def read(self, level, box):
            read.append((box[2] - box[0]) * (box[3] - box[1]))
            return super().read(level, box)

    small = known_images.embedding_of(photograph, demo_model())
    big = known_images.embedding_of(Plane(large), demo_model())
    assert known_images.distances(small[None], big[None])[0] < 0.01
    assert sum(read) < large[..., 0].size / 2
    assert max(read) < large[..., 0].size / 100
    assert unknown_image_note(large, demo_model())


def test_the_references_are_those_of_the_bundled_weights_and_near_themselves():
    path = bundled_folder() / known_images.REFERENCES
    kept = json.loads(path.read_text("utf-8"))
    fingerprint = demo_model().fingerprint
    assert kept["fingerprint"] == fingerprint, "run benchmarks/flags.py again"
    one = np.array(kept["embeddings"][0], np.float32)
    assert is_near(one, fingerprint)
    assert not is_near(-one, fingerprint)
    # References of other weights say nothing.
    assert not is_near(one, "0" * 16)


def test_of_another_model_nothing_is_said(photograph):
    class Clip:
        spec = None

    assert unknown_image_note(photograph, Clip()) == ""


def test_a_plane_is_read_once_for_all_who_ask(photograph):
    read = []

    class Plane(ArrayPlane):
        def read(self, level, box):
            read.append(box)
            return super().read(level, box)

    plane = Plane(photograph)
    assert known_images.is_unknown(plane, demo_model())
    before = len(read)
    assert before
    assert known_images.is_unknown(plane, demo_model())
    assert unknown_image_note(plane, demo_model())
    assert len(read) == before


@pytest.mark.parametrize("axis", [0, 1])
def test_images_in_a_row_are_known_where_each_of_them_is(photograph, axis):
    smear = load_scene("bccd-smear").image
    assert not known_images.is_unknown(np.concatenate([smear] * 3, axis), demo_model())
    half = photograph[: smear.shape[0], : smear.shape[1]]
    smear = smear[: half.shape[0], : half.shape[1]]
    assert known_images.is_unknown(np.concatenate([smear, half, half], axis), demo_model())
