"""SAM's answers are segment-anything's own, at the cost of one encoding per plane."""

import numpy as np
import pytest
from segment_anything import SamPredictor

from napari_maskinversion.images.channels import as_source
from napari_maskinversion.images.opening import stack_of
from napari_maskinversion.images.plane_source import ArrayPlane, Level
from napari_maskinversion.regions.cleanup import CleanUp
from napari_maskinversion.regions.sam.prompts import Prompt
from napari_maskinversion.regions.sam.resizing import resize_for_sam
from tests.listeners import collect, stopped

from .tiny import SIDE, tiny_sam

BOX = Prompt(id=1, boxes=((20.0, 40.0, 100.0, 150.0),))
POINT = Prompt(id=2, positive=((60.0, 90.0),))
SEVERAL = Prompt(
    id=3,
    boxes=((20.0, 40.0, 100.0, 150.0),),
    positive=((60.0, 90.0), (50.0, 80.0)),
    negative=((90.0, 50.0),),
)


def segment(segmenter, image, *prompts):
    return segmenter.segment(as_source(image), prompts, whole=True)


def predicted(image, prompt, multimask):
    """What segment-anything's own predictor says; by score."""
    predictor = SamPredictor(tiny_sam())
    predictor.set_image(image)
    points = [(x, y) for y, x in (*prompt.positive, *prompt.negative)]
    box = [(x0, y0, x1, y1) for y0, x0, y1, x1 in prompt.boxes]
    masks, scores, _ = predictor.predict(
        point_coords=np.array(points) if points else None,
        point_labels=np.array([1] * len(prompt.positive) + [0] * len(prompt.negative))
        if points
        else None,
        box=np.array(box[0]) if box else None,
        multimask_output=multimask,
    )
    order = np.argsort(-scores)
    return masks[order], scores[order]


def full(region, shape):
    mask = np.zeros(shape, bool)
    if region is not None:
        y0, x0, y1, x1 = region.bbox
        mask[y0:y1, x0:x1] = region.mask
    return mask


@pytest.mark.parametrize("shape", [(150, 220), (64, 64), (20, 33), (301, 40)], ids=str)
@pytest.mark.parametrize("kind", ["box", "point", "several"])
def test_masks_and_scores_are_those_of_segment_anything(segmenter, shape, kind):
    image = np.random.default_rng(1).integers(0, 255, (*shape, 3), dtype=np.uint8)
    h, w = shape
    box = ((0.1 * h, 0.2 * w, 0.7 * h, 0.8 * w),)
    points = ((0.4 * h, 0.5 * w), (0.3 * h, 0.4 * w))
    prompt = {
        "box": Prompt(id=1, boxes=box),
        "point": Prompt(id=1, positive=points[:1]),
        "several": Prompt(id=1, boxes=box, positive=points, negative=((0.6 * h, 0.3 * w),)),
    }[kind]
    (segmented,) = segment(segmenter, image, prompt)
    masks, scores = predicted(image, prompt, multimask=True)
    if kind != "point":
        single, its_score = predicted(image, prompt, multimask=False)
        masks, scores = np.concatenate([masks, single]), np.concatenate([scores, its_score])
        order = np.argsort(-scores)
        masks, scores = masks[order], scores[order]
    np.testing.assert_allclose(segmented.scores, scores, atol=1e-5)
    for index, mask in enumerate(masks):
        ours = full(segmented.region(index), shape)
        # Rounding may move a pixel whose logit is nearly 0.
        assert (ours != mask).mean() < 1e-3
    assert any(0 < mask.mean() < 1 for mask in masks)


def test_the_best_comes_first_and_others_by_index(segmenter, photo):
    (segmented,) = segment(segmenter, photo, BOX)
    assert list(segmented.scores) == sorted(segmented.scores, reverse=True)
    areas = [
        segmented.region(i).area for i in range(len(segmented.candidates)) if segmented.region(i)
    ]
    assert segmented.region().area == areas[0]
    assert len(set(areas)) > 1
    assert segmented.region(99).area == areas[-1]
    assert segmented.region().id == BOX.id


def test_an_answer_does_not_depend_on_the_other_prompts(segmenter, photo):
    together = segment(segmenter, photo, BOX, POINT, SEVERAL)
    for prompt, segmented in zip((BOX, POINT, SEVERAL), together, strict=True):
        (alone,) = segment(segmenter, photo, prompt)
        assert segmented.id == prompt.id
        np.testing.assert_allclose(segmented.scores, alone.scores, atol=1e-5)
        np.testing.assert_array_equal(segmented.region().mask, alone.region().mask)


def test_boxes_of_one_object_are_parts_of_it(segmenter, photo):
    parts = (20.0, 40.0, 50.0, 80.0), (90.0, 150.0, 140.0, 200.0)
    singles = segment(segmenter, photo, *(Prompt(id=1, boxes=(part,)) for part in parts))
    (both,) = segment(segmenter, photo, Prompt(id=1, boxes=parts))
    shape = photo.shape[:2]
    ones = [[full(single.region(i), shape) for i in range(4)] for single in singles]
    unions = [a | b for a in ones[0] for b in ones[1]]
    for index in range(4):
        united = full(both.region(index), shape)
        # Enlarged after they were united, masks are a little rounder.
        assert any((united | u == united).all() and united.sum() < 1.3 * u.sum() for u in unions)


def encodings(segmenter, monkeypatch):
    """Count how often the image encoder runs."""
    seen = []
    real = segmenter.sam.image_encoder.neck.forward
    monkeypatch.setattr(
        segmenter.sam.image_encoder.neck, "forward", lambda x: (seen.append(1), real(x))[1]
    )
    return seen


def test_a_plane_is_encoded_once(segmenter, photo, monkeypatch):
    seen = encodings(segmenter, monkeypatch)
    segment(segmenter, photo, BOX)
    segment(segmenter, photo.copy(), POINT, SEVERAL)
    assert len(seen) == 1
    changed = photo.copy()
    changed[40:80, 60:120] = 0
    segment(segmenter, changed, BOX)
    assert len(seen) == 2


def test_embeddings_kept_are_bounded(segmenter, photo, monkeypatch):
    seen = encodings(segmenter, monkeypatch)
    for value in range(12):
        segment(segmenter, np.roll(photo, 7 * value, axis=1), POINT)
    assert len(segmenter._embeddings) < 12
    segment(segmenter, photo, POINT)  # forgotten, since others came
    assert len(seen) == 13


def test_progress_rises_and_stopping_leaves_nothing_half_done(segmenter, photo):
    first = stopped(lambda: segmenter.segment(as_source(photo), [BOX]), 3)
    assert "100 %" in first[-1].text
    assert not segmenter._embeddings
    news, _ = collect(lambda: segmenter.segment(as_source(photo), [BOX, POINT]))
    fractions = [one.fraction for one in news]
    assert fractions == sorted(fractions)
    assert 0 <= fractions[0] < fractions[-1] <= 1


class Huge:
    """A plane of 9,000 x 6,000 px that notes how much of it is read at once."""

    shape = (9000, 6000)
    levels = (Level((9000, 6000)),)

    def __init__(self):
        self.largest = 0

    def check(self):
        pass

    def read(self, level, box):
        y0, x0, y1, x1 = box
        self.largest = max(self.largest, (y1 - y0) * (x1 - x0))
        rows = np.arange(y0, y1)[:, None] // 40
        columns = np.arange(x0, x1)[None] // 40
        return (rows ^ columns).astype(np.uint8)


def test_a_plane_far_larger_than_sam_sees_is_read_in_strips_and_masks_are_full_size(segmenter):
    huge = Huge()
    prompt = Prompt(id=5, boxes=((1000.0, 2000.0, 3000.0, 5000.0),))
    (segmented,) = segmenter.segment(huge, [prompt])
    assert huge.largest < 20_000_000
    region = next(r for r in (segmented.region(i) for i in range(4)) if r is not None)
    y0, x0, y1, x1 = region.bbox
    assert 0 <= y0 < y1 <= 9000
    assert 0 <= x0 < x1 <= 6000
    assert max(y1, x1) > 1024
    assert region.mask.shape == (y1 - y0, x1 - x0)


def test_a_coarse_level_of_a_pyramid_is_enough():
    asked = set()

    class Pyramid(Huge):
        levels = (Level((9000, 6000)), Level((900, 600), (10, 10)), Level((45, 30), (200, 200)))

        def read(self, level, box):
            asked.add(level)
            return super().read(level, box)

    assert resize_for_sam(Pyramid(), SIDE).size == (64, 43)
    assert asked == {1}


@pytest.mark.parametrize(
    ("pixels", "value"),
    [
        (np.full((8, 8), 200, np.uint8), 200),
        (np.full((8, 8, 3), 0xC8C8, np.uint16), 200),
        (np.full((8, 8), 200 / 255, np.float32), 200),
        (np.ones((8, 8), bool), 255),
        (np.full((8, 8, 4), (200, 200, 200, 255), np.uint8), 200),
    ],
    ids=["uint8", "uint16", "float", "bool", "RGBA"],
)
def test_pixels_of_any_type_reach_sam_as_bytes(pixels, value):
    pixels = pixels.copy()
    pixels[0, 0] = 0  # a constant plane is refused
    seen = resize_for_sam(ArrayPlane(pixels), 8).pixels
    assert seen.dtype == np.uint8
    assert seen.shape == (8, 8, 3)
    assert (seen[4, 4] == value).all()


def test_channels_go_through_the_colours_of_the_rest_of_the_package(segmenter):
    data = np.random.default_rng(0).integers(0, 4000, (5, 70, 90), dtype=np.uint16)
    stack = stack_of(data, axes=("c", "y", "x"))
    source = stack.source(channels=["0", "3"])
    (segmented,) = segmenter.segment(source, [Prompt(id=1, positive=((30.0, 40.0),))])
    assert len(segmented.candidates) == 3
    other = resize_for_sam(stack.source(channels=["1", "2"]), SIDE)
    assert other.key != resize_for_sam(source, SIDE).key


def test_a_region_is_cleaned_when_asked(segmenter, photo):
    (segmented,) = segment(segmenter, photo, BOX)
    rough, clean = segmented.region(), segmented.region(0, CleanUp(erode=2, keep_largest=True))
    assert clean is None or clean.area < rough.area
