"""Measurements during training."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from napari_maskinversion.demo_model.domains import Picture
from napari_maskinversion.demo_model.scene_words import CHOSEN, REAL
from research.demo_model.model import build_model
from research.demo_model.probe import Answers, Judge, auc, worth, worth14
from research.demo_model.views import Views


def slow_auc(margin: Tensor, right: Tensor, weight: Tensor) -> float:
    """Every right answer against every wrong one."""
    above = total = 0.0
    for i in right.nonzero().flatten().tolist():
        for j in (~right).nonzero().flatten().tolist():
            pair = float(weight[i] * weight[j])
            total += pair
            above += pair * float(margin[i] > margin[j])
    return above / total


def test_the_area_under_the_curve_is_that_of_all_pairs() -> None:
    rng = torch.Generator().manual_seed(1)
    margin, weight = torch.rand(60, generator=rng), torch.rand(60, generator=rng)
    right = torch.rand(60, generator=rng) < 0.5 + 0.4 * (margin - 0.5)
    answers = Answers(margin, right, torch.zeros(60))
    assert auc(answers, weight) == pytest.approx(slow_auc(margin, right, weight), abs=1e-5)
    assert auc(Answers(margin, margin >= 0, margin), weight) == 1
    assert auc(Answers(margin, margin < 0, margin), weight) == 0


def test_a_model_that_knows_nothing_is_measured_with_all_its_parts(shapes: list[Tensor]) -> None:
    regions = np.zeros((96, 96), np.int32)
    boxes = np.array([[8, 8, 40, 40], [48, 48, 88, 88]])
    for number, (y0, x0, y1, x1) in enumerate(boxes, 1):
        regions[y0:y1, x0:x1] = number
    pixels = np.full((96, 96, 3), 90, np.uint8)
    pictures = [
        Picture(kind, kind, pixels, boxes, np.array(labels), regions, regions > 0)
        for kind, labels in (("aerial", [0, 4]), ("blood", [5, 6]), ("nuclei", [8, 9]))
    ]
    judge = Judge(shapes, Views(pictures, 6), count=2)
    names = [*CHOSEN[:6], *(name.name for name in REAL)]
    scores = judge.measure(build_model(1), names)
    parts = {"seen", "unseen", "maskinversion", "iou", "aerial", "blood", "nuclei", "auc"}
    assert set(scores) == parts
    assert all(0 <= value <= 1 for value in scores.values())


def test_weights_are_judged_by_drawings_maps_and_every_real_domain() -> None:
    scores = dict.fromkeys(
        ("seen", "unseen", "maskinversion", "iou", "aerial", "blood", "nuclei"), 0.8
    )
    for part in ("seen", "maskinversion", "iou", "aerial", "blood", "nuclei"):
        assert worth(scores | {part: 0.6}) < worth(scores) == pytest.approx(0.8)
    assert worth(scores | {"unseen": 0.1}) == worth(scores)  # or it would not stay unseen
    assert worth14(scores | {"auc": 0.8}) == pytest.approx(0.8)
    assert worth14(scores | {"auc": 0.9}) == pytest.approx(0.82)
