"""Large planes: prompts in a part around them, everything in overlapping parts."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from napari_maskinversion.base.regions import Region
from napari_maskinversion.images.channels import as_source
from napari_maskinversion.regions.sam import parts
from napari_maskinversion.regions.sam.parts import (
    Sighting,
    all_parts,
    crop_around,
    distinct,
    is_cut,
    to_crop,
)
from napari_maskinversion.regions.sam.prompts import AutomaticConfig, Prompt
from napari_maskinversion.regions.sam.resizing import SamInput
from napari_maskinversion.regions.sam.segmenter import Segmenter
from tests.listeners import collect

from .tiny import SIDE

LENGTH = st.integers(1, 700)
SHAPES = st.tuples(LENGTH, LENGTH)
SHARES = st.tuples(st.floats(0, 1), st.floats(0, 1))


@given(SHAPES, SHARES, SHARES, st.booleans())
def test_a_prompt_lies_well_inside_the_part_around_it(shape, one, other, point):
    ends = np.sort(
        [np.multiply(one, np.subtract(shape, 1)), np.multiply(other, np.subtract(shape, 1))], 0
    )
    prompt = (
        Prompt(id=1, positive=(tuple(ends[0]),))
        if point
        else Prompt(id=1, boxes=((*ends[0], *ends[1]),))
    )
    y0, x0, y1, x1 = box = crop_around(prompt, shape, SIDE)
    assert 0 <= y0 < y1 <= shape[0]
    assert 0 <= x0 < x1 <= shape[1]
    size = max(y1 - y0, x1 - x0)
    low, high = ends[0], ends[0] if point else ends[1]
    for axis, (start, stop) in enumerate(((y0, y1), (x0, x1))):
        assert start <= low[axis]
        assert high[axis] <= stop - 1 + 1e-6
        # At least an eighth of the part is around it, unless the plane ends.
        middle = (low[axis] + high[axis]) / 2
        assert start == 0 or middle - start >= size / 4 - 1
        assert stop == shape[axis] or stop - middle >= size / 4 - 1
    moved = to_crop(prompt, box)
    assert np.allclose(
        np.add([*moved.positive, *(b[:2] for b in moved.boxes)], (y0, x0)), low, rtol=0, atol=1e-9
    )


@given(SHAPES, st.integers(8, 64))
def test_every_small_thing_lies_whole_in_a_part(shape, side):
    boxes = list(all_parts(shape, side))
    assert boxes[-1] == (0, 0, *shape)
    assert len(set(boxes)) == len(boxes)
    finest = [b for b in boxes if b[2] - b[0] <= side and b[3] - b[1] <= side] or boxes
    small = side // 4
    for axis in (0, 1):
        spans = sorted({(box[axis], box[axis + 2]) for box in finest})
        assert (spans[0][0], spans[-1][1]) == (0, shape[axis])
        assert all(end - start >= small for (_, end), (start, _) in pairwise(spans))


def disc(shape, middle, radius):
    rows, columns = np.mgrid[: shape[0], : shape[1]]
    return (rows - middle[0]) ** 2 + (columns - middle[1]) ** 2 <= radius**2


class Seeing(Segmenter):
    """A SAM that sees what is bright: each mask is the bright component at the prompt."""

    square = True

    def __init__(self):
        super().__init__("seeing", SIDE, "cpu")
        self.sizes = []

    def encode(self, pixels, on_block):
        self.sizes.append(tuple(pixels.shape[2:]))
        on_block(0, 1)
        return pixels[0, 0] > 128

    def decode(self, features, points, boxes):
        import torch
        from scipy.ndimage import label

        components, _ = label(features.numpy())
        maps = []
        for number in range(len(points[0] if boxes is None else boxes)):
            x, y = (
                points[0][number][0]
                if boxes is None
                else (boxes[number][:2] + boxes[number][2:]) / 2
            )
            at = components[min(int(y), SIDE - 1), min(int(x), SIDE - 1)]
            mask = torch.from_numpy((components == at) & (at > 0)) * 2.0 - 1
            maps.append(mask.float()[None].expand(4, -1, -1))
        return torch.stack(maps), torch.full((len(maps), 4), 0.9)

    def stages(self, view: SamInput, target):
        return ((target, target),)


@pytest.fixture
def seeing():
    return Seeing()


@pytest.fixture(scope="module")
def plane():
    """A plane of 160 x 260 px with a speck, which SAM's input of 64 px would lose, and a disc."""
    shape = (160, 260)
    speck, large = disc(shape, (40, 60), 4), disc(shape, (90, 180), 60)
    return ((speck | large) * 255).astype(np.uint8), speck, large


def full(region, shape=(160, 260)):
    mask = np.zeros(shape, bool)
    y0, x0, y1, x1 = region.bbox
    mask[y0:y1, x0:x1] = region.mask
    return mask


def iou(one, other):
    return (one & other).sum() / (one | other).sum()


def test_a_point_finds_what_is_small_and_what_is_larger_than_the_input(seeing, plane):
    pixels, speck, large = plane
    prompts = [Prompt(id=1, positive=((40, 60),)), Prompt(id=2, positive=((90, 180),))]
    news, (first, second) = collect(lambda: seeing.segment(as_source(pixels), prompts))
    assert iou(full(first.region()), speck) > 0.95
    assert iou(full(second.region()), large) > 0.9
    assert (first.id, second.id) == (1, 2)
    fractions = [one.fraction for one in news]
    assert fractions == sorted(fractions)
    assert 0 <= fractions[0] <= fractions[-1] <= 1
    (lost,) = seeing.segment(as_source(pixels), prompts[:1], whole=True)
    assert lost.region() is None or iou(full(lost.region()), speck) < 0.8


def test_a_box_is_answered_in_a_part_twice_its_size(seeing, plane):
    pixels, _, large = plane
    prompt = Prompt(id=7, boxes=((30.0, 120.0, 150.0, 240.0),))
    (one,) = seeing.segment(as_source(pixels), [prompt])
    assert iou(full(one.region()), large) > 0.9
    assert len(seeing.sizes) == 1


def test_other_masks_that_are_cut_by_the_part_are_left_out(plane):
    class Unsure(Seeing):
        def decode(self, features, points, boxes):
            maps, scores = super().decode(features, points, boxes)
            maps[:, 2] = 1.0  # the whole part
            scores[:, 2] = 0.7
            return maps, scores

    pixels, speck, _ = plane
    prompt = Prompt(id=1, positive=((40, 60),))
    (one,) = Unsure().segment(as_source(pixels), [prompt])
    assert [iou(full(one.region(i)), speck) > 0.95 for i in range(len(one.scores))] == [True] * 2
    (one,) = Unsure().segment(as_source(pixels), [prompt], whole=True)
    assert len(one.scores) == 3


def test_everything_finds_each_thing_once_at_its_own_size(seeing, plane):
    pixels, speck, large = plane
    config = AutomaticConfig(points_per_side=12, score=0, stability=0)
    found = seeing.segment_everything(as_source(pixels), config)
    masks = [full(one.region()) for one in found]
    assert [max(iou(mask, thing) for mask in masks) > 0.9 for thing in (speck, large)] == [True] * 2
    assert len(found) == 2
    assert [one.id for one in found] == [1, 2]
    whole = seeing.segment_everything(as_source(pixels), config.model_copy(update={"whole": True}))
    assert all(iou(full(one.region()), speck) < 0.8 for one in whole)


def test_a_cut_mask_is_known_by_the_edge_where_the_plane_goes_on():
    part, shape = (0, 50, 64, 114), (64, 200)
    for bbox, expected in (
        ((0, 60, 64, 100), False),
        ((5, 50, 9, 60), True),
        ((5, 60, 9, 114), True),
        ((5, 60, 9, 113), True),  # one pixel of 64: it stops short of the edge
        ((5, 60, 9, 112), False),
    ):
        mask = np.ones((bbox[2] - bbox[0], bbox[3] - bbox[1]), bool)
        assert is_cut(Region(1, bbox, mask), part, shape) is expected


THINGS = st.tuples(st.floats(0, 1), SHARES, st.integers(2, 9), st.integers(0, 1))


@given(st.lists(THINGS, max_size=9))
def test_of_masks_of_one_thing_in_several_parts_the_best_is_kept(things):
    found, masks = [], []
    for number, (score, middle, radius, part) in enumerate(things):
        mask = disc((30, 30), (2 + 25 * middle[0], 2 + 25 * middle[1]), radius)
        found.append(Sighting(score, (0, 0, 30, 30 * part), Region.from_mask(1, mask), number))
        masks.append(mask)
    expected = []
    for number in sorted(range(len(things)), key=lambda i: -things[i][0]):
        others = [other for other in expected if things[other][3] != things[number][3]]
        if all(iou(masks[number], masks[other]) <= 0.5 for other in others):
            expected.append(number)
    assert distinct(found) == expected


def test_a_part_reads_the_plane_s_pixels(plane):
    part = parts.part_of(as_source(plane[0]), (10, 20, 60, 90))
    assert part.shape == (50, 70)
    np.testing.assert_array_equal(part.read(0, (5, 6, 9, 30)), plane[0][15:19, 26:50])
