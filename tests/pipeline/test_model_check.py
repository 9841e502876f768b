"""`models check`: known pictures, and an honest verdict."""

import numpy as np
import pytest

from napari_maskinversion.base.errors import InputError
from napari_maskinversion.engine.models.loading import load_model, wrap_open_clip
from napari_maskinversion.pipeline.model_check import (
    LABELS,
    Picture,
    check_model,
    crops,
    photographs,
)
from tests.engine.tiny import tiny_clip


class Oracle:
    """A model that sees in a picture's first pixel which label is right, or one beside it."""

    def __init__(self, shift):
        clip = tiny_clip()
        self.real = wrap_open_clip(clip)
        self.spec, self.name = None, "oracle"
        self.native_resolution, self.logit_scale = 32, 100.0
        self.shift = shift
        self.asked = []

    def preprocess(self, image, *, resolution, keep_aspect):
        assert resolution == self.native_resolution
        assert not keep_aspect
        expected = next(p.expected for p in photographs() if np.array_equal(p.image, image))
        self.answer = (LABELS.index(expected) + self.shift) % len(LABELS)
        return self.real.preprocess(image, resolution=32)

    def embed_images(self, images):
        import torch

        return torch.eye(len(LABELS))[self.answer][None]

    def encode_text(self, texts):
        self.asked.append(texts)
        return np.eye(len(LABELS), dtype=np.float32)


def test_four_photographs_among_ten_names():
    shown = photographs()
    assert [p.name for p in shown] == ["chelsea", "coffee", "rocket", "astronaut"]
    assert len(set(LABELS)) == 10
    assert {p.expected for p in shown} < set(LABELS)


def test_a_model_that_names_them_passes():
    report = check_model(Oracle(shift=0))
    assert report.ok
    assert report.right == 4
    assert "4 of 4 right; the model works." in report.table()
    assert all(row.probability > 0.99 for row in report.rows)


def test_a_model_that_names_them_wrongly_fails_and_says_where():
    report = check_model(Oracle(shift=1))
    assert not report.ok
    line = next(line for line in report.table().splitlines() if line.startswith("coffee"))
    assert line.split()[1:4] == ["cup", "of", "coffee"]
    assert line.endswith("WRONG")
    assert "NOT" in report.table()


def test_random_weights_fail():
    assert not check_model(wrap_open_clip(tiny_clip())).ok


def test_the_bundled_model_is_not_judged_by_photographs():
    report = check_model(load_model("demo", device="cpu"))
    assert not report.rows
    assert not report.ok
    assert "drawings" in report.table()


def test_regions_of_a_scene_become_pictures():
    image = np.zeros((20, 30, 3), np.uint8)
    regions = np.zeros((20, 30), int)
    regions[2:7, 3:13] = 1
    regions[10:12, 20:21] = 4
    made = crops("scene", image, regions, {1: "cat", 4: "dog", 9: "cow"}, ["cat", "dog", "cow"])
    assert [(p.expected, p.image.shape[:2]) for p in made] == [("cat", (5, 10)), ("dog", (2, 1))]
    report = check_model(load_model("demo", device="cpu"), made)
    assert len(report.rows) == 2


def test_a_scene_whose_regions_do_not_fit_is_refused():
    with pytest.raises(InputError, match="scene"):
        crops("scene", np.zeros((5, 5)), np.zeros((4, 5), int), {1: "cat"}, ["cat"])


def test_of_given_pictures_more_than_half_have_to_be_named_rightly():
    oracle = Oracle(shift=0)
    right = photographs()
    wrong = [Picture(name="odd", image=right[0].image, expected="dog")]
    assert check_model(oracle, right + wrong * 3).ok
    assert not check_model(oracle, right + wrong * 4).ok
