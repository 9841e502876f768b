"""Masks are enlarged as torch would do it, where they are needed, and nowhere else."""

import tracemalloc

import numpy as np
import pytest
import torch
from torch.nn.functional import interpolate

from napari_maskinversion.regions.sam import resizing
from napari_maskinversion.regions.sam.resizing import crop_map

STAGES = (((1024, 1024), (700, 1024)), ((20_000, 29_257), (20_000, 29_257)))


def blob(y, x, size=5):
    logits = np.full((256, 256), -4.0, np.float32)
    logits[y : y + size, x : x + size] = 3.0
    return logits


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("plane", [(70, 130), (33, 61), (300, 557)], ids=str)
def test_enlarging_in_two_stages_is_torch_s(seed, plane, monkeypatch):
    monkeypatch.setattr(resizing, "_STRIP", 1000)  # pixels enlarged at once
    generator = np.random.default_rng(seed)
    logits = interpolate(
        torch.from_numpy(generator.normal(-0.5, 1, (1, 1, 6, 6)).astype(np.float32)), (32, 32)
    )
    stages = (((64, 64), (35, 64)), (plane, plane))
    candidate = crop_map(1.0, logits[0, 0].numpy(), stages)
    whole = interpolate(logits, (64, 64), mode="bilinear", align_corners=False)[..., :35, :]
    whole = interpolate(whole, plane, mode="bilinear", align_corners=False)[0, 0].numpy()
    region = candidate.region(1)
    mask = np.zeros(plane, bool)
    if region is not None:
        y0, x0, y1, x1 = region.bbox
        mask[y0:y1, x0:x1] = region.mask
        assert region.mask.any(0)[[0, -1]].all()
        assert region.mask.any(1)[[0, -1]].all()
    unsure = np.abs(whole) < 1e-5
    np.testing.assert_array_equal(mask[~unsure], (whole > 0)[~unsure])


def test_a_small_mask_of_a_huge_plane_takes_little_memory():
    tracemalloc.start()
    region = crop_map(0.9, blob(100, 50), STAGES).region(1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 60_000_000
    # Five of 256 map pixels are 5 x 4 x 28.57 plane pixels.
    assert region.mask.shape[0] == pytest.approx(571, abs=60)
    assert region.bbox[0] == pytest.approx(100 * 4 * 28.57, abs=120)


def test_what_lies_in_the_padding_is_no_region():
    assert crop_map(0.9, blob(200, 50), STAGES).region(1) is None


def test_a_map_without_anything_positive_is_empty():
    assert crop_map(0.5, np.full((256, 256), -1.0, np.float32), STAGES).region(1) is None
