"""Ways to embed a region, each against a plain re-derivation."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.drawn.cases import ModelUnderTest
from benchmarks.drawn.methods import (
    SCENE_METHODS,
    Setting,
    read_setting,
)
from napari_maskinversion.bench.datasets.scene_dataset import Case
from napari_maskinversion.engine.invert.inverter import MaskInverter
from napari_maskinversion.engine.settings import InversionConfig

TWO = InversionConfig(steps=2)


def picture(seed: int, height: int = 96, width: int = 96) -> Case:
    rng = np.random.default_rng(seed)
    image = rng.integers(0, 255, (height // 8, width // 8, 3)).astype(np.uint8)
    image = image.repeat(8, 0).repeat(8, 1)
    masks = np.zeros((2, height, width), bool)
    masks[0, 10:50, 20:70] = True
    masks[0, 10:30, 20:40] = False
    masks[1, 60:90, 8:32] = True
    return Case(image, masks, np.array([0, 3]), str(seed))


@pytest.mark.parametrize("name", SCENE_METHODS)
def test_together_is_as_alone(subject: ModelUnderTest, name: str) -> None:
    cases = [picture(1), picture(2, 64, 128), picture(3)]
    cases = [c if c.image.shape[0] > 64 else replace(c, masks=c.masks.copy()) for c in cases]
    cases[1].masks[1, 40:60, 8:32] = True
    setting = Setting(resolution=96, context=1.4)
    embed = SCENE_METHODS[name].embed
    together = embed(subject, cases, setting, TWO)
    assert together.shape == (6, subject.model.embed_dim)
    alone = np.concatenate([embed(subject, [c], setting, TWO) for c in cases])
    np.testing.assert_allclose(together, alone, atol=2e-4)


@pytest.mark.parametrize("context", [1.0, 2.0, math.inf])
@pytest.mark.parametrize("fill", ["image mean", "model mean", "blurred"])
def test_a_masked_crop_hides_what_is_not_the_region(
    subject: ModelUnderTest, context: float, fill: str
) -> None:
    case = picture(1)
    first = replace(case, masks=case.masks[:1])
    # Swapping two pixels outside the mask changes neither mean nor, visibly, a wide blur.
    other = case.image.copy()
    other[12, 22], other[25, 37] = case.image[25, 37], case.image[12, 22]
    setting = Setting(resolution=96, context=context, fill=fill)  # type: ignore[arg-type]
    one, two = (
        SCENE_METHODS["masked_crop"].embed(subject, [replace(first, image=i)], setting, TWO)
        for i in (case.image, other)
    )
    np.testing.assert_allclose(one, two, atol=0.05 if fill == "blurred" else 1e-6)
    plain, swapped = (
        SCENE_METHODS["crop"].embed(subject, [replace(first, image=i)], setting, TWO)
        for i in (case.image, other)
    )
    assert np.abs(plain - swapped).max() > 1e-4


def test_a_setting_survives_the_record() -> None:
    setting = Setting(resolution=128, context=math.inf, fill="blurred")
    way = SCENE_METHODS["masked_crop"]
    assert read_setting(way.describe(setting)) == setting
    assert SCENE_METHODS["cls"].describe(setting) == {"resolution": 128}


def alone(seed: int) -> Case:
    case = picture(seed, 128, 160)
    return replace(case, masks=case.masks[:1], labels=case.labels[:1])


@pytest.mark.parametrize(
    ("context", "window"),
    [
        (math.inf, (0, 0, 128, 160)),
        (2.4, (0, 0, 120, 120)),  # 2.4 times the longer side of the region's box
        (1.2, (0, 0, 96, 96)),  # at least the model's input
    ],
)
def test_maskinversion_sees_a_window_around_the_regions(
    subject: ModelUnderTest, context: float, window: tuple[int, int, int, int]
) -> None:
    case, (top, left, bottom, right) = alone(1), window
    setting = Setting(resolution=96, context=context)
    embeddings = SCENE_METHODS["maskinversion"].embed(subject, [case], setting, TWO)
    inverter = MaskInverter(subject.model)
    inverter.set_image(case.image[top:bottom, left:right], resolution=96)
    expected = inverter.invert(case.masks[:, top:bottom, left:right], TWO).embeddings
    np.testing.assert_allclose(embeddings, expected, atol=1e-5)
