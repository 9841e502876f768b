from __future__ import annotations

import numpy as np
import pytest

from napari_maskinversion.core.backbone import load_model
from napari_maskinversion.core.config import InversionConfig
from napari_maskinversion.demo import real
from napari_maskinversion.demo.domains import Picture
from napari_maskinversion.demo.evaluate import WAYS


def painted(colours: list[tuple[int, int, int]], kind: str = "blood") -> Picture:
    """Squares of 40 px in a row on noise, one per class."""
    rng = np.random.default_rng(1)
    pixels = rng.integers(100, 130, (120, 80 * len(colours), 3)).astype(np.uint8)
    boxes = []
    for i, colour in enumerate(colours):
        boxes.append((40, 80 * i + 20, 80, 80 * i + 60))
        pixels[40:80, 80 * i + 20 : 80 * i + 60] = np.array(colour) + rng.integers(
            0, 9, (40, 40, 3)
        )
    labels = np.arange(5, 5 + len(colours))
    known = np.zeros(pixels.shape[:2], bool)
    return Picture(kind, "painted", pixels, np.array(boxes), labels, None, known)


COLOURS = [(200, 20, 20), (20, 200, 20), (20, 20, 200)]


def test_a_region_lies_in_the_middle_of_its_window() -> None:
    cases = real.draw_cases([painted(COLOURS)], 5)
    assert [c.label for c in cases] == [5, 6, 7]
    for case, colour in zip(cases, COLOURS, strict=True):
        assert case.pixels.shape == (80, 80, 3)
        assert case.mask.shape == (80, 80)
        assert np.abs(case.pixels[case.mask].mean(0) - colour).max() < 40
        ys, xs = np.nonzero(case.mask)
        assert abs(ys.mean() - 39.5) <= 1
        assert abs(xs.mean() - 39.5) <= 1


def test_no_more_regions_of_a_class_than_asked_for() -> None:
    pictures = [painted(COLOURS) for _ in range(6)]
    labels = [c.label for c in real.draw_cases(pictures, 4)]
    assert labels == [5] * 4 + [6] * 4 + [7] * 4


def test_the_average_is_over_classes_not_over_regions() -> None:
    true = np.array([0] * 98 + [1] * 2)
    always_first = real.macro(np.zeros(100, np.int64), true)
    assert always_first["top1"] == pytest.approx(0.5)
    perfect = real.macro(true, true)
    assert perfect["top1"] == 1
    assert 0.02 < perfect["half"] < 0.4  # two regions of a class prove little
    assert real.macro(true.repeat(50), true.repeat(50))["half"] < 0.05


def test_size_and_colour_alone_tell_painted_squares_apart() -> None:
    train = real.draw_cases([painted(COLOURS) for _ in range(4)], 9)
    test = real.draw_cases([painted(COLOURS)], 9)
    assert real.size_and_colour(train, test).tolist() == [5, 6, 7]


def test_every_way_embeds_a_region() -> None:
    model = load_model("demo", device="cpu")
    case = real.draw_cases([painted(COLOURS)], 1)[0]
    found, iou = real.embed(model, case, 64, InversionConfig(steps=2))
    assert set(found) == set(WAYS)
    assert all(v.shape == (model.embed_dim,) and np.isfinite(v).all() for v in found.values())
    assert 0 <= iou <= 1
    assert not np.allclose(found["maskinversion"], found["cls"])


def test_without_images_the_command_says_which_variable_to_set(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("NAPARI_MASKINVERSION_DATA", raising=False)
    with pytest.raises(SystemExit) as stop:
        real.main([])
    assert stop.value.code == 2
    assert "NAPARI_MASKINVERSION_DATA" in capsys.readouterr().err
