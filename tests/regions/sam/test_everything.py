"""Masks of everything: segment-anything's own, with progress, and stopped between batches."""

import numpy as np
import pytest
from PIL import Image
from segment_anything import SamAutomaticMaskGenerator

from napari_maskinversion.base.errors import Cancelled, ConfigError
from napari_maskinversion.base.progress import listening
from napari_maskinversion.images.channels import as_source
from napari_maskinversion.regions.sam.prompts import AutomaticConfig, Prompt
from tests.listeners import collect

from .tiny import tiny_sam

EVERYTHING = AutomaticConfig(points_per_side=4, score=0, stability=0, overlap=0.9, batch=3)


@pytest.fixture
def small():
    """An image that SAM sees enlarged."""
    return np.random.default_rng(3).integers(0, 255, (40, 60, 3), dtype=np.uint8)


def full(region, shape):
    mask = np.zeros(shape, bool)
    y0, x0, y1, x1 = region.bbox
    mask[y0:y1, x0:x1] = region.mask
    return mask


def theirs(image):
    generator = SamAutomaticMaskGenerator(
        tiny_sam(),
        points_per_side=4,
        points_per_batch=3,
        pred_iou_thresh=0,
        stability_score_thresh=0,
        box_nms_thresh=0.9,
    )
    return sorted(generator.generate(image), key=lambda item: -item["area"])


def test_masks_are_those_of_segment_anything(segmenter, small):
    segmented = segmenter.segment_everything(as_source(small), EVERYTHING)
    expected = [item for item in theirs(small) if item["area"]]
    assert [one.id for one in segmented] == list(range(1, len(expected) + 1))
    assert segmented
    for one, item in zip(segmented, expected, strict=True):
        np.testing.assert_array_equal(full(one.region(), (40, 60)), item["segmentation"])
        assert one.scores[0] == pytest.approx(item["predicted_iou"], abs=1e-5)


def test_on_larger_planes_masks_are_found_at_sam_s_size_and_enlarged(segmenter, photo):
    segmented = segmenter.segment_everything(
        as_source(photo), EVERYTHING.model_copy(update={"whole": True})
    )
    seen = np.asarray(Image.fromarray(photo).resize((64, 44), Image.Resampling.BILINEAR))
    expected = [item for item in theirs(seen) if item["area"]]
    assert len(segmented) == len(expected)
    for one, item in zip(segmented, expected, strict=True):
        large = Image.fromarray(item["segmentation"]).resize((220, 150), Image.Resampling.NEAREST)
        assert (full(one.region(), (150, 220)) == np.asarray(large)).mean() > 0.9


def test_small_masks_can_be_left_out(segmenter, small):
    smallest = AutomaticConfig(points_per_side=4, score=0, stability=0, min_area=40 * 60 + 1)
    assert segmenter.segment_everything(as_source(small), smallest) == []


def test_it_says_how_far_it_is_and_stops_between_batches(segmenter, small, monkeypatch):
    news, _ = collect(lambda: segmenter.segment_everything(as_source(small), EVERYTHING))
    fractions = [one.fraction for one in news]
    assert fractions == sorted(fractions)
    assert news[-1].text == "Point 15 of 16"
    asked = []
    real = segmenter.sam.mask_decoder.predict_masks
    monkeypatch.setattr(
        segmenter.sam.mask_decoder,
        "predict_masks",
        lambda **k: (asked.append(1), real(**k))[1],
    )

    def stop(_):
        if asked:
            raise Cancelled

    with pytest.raises(Cancelled), listening(stop):
        segmenter.segment_everything(as_source(small), EVERYTHING)
    assert len(asked) == 1


def test_it_shares_the_embedding_with_boxes_and_points(segmenter, small):
    segmenter.segment(as_source(small), [Prompt(id=1, positive=((20.0, 30.0),))])
    news, _ = collect(lambda: segmenter.segment_everything(as_source(small), EVERYTHING))
    assert not any("Looking" in one.text for one in news)


@pytest.mark.parametrize(
    "values", [{"points_per_side": 0}, {"score": 1.5}, {"overlap": -1}, {"min_area": -1}]
)
def test_settings_that_cannot_work_are_refused(values):
    with pytest.raises(ConfigError):
        AutomaticConfig(**values)
