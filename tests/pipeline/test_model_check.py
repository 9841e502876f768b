"""`models check`: known pictures, and an honest verdict."""

import numpy as np
import pytest

from napari_maskinversion.engine.models.loading import load_model, wrap_open_clip
from napari_maskinversion.engine.models.openclip import uses_quick_gelu
from napari_maskinversion.engine.models.specs import MODELS
from napari_maskinversion.pipeline import model_check
from napari_maskinversion.pipeline.model_check import (
    LABELS,
    check_model,
    describe_model,
    photographs,
    rank_regions,
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
    assert all(probability > 0.99 for _, probability in report.answers)


def test_a_model_that_names_them_wrongly_fails_and_says_where():
    report = check_model(Oracle(shift=1))
    assert not report.ok
    line = next(line for line in report.table().splitlines() if line.startswith("coffee"))
    assert line.split()[1:4] == ["cup", "of", "coffee"]
    assert line.endswith("WRONG")
    assert "NOT" in report.table()


@pytest.mark.parametrize("domain", ["aerial", "biology"])
def test_pictures_of_other_fields_give_no_verdict(domain):
    model = Oracle(shift=1)
    model.spec = next(spec for spec in MODELS.values() if spec.domain == domain)
    report = check_model(model)
    assert report.ok
    assert report.table().endswith("0 of 4 right; no verdict: its field has other images.")


def test_random_weights_fail():
    assert not check_model(wrap_open_clip(tiny_clip())).ok


def test_the_bundled_model_is_judged_by_the_regions_of_the_sample_scenes(monkeypatch):
    monkeypatch.setattr(model_check, "scene_names", lambda: ["everyday-1"])
    report = check_model(load_model("demo", device="cpu"))
    assert report.ok
    assert report.needed == len(report.pictures) // 2 + 1 > 1
    assert {picture.expected in picture.labels for picture in report.pictures} == {True}


def test_a_model_of_microscopy_is_shown_pictures_of_its_field():
    pictures = photographs("microscopy")
    assert [p.name for p in pictures[4:]] == ["ihc", "retina", "cell"]
    assert all(picture.expected in picture.labels for picture in pictures)


def test_the_wrong_activation_is_told(monkeypatch):
    """The model with the other activation is asked the same; the better answers count."""
    right = {True: 0.9, False: 0.2}

    def probability(model):
        return right[uses_quick_gelu(model.clip)]

    monkeypatch.setattr(model_check, "_mean_probability", probability)
    for quick, verdict in ((True, "as it should be"), (False, "answers BETTER")):
        lines = describe_model(wrap_open_clip(tiny_clip(quick_gelu=quick)))
        assert lines[-1].startswith(f"activation: {'QuickGELU' if quick else 'GELU'};")
        assert lines[-1].endswith(verdict)


def test_regions_are_ranked_among_the_words_of_their_picture():
    lines = rank_regions(wrap_open_clip(tiny_clip()))
    assert len(lines) == 6
    assert lines[0].startswith("region in astronaut: face of a woman, place ")
