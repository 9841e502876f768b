"""What is measured: hits, overlaps, windows of real images, and baselines."""

from __future__ import annotations

import numpy as np

from benchmarks.drawn.cases import draw_windows
from benchmarks.drawn.methods import discriminant, hits, overlap, size_and_colour
from napari_maskinversion.demo_model.domains import Picture


def test_hits_are_first_and_among_five() -> None:
    names = np.eye(12, dtype=np.float32)
    labels = np.arange(12)
    assert hits(3 * names, names, labels).all()
    ramp = np.linspace(0, 1, 12, dtype=np.float32)[None]
    assert hits(ramp, names, np.array([11])).tolist() == [[True, True]]
    assert hits(ramp, names, np.array([8])).tolist() == [[False, True]]
    assert hits(ramp, names, np.array([6])).tolist() == [[False, False]]


def test_the_overlap_is_intersection_over_union_above_a_half() -> None:
    mask = np.zeros((1, 4, 4), bool)
    mask[0, :2] = True
    heat = np.zeros((1, 4, 4), np.float32)
    heat[0, :, :2] = 0.9
    heat[0, :, 2:] = 0.5
    assert overlap(heat, mask).tolist() == [4 / 12]


def painted(name: str = "painted") -> Picture:
    """Squares of 40 px in a row on noise, one per class, each of a colour."""
    colours = [(200, 20, 20), (20, 200, 20), (20, 20, 200)]
    rng = np.random.default_rng(1)
    pixels = rng.integers(100, 130, (120, 240, 3)).astype(np.uint8)
    boxes = []
    for i, colour in enumerate(colours):
        boxes.append((40, 80 * i + 20, 80, 80 * i + 60))
        pixels[40:80, 80 * i + 20 : 80 * i + 60] = colour + rng.integers(0, 9, (40, 40, 3))
    known = np.zeros(pixels.shape[:2], bool)
    return Picture("blood", name, pixels, np.array(boxes), np.arange(5, 8), None, known)


def test_a_region_lies_in_the_middle_of_its_window() -> None:
    cases = list(draw_windows([painted()], 5))
    assert [c.labels.tolist() for c in cases] == [[5], [6], [7]]
    for case in cases:
        assert case.image.shape == (80, 80, 3)
        assert case.masks.shape == (1, 80, 80)
        assert case.source == "painted"
        ys, xs = np.nonzero(case.masks[0])
        assert abs(ys.mean() - 39.5) <= 1
        assert abs(xs.mean() - 39.5) <= 1


def test_no_more_regions_of_a_class_than_asked_for() -> None:
    cases = draw_windows([painted() for _ in range(6)], 4)
    assert [int(c.labels[0]) for c in cases] == [5] * 4 + [6] * 4 + [7] * 4


def test_size_and_colour_alone_tell_painted_squares_apart() -> None:
    train = size_and_colour(draw_windows([painted() for _ in range(4)], 9))
    test, true = size_and_colour(draw_windows([painted()], 9))
    assert discriminant(*train, test).tolist() == true.tolist() == [5, 6, 7]
